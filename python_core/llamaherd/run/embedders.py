"""What computes vectors of texts, made where it computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.core.errors import ContextError
from llamaherd.memory import hardware, kv_cells
from llamaherd.native.embedder import NativeEmbedder

if TYPE_CHECKING:
    from llamaherd.model.model import Model
    from llamaherd.native.embedder import Pooling
    from llamaherd.run.embedding import Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedSpec:
    """How vectors are to be made.

    Attributes:
        pooling: Which of a text's tokens its vector is made of.
        normalize: Whether vectors get the length 1.
        sizes: How much is computed together.
        n_threads: Threads that compute; None: as many as suit the machine.
    """

    pooling: Pooling
    normalize: bool
    sizes: Sizes
    n_threads: int | None = None


def make_embedder(model: Model, spec: EmbedSpec) -> NativeEmbedder:
    """What computes such vectors in this process.

    Raises:
        ModelLoadError: The model has no vectors for texts.
        ContextError: There is not enough memory.
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
    """Whether a text has to be computed as a whole: its tokens look ahead."""
    kind = model.metadata.get("general.architecture", "")
    causal = model.metadata.get(f"{kind}.attention.causal")
    return bool(model.info.has_encoder) or causal == "false"


def _check_memory(model: Model, sizes: Sizes) -> None:
    """Compares what the context takes with what there is, before it is made.

    Raises:
        ContextError: There is not enough.
    """
    info = model.info
    rows = sizes.n_batch * (info.n_vocab + 16 * info.n_embd) * 4
    looks = 6 * sizes.n_batch * max(sizes.n_ctx, sizes.n_batch)  # who looks at whom
    needed = rows + looks
    if not reads_at_once(model):
        cell = kv_cells.bytes_per_cell(model.metadata, info, "f16", "f16")
        state = kv_cells.bytes_per_sequence(model.metadata, info)
        needed += rows + sizes.n_ctx * cell + sizes.n_texts * state
    available = hardware.available_memory()
    if needed > available:
        raise ContextError(
            f"texts of up to {sizes.n_ctx} tokens take {needed / 1e9:.1f} GB to embed, "
            f"{available / 1e9:.1f} are available: shorten the longest one"
        )
