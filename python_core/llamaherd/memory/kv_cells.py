"""What KV cells and recurrent states cost in memory, from a model's metadata."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.native.models import ModelInfo

# Name: (ggml_type, bytes, for so many numbers).
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


def bytes_per_cell(
    metadata: Mapping[str, str], info: ModelInfo, type_k: str, type_v: str
) -> int:
    """Bytes that one token takes in the KV cache of all layers, at least 1.

    For models with sliding-window or with some recurrent layers this is an upper bound.
    A model whose layers are all recurrent has no such cache.

    Args:
        metadata: The GGUF file's.
        info: Sizes of the same model, for what the metadata does not say.
        type_k: Name of the keys' type, see `TYPES`.
        type_v: Name of the values' type.
    """
    if info.is_recurrent:
        return 1
    n_head = max(1, _number(metadata, "attention.head_count", 1))
    n_head_kv = _number(metadata, "attention.head_count_kv", n_head)
    n_key = _number(metadata, "attention.key_length", info.n_embd // n_head)
    n_value = _number(metadata, "attention.value_length", info.n_embd // n_head)
    per_layer = 0.0
    for length, name in ((n_key, type_k), (n_value, type_v)):
        _, n_bytes, n_numbers = TYPES[name]
        per_layer += n_head_kv * length * n_bytes / n_numbers
    return max(1, round(info.n_layer * per_layer))


def bytes_per_sequence(metadata: Mapping[str, str], info: ModelInfo) -> int:
    """Bytes of the recurrent states of one sequence, however long; 0 without such layers.

    For hybrid models this is an upper bound: it counts all layers as recurrent.

    Source: `llama_hparams::n_embd_r` and `n_embd_s`, for Mamba, RWKV and LFM2 layers.
    """
    n_inner = _number(metadata, "ssm.inner_size")
    n_state = _number(metadata, "ssm.state_size")
    n_group = _number(metadata, "ssm.group_count")
    n_conv = max(0, _number(metadata, "ssm.conv_kernel") - 1)
    n_short = max(0, _number(metadata, "shortconv.l_cache") - 1)
    head = _number(metadata, "wkv.head_size")
    n_shift = _number(metadata, "token_shift_count", 2) if head else 0
    mamba = n_conv * (n_inner + 2 * n_group * n_state) + n_state * n_inner
    n_numbers = mamba + info.n_embd * (n_short + head + n_shift)
    return info.n_layer * n_numbers * 4  # f32


def _number(metadata: Mapping[str, str], key: str, default: int = 0) -> int:
    """A number, or the largest one of an array with a number for each layer."""
    architecture = metadata.get("general.architecture", "")
    found = re.findall(r"\d+", metadata.get(f"{architecture}.{key}", ""))
    return max(map(int, found), default=default)
