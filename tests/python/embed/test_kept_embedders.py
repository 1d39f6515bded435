"""Embedders that a model keeps for later calls."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.calls.api.embed import prepare_embed
from llamaherd.calls.run import embedders
from llamaherd.calls.run.embedders import kept_embedders
from llamaherd.engine.core.errors import NativeError
from llamaherd.engine.native.embedder import NativeEmbedder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    TinyPath = Callable[[str], Path]

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
