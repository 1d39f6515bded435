"""What a description of a plot shows, by the names of its rows and series."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from llamaherd.coding.plots.description import Points, Texts

if TYPE_CHECKING:
    from llamaherd.coding.plots.description import Plot

M = TypeVar("M")


def the(plot: Plot, kind: type[M]) -> M:
    """Return the only mark of a kind."""
    (mark,) = (mark for mark in plot.marks if isinstance(mark, kind))
    return mark


def values(plot: Plot) -> dict[tuple[str, str], tuple[float, float, float]]:
    """Return value, low and high by the names of row (or panel) and series."""
    points = the(plot, Points)
    if plot.panels:
        rows = [plot.panels[panel] for panel in points.panel]
    else:
        rows = [plot.y.names[round(y)] for y in points.y]
    series = [plot.series.names[i] for i in points.series]
    numbers = zip(points.x, points.low, points.high, strict=True)
    return dict(zip(zip(rows, series, strict=True), numbers, strict=True))


def notes(plot: Plot) -> dict[str, str]:
    """Return the text in each row."""
    texts = the(plot, Texts)
    names = (plot.y.names[round(y)] for y in texts.y)
    return dict(zip(names, texts.text, strict=True))
