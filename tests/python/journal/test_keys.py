"""Journal keys: requests with different results never have the same key."""

from __future__ import annotations

import hashlib
import random
import shutil
import signal
import subprocess
import sys
import time
from array import array
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llama_cpp
import llamaherd as lh
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journalled import NUMERICS, request
from llamaherd.calls.journal.entry import SCORES, journal_key, settings_json
from llamaherd.calls.journal.recording import RecordedCall
from llamaherd.engine.core.request import NEUTRAL, Request, ThoughtStage, TokenTree
from llamaherd.engine.core.sampling import SamplingParams
from thorough import examples, sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


MODEL = b"m" * 32


def tree(*nodes: tuple[int, int]) -> TokenTree:
    tokens, parents = zip(*nodes, strict=True)
    depths = [1]
    for parent in parents[1:]:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return TokenTree(array("i", tokens), array("i", parents), max(depths))


small = st.integers(0, 2)
trees = st.lists(small, min_size=1, max_size=3).flatmap(
    lambda tokens: st.tuples(*(st.integers(-1, i - 1) for i in range(len(tokens)))).map(
        lambda parents: tree(*zip(tokens, parents, strict=True))
    )
)
samplings = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 0.7]),
    top_k=st.sampled_from([40, 3]),
    logit_bias=st.sampled_from([{}, {1: 1.0}]),
    regex=st.sampled_from([None, "a", "b"]),
    ignore_eos=st.booleans(),
)
thoughts = st.builds(
    ThoughtStage,
    budget=st.integers(0, 1),
    is_open=st.booleans(),
    closing=st.sampled_from([(), (1,), (1, 2), (12,)]),
    sampling=st.sampled_from([SamplingParams(), SamplingParams(temperature=0.5)]),
    seed=st.integers(0, 1),
)
requests = st.builds(
    Request,
    tokens=st.lists(small, min_size=1, max_size=3).map(lambda ids: array("i", ids)),
    max_tokens=st.integers(1, 2),
    sampling=samplings,
    stop=st.sampled_from([(), ("a",), ("a", "b"), ("ab",)]),
    seed=st.integers(0, 1),
    text=st.sampled_from([None, "a"]),
    priority=st.integers(0, 1),
    tree=st.none() | trees,
    logprobs=st.none() | st.integers(0, 1),
    thought=st.none() | thoughts,
)


def key_in(calls: list[Request]) -> list[bytes]:
    """Return the keys that a call of these requests computes, with its caches."""
    return [
        journal_key(MODEL, settings_json(request, NUMERICS), request) for request in calls
    ]


def meaning(prompt: Request) -> dict[str, object]:
    """Return the parts of a request that determine its result, listed separately."""
    parts = {
        field.name: getattr(prompt, field.name)
        for field in fields(Request)
        if field.name not in {"text", "problem", "shape", "priority", "is_whole"}
    }
    parts["tokens"] = list(prompt.tokens)
    if prompt.tree is not None:
        parts["tree"] = (list(prompt.tree.tokens), list(prompt.tree.parents))
    if prompt.sampling.temperature <= 0:
        del parts["seed"]
    thought = prompt.thought
    if thought is not None and thought.sampling.temperature <= 0:
        parts["thought"] = replace(thought, seed=0)
    return parts


@examples(400)
@given(requests, requests)
def test_requests_share_a_key_only_if_all_is_equal_that_decides(
    one: Request, other: Request
) -> None:
    keys = key_in([one, other])
    assert (keys[0] == keys[1]) == (meaning(one) == meaning(other))


@examples(100)
@given(requests, st.data())
def test_each_part_of_a_request_alone_makes_another_key(
    one: Request, data: st.DataObject
) -> None:
    other = data.draw(requests)
    for field in fields(Request):
        changed = replace(one, **{field.name: getattr(other, field.name)})
        keys = key_in([one, changed])
        assert (keys[0] == keys[1]) == (meaning(one) == meaning(changed)), field.name


@examples(60)
@given(st.lists(requests, min_size=2, max_size=6))
def test_settings_do_not_depend_on_other_requests_of_the_call(
    calls: list[Request],
) -> None:
    call = RecordedCall.__new__(RecordedCall)  # its file and journal are not used here
    call._context, call._settings = dict(NUMERICS), {}
    assert [call._settings_of(request) for request in calls] == [
        settings_json(request, NUMERICS) for request in calls
    ]


def test_settings_of_a_context_never_take_the_place_of_a_request_s() -> None:
    context = {"type_k", "type_v", "flash_attn", "deterministic", "lora"}
    names = {field.name for cls in (Request, SamplingParams) for field in fields(cls)}
    assert not context & (names | {SCORES, "engine"})
    assert names >= NEUTRAL


def test_parts_that_cannot_be_written_as_json_are_an_error() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        settings_json(replace(request([1]), stop=(b"a",)), NUMERICS)


# ---- a journal of the version before decision 0044 is read: no call is computed again


# Written by that version on the tiny model, with the calls below.
JOURNAL = Path(__file__).with_name("before_0044.journal")
MODEL_SHA256 = "d394258afce423e68430e32a7be29c16718341a9a512ecee9d1f71d7abaa7ad1"
PROMPTS = [f"Text {i}: " for i in range(4)]
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
BOOK = lh.Codebook("Which?", ["a", "b"])
CALLS: dict[str, Callable[..., Any]] = {
    "samples": lambda ctx, **journal: lh.generate_parallel(
        ctx, PROMPTS, max_tokens=6, temperature=1.0, seed=7, ignore_eos=True, **journal
    ),
    "schema": lambda ctx, **journal: lh.generate_parallel(
        ctx, PROMPTS, schema=SCHEMA, max_tokens=40, logprobs=1, **journal
    ),
    "choices": lambda ctx, **journal: lh.generate_parallel(
        ctx, PROMPTS, choices=["yes", "no"], **journal
    ),
    "classify": lambda ctx, **journal: lh.classify_parallel(
        ctx, PROMPTS, ["yes", "no"], normalize="token", **journal
    ),
    "score": lambda ctx, **journal: lh.score_parallel(
        ctx, PROMPTS, [[" a", " b"]] * 4, **journal
    ),
    "perplexity": lambda ctx, **journal: lh.perplexity(ctx, PROMPTS, **journal),
    "annotate": lambda ctx, **journal: lh.annotate(
        {"t": PROMPTS}, "t", BOOK, ctx, **journal
    ),
}


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    path = tiny_path("llama")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert digest == MODEL_SHA256, "tiny_models.py writes another model"
    options = {"deterministic": True, "n_threads": 1}
    with lh.Model(path) as model, lh.Context(model, **options) as context:
        yield context


@pytest.mark.parametrize("name", CALLS)
def test_results_of_before_are_found(
    context: lh.Context, name: str, tmp_path: Path
) -> None:
    journal = tmp_path / "calls.journal"
    shutil.copy(JOURNAL, journal)
    results = CALLS[name](context, journal=str(journal))
    assert results.stats.n_journal == len(PROMPTS)
    assert results.stats.n_decode_tokens == 0


def test_all_results_of_before_are_read() -> None:
    entries = lh.journal_read(JOURNAL)
    assert len(entries) == len(CALLS) * len(PROMPTS)
    assert not any(entry.error for entry in entries)


# ---- the journal on a real model: killed at any moment, with all kinds of contexts


N_PROMPTS = sized(200, 500)
N_KILLS = sized(3, 20)
PROGRAM = """
import sys
import llamaherd as lh
prompts = [f"Word {i}" for i in range(int(sys.argv[3]))]
with (
    lh.Model(sys.argv[1]) as model,
    lh.Context(model, n_threads=1, n_seq_max=8) as context,
):
    print("loaded", flush=True)
    tell = lambda progress: print(progress.n_done, flush=True)
    lh.generate_parallel(
        context, prompts, max_tokens=2, journal=sys.argv[2], progress=tell
    )
"""


def start(model: Path, journal: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(model), str(journal), str(N_PROMPTS)],
        stdout=subprocess.PIPE,
        encoding="utf-8",
    )


def contents(results: lh.Results) -> list[tuple[object, ...]]:
    return [
        (result.index, result.text, result.tokens, result.finish_reason, result.seed)
        for result in results
    ]


@pytest.mark.model
@pytest.mark.long(reason="a process for each case")
@pytest.mark.more(reason="3 of 20 kills of a process, 200 of 500 prompts")
def test_killed_at_random_moments_nothing_is_lost_or_doubled(
    smollm2: lh.Model, smollm2_path: Path, tmp_path: Path
) -> None:
    journal = tmp_path / "run.sqlite"
    prompts = [f"Word {i}" for i in range(N_PROMPTS)]
    chance = random.Random(4)
    stored: dict[str, lh.types.JournalEntry] = {}
    n_cut = 0
    for _ in range(N_KILLS):
        process = start(smollm2_path, journal)
        with process:
            assert process.stdout.readline() == "loaded\n"
            # Measured in prompts, because a busy machine may take any time.
            n_before = len(stored) + chance.randrange(50)
            for line in process.stdout:
                if int(line) >= n_before:
                    break
            time.sleep(chance.uniform(0.0, 0.05))
            process.kill()
            n_cut += process.wait() == -signal.SIGKILL
            assert process.returncode in {0, -signal.SIGKILL}
        entries = lh.journal_read(journal) if journal.exists() else []
        by_key = {entry.key: entry for entry in entries}
        assert len(by_key) == len(entries)  # nothing is doubled,
        assert stored.items() <= by_key.items()  # lost or changed
        stored = by_key
    assert n_cut > 0
    assert stored
    with lh.Context(smollm2, n_threads=1) as context:
        resumed = lh.generate_parallel(context, prompts, max_tokens=2, journal=journal)
        whole = lh.generate_parallel(context, prompts, max_tokens=2)
    assert resumed.stats.n_journal == len(stored)
    assert contents(resumed) == contents(whole)
    assert len(lh.journal_read(journal)) == N_PROMPTS


@pytest.mark.model
def test_the_same_call_again_is_answered_from_the_journal(
    smollm2: lh.Model, tmp_path: Path
) -> None:
    journal = tmp_path / "run.sqlite"
    prompts = ["The sky is", [1, 2, 3], "The sky is", "", "word " * 9000]
    options = {"temperature": 0.8, "seed": 5, "max_tokens": 8, "journal": journal}
    with lh.Context(smollm2, n_threads=1, n_seq_max=4) as context:
        first = lh.generate_parallel(context, prompts, **options)
    with lh.Context(smollm2, n_threads=1, n_seq_max=2) as context:
        again = lh.generate_parallel(context, prompts, **options)
        assert context.plan is None  # no prompt had to be computed
    assert contents(again) == contents(first)
    assert (first.stats.n_journal, again.stats.n_journal) == (0, 3)
    assert again.stats.n_generated_tokens == 0
    assert again.errors == first.errors
    texts = [entry.prompt for entry in lh.journal_read(journal)]
    assert sorted(texts)[:2] == [
        "",
        lh.detokenize(smollm2, [1, 2, 3], unparse_special=True),
    ]
    assert texts.count("The sky is") == 2  # two positions, two seeds
    # Other settings of the context that change what is computed, and a fresh seed: add.
    with lh.Context(smollm2, n_threads=1, type_k="q8_0") as context:
        other = lh.generate_parallel(context, prompts[:1], **options)
    assert other.stats.n_journal == 0
    with lh.Context(smollm2, n_threads=1) as context:
        fresh = lh.generate_parallel(context, prompts[:1], **{**options, "seed": None})
    assert fresh.stats.n_journal == 0


@pytest.mark.model
def test_wrong_arguments_raise_before_anything_runs(
    smollm2: lh.Model, tmp_path: Path
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with lh.Context(smollm2, n_threads=1) as context:
        with pytest.raises(
            lh.JournalError, match=r"journal: .*notes.txt.* not a journal"
        ):
            lh.start_parallel(context, ["a"], journal=path)
        with pytest.raises(TypeError, match="journal must be a path, not True"):
            lh.generate_parallel(context, ["a"], journal=True)
        with pytest.raises(ValueError, match="max_tokens"):
            lh.generate_parallel(context, ["a"], max_tokens=0, journal=tmp_path / "run")
        assert context.plan is None
    assert path.read_text() == "mine"
    assert not (tmp_path / "run").exists()


@pytest.mark.model
def test_a_llama_has_a_journal_too(smollm2_path: Path, tmp_path: Path) -> None:
    journal = tmp_path / "run.sqlite"
    with lh.Model(smollm2_path) as model, lh.Context(model, n_threads=1) as context:
        expected = lh.generate_parallel(context, ["One"], max_tokens=2, journal=journal)
    llama = llama_cpp.Llama(str(smollm2_path), n_ctx=256, verbose=False)
    results = lh.generate_parallel(llama, ["One"], max_tokens=2, journal=journal)
    llama.close()
    assert (results.stats.n_journal, results.texts) == (1, expected.texts)
