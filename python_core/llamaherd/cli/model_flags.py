"""Options of commands that load a model, and the loading."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from llamaherd.engine.model.model import Model

MODEL = "A GGUF file, hf:owner/repo, ollama:name, or a name in the cache."
N_THREADS = "Number of threads. Default: the physical cores."
GPU = """
GPU:
  --n-gpu-layers LAYERS -> model__n_gpu_layers  Number of layers in GPU memory; -1 for
      all, auto for all if there is a GPU. Default 0.
  --split-mode layer|row|none -> model__split_mode  How several GPUs share the model;
      none: only --main-gpu. Default layer.
  --main-gpu N>=0 -> model__main_gpu  Number of the GPU for --split-mode none, as
      `llamaherd doctor` lists them, from 0.
  --tensor-split X,X,... -> model__tensor_split  Share of the model for each GPU, in any
      unit. Default: by free memory.
"""


def take_table(options: dict[str, Any], table: str = "model") -> dict[str, Any]:
    """Remove the options for a table of run files from a command's, and return them."""
    prefix = f"{table}__"
    taken = {key: options.pop(key) for key in list(options) if key.startswith(prefix)}
    return {
        key.removeprefix(prefix): value
        for key, value in taken.items()
        if value is not None and value is not False
    }


def fits_file_to_memory(loading: Mapping[str, Any]) -> bool:
    """Whether the available memory decides which file of a repository is loaded."""
    from llamaherd.engine.model.model import checked_load_options  # fast help

    return checked_load_options(loading).fits_file_to_memory


def path_of_model(source: str, loading: Mapping[str, Any], name: str = "MODEL") -> Path:
    """Return the path of a model, which is downloaded first if needed."""
    from llamaherd.engine.hub.fetch import model_path  # keeps the help fast

    return model_path(
        source,
        check_memory=fits_file_to_memory(loading),
        name=name,
        progress=sys.stderr.isatty(),
    )


def load_model(source: str, loading: dict[str, Any], name: str = "MODEL") -> Model:
    """Load a model, see `path_of_model`."""
    from llamaherd.engine.model.model import Model  # keeps the help fast

    return Model(path_of_model(source, loading, name), **loading)
