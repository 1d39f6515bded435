"""Memory of KV cells and recurrent states, from the metadata of a model."""

from __future__ import annotations

import re
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
    """Return the size of one token in the KV cache of all layers in bytes, at least 1.

    This is an upper bound for models with sliding-window attention or some recurrent
    layers. A model with only recurrent layers has no KV cache.

    Args:
        metadata: Metadata of the GGUF file.
        info: Sizes of the same model, for missing metadata.
        type_k: Type of the keys, a key of `TYPES`.
        type_v: Type of the values.
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
    """Return a lower bound of the size of one token in the KV cache in bytes.

    Layers with sliding-window attention and recurrent layers store few tokens or none,
    and layers may have different numbers of heads. Takes the arguments of
    `bytes_per_cell`.
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
    """Return the size in bytes of one sequence's recurrent states; 0 without states.

    The size does not depend on the length of the sequence. For hybrid models the size
    is an upper bound, because all layers are counted as recurrent.

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
    found = re.findall(r"\d+", metadata.get(f"{architecture}.{key}", ""))
    return max(map(int, found), default=default)
