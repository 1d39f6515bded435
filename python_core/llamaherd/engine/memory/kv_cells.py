"""Memory of KV cells, recurrent states and buffers, from the metadata of a model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.engine.native.models import ModelInfo


# Name: (ggml_type, bytes per block, numbers per block).
TYPES = {
    "f32": (0, 4, 1),
    "f16": (1, 2, 1),
    "bf16": (30, 2, 1),
    "q8_0": (8, 34, 32),
    "q5_1": (7, 24, 32),
    "q5_0": (6, 22, 32),
    "q4_1": (3, 20, 32),
    "q4_0": (2, 18, 32),
    "iq4_nl": (20, 18, 32),
}
# In models with layers of several kinds, at least one of so many stores every token.
_LEAST_SHARE = 8


def bytes_per_cell(
    metadata: Mapping[str, str], info: ModelInfo, type_k: str, type_v: str
) -> int:
    """Return the bytes of one token in the KV cache of all layers, at least 1.

    An upper bound for models with sliding windows or some recurrent layers.
    """
    if info.is_recurrent:
        return 1
    n_head = max(1, number_of(metadata, "attention.head_count", 1))
    n_head_kv = number_of(metadata, "attention.head_count_kv", n_head)
    n_key = number_of(metadata, "attention.key_length", info.n_embd // n_head)
    n_value = number_of(metadata, "attention.value_length", info.n_embd // n_head)
    per_layer = 0.0
    for length, name in ((n_key, type_k), (n_value, type_v)):
        _, n_bytes, n_numbers = TYPES[name]
        per_layer += n_head_kv * length * n_bytes / n_numbers
    return max(1, round(info.n_layer * per_layer))


def least_bytes_per_cell(
    metadata: Mapping[str, str], info: ModelInfo, type_k: str, type_v: str
) -> int:
    """Return a lower bound of `bytes_per_cell`, whose arguments it takes.

    Layers with sliding windows and recurrent layers store few tokens or none.
    """
    whole = bytes_per_cell(metadata, info, type_k, type_v)
    architecture = metadata.get("general.architecture", "")
    is_mixed = (
        bool(info.is_hybrid)
        or number_of(metadata, "attention.sliding_window") > 0
        or "," in metadata.get(f"{architecture}.attention.head_count_kv", "")
    )
    return max(1, whole // _LEAST_SHARE) if is_mixed else whole


def bytes_per_sequence(metadata: Mapping[str, str], info: ModelInfo) -> int:
    """Return the bytes of one sequence's recurrent states; an upper bound for hybrids.

    Source: `llama_hparams::n_embd_r` and `n_embd_s`, for Mamba, RWKV and LFM2 layers.
    """
    n_inner = number_of(metadata, "ssm.inner_size")
    n_state = number_of(metadata, "ssm.state_size")
    n_group = number_of(metadata, "ssm.group_count")
    n_conv = max(0, number_of(metadata, "ssm.conv_kernel") - 1)
    n_short = max(0, number_of(metadata, "shortconv.l_cache") - 1)
    head = number_of(metadata, "wkv.head_size")
    n_shift = number_of(metadata, "token_shift_count", 2) if head else 0
    mamba = n_conv * (n_inner + 2 * n_group * n_state) + n_state * n_inner
    n_numbers = mamba + info.n_embd * (n_short + head + n_shift)
    return info.n_layer * n_numbers * 4  # f32


def number_of(metadata: Mapping[str, str], key: str, default: int = 0) -> int:
    """Return a number in metadata; for an array with a number per layer, the maximum."""
    architecture = metadata.get("general.architecture", "")
    numbers = re.findall(r"\d+", metadata.get(f"{architecture}.{key}", ""))
    return max(map(int, numbers), default=default)


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
    """Memory of a context's buffers in bytes: a part per KV cell, and the rest."""

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
    """Return an upper estimate of the buffers of an encoder, for its longest text."""
    n = max(_LEAST_BATCH, min(info.n_ctx_train, _MOST_BATCH))
    buffers = buffers_of(
        metadata, info, n_ubatch=n, n_sequences=_MOST_OUTPUTS, flash_attn=False
    )
    return buffers.of(n)


def _of_states(metadata: Mapping[str, str]) -> int:
    """Return how many numbers a recurrent layer computes per token."""
    n_inner = number_of(metadata, "ssm.inner_size")
    n_state = number_of(metadata, "ssm.state_size")
    n_group = max(1, number_of(metadata, "ssm.group_count", 1))
    return 8 * n_inner + 4 * n_group * n_state
