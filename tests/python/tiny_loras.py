"""LoRA adapters with random weights, which are large enough to change answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gguf
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

# Of SmolLM2-135M: input and output of its weights.
SMOLLM2 = {
    "attn_q": (576, 576),
    "attn_v": (576, 192),
    "ffn_down": (1536, 576),
}


def write(
    path: Path,
    shapes: Mapping[str, tuple[int, int]],
    *,
    architecture: str = "llama",
    rank: int = 4,
    alpha: float = 8.0,
    size: float = 0.02,
    seed: int = 1,
    dtype: type[np.generic] = np.float32,
    change: Callable[[gguf.GGUFWriter, dict[str, np.ndarray]], object] | None = None,
) -> Path:
    """Write an adapter and return `path`.

    Args:
        path: Path of the file.
        shapes: Input and output of each weight that is adapted, by its name.
        architecture: Architecture of the model.
        rank: Rank of the products.
        alpha: Scales them by alpha / rank.
        size: Standard deviation of the numbers.
        seed: Seed of the numbers.
        dtype: Type of the tensors.
        change: Function that changes the file before it is written.
    """
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
    random = np.random.default_rng(seed)
    tensors = {}
    for name, (n_in, n_out) in shapes.items():
        for half, shape in (("a", (rank, n_in)), ("b", (n_out, rank))):
            values = random.normal(0, size, shape)
            tensors[f"{name}.lora_{half}"] = values.astype(dtype)
    if change is not None:
        change(writer, tensors)
    for name, values in tensors.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def smollm2_shapes(layers: Sequence[int] = range(30)) -> dict[str, tuple[int, int]]:
    """Return the weights of SmolLM2 for `write`."""
    return {
        f"blk.{i}.{name}.weight": shape for i in layers for name, shape in SMOLLM2.items()
    }
