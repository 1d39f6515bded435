"""Shapes of plots as plain data: rows, numbers and words, without any drawing.

Python draws a shape with matplotlib (`drawing`); R receives it as lists and draws it with
R's graphics. Values that must be equal in both, such as the range of an axis, are
computed here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PHASES = ("waited", "prompt read, to the first token", "answer")  # phases of a `Timeline`
Range = tuple[float, float]
_LARGEST = 6.0  # diameter of the largest point of a `Scatter`, relative to the smallest


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Title and labels of a plot.

    Attributes:
        title: Title above the plot.
        x: Label of the horizontal axis, with the unit.
        y: Label of the vertical axis, with the unit; "" if row names suffice.
        alt: Description of the content for screen readers.
    """

    title: str
    x: str
    y: str = ""
    alt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Horizontal bars, each with several parts.

    Attributes:
        words: Title and labels.
        rows: Names of the bars, from top to bottom.
        parts: The name of each part, and its length in each bar.
        notes: Text at the end of each bar.
        legend: Title of the legend of parts; None with a single part.
    """

    words: Words
    rows: list[str]
    parts: list[tuple[str, list[float]]]
    notes: list[str]
    legend: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Estimate with its interval.

    Attributes:
        row: Index of the row.
        series: Index of the series.
        value: Estimate; NaN if undefined.
        low: Lower end of the interval; NaN without an interval.
        high: Upper end of the interval.
    """

    row: int
    series: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Numbers with intervals: one row per object, one colour per series.

    Attributes:
        words: Title and labels.
        rows: Names of the rows, from top to bottom.
        series: Names of the series; a single one needs no legend.
        points: Points in any order.
        is_share: True for shares and coefficients of agreement, whose axis begins at 0.
        spans: For each row, the range drawn behind the row's points, or None.
    """

    words: Words
    rows: list[str]
    series: list[str]
    points: list[Point]
    is_share: bool = False
    spans: list[Range | None] = field(default_factory=list)

    @property
    def limits(self) -> Range | None:
        """Range that the horizontal axis shows; None if no number is defined.

        For shares the range begins at 0, and ends at 1 unless all shares are small.
        """
        known = _known(v for p in self.points for v in (p.value, p.low, p.high))
        if not known:
            return None
        least, most = min(known), max(known)
        if not self.is_share:
            return least, most
        return min(0.0, least), max(1.0, most) if most > 0.5 else most * 1.1 or 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """Numbers with intervals in panels, each with its own axis.

    This shape shows numbers in different units, such as the coefficients of a regression.

    Attributes:
        words: Title and labels.
        panels: Names of the panels, from top to bottom.
        series: Names of the rows of each panel.
        points: Points in any order; the `row` of a point is the index of its panel.
    """

    words: Words
    panels: list[str]
    series: list[str]
    points: list[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Counts by two variables.

    Attributes:
        words: Title and labels.
        legend: Title of the legend of shades; a shade shows a count's share of its row.
        rows: Names of the rows, from top to bottom.
        columns: Names of the columns, from left to right.
        counts: Count for each row and column.
    """

    words: Words
    legend: str
    rows: list[str]
    columns: list[str]
    counts: list[list[int]]

    @property
    def shares(self) -> list[list[float]]:
        """Share of each count in its row; 0 in a row without counts."""
        return [[n / (sum(row) or 1) for n in row] for row in self.counts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points along a line, with intervals.

    Attributes:
        words: Title and labels.
        x: Horizontal positions.
        y: Values.
        low: Lower ends of the intervals.
        high: Upper ends of the intervals.
        is_steps: True for a line with a band; False for points with bars.
        reference: Reference line: its two end points and its name.
    """

    words: Words
    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    is_steps: bool
    reference: tuple[tuple[float, float], tuple[float, float], str]

    @property
    def limits(self) -> tuple[Range, Range]:
        """Ranges that the horizontal and the vertical axis show."""
        if self.is_steps:
            least = min(_known([*self.low, *self.y]), default=0.0)
            return (0.0, 1.0), (max(0.0, least - 0.05), 1.0)
        left = min(_known([*self.x, 0.45]))
        return (left - 0.05, 1.0), (min(_known([*self.low, left])) - 0.05, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tradeoff:
    """Named points by cost and quality, with an interval of the quality.

    Attributes:
        words: Title and labels.
        names: Names of the points.
        x: Costs, positive.
        y: Qualities.
        low: Lower ends of the intervals; NaN without an interval.
        high: Upper ends of the intervals.
        kinds: For each point, the index of its series.
        series: Names of the series.
    """

    words: Words
    names: list[str]
    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    kinds: list[int]
    series: list[str]

    @property
    def limits(self) -> tuple[Range, Range]:
        """Ranges of the horizontal and the vertical axis, with space for names."""
        most = max(self.x)
        ends = _known([*self.low, *self.y, *self.high])
        room = 0.05 * (max(ends) - min(ends)) or 0.05
        return (0.0, 1.3 * most), (min(ends) - room, max(ends) + room)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Phases of each prompt of a call, in the order in which the prompts began.

    Attributes:
        words: Title and labels.
        waited_s: Seconds from the start of the call until the prompt got a slot.
        first_s: Seconds until the first token of the answer.
        end_s: Seconds until the end of the answer.
    """

    words: Words
    waited_s: list[float]
    first_s: list[float]
    end_s: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """Points whose area shows the number of texts, and horizontal lines.

    Attributes:
        words: Title and labels.
        x: Horizontal positions.
        y: Vertical positions.
        n: Number of texts at each point.
        lines: Vertical position and name of each line.
    """

    words: Words
    x: list[float]
    y: list[float]
    n: list[int]
    lines: list[tuple[float, str]]

    @property
    def sizes(self) -> list[float]:
        """Diameter of each point relative to a point of one text."""
        return [min(math.sqrt(n), _LARGEST) for n in self.n]


Picture = Bars | Forest | Panels | Matrix | Curve | Scatter | Tradeoff | Timeline


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]
