"""The shapes that plots have, as plain data: rows, numbers, words."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What stands around a plot.

    Attributes:
        title: Above it.
        x: Of the horizontal axis, with the unit.
        y: Of the vertical axis, with the unit; "" where its labels say it.
        alt: What it shows, for those who cannot see it.
    """

    title: str
    x: str
    y: str = ""
    alt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Horizontal bars, each of several parts.

    Attributes:
        words: Around it.
        rows: Names of the bars, from top to bottom.
        parts: For each part its name, and a length for each bar.
        notes: Text at the end of each bar.
        legend: What parts are; None: there is one alone.
    """

    words: Words
    rows: list[str]
    parts: list[tuple[str, list[float]]]
    notes: list[str]
    legend: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A number with its interval.

    Attributes:
        row: Index of the row.
        series: Index of the series.
        value: It is.
        low: Lower end of the interval; NaN: there is none.
        high: Upper end.
    """

    row: int
    series: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Numbers with intervals, a row for each thing and a colour for each series.

    Attributes:
        words: Around it.
        rows: From top to bottom.
        series: Their names; of one alone no legend is needed.
        points: In any order.
        is_share: Whether the axis must show 0 to 1 at most.
        spans: For each row the range that is drawn behind its points, or None.
    """

    words: Words
    rows: list[str]
    series: list[str]
    points: list[Point]
    is_share: bool = False
    spans: list[tuple[float, float] | None] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """Numbers with intervals, a panel with an axis of its own for each thing.

    For what has different units, such as the coefficients of a regression.

    Attributes:
        words: Around it.
        panels: From top to bottom.
        series: Names of the rows of each panel.
        points: `row` is the panel, in any order.
    """

    words: Words
    panels: list[str]
    series: list[str]
    points: list[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """Counts by two variables.

    Attributes:
        words: Around it.
        legend: Meaning of the shades: shares of the row.
        rows: From top to bottom.
        columns: From left to right.
        counts: One for each of both.
    """

    words: Words
    legend: str
    rows: list[str]
    columns: list[str]
    counts: list[list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points along a line, with intervals.

    Attributes:
        words: Around it.
        x: Where.
        y: How high.
        low: Lower ends.
        high: Upper ends.
        is_steps: Whether it is a line with a band, rather than points with bars.
        reference: A line to compare with: its ends and its name.
    """

    words: Words
    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    is_steps: bool
    reference: tuple[tuple[float, float], tuple[float, float], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What each prompt of a call did when, in the order in which they began.

    Attributes:
        words: Around it.
        waited_s: Seconds from the call's start until it got a slot.
        first_s: Until it had its first token.
        end_s: Until its end.
    """

    words: Words
    waited_s: list[float]
    first_s: list[float]
    end_s: list[float]


Picture = Bars | Forest | Panels | Matrix | Curve | Timeline
