"""Fits the texts of a plot to its size in inches: both drawings use the same texts.

Widths of texts are estimates, because the fonts of a device are unknown.
"""

from __future__ import annotations

import math
import textwrap
import unicodedata
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.coding.plots.description import NEUTRAL, Plot, Points, Texts

if TYPE_CHECKING:
    from collections.abc import Sequence


# Points, the unit of print: sizes of the title, of axis titles, and of all other texts.
TITLE, AXIS, SMALL = 11, 10, 9
_CHARACTER = 0.078  # inches, mean width of a character of size `SMALL`
_LINE = 0.155  # inches, height of a line of size `SMALL`
_NAME = 26  # characters in a line of a name
_NAME_LINES = 3
_SMALLEST = 0.3  # size of names in plots with very many rows, relative to `SMALL`
_TALLEST = 30.0  # inches
_PANEL_WORDS = 0.5  # inches, title of a panel and the ticks below it


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedTexts:
    """Size of a plot in inches, and its texts in lines; sizes are relative to `SMALL`."""

    width: float
    height: float
    title: str
    x: str  # Label of the horizontal axis, and the plot's note
    y: str
    rows: list[str]  # Names on the vertical axis; all differ if they differ in the plot
    row_size: float
    columns: list[str]  # Names on the horizontal axis
    column_size: float
    is_tilted: bool  # True if names on the horizontal axis are tilted
    panels: list[str]  # Titles of the panels, in one line or two
    n_columns: int  # Number of panels side by side
    n_ticks: int  # Number of ticks of a horizontal axis
    legend: list[str]
    legend_columns: int
    axes_width: float  # Inches, without the names of rows
    panel_words: float  # Share of a panel's height for its title and its ticks
    right: float | None  # Right end of the horizontal axis; None without texts there


def fit(
    plot: Plot, width: float | None = None, height: float | None = None
) -> FittedTexts:
    """Fit the texts of a plot to its size."""
    wide = plot.width if width is None else width
    series = plot.series.names if plot.has_legend else ()
    legend = in_one_line(series, max(12, int(12 * wide)))
    title = in_lines(plot.title, 8 * wide)
    # The title of the axis and the legend are centred below the axes, beside the names.
    names = _CHARACTER * _widest([wrap(name) for name in plot.y.names])
    across = wide - min(names, 0.4 * wide) - 0.4
    n_legend = _legend_columns(legend, across + 0.3)
    below = (plot.x.title, plot.note)
    x = "\n".join(in_lines(text, 12 * across) for text in below if text)
    n_lines = sum(text.count("\n") + 1 for text in (title, x) if text)
    around = 0.45 + 0.18 * n_lines
    if legend:
        n_rows = math.ceil(len(legend) / n_legend) + bool(plot.series.title)
        around += 0.12 + 0.19 * n_rows
    columns = _columns(plot.x.names, wide, height)
    around += columns.height
    if height is None:
        free = _free_height(plot)
        high = min(max(free + around, 2.0), _TALLEST)
        n_panel_columns = plot.n_columns
    else:
        high = height
        n_panel_columns = _panel_columns(plot, wide, high - around)
    inner = max(high - around, 0.3)
    n_panel_rows = max(1, math.ceil(len(plot.panels) / n_panel_columns))
    room = inner / n_panel_rows - (_PANEL_WORDS if plot.panels else 0.0)
    rows, row_size = _names(
        plot.y.names, max(room, 0.1) / (len(plot.y.names) + 0.2), widest=0.4 * wide
    )
    left = 0.15 + _CHARACTER * row_size * _widest(rows)
    y = in_lines(plot.y.title, max(10, 11 * inner))
    left += (0.18 * (y.count("\n") + 1) if y else 0.0) + (0.35 if not rows else 0.0)
    panel = max(wide - left - 0.1, 0.4) / n_panel_columns
    fits = max(10, int(12 * panel))
    cut = [
        in_lines(name, fits)
        for name in in_one_line(plot.panels, fits if panel > 2 else 2 * fits)
    ]
    return FittedTexts(
        width=wide,
        height=high,
        title=title,
        x=x,
        y=y,
        rows=rows,
        row_size=row_size,
        columns=columns.names,
        column_size=columns.size,
        is_tilted=columns.is_tilted,
        panels=cut,
        n_columns=n_panel_columns,
        n_ticks=max(3, min(6, int(panel / 0.6))),
        legend=legend,
        legend_columns=n_legend,
        axes_width=panel * n_panel_columns,
        panel_words=min(_PANEL_WORDS * n_panel_rows / inner, 0.6),
        right=_right_end(plot, panel, row_size),
    )


def width_of(text: str) -> int:
    """Return the width of a line in characters; wide characters count as two."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def wrap(name: str, n_lines: int = _NAME_LINES) -> str:
    """Wrap a name, which may contain any characters, to a few lines."""
    lines = textwrap.wrap(_printable(name), _NAME) or [" "]
    if len(lines) > n_lines:
        lines = lines[:n_lines]
        lines[-1] = lines[-1][: _NAME - 3] + "..."
    return "\n".join(lines)


def in_one_line(names: Sequence[str], width: int) -> list[str]:
    """Cut names in the middle to a width, larger if different names became equal."""
    clean = [_printable(name) for name in names]
    cut = clean
    for most in (width, width + 10, width + 20, width + 60):
        cut = [_cut_middle(name, most) for name in clean]
        if len(set(cut)) == len(set(clean)):
            break
    return cut


def _cut_middle(name: str, width: int) -> str:
    if len(name) <= width:
        return name
    end = (width - 3) // 2
    return f"{name[: width - 3 - end]}...{name[len(name) - end :]}"


def _printable(name: str) -> str:
    return "".join(c if c.isprintable() else " " for c in name).strip() or " "


def in_lines(text: str, width: float) -> str:
    """Wrap a text to lines of `width` characters."""
    return textwrap.fill(text, max(8, int(width)))


def _widest(names: Sequence[str]) -> int:
    return max((width_of(line) for n in names for line in n.split("\n")), default=0)


def _n_lines(names: Sequence[str]) -> int:
    return max((name.count("\n") + 1 for name in names), default=1)


def _names(
    names: Sequence[str], room: float, *, widest: float = math.inf
) -> tuple[list[str], float]:
    """Return names that fit `room`, the inches of each, and their relative size.

    Names take several lines if these fit, else one line, smaller if they do not fit it.
    """
    fitted: list[str] = []
    size = 1.0
    for n_lines in range(_NAME_LINES, 0, -1):
        if n_lines > 1:
            fitted = [wrap(name, n_lines) for name in names]
        else:
            fitted = in_one_line(names, _NAME + 4)
        size = room / (_n_lines(fitted) * _LINE)
        if size >= 0.8 and len(set(fitted)) == len(set(names)):
            break
    across = widest / (_CHARACTER * max(_widest(fitted), 1))
    return fitted, min(1.0, max(_SMALLEST, size), across)


@dataclass(frozen=True, slots=True)
class _Columns:
    names: list[str]
    size: float
    is_tilted: bool
    height: float


def _columns(names: Sequence[str], width: float, height: float | None) -> _Columns:
    """Fit names below a plot: in lines if these fit a column, and otherwise tilted."""
    if not names:
        return _Columns([], 1.0, is_tilted=False, height=0.0)
    across = 0.62 * width / len(names)
    fits = int(across / _CHARACTER)
    flat = ["\n".join(textwrap.wrap(_printable(name), max(fits, 4))) for name in names]
    words = [word for name in names for word in name.split()]
    if _widest(words) <= fits and _n_lines(flat) <= _NAME_LINES:
        return _Columns(flat, 1.0, is_tilted=False, height=_LINE * (_n_lines(flat) - 1))
    slope = math.sin(math.radians(40))
    fitted, size = _names(names, across * slope)
    highest = math.inf if height is None else 0.3 * height
    size = min(size, highest / (slope * _CHARACTER * _widest(fitted)))
    high = slope * (_CHARACTER * _widest(fitted) + _LINE * _n_lines(fitted)) * size
    return _Columns(fitted, size, is_tilted=True, height=high)


def _free_height(plot: Plot) -> float:
    """Return the inches that the panels take if their rows have enough room."""
    n = len(plot.y.names)
    if not n:
        return 3.0 if plot.width < 6 else 2.6
    n_lines = sum(wrap(name).count("\n") + 1 for name in plot.y.names)
    if plot.panels:
        n_rows = math.ceil(len(plot.panels) / plot.n_columns)
        return n_rows * (_PANEL_WORDS + max(0.19 * n, (_LINE + 0.02) * n_lines))
    n_points = max(
        (len(set(m.series)) for m in plot.marks if isinstance(m, Points)), default=1
    )
    if plot.x.names:
        return max(0.36 * n, (_LINE + 0.02) * n_lines, 1.8)
    return (_LINE + 0.02) * n_lines + max(0.14 * n_points, 0.1) * n


def _legend_columns(names: Sequence[str], room: float) -> int:
    """Return the largest number of columns that fit; each is as wide as its names."""
    widths = [_CHARACTER * width_of(name) + 0.42 for name in names]
    for n_columns in range(len(names), 1, -1):
        n_rows = math.ceil(len(names) / n_columns)
        columns = [widths[i : i + n_rows] for i in range(0, len(names), n_rows)]
        if sum(map(max, columns)) <= room:
            return n_columns
    return 1


def _panel_columns(plot: Plot, width: float, height: float) -> int:
    """Return the smallest number of panels side by side with which their rows fit."""
    n = len(plot.panels)
    if n <= plot.n_columns:
        return max(1, n)
    rows = _n_lines([wrap(name) for name in plot.y.names]) * len(plot.y.names)
    most = max(1, min(n, 5, int((width - 1.6) / 1.2)))
    some = range(plot.n_columns, most + 1)
    heights = {c: height / math.ceil(n / c) - _PANEL_WORDS for c in some}
    fits = [c for c, high in heights.items() if high >= _LINE * rows]
    return fits[0] if fits else max(heights, key=lambda c: heights[c], default=1)


def _right_end(plot: Plot, panel: float, size: float) -> float | None:
    """Return the end of the axis at which texts right of their position end, too."""
    ends = [
        x / max(1 - (_CHARACTER * size * width_of(text) + 0.08) / panel, 0.25)
        for mark in plot.marks
        if isinstance(mark, Texts) and mark.align == "left"
        for x, text in zip(mark.x, mark.text, strict=True)
    ]
    return (1.02 * max(ends) or 1.0) if ends else None


def describe_plot(plot: Plot, width: float, height: float) -> dict[str, Any]:
    """Return a description as plain data, with texts that fit a size in inches."""
    fitted = fit(plot, width, height)
    return {
        **asdict(fitted),
        "alt": f"{plot.title}. {plot.alt}",
        "x_limits": plot.x.limits or (fitted.right and (0.0, fitted.right)),
        "y_limits": plot.y.limits,
        "is_whole": plot.y.is_whole,
        "marks": [{"mark": type(mark).__name__, **asdict(mark)} for mark in plot.marks],
        "series": list(plot.series.names),
        "colours": [plot.series.colour(i) for i in range(len(plot.series.names))],
        "symbols": [plot.series.symbol(i) for i in range(len(plot.series.names))],
        "legend_title": plot.series.title,
        "is_area": plot.series.is_area,
        "neutral": NEUTRAL,
    }
