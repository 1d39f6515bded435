"""Upper estimate of the buffers that a context needs in addition to its KV cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.engine.memory.kv_cells import number_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.engine.native.models import ModelInfo

# Same value as `n_outputs_max` in capi_shim/engine/context.cpp.
_OUTPUT_BYTES = 32 << 20
_MOST_OUTPUTS = 64
_PER_LINE = 16
_F32, _F16 = 4, 2
_LEAST_BATCH, _MOST_BATCH = 256, 2048  # tokens of texts that are computed together
# Bytes that libllama uses for graphs and small tensors, for every model.
_FIXED = 1 << 20


@dataclass(frozen=True, slots=True)
class Buffers:
    """Memory of a context's buffers in bytes: logits, activations and attention masks.

    Attributes:
        n_bytes: Part that does not depend on the number of KV cells.
        per_cell: Part for each KV cell.
    """

    n_bytes: int
    per_cell: int

    def of(self, n_cells: int) -> int:
        """Return the size of a context's buffers in bytes, for a cache of `n_cells`."""
        return self.n_bytes + n_cells * self.per_cell


NO_BUFFERS = Buffers(0, 0)


def buffers_of(
    metadata: Mapping[str, str],
    info: ModelInfo,
    *,
    n_ubatch: int,
    n_sequences: int,
    flash_attn: bool = True,
) -> Buffers:
    """Return an upper estimate of the buffers of a context.

    Rows of logits are in memory twice: where libllama computes them and where callers
    read them. The activations of a layer's widest part and the residual stream are in
    memory at the same time. A mask has one number per pair of token and cell.

    Args:
        metadata: Metadata of the GGUF file.
        info: Sizes of the same model.
        n_ubatch: Maximum number of tokens computed at once.
        n_sequences: Number of sequences.
        flash_attn: Whether attention is computed without a matrix of all its weights.

    Source: `llama_context::graph_reserve` and `output_reserve` of llama-context.cpp.
    """
    row = _F32 * info.n_vocab
    n_rows = max(n_sequences, min(_MOST_OUTPUTS, _OUTPUT_BYTES // row))
    n_rows = -(-n_rows // _PER_LINE) * _PER_LINE
    n_tokens = n_ubatch + n_sequences  # libllama rounds up to a multiple of n_sequences
    n_head = max(1, number_of(metadata, "attention.head_count", 1))
    n_key = number_of(metadata, "attention.key_length", info.n_embd // n_head)
    n_value = number_of(metadata, "attention.value_length", info.n_embd // n_head)
    n_used = max(1, number_of(metadata, "expert_used_count", 1))
    n_expert = n_used * number_of(metadata, "expert_feed_forward_length")
    n_wide = max(
        3 * max(number_of(metadata, "feed_forward_length"), n_expert)
        + n_used * info.n_embd,
        2 * n_head * (2 * n_key + n_value),
        _of_states(metadata),
    )
    widths = n_wide + 4 * info.n_embd
    per_cell = 0 if info.is_recurrent else n_tokens * _F16
    if not flash_attn and per_cell:
        per_cell += n_tokens * _F32 * (1 + n_head)
    return Buffers(_FIXED + 2 * n_rows * row + n_tokens * _F32 * widths, per_cell)


def buffers_of_encoder(metadata: Mapping[str, str], info: ModelInfo) -> int:
    """Return an upper estimate of the buffers of a model for embeddings.

    A text is computed in one batch, of at most the training context.

    Args:
        metadata: Metadata of the GGUF file.
        info: Sizes of the same model.
    """
    n = max(_LEAST_BATCH, min(info.n_ctx_train, _MOST_BATCH))
    found = buffers_of(
        metadata, info, n_ubatch=n, n_sequences=_MOST_OUTPUTS, flash_attn=False
    )
    return found.of(n)


def _of_states(metadata: Mapping[str, str]) -> int:
    """Return how many numbers a recurrent layer computes per token."""
    n_inner = number_of(metadata, "ssm.inner_size")
    n_state = number_of(metadata, "ssm.state_size")
    n_group = max(1, number_of(metadata, "ssm.group_count", 1))
    return 8 * n_inner + 4 * n_group * n_state
