"""Rows of numbers with intervals, in one panel or in several."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.coding.plots.description import (
    Axis,
    Line,
    Mark,
    Plot,
    Points,
    Range,
    Rects,
    Series,
    description_of,
    number,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_MOST = 100  # rows or panels that a plot shows


@dataclass(frozen=True, slots=True)
class Value:
    """Number with its interval, and the names of its row, its series and its panel.

    Rows, series and panels of a plot are in the order in which values name them.
    """

    row: str
    series: str
    panel: str
    value: float
    low: float = math.nan
    high: float = math.nan

    @classmethod
    def of(cls, measure: Mapping[str, Any], row: str, series: str) -> Value:
        """Return a value from a dict with "value", "low" and "high"."""
        value, low, high = (number(measure[name]) for name in ("value", "low", "high"))
        return cls(row, series, "", value, low, high)


def rows_plot(
    title: str,
    x: str,
    values: Sequence[Value],
    *,
    kinds: Sequence[str] = (),
    is_share: bool = True,
    has_ranges: bool = False,
) -> Plot:
    """Return values with their intervals in rows, one colour per series.

    `kinds` are the series of all plots of this kind, which have the same colours in each.
    """
    names = distinct(value.row for value in values)
    rows = names[:_MOST]
    values = [value for value in values if value.row in rows]
    series = distinct(value.series for value in values) or [""]
    low, high = _range(values, is_share=is_share)
    marks: list[Mark] = [_ranges(rows, values, len(series))] if has_ranges else []
    if low < 0 < high:
        marks.append(Line(x=[0.0, 0.0], y=[len(rows) - 0.4, -0.6]))
    marks.append(_points(rows, series, values))
    room = 0.02 * (high - low) or 0.02
    return Plot(
        title=title,
        x=Axis(title=x, limits=(low - room, high + room)),
        y=Axis.of_rows(rows),
        marks=marks,
        series=_series(series, kinds),
        note=_note(names, "row"),
        alt=description_of([v.row for v in values], [v.value for v in values]),
    )


def panels_plot(
    title: str,
    x: str,
    values: Sequence[Value],
    *,
    from_zero: Sequence[int | None],
    kinds: Sequence[str] = (),
    n_columns: int = 1,
) -> Plot:
    """Return values in panels with an axis each, because their units differ."""
    names = distinct(value.panel for value in values)
    panels = names[:_MOST]
    values = [value for value in values if value.panel in panels]
    rows = distinct(value.row for value in values)
    series = distinct(value.series for value in values)
    lines = [
        Line(x=[0.0, 0.0], y=[len(rows) - 0.4, -0.6], panel=panel) for panel in from_zero
    ]
    return Plot(
        title=title,
        x=Axis(title=x),
        y=Axis.of_rows(rows),
        marks=[*lines, _points(rows, series, values, panels)],
        series=_series(series, kinds),
        panels=panels,
        n_columns=n_columns,
        note=_note(names, "panel"),
        alt=description_of([v.panel for v in values], [v.value for v in values]),
    )


def _series(names: Sequence[str], kinds: Sequence[str]) -> Series:
    numbers = [kinds.index(name) for name in names] if kinds else ()
    return Series(names=names, kinds=numbers)


def distinct(names: Iterable[str]) -> list[str]:
    """Return the different names, in the order in which they occur."""
    return list(dict.fromkeys(names))


def _note(names: Sequence[str], what: str) -> str:
    n = len(names)
    return f"the first {_MOST} of {n:,} {what}s" if n > _MOST else ""


def _range(values: Iterable[Value], *, is_share: bool) -> Range:
    """Return the range of an axis, which shows all numbers.

    For shares it begins at 0, and ends at 1 unless all shares are small.
    """
    all_of_them = [number for v in values for number in (v.value, v.low, v.high)]
    known = [number for number in all_of_them if not math.isnan(number)]
    if not known:
        return 0.0, 1.0
    least, most = min(known), max(known)
    if not is_share:
        return least, most
    return min(0.0, least), max(1.0, most) if most > 0.5 else most * 1.1 or 1.0


def _ranges(rows: Sequence[str], values: Iterable[Value], n_series: int) -> Rects:
    """Return the range of the values of each row as a thin rectangle."""
    by_row: dict[int, list[float]] = {}
    for v in values:
        if not math.isnan(v.value):
            by_row.setdefault(rows.index(v.row), []).append(v.value)
    thick = 0.25 / (n_series + 1)
    return Rects(
        x=list(map(min, by_row.values())),
        x_end=list(map(max, by_row.values())),
        y=[row - thick for row in by_row],
        y_end=[row + thick for row in by_row],
        series=None,
    )


def _points(
    rows: Sequence[str],
    series: Sequence[str],
    values: Sequence[Value],
    panels: Sequence[str] = (),
) -> Points:
    """Return points, those of the same row beside each other."""
    beside: dict[tuple[str, str], set[str]] = {}  # series by panel and row
    for v in values:
        if not math.isnan(v.value):
            beside.setdefault((v.panel, v.row), set()).add(v.series)
    step = 0.6 / max(len(series) - 1, 1)

    def shift(v: Value) -> float:
        row_series = sorted(beside.get((v.panel, v.row), ()), key=series.index)
        if v.series not in row_series:
            return 0.0
        return (row_series.index(v.series) - (len(row_series) - 1) / 2) * step

    return Points(
        x=[v.value for v in values],
        y=[rows.index(v.row) + shift(v) for v in values],
        low=[v.low for v in values],
        high=[v.high for v in values],
        series=[series.index(v.series) for v in values],
        panel=[panels.index(v.panel) for v in values] if panels else (),
    )
