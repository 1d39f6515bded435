"""Models of other kinds than a plain decoder work, or are refused with a reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.engine.memory import kv_cells
from llamaherd.engine.native.shim import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    TinyPath = Callable[[str], Path]

DOCUMENT = "A document that many questions are about, so that its beginning is held. " * 2
PROMPTS = [
    *(f"prompt {i} " + "x" * (i * 7 % 30) for i in range(9)),
    *(f"{DOCUMENT}{i}" for i in range(4)),
    *(f"{DOCUMENT}A second part, which fewer share: {i}" for i in range(3)),
    "the same",
    "the same",
]
SETTINGS = {"max_tokens": 12, "params": lh.SamplingParams(ignore_eos=True)}

# The rounding of a llama's attention depends on the shape of a batch, so results are
# equal to the last bit only in the deterministic mode. Recurrent layers are computed
# token by token.
KINDS = [
    ("llama", {"deterministic": True}),
    ("qwen2", {"deterministic": True}),
    ("mamba", {}),
    ("mamba", {"kv_layout": "unified"}),
    ("mamba2", {}),
    ("jamba", {}),
    ("jamba", {"kv_layout": "unified"}),
]


@pytest.fixture(scope="module", params=["llama", "mamba", "jamba"])
def model(request: pytest.FixtureRequest, tiny_path: TinyPath) -> lh.Model:
    with lh.Model(tiny_path(request.param)) as model:
        yield model


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_together_they_get_what_each_gets_alone(
    tiny_path: TinyPath, kind: str, options: dict[str, object]
) -> None:
    with lh.Model(tiny_path(kind)) as model:
        alone = []
        for prompt in PROMPTS:
            with lh.Context(model, n_threads=1, **options) as context:
                alone.append(lh.generate(context, prompt, **SETTINGS).tokens)
        with lh.Context(model, n_threads=1, n_seq_max=4, **options) as context:
            for _ in range(2):
                results = lh.generate_parallel(context, PROMPTS, **SETTINGS)
                assert [result.tokens for result in results] == alone
                assert results.stats.n_reused_tokens > 6 * len(DOCUMENT)
    # The answer is noise, but noise that depends on the prompt.
    assert len(set(map(tuple, alone))) > 12


def test_a_prompt_that_fails_leaves_the_others_alone(model: lh.Model) -> None:
    bad_grammar = lh.SamplingParams(grammar="root ::= (")
    params = [SETTINGS["params"], bad_grammar, SETTINGS["params"], SETTINGS["params"]]
    prompts = ["first", "second", "third" * 200, "fourth"]
    with lh.Context(model, n_ctx=512, n_threads=1) as context:
        results = lh.generate_parallel(context, prompts, params=params, max_tokens=4)
        assert results.finish_reasons == ["length", "error", "error", "length"]
        assert "grammar" in results.errors[1]
        again = lh.generate_parallel(context, ["first", "fourth"], **SETTINGS)
        assert [result.tokens[:4] for result in again] == [
            results[0].tokens,
            results[3].tokens,
        ]


def test_paused_prompts_come_back(model: lh.Model) -> None:
    prompts = [f"{i}" * 100 for i in range(6)]
    settings = {**SETTINGS, "max_tokens": 60}
    with lh.Context(model, n_threads=1) as context:
        roomy = lh.generate_parallel(context, prompts, **settings)
    with lh.Context(model, 512, 6, n_threads=1, kv_layout="unified") as context:
        tight = lh.generate_parallel(context, prompts, **settings)
    assert tight.errors == [None] * len(prompts)
    assert [len(result.tokens) for result in tight] == [60] * len(prompts)
    if model.info.is_recurrent or model.info.is_hybrid:
        assert [result.tokens for result in tight] == [result.tokens for result in roomy]


@pytest.mark.parametrize(
    ("kind", "n_recurrent"), [("mamba", 2), ("mamba2", 2), ("jamba", 1)]
)
def test_states_count_as_libllama_has_them(
    tiny_path: TinyPath, kind: str, n_recurrent: int
) -> None:
    with (
        lh.Model(tiny_path(kind)) as model,
        lh.Context(model, n_ctx=256 * 200, n_seq_max=200, n_threads=1) as context,
    ):
        lines = ffi.new("char[]", 1 << 16)
        while lib.lh_log_drain(lines, len(lines)):
            pass
        lh.generate_parallel(context, [f"{i}" for i in range(200)], max_tokens=1)
        lib.lh_log_drain(lines, len(lines))
        log = ffi.string(lines).decode()
        match = re.search(r"memory_recurrent: size = +([\d.]+) MiB.* (\d+) seqs", log)
        assert match, log
        n_sequences = context.plan.n_sequences
        assert int(match[2]) == n_sequences == 200
        per_sequence = kv_cells.bytes_per_sequence(model.metadata, model.info)
        counted = per_sequence * n_recurrent / model.info.n_layer
        assert float(match[1]) == pytest.approx(200 * counted / 2**20, abs=0.01)
        cells = 256 * 200 * context.loop._sizing._bytes_per_cell
        assert context.plan.memory_bytes == cells + 200 * per_sequence


@pytest.mark.parametrize("kind", ["mamba", "jamba"])
def test_deterministic_is_refused_where_tokens_cannot_be_taken_back(
    tiny_path: TinyPath, kind: str
) -> None:
    with (
        lh.Model(tiny_path(kind)) as model,
        lh.Context(model, deterministic=True) as context,
        pytest.raises((lh.ContextError, ValueError), match="recurrent"),
    ):
        lh.generate(context, "Hello")


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("t5", r"has an encoder \(architecture 't5'\); only decoder-only"),
        ("bert", r"embedding models do \(bert\.attention\.causal is false\)"),
    ],
)
def test_what_cannot_generate_says_why(
    tiny_path: TinyPath, kind: str, message: str
) -> None:
    with lh.Model(tiny_path(kind)) as model:
        assert lh.detokenize(model, lh.tokenize(model, "Hello")).strip() == "Hello"
        with pytest.raises(lh.ContextError, match=message):
            lh.Context(model)
