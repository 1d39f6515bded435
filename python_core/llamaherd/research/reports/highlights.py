"""Splits texts into marked pieces for a page."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from llamaherd.research.coding.span_type import SPANS

if TYPE_CHECKING:
    from collections.abc import Iterable

N_COLOURS = 6  # number of colours in the page's style; further labels reuse them


class Passage(NamedTuple):
    """Passage of a text: characters from start to end, as in a slice, and its label."""

    start: int
    end: int
    label: str


class MarkedPiece(NamedTuple):
    """Part of a text with the same passages throughout.

    Attributes:
        text: Characters of the part.
        labels: Labels of the passages that contain this part; () outside passages.
        starts: Labels of the passages that begin with this part.
    """

    text: str
    labels: tuple[str, ...]
    starts: tuple[str, ...]


def passages_of(label: str | None) -> list[Passage]:
    """Return the passages in the label of a text; the codebook has the type "spans"."""
    if label is None:
        return []
    found = json.loads(label)[SPANS]
    return [Passage(each["start"], each["end"], str(each["label"])) for each in found]


def pieces_of(text: str, passages: Iterable[Passage]) -> list[MarkedPiece]:
    """Split a text at the starts and ends of its passages, which may overlap."""
    inside = [
        Passage(max(each.start, 0), min(each.end, len(text)), each.label)
        for each in passages
        if each.start < min(each.end, len(text))
    ]
    ends = {0, len(text), *(each.start for each in inside), *(e.end for e in inside)}
    cuts = sorted(ends)
    return [
        MarkedPiece(
            text[start:end],
            tuple(p.label for p in inside if p.start <= start and end <= p.end),
            tuple(p.label for p in inside if p.start == start),
        )
        for start, end in pairwise(cuts)
    ]
