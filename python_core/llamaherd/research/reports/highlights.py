"""Splits texts into marked pieces for a page."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from llamaherd.research.plots.counts import Passage

if TYPE_CHECKING:
    from collections.abc import Iterable

N_COLOURS = 6  # number of colours in the page's style; further labels reuse them


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
