"""What is to be coded, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.research.coding.codebook import Codebook
    from llamaherd.research.coding.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be coded, and how.

    Attributes:
        frame: The caller's data frame.
        text: Name of the column of texts.
        texts: Its n values; None where there is none.
        codebook: By which they are coded.
        settings: How.
        columns: Names of the new columns by role; those not wanted are not in it.
        versions: Further ones for the record.
        is_piece: Whether these are some rows of a whole whose other rows are not known: a
            prompt's seed is then made of its text, not of its place.
    """

    frame: Any
    text: str
    texts: list[str | None]
    codebook: Codebook
    settings: Settings
    columns: dict[str, str]
    versions: Mapping[str, str] = field(default_factory=dict)
    is_piece: bool = False
