"""Metadata of a model file that is not loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from llamaherd.engine.memory.kv_cells import number_of
from llamaherd.engine.native import models

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from llamaherd.engine.native.models import ModelInfo


@dataclass(frozen=True, slots=True)
class ModelHeader:
    """Metadata of a model file.

    Attributes:
        metadata: Metadata as text, by key.
        chat_template: Chat template; None without one.
        info: Sizes of the model. They do not show whether the model is an encoder.
    """

    metadata: Mapping[str, str]
    chat_template: str | None
    info: ModelInfo


def read_header(path: Path) -> ModelHeader:
    """Read the metadata of a model file, without its weights.

    Raises:
        ModelLoadError: The file is missing or damaged.
    """
    handle = models.vocabulary_load(os.fsencode(path))
    metadata = models.model_metadata(handle)
    n_embd = number_of(metadata, "embedding_length")
    info = replace(  # libllama does not read sizes if it loads only the vocabulary
        models.model_info(handle),
        n_ctx_train=number_of(metadata, "context_length"),
        n_embd=n_embd,
        n_embd_out=n_embd,
        n_layer=number_of(metadata, "block_count"),
    )
    return ModelHeader(metadata, models.chat_template(handle), info)
