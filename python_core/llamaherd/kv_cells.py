"""What one KV cell costs: bytes per token of context, from a model's metadata."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd._native import ModelInfo

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

    For models with sliding-window or recurrent layers this is an upper bound.

    Args:
        metadata: The GGUF file's.
        info: Sizes of the same model, for what the metadata does not say.
        type_k: Name of the keys' type, see `TYPES`.
        type_v: Name of the values' type.
    """
    architecture = metadata.get("general.architecture", "")

    def number(key: str, default: int) -> int:
        """A number, or the largest one of an array with a number for each layer."""
        found = re.findall(r"\d+", metadata.get(f"{architecture}.{key}", ""))
        return max(map(int, found), default=default)

    n_head = max(1, number("attention.head_count", 1))
    n_head_kv = number("attention.head_count_kv", n_head)
    n_key = number("attention.key_length", info.n_embd // n_head)
    n_value = number("attention.value_length", info.n_embd // n_head)
    per_layer = 0.0
    for length, name in ((n_key, type_k), (n_value, type_v)):
        _, n_bytes, n_numbers = TYPES[name]
        per_layer += n_head_kv * length * n_bytes / n_numbers
    return max(1, round(info.n_layer * per_layer))
