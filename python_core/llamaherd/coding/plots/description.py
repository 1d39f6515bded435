"""Description of a plot: its words, its axes and the marks on them.

A description draws nothing. `drawing` draws it with matplotlib, and R with ggplot2; both
get the colours from here, and the texts from `fitting`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.engine.core.phrases import decimals

if TYPE_CHECKING:
    from collections.abc import Sequence

Range = tuple[float, float]

# Okabe and Ito, "Color Universal Design", 2008, without yellow, which is too light
# for lines on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")
# Symbols and colours have different numbers, so that 35 series differ in one of them.
SYMBOLS = ("circle", "square", "triangle", "diamond", "down")
# Shades of one hue, also distinguishable in grey.
BANDS = ("#08306B", "#3787C0", "#9AC8E1", "#DBE9F6")  # from dark to light
SHARES = ("#F7FBFF", "#DCE9F5", "#9CC9E3", "#2F78B0", "#154E86")  # from light to dark
N_LIGHT = 3  # number of `SHARES` on which black text is readable; white on the others
PHASES = ("#C8C8C8", "#E69F00", "#0072B2")  # waiting, reading, writing
NEUTRAL = "#D9D9D9"  # marks of no series

WIDTH = 6.5  # inches, the width of a page's text
SQUARE = 4.9  # inches, width of plots whose two axes have numbers of one kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Axis of a plot."""

    title: str = ""  # With the unit; "" if the names suffice
    # Names at the positions 0, 1, ..., on a vertical axis from the top; () for numbers
    names: Sequence[str] = ()
    limits: Range | None = None  # Lower or left end first; None for those of the marks
    is_whole: bool = False  # True for positions that are whole numbers

    @classmethod
    def of_rows(cls, names: Sequence[str]) -> Axis:
        """Return a vertical axis of names, with some room above and below them."""
        return cls(names=names, limits=(len(names) - 0.4, -0.6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Groups of marks with a colour and a symbol each; several groups have a legend."""

    names: Sequence[str] = ("",)
    # Number of each group's colour and symbol, for groups of the same kind in several
    # plots; () for the position of the group
    kinds: Sequence[int] = ()
    colours: Sequence[str] = PALETTE  # Used again from the first one
    title: str = ""  # Title of the legend
    is_area: bool = False  # True if the legend shows areas, not symbols

    def colour(self, i: int) -> str:
        """Return the colour of a group."""
        return self.colours[self._kind(i) % len(self.colours)]

    def symbol(self, i: int) -> str:
        """Return the name of the symbol of a group."""
        return SYMBOLS[self._kind(i) % len(SYMBOLS)]

    def _kind(self, i: int) -> int:
        return self.kinds[i] if self.kinds else i


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Symbols at x and y, with intervals from low to high along one axis."""

    x: list[float]  # NaN for a point that is not drawn
    y: list[float]
    low: list[float]  # NaN without an interval
    high: list[float]
    along: Literal["x", "y"] = "x"
    series: list[int]  # Index of the series of each point
    panel: Sequence[int] = ()  # Index of the panel of each point; () without panels
    size: Sequence[float] = ()  # Diameters relative to the smallest; () for one size


@dataclass(frozen=True, slots=True, kw_only=True)
class Rects:
    """Rectangles from x to x_end, the right end, and from y to y_end, the lower end."""

    x: list[float]
    x_end: list[float]
    y: list[float]
    y_end: list[float]
    series: list[int] | None  # Of each rectangle; None for `NEUTRAL` ones without edges


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Area between two curves, low and high, at positions along the other axis."""

    at: list[float]
    low: list[float]
    high: list[float]
    along: Literal["x", "y"]  # Axis of `low` and `high`
    series: int
    is_light: bool = False  # True for an area behind other marks


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Line through points, with dashes or without."""

    x: list[float]
    y: list[float]
    series: int | None = None  # None for a grey line of reference
    is_dashed: bool = False
    panel: int | None = None  # None for all panels


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Texts at points."""

    x: list[float]
    y: list[float]
    text: list[str]
    # Side of the text that is at the position. "left" texts are a little right of it,
    # "right" texts a little above it
    align: Literal["left", "center", "right"]
    is_white: Sequence[bool] = ()  # For texts on dark rectangles; () if all are black


Mark = Points | Rects | Band | Line | Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Description of a plot."""

    title: str
    x: Axis
    y: Axis
    marks: list[Mark]  # From back to front
    series: Series = field(default_factory=Series)
    # Titles of the panels, which have separate horizontal axes and share the vertical one
    panels: Sequence[str] = ()
    n_columns: int = 1  # Number of panels side by side, if there is room
    note: str = ""  # Line below the plot, such as the meaning of a line
    alt: str = ""  # Description of the content for screen readers
    width: float = WIDTH  # Inches on a page

    @property
    def has_legend(self) -> bool:
        """True with several series, unless the names of the rows are theirs."""
        names = tuple(self.series.names)
        return len(names) > 1 and names != tuple(self.y.names)


Fields = dict[str, Any]


def interval(level: float | None) -> str:
    """Return the name of the confidence intervals for the label of an axis."""
    return "interval" if level is None else f"{100 * level:g}% interval"


def number(value: Any) -> float:  # JSON
    """Convert a JSON number to a float, null to NaN."""
    return math.nan if value is None else float(value)


def numbers(values: Any) -> list[float]:  # JSON or arrays
    """Convert JSON numbers to floats."""
    return [number(value) for value in values]


def description_of(rows: Sequence[str], values: Sequence[float]) -> str:
    """Describe the first values for screen readers."""
    known = [pair for pair in zip(rows, values, strict=True) if not math.isnan(pair[1])]
    return "; ".join(f"{row}: {decimals(value)}" for row, value in known[:40])
