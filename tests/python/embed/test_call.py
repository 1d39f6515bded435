"""Grouping of texts, and failing texts, tested without a model."""

from __future__ import annotations

import math
from array import array
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.calls.asks.texts import Text
from llamaherd.calls.run.embedding import CANCELLED, EmbedCall, EmbedSizes, groups
from llamaherd.engine.core.errors import NativeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.calls.run.embedding import Embeddings

N_EMBD = 2
POISON = 13
NAN = 14


class FakeEmbedder:
    """Fake embedder: a text's vector is its length and the sum of its tokens."""

    n_at_once = 1

    def __init__(self, on_run: Callable[[int], object] = lambda _: None) -> None:
        self.runs: list[list[list[int]]] = []
        self.is_aborted = False
        self.on_run = on_run

    def run(self, texts: Sequence[array[int]]) -> array[float]:
        self.on_run(len(self.runs))
        if self.is_aborted:
            raise NativeError("aborted", 7)
        self.runs.append([text.tolist() for text in texts])
        if any(POISON in text for text in texts):
            raise NativeError("llama_encode returned -1", 6)
        out = array("f")
        for text in texts:
            out.extend([math.nan] * 2 if NAN in text else [len(text), sum(text)])
        return out

    def abort(self) -> None:
        self.is_aborted = True


def text(*tokens: int) -> Text:
    return Text(tokens=array("i", tokens))


def call_of(
    texts: Sequence[Text], lend: Callable[[], Any], n_ctx: int = 8, n_texts: int = 4
) -> EmbedCall:
    sizes = EmbedSizes(n_batch=n_ctx, n_ctx=n_ctx, n_texts=n_texts)
    return EmbedCall(texts, lend, sizes, pooling="mean", n_embd=lambda: N_EMBD)


def run(texts: Sequence[Text], embedder: FakeEmbedder) -> tuple[EmbedCall, Embeddings]:
    call = call_of(texts, lambda: nullcontext(embedder))
    return call, call.run()


def test_vectors_come_in_the_order_of_the_texts() -> None:
    embedder = FakeEmbedder()
    texts = [text(5, 5, 5), text(1), text(2, 2), text(1), text(9)]
    call, embeddings = run(texts, embedder)
    assert embeddings.vectors.tolist() == [[3, 15], [1, 1], [2, 4], [1, 1], [1, 9]]
    assert embeddings.errors == [None] * 5
    # Equal texts are computed once, short texts first.
    assert embedder.runs == [[[1], [9], [2, 2], [5, 5, 5]]]
    stats = embeddings.stats
    assert (stats.n_copied, stats.n_tokens, stats.n_batches) == (1, 7, 1)
    assert call.progress.n_done == call.progress.n_total == 5


def test_a_text_that_libllama_refuses_fails_alone() -> None:
    call, embeddings = run([text(1), text(POISON), text(2), text(POISON)], FakeEmbedder())
    reason = "llama_encode returned -1"
    assert embeddings.errors == [None, reason, None, reason]
    assert embeddings.vectors[::2].tolist() == [[1, 1], [1, 2]]
    assert np.isnan(embeddings.vectors[1::2]).all()
    assert (embeddings.stats.n_failed, call.progress.n_failed) == (2, 2)


def test_what_is_no_number_fails_alone() -> None:
    _, embeddings = run([text(1), text(NAN), text(2)], FakeEmbedder())
    assert [error is None for error in embeddings.errors] == [True, False, True]
    assert "NaN or infinite" in str(embeddings.errors[1])


def test_what_is_known_to_be_wrong_is_not_computed() -> None:
    bad = Text(tokens=array("i"), problem="too long")
    embeddings = call_of([bad, bad], pytest.fail).run()
    assert embeddings.errors == ["too long"] * 2
    assert (embeddings.stats.n_failed, embeddings.stats.n_texts) == (2, 2)
    assert call_of([], pytest.fail).run().vectors.shape == (0, N_EMBD)


def test_a_cancelled_call_keeps_what_it_has() -> None:
    embedder = FakeEmbedder(lambda n: call.cancel() if n == 1 else None)
    texts = [text(1), text(2, 2), text(3, 3, 3)]
    call = call_of(texts, lambda: nullcontext(embedder), n_ctx=3, n_texts=2)
    assert call.run().errors == [None, None, CANCELLED]
    before = call_of([text(1)], pytest.fail)
    before.cancel()
    assert before.run().errors == [CANCELLED]


def test_a_call_that_has_ended_does_not_abort_the_next_one() -> None:
    embedder = FakeEmbedder()
    run([text(1)], embedder)[0].cancel()
    assert run([text(2)], embedder)[1].errors == [None]


@given(st.lists(st.integers(1, 20), max_size=30), st.integers(20, 40), st.integers(1, 7))
def test_groups_have_room(lengths: list[int], n_ctx: int, n_texts: int) -> None:
    texts = [array("i", [0] * n) for n in lengths]
    sizes = EmbedSizes(n_batch=n_ctx, n_ctx=n_ctx, n_texts=n_texts)
    batches = list(groups(texts, sizes))
    assert sorted(len(t) for batch in batches for t in batch) == sorted(lengths)
    assert all(0 < len(batch) <= n_texts for batch in batches)
    assert all(sum(map(len, batch)) <= n_ctx for batch in batches)
