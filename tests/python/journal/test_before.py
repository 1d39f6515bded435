"""A journal of the version before decision 0044 is read: no call is computed again."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
