"""Plot of strengths from comparisons in pairs, as a shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import count_of
from llamaherd.research.reports.picture_parts import alt, cut, interval, short
from llamaherd.research.reports.shapes import Forest, Point, Words

if TYPE_CHECKING:
    from llamaherd.research.pairs.comparison import PairComparison

_MOST_ROWS = 50
_LONGEST = 60  # characters of the question


def strengths_picture(x: PairComparison) -> Forest:
    """Show strengths with intervals, the strongest text first; long lists show both ends.

    Raises:
        ValueError: No text has a strength.
    """
    ordered = sorted(
        (each for each in x.strengths if each.rank is not None),
        key=lambda each: -each.strength,
    )
    if not ordered:
        raise ArgumentError(
            "has no text with a strength", argument="x", code="nothing_to_plot"
        )
    shown, part = ordered, ""
    if len(ordered) > _MOST_ROWS:
        half = _MOST_ROWS // 2
        shown = ordered[:half] + ordered[-half:]
        part = f", the {half} strongest and weakest"
    names = short([each.name for each in shown])
    points = [
        Point(row=i, series=0, value=each.strength, low=each.low, high=each.high)
        for i, each in enumerate(shown)
    ]
    return Forest(
        words=Words(
            title=f"{cut(x.question, _LONGEST)}: "
            f"{count_of(len(x.strengths), 'text')}{part}",
            x=f"strength (log-odds), with {interval(x.level)}",
            alt=alt(names, points),
        ),
        rows=names,
        series=["texts"],
        points=points,
    )
