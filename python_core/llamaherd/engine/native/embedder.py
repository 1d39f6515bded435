"""Embeddings of texts, on top of llamaherd.h."""

from __future__ import annotations

from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from llamaherd.engine.native.shim import (
    check,
    create_object,
    ffi,
    keep_alive,
    lib,
    new_struct,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.native._shim import CData

Pooling = Literal["mean", "cls", "last"]
POOLING: dict[Pooling, int] = {
    "mean": lib.LH_POOLING_MEAN,
    "cls": lib.LH_POOLING_CLS,
    "last": lib.LH_POOLING_LAST,
}


class NativeEmbedder:
    """A llama_context for embeddings, of `n_at_once` threads.

    A run of a non-causal model has at most `n_batch` tokens. `is_whole`: none has failed.
    """

    n_at_once = 1

    def __init__(
        self,
        model: CData,
        *,
        n_embd: int,
        pooling: Pooling,
        normalize: bool,
        n_batch: int,
        n_ctx: int,
        n_seq_max: int,
        n_threads: int,
    ) -> None:
        params = new_struct("lh_embedder_params")
        params.pooling = POOLING[pooling]
        params.normalize = normalize
        params.n_batch = n_batch
        params.n_ctx = n_ctx
        params.n_seq_max = n_seq_max
        params.n_threads = n_threads
        native = create_object("lh_embedder", lib.lh_embedder_new, model, params)
        self._embedder = keep_alive(self, "lh_embedder", native, model)
        self._error = ffi.new("lh_error *")
        self._n_embd = n_embd
        self.is_whole = True

    def run(self, texts: Sequence[array[int]]) -> array[float]:
        """Return float32[n_texts * n_embd]; NaN for a text without an embedding."""
        tokens = array("i")
        tokens.frombytes(b"".join(map(memoryview, texts)))
        offsets = array("q", accumulate(map(len, texts), initial=0))
        vectors = array("f", bytes(4 * len(texts) * self._n_embd))
        status = lib.lh_embedder_run(
            self._embedder,
            ffi.from_buffer("int32_t[]", tokens),
            ffi.from_buffer("int64_t[]", offsets),
            len(texts),
            ffi.from_buffer("float[]", vectors),
            self._error,
        )
        if status != lib.LH_OK:
            self.is_whole = False
        check(status, self._error)
        return vectors

    def abort(self) -> None:
        """Abort the running `run` and all later calls. Thread-safe."""
        self.is_whole = False
        lib.lh_embedder_abort(self._embedder, 1)
