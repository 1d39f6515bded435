"""Texts to code, with codebook and settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.research.coding.codebook import Codebook
    from llamaherd.research.coding.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class CodingWork:
    """Texts to code, with codebook and settings.

    Attributes:
        frame: The caller's data frame.
        text: Name of the column of texts.
        texts: The n texts; None for missing texts.
        codebook: Codebook of the coding.
        settings: Settings of the coding.
        columns: Names of the new columns by role, without omitted columns.
        versions: Further versions for the record.
        is_piece: True if these rows are part of a larger data set whose other rows are
            unknown. Each prompt's seed is then derived from its text instead of its
            index.
    """

    frame: Any
    text: str
    texts: list[str | None]
    codebook: Codebook
    settings: Settings
    columns: dict[str, str]
    versions: Mapping[str, str] = field(default_factory=dict)
    is_piece: bool = False
