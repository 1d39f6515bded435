"""Creation of embedders in the process that computes the vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.core.errors import ContextError
from llamaherd.memory import hardware, kv_cells
from llamaherd.memory.device import device_of
from llamaherd.native.embedder import NativeEmbedder

if TYPE_CHECKING:
    from llamaherd.model.model import Model
    from llamaherd.native.embedder import Pooling
    from llamaherd.run.embedding import EmbedSizes


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedSpec:
    """Settings of an embedder.

    Attributes:
        pooling: Pooling of the vectors of tokens into one vector.
        normalize: Whether vectors are scaled to length 1.
        sizes: Batch sizes.
        n_threads: Number of threads; None for the default of the machine.
    """

    pooling: Pooling
    normalize: bool
    sizes: EmbedSizes
    n_threads: int | None = None


def make_embedder(model: Model, spec: EmbedSpec) -> NativeEmbedder:
    """Create an embedder in this process.

    Raises:
        ModelLoadError: The model computes no embeddings.
        ContextError: Not enough memory.
    """
    _check_memory(model, spec.sizes)
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


def _check_memory(model: Model, sizes: EmbedSizes) -> None:
    """Check that a context fits into memory before creating it.

    Raises:
        ContextError: Not enough memory.
    """
    info = model.info
    rows = sizes.n_batch * (info.n_vocab + 16 * info.n_embd) * 4
    looks = 6 * sizes.n_batch * max(sizes.n_ctx, sizes.n_batch)  # attention matrix
    needed = rows + looks
    if not reads_at_once(model):
        cell = kv_cells.bytes_per_cell(model.metadata, info, "f16", "f16")
        state = kv_cells.bytes_per_sequence(model.metadata, info)
        needed += rows + sizes.n_ctx * cell + sizes.n_texts * state
    device = device_of(model.placement, info.n_layer)
    available = device.available_memory()
    if needed > available:
        raise ContextError(
            f"texts of up to {sizes.n_ctx} tokens take {needed / 1e9:.1f} GB"
            f"{device.memory_name} to embed, {available / 1e9:.1f} are available: "
            "shorten the longest one"
        )
