"""Grouping of texts, and failing texts, tested without a model."""

from __future__ import annotations

import math
import random
from array import array
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.calls.api.embed import prepare_embed
from llamaherd.calls.run import embedders
from llamaherd.calls.run.embedders import kept_embedders
from llamaherd.calls.run.embedding import CANCELLED, EmbedCall, EmbedSizes, Text, groups
from llamaherd.engine.core.errors import NativeError
from llamaherd.engine.native.embedder import NativeEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from llamaherd.calls.run.embedding import Embeddings

    TinyPath = Callable[[str], Path]

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


# ---- embedders that a model keeps for later calls

TEXTS = ["some text", "another one", "x" * 300, "short", "z" * 90]


@pytest.fixture
def bert(tiny_path: TinyPath) -> Iterator[lh.Model]:
    with lh.Model(tiny_path("bert")) as model:
        yield model


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """List of the batch sizes of all embedders that are created."""
    sizes: list[int] = []
    create = NativeEmbedder.__init__

    def counted(self: NativeEmbedder, *args: object, **sized: object) -> None:
        sizes.append(sized["n_batch"])
        create(self, *args, **sized)

    monkeypatch.setattr(NativeEmbedder, "__init__", counted)
    return sizes


def test_calls_one_after_the_other_use_one_embedder(
    bert: lh.Model, created: list[int]
) -> None:
    for text in TEXTS:
        assert lh.embed_parallel(bert, [text]).errors == [None]
    assert len(created) == 2  # the long text needs a larger one, which then serves all
    with pytest.raises(TypeError):
        lh.embed_parallel(bert, [1.5])
    lh.embed_parallel(bert, TEXTS, pooling="last")
    lh.embed_parallel(bert, TEXTS, normalize=False)
    assert len(created) == 4


@pytest.mark.parametrize("kind", ["bert", "llama", "jamba"])
def test_deterministic_vectors_do_not_depend_on_earlier_calls(
    tiny_path: TinyPath, kind: str
) -> None:
    expected = []
    for text in TEXTS:
        with lh.Model(tiny_path(kind)) as model:
            first = lh.embed_parallel(model, [text], deterministic=True)
            expected.append(first.vectors[0])
    rng = random.Random(3)
    with lh.Model(tiny_path(kind)) as model:
        for _ in range(12):
            i = rng.randrange(len(TEXTS))
            lh.embed_parallel(model, rng.sample(TEXTS, 3), normalize=rng.random() < 0.5)
            again = lh.embed_parallel(model, [TEXTS[i]], deterministic=True)
            assert np.array_equal(again.vectors[0], expected[i])


def test_the_model_keeps_a_limited_number_and_frees_them(bert: lh.Model) -> None:
    kept = kept_embedders(bert)
    for n_threads in range(1, embedders.MOST_KEPT + 3):
        lh.embed_parallel(bert, ["text"], n_threads=n_threads)
    assert len(kept) == embedders.MOST_KEPT
    bert.close()
    assert len(kept) == 0


def test_large_embedders_are_not_kept(
    bert: lh.Model, created: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedders, "MOST_KEPT_BYTES", 1)
    for _ in range(2):
        lh.embed_parallel(bert, ["text"])
    assert len(created) == 2


def test_kept_embedders_are_freed_where_memory_is_short(
    bert: lh.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    lh.embed_parallel(bert, ["text"])
    kept = kept_embedders(bert)
    monkeypatch.setattr("llamaherd.engine.memory.hardware.available_memory", lambda: 1000)
    assert lh.embed_parallel(bert, ["text"]).errors == [None]  # needs no more memory
    with pytest.raises(lh.ContextError, match="shorten the longest one"):
        lh.embed_parallel(bert, ["text"], pooling="cls")
    assert len(kept) == 0


def test_an_embedder_that_failed_or_was_aborted_is_not_kept(
    bert: lh.Model, created: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = NativeEmbedder.run

    def refusing(self: NativeEmbedder, _texts: list[object]) -> object:
        self.is_whole = False
        raise NativeError("llama_encode returned -1", 6)

    monkeypatch.setattr(NativeEmbedder, "run", refusing)
    assert lh.embed_parallel(bert, ["text"]).errors == ["llama_encode returned -1"]
    assert len(kept_embedders(bert)) == 0

    def cancelled(self: NativeEmbedder, texts: list[object]) -> object:
        work.cancel()
        return run(self, texts)

    work = prepare_embed(bert, ["text"], {})
    monkeypatch.setattr(NativeEmbedder, "run", cancelled)
    assert work.run().error_codes == ["cancelled"]
    assert len(kept_embedders(bert)) == 0
    monkeypatch.setattr(NativeEmbedder, "run", run)
    assert lh.embed_parallel(bert, ["text"]).errors == [None]
    assert len(created) == 3


def test_an_adapter_can_be_loaded_after_a_call(bert: lh.Model, tmp_path: Path) -> None:
    lh.embed_parallel(bert, ["text"])
    with pytest.raises(lh.ModelLoadError):  # not "has an open context"
        bert.adapted(tmp_path / "missing.gguf")
