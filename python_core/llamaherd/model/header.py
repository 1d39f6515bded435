"""Metadata of a model file that is not loaded."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.native import models

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class ModelHeader:
    """Metadata of a model file.

    Attributes:
        metadata: Metadata as text, by key.
        chat_template: Chat template; None without one.
    """

    metadata: Mapping[str, str]
    chat_template: str | None


def read_header(path: Path) -> ModelHeader:
    """Read the metadata of a model file, without its weights.

    Raises:
        ModelLoadError: The file is missing or damaged.
    """
    handle = models.vocabulary_load(os.fsencode(path))
    return ModelHeader(models.model_metadata(handle), models.chat_template(handle))
