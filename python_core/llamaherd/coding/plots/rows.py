"""Rows of numbers with intervals, in one panel or in several."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.coding.plots.description import (
    Axis,
    Line,
    Mark,
    Plot,
    Points,
    Rects,
    Series,
    description_of,
    number,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from llamaherd.coding.plots.description import Range


_MOST = 100  # rows or panels that a plot shows


@dataclass(frozen=True, slots=True)
class Value:
    """Number with its interval, at indices of a row, a series and a panel."""

    row: int
    series: int
    value: float
    low: float = math.nan
    high: float = math.nan
    panel: int = 0

    @classmethod
    def of(cls, found: Mapping[str, Any], row: int, series: int) -> Value:
        """Return a value from a dict with "value", "low" and "high"."""
        value, low, high = (number(found[n]) for n in ("value", "low", "high"))
        return cls(row, series, value, low, high)


def rows_plot(
    title: str,
    x: str,
    rows: list[str],
    series: Sequence[str],
    values: Sequence[Value],
    *,
    kinds: Sequence[int] = (),
    is_share: bool = True,
    spans: Sequence[Range | None] = (),
) -> Plot:
    """Return values with their intervals in rows, one colour per series."""
    rows, values, note = _first(rows, values, by="row")
    low, high = _range(values, is_share=is_share)
    marks: list[Mark] = []
    thick = 0.25 / (len(series) + 1)
    wide = [(i, *span) for i, span in enumerate(spans) if span is not None]
    if wide:
        marks.append(
            Rects(
                x=[least for _, least, _ in wide],
                x_end=[most for _, _, most in wide],
                y=[i - thick for i, _, _ in wide],
                y_end=[i + thick for i, _, _ in wide],
                series=None,
            )
        )
    if low < 0 < high:
        marks.append(Line(x=[0.0, 0.0], y=[len(rows) - 0.4, -0.6]))
    marks.append(_points(values, len(series)))
    room = 0.02 * (high - low) or 0.02
    return Plot(
        title=title,
        x=Axis(title=x, limits=(low - room, high + room)),
        y=Axis.of_rows(rows),
        marks=marks,
        series=Series(names=series, kinds=kinds),
        note=note,
        alt=description_of([rows[v.row] for v in values], [v.value for v in values]),
    )


def _first(
    names: list[str], values: Sequence[Value], *, by: Literal["row", "panel"]
) -> tuple[list[str], Sequence[Value], str]:
    """Return the first rows or panels with their values, and a note on the others."""
    if len(names) <= _MOST:
        return names, values, ""
    kept = [v for v in values if (v.row if by == "row" else v.panel) < _MOST]
    return names[:_MOST], kept, f"the first {_MOST} of {len(names):,} {by}s"


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


def _points(
    values: Sequence[Value], n_series: int, *, has_panels: bool = False
) -> Points:
    """Return points, those of the same row beside each other."""
    there: dict[tuple[int, int], set[int]] = {}
    for v in values:
        if not math.isnan(v.value):
            there.setdefault((v.panel, v.row), set()).add(v.series)
    step = 0.6 / max(n_series - 1, 1)

    def shift(v: Value) -> float:
        series = sorted(there.get((v.panel, v.row), ()))
        if v.series not in series:
            return 0.0
        return (series.index(v.series) - (len(series) - 1) / 2) * step

    return Points(
        x=[v.value for v in values],
        y=[v.row + shift(v) for v in values],
        low=[v.low for v in values],
        high=[v.high for v in values],
        series=[v.series for v in values],
        panel=[v.panel for v in values] if has_panels else (),
    )


def panels_plot(
    title: str,
    x: str,
    panels: Sequence[str],
    rows: Sequence[str],
    *,
    series: Sequence[str],
    values: Sequence[Value],
    from_zero: Sequence[int | None],
    kinds: Sequence[int] = (),
    n_columns: int = 1,
) -> Plot:
    """Return values in panels with an axis each, because their units differ."""
    panels, values, note = _first(list(panels), values, by="panel")
    lines = [
        Line(x=[0.0, 0.0], y=[len(rows) - 0.4, -0.6], panel=panel) for panel in from_zero
    ]
    return Plot(
        title=title,
        x=Axis(title=x),
        y=Axis.of_rows(rows),
        marks=[*lines, _points(values, len(series), has_panels=True)],
        series=Series(names=series, kinds=kinds),
        panels=panels,
        n_columns=n_columns,
        note=note,
        alt=description_of([panels[v.panel] for v in values], [v.value for v in values]),
    )
