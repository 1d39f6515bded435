"""Embedders in this process, kept for later calls."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from llamaherd.engine.core.errors import ContextError
from llamaherd.engine.memory import hardware, kv_cells
from llamaherd.engine.memory.device import device_of
from llamaherd.engine.native.embedder import NativeEmbedder, Pooling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.calls.run.embedding import EmbedSizes
    from llamaherd.engine.model.model import Model


# Limits of the embedders that a model keeps for later calls.
MOST_KEPT = 4
MOST_KEPT_BYTES = 512 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedSpec:
    """Settings of an embedder."""

    pooling: Pooling
    normalize: bool
    sizes: EmbedSizes
    n_threads: int | None = None

    def serves(self, other: EmbedSpec) -> bool:
        """Return whether such an embedder computes the same vectors as another one.

        Its sizes may be larger, because the call decides which texts run together.
        """
        mine, its = self.sizes, other.sizes
        return (
            self == replace(other, sizes=mine)
            and mine.n_batch >= its.n_batch
            and mine.n_ctx >= its.n_ctx
            and mine.n_texts >= its.n_texts
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    spec: EmbedSpec
    n_bytes: int
    embedder: NativeEmbedder


class KeptEmbedders:
    """Embedders of a model that wait for the next call, the least recently used first.

    To create an embedder takes longer than to embed a sentence. The embedders are freed
    with their model, and when memory is short for another embedder of the model.
    """

    closed = True  # they compute nothing, so no context of the model is open

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._is_over = False
        self._lock = RLock()  # garbage collection may close a model here

    def __len__(self) -> int:
        return len(self._kept)

    def take(self, spec: EmbedSpec) -> _Kept | None:
        """Take out the latest embedder that serves; None if there is none."""
        with self._lock:
            serving = [kept for kept in self._kept if kept.spec.serves(spec)]
            if serving:
                self._kept.remove(serving[-1])
            return serving[-1] if serving else None

    def keep(self, kept: _Kept) -> None:
        """Keep an embedder, and free others while a limit is exceeded."""
        with self._lock:
            if not self._is_over:
                self._kept.append(kept)
            while (
                len(self._kept) > MOST_KEPT
                or sum(kept.n_bytes for kept in self._kept) > MOST_KEPT_BYTES
            ):
                del self._kept[0]

    def free(self) -> None:
        """Free the embedders."""
        with self._lock:
            self._kept.clear()

    def close(self) -> None:
        """Free the embedders, and keep no others."""
        self._is_over = True
        self.free()


_kept_of_models: WeakKeyDictionary[Model, KeptEmbedders] = WeakKeyDictionary()
_kept_of_models_lock = RLock()


def kept_embedders(model: Model) -> KeptEmbedders:
    """Return the embedders that a model keeps."""
    with _kept_of_models_lock:
        if model not in _kept_of_models:
            _kept_of_models[model] = KeptEmbedders()
            model.register(_kept_of_models[model])
        return _kept_of_models[model]


@contextmanager
def lent_embedder(model: Model, spec: EmbedSpec) -> Iterator[NativeEmbedder]:
    """Yield a kept or new embedder; keep it unless it was aborted or refused a text."""
    if spec.n_threads is None:
        spec = replace(spec, n_threads=hardware.n_cores())
    others = kept_embedders(model)
    lent = others.take(spec)
    if lent is None:
        n_bytes = _needed_memory(model, spec.sizes)
        if n_bytes > device_of(model.placement, model.info.n_layer).available_memory():
            others.free()
        lent = _Kept(spec, n_bytes, make_embedder(model, spec))
    yield lent.embedder
    if lent.embedder.is_whole:
        others.keep(lent)


def make_embedder(model: Model, spec: EmbedSpec) -> NativeEmbedder:
    """Create an embedder in this process."""
    n_bytes = _needed_memory(model, spec.sizes)
    device = device_of(model.placement, model.info.n_layer)
    available = device.available_memory()
    if n_bytes > available:
        raise ContextError(
            f"texts of up to {spec.sizes.n_ctx} tokens take {n_bytes / 1e9:.1f} GB"
            f"{device.memory_name} to embed, {available / 1e9:.1f} are available: "
            "shorten the longest one"
        )
    return NativeEmbedder(
        model.handle,
        n_embd=model.info.n_embd_out,
        pooling=spec.pooling,
        normalize=spec.normalize,
        n_batch=spec.sizes.n_batch,
        n_ctx=spec.sizes.n_ctx,
        n_seq_max=spec.sizes.n_texts,
        n_threads=spec.n_threads or hardware.n_cores(),
    )


def reads_at_once(model: Model) -> bool:
    """Return whether a text must be in one batch, because attention is not causal."""
    kind = model.metadata.get("general.architecture", "")
    causal = model.metadata.get(f"{kind}.attention.causal")
    return bool(model.info.has_encoder) or causal == "false"


def _needed_memory(model: Model, sizes: EmbedSizes) -> int:
    """Return the memory of an embedder, in bytes."""
    info = model.info
    rows = sizes.n_batch * (info.n_vocab + 16 * info.n_embd) * 4
    looks = 6 * sizes.n_batch * max(sizes.n_ctx, sizes.n_batch)  # attention matrix
    if reads_at_once(model):
        return rows + looks
    cell = kv_cells.bytes_per_cell(model.metadata, info, "f16", "f16")
    state = kv_cells.bytes_per_sequence(model.metadata, info)
    return 2 * rows + looks + sizes.n_ctx * cell + sizes.n_texts * state
