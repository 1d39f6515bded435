"""`Context(deterministic=True)`: answers equal those of single prompts, bit for bit."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import llama_cpp
import llamaherd as lh
import pytest
from llamaherd.engine.memory.plan import MAX_HOLD, UNIFORM_ROWS, Sizes, make_plan
from llamaherd.engine.native.shim import GpuMemory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

WORDS = [
    "the",
    "sea",
    "bread",
    "Paris",
    "winter",
    "trains",
    "music",
    "moon",
    "river",
    "stone",
    "paper",
    "light",
]


def make_prompts() -> list[str]:
    """Return prompts of many lengths, beyond 512 cells; some share a beginning."""
    draw = random.Random(1)

    def words(n: int) -> str:
        return " ".join(draw.choices(WORDS, k=n))

    codebook = words(90)
    return [
        *(f"{codebook}. Text: {words(6 + i)}. Label:" for i in range(5)),
        *(words(n) for n in (3, 17, 40, 70, 520)),
    ]


def test_logprobs_do_not_depend_on_when_the_cache_grows(
    tiny_path: Callable[[str], Path],
) -> None:
    # If the number of sequences changes, running requests are computed again.
    prompts = [f"{i}: " for i in range(40)]
    settings = {"max_tokens": 300, "ignore_eos": True, "logprobs": 0}
    with lh.Model(tiny_path("llama")) as model:
        with lh.Context(model, deterministic=True) as context:
            expected = lh.generate_parallel(context, prompts, **settings)
        n_pauses = 0
        for _ in range(4):
            with lh.Context(model, deterministic=True) as context:
                jobs = []
                for first, last in ((0, 4), (4, 16), (16, 40)):
                    part = prompts[first:last]
                    jobs.append(lh.start_parallel(context, part, **settings))
                    while not jobs[-1].progress.n_generated_tokens:
                        time.sleep(0.001)
                results = [result for job in jobs for result in job.results()]
            n_pauses += sum(result.stats.n_pauses for result in results)
            assert [r.tokens for r in results] == [r.tokens for r in expected]
            assert [r.logprobs for r in results] == [r.logprobs for r in expected]
    assert n_pauses > 0


@pytest.mark.long(reason="many calls of a real model")
@pytest.mark.model
@pytest.mark.parametrize(
    "name",
    [
        "smollm2",
        pytest.param(
            "gemma3",
            marks=pytest.mark.long(
                reason="a large vocabulary and sliding windows, four times as slow"
            ),
        ),
    ],
)
def test_answers_depend_on_nothing_else(
    name: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    prompts = make_prompts()
    settings = {"max_tokens": 10, "ignore_eos": True}
    with lh.Context(model, n_seq_max=1, deterministic=True) as context:
        alone = [lh.generate(context, prompt, **settings).text for prompt in prompts]
    for n_seq_max, n_batch in ((3, 64), (9, 512)):
        order = random.Random(n_seq_max).sample(range(len(prompts)), len(prompts))
        with lh.Context(
            model, n_seq_max=n_seq_max, n_batch=n_batch, deterministic=True
        ) as context:
            out = lh.generate_parallel(context, [prompts[i] for i in order], **settings)
        assert out.texts == [alone[i] for i in order]
        assert out.stats.n_reused_tokens > 0


@pytest.mark.long(reason="many calls of a real model")
@pytest.mark.model
def test_answers_are_those_of_llama_cpp_python_with_values_of_the_same_type(
    smollm2: lh.Model, smollm2_path: Path
) -> None:
    """Not with gemma's K-quants: without AMX, a single row rounds differently."""
    prompts = make_prompts()
    llama = llama_cpp.Llama(
        str(smollm2_path),
        n_ctx=1024,
        flash_attn=True,
        type_v=30,  # GGML_TYPE_BF16
        verbose=False,
    )
    outputs = [llama(prompt, max_tokens=10, temperature=0) for prompt in prompts]
    llama.close()
    with lh.Context(smollm2, deterministic=True) as context:
        out = lh.generate_parallel(context, prompts, max_tokens=10)
    assert out.texts == [output["choices"][0]["text"] for output in outputs]


@pytest.mark.model
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"kv_layout": "unified"}, "kv_layout"),
        ({"flash_attn": False}, "flash_attn"),
        ({"type_v": "f16"}, "type_v"),
        ({"n_ubatch": 12, "n_seq_max": 2}, "n_ubatch"),
        ({"n_ubatch": 16, "n_seq_max": 16}, "n_ubatch"),
    ],
)
def test_settings_that_round_by_the_shape_are_refused(
    smollm2: lh.Model, settings: dict[str, object], named: str
) -> None:
    with pytest.raises(ValueError, match=rf"deterministic=True .* {named}"):
        lh.Context(smollm2, deterministic=True, **settings)


def test_layers_on_a_gpu_are_warned_of(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = GpuMemory("FAKE0", "a fake", 10**9, 10**9)
    monkeypatch.setattr("llamaherd.engine.native.shim.gpus", lambda: (gpu,))
    monkeypatch.setattr("llamaherd.engine.native.shim.supports_gpu", lambda: True)
    with (
        lh.Model(tiny_path("llama"), n_gpu_layers=-1) as model,
        pytest.warns(UserWarning, match="layers on a GPU"),
    ):
        lh.Context(model, deterministic=True).close()
    with lh.Model(tiny_path("llama")) as model:  # a GPU that is not used
        lh.Context(model, deterministic=True).close()


def test_a_prompt_fills_what_is_left_of_n_ctx(tiny_path: Callable[[str], Path]) -> None:
    """Padding needs cells after a prompt; the error includes these cells."""
    with (
        lh.Model(tiny_path("llama")) as model,
        lh.Context(model, n_ctx=512, n_seq_max=8, deterministic=True) as context,
    ):
        most = 512 - (UNIFORM_ROWS - 1)
        prompts = [[5] * (most - 1), [5] * most]
        fits, fails = lh.generate_parallel(context, prompts, max_tokens=1)
    assert fits.error is None
    assert fails.error is not None
    assert f"more than the {most}" in fails.error


def test_the_plan_has_whole_groups_of_sequences() -> None:
    for n_prompts in (1, 5, 40):
        plan = make_plan(
            Sizes(deterministic=True),
            [250] * n_prompts,
            2,
            n_batch=512,
            bytes_per_cell=20_000,
            memory_bytes=8 * 10**9,
        )
        assert plan.n_sequences % UNIFORM_ROWS == 0
        assert plan.n_seq_max == n_prompts
        assert plan.n_hold <= MAX_HOLD
        assert plan.n_ctx_seq == 512  # padding needs a few more cells than 256
        assert plan.n_ctx == plan.n_sequences * plan.n_ctx_seq
