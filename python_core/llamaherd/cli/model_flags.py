"""Options of commands that load a model, and the loading."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from llamaherd.engine.model.model import Model

MODEL = "A GGUF file, hf:owner/repo, ollama:name, or a name in the cache."
N_THREADS = "  --n-threads N  Number of threads. Default: the physical cores."
GPU_NAMES = ("n_gpu_layers", "split_mode", "main_gpu", "tensor_split")


def gpu_page(table: str = "") -> str:
    """Return the section with the options for GPUs, which set keys of a table."""
    return f"""
GPU:
  --n-gpu-layers LAYERS -> {table}n_gpu_layers  Number of layers in GPU memory; -1 for
      all, auto for all if there is a GPU. Default 0.
  --split-mode layer|row|none -> {table}split_mode  How several GPUs share the model;
      none: only --main-gpu. Default layer.
  --main-gpu N>=0 -> {table}main_gpu  Number of the GPU for --split-mode none, as
      `llamaherd doctor` lists them, from 0.
  --tensor-split X,X,... -> {table}tensor_split  Share of the model for each GPU, in any
      unit. Default: by free memory.
"""


def take_gpu_options(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options for GPUs from a command's arguments, and return them."""
    gpu_options = {name: options.pop(name) for name in GPU_NAMES}
    return {name: value for name, value in gpu_options.items() if value is not None}


def fits_file_to_memory(loading: Mapping[str, Any]) -> bool:
    """Whether the available memory decides which file of a repository is loaded."""
    from llamaherd.engine.model.model import checked_load_options  # noqa: PLC0415 - fast help

    return checked_load_options(loading).fits_file_to_memory


def path_of_model(source: str, loading: Mapping[str, Any], name: str = "MODEL") -> Path:
    """Return the path of a model, which is downloaded first if needed."""
    from llamaherd.engine.hub.fetch import model_path  # noqa: PLC0415 - keeps the help fast

    return model_path(
        source,
        check_memory=fits_file_to_memory(loading),
        name=name,
        progress=sys.stderr.isatty(),
    )


def load_model(source: str, loading: dict[str, Any], name: str = "MODEL") -> Model:
    """Load a model, see `path_of_model`."""
    from llamaherd.engine.model.model import Model  # noqa: PLC0415 - keeps the help fast

    return Model(path_of_model(source, loading, name), **loading)
