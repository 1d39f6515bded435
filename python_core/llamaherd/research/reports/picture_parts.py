"""Points, ranges and words of plots."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from llamaherd.core.decimals import decimals
from llamaherd.core.errors import ArgumentError
from llamaherd.research.reports.shapes import Forest, Point, Words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Fields = dict[str, Any]


def cut(text: str, width: int) -> str:
    """Shorten a text to `width` characters, with "..." for the omitted part."""
    return text if len(text) <= width else text[: width - 3].rstrip() + "..."


def short(names: Sequence[str], width: int = 40) -> list[str]:
    """Shorten names to `width` characters, and number names that become equal."""
    made: list[str] = []
    for name in names:
        own, i = cut(name, width), 1
        while own in made:
            i += 1
            own = f"{cut(name, width - 4)} ({i})"
        made.append(own)
    return made


def interval(level: float | None) -> str:
    """Return the name of the confidence intervals for the label of an axis."""
    return "interval" if level is None else f"{100 * level:g}% interval"


def point(found: Mapping[str, Any], row: int, series: int) -> Point:
    """Build a point from a dict with "value", "low" and "high"."""
    value, low, high = (number(found[name]) for name in ("value", "low", "high"))
    return Point(row=row, series=series, value=value, low=low, high=high)


def forest(
    title: str,
    level: float | None,
    rows: list[str],
    series: list[str],
    points: list[Point],
    *,
    quantity: str = "value",
) -> Forest:
    """Build a forest plot of shares with intervals.

    Args:
        title: Title of the plot.
        level: Confidence level; None if unknown.
        rows: Names of the rows.
        series: Names of the series.
        points: Points, by indices of row and series.
        quantity: Name of the values on the axis.
    """
    return Forest(
        words=Words(
            title=title, x=f"{quantity}, with {interval(level)}", alt=alt(rows, points)
        ),
        rows=rows,
        series=series,
        points=points,
        is_share=True,
    )


def number(value: Any) -> float:  # noqa: ANN401 - JSON
    """Convert a JSON number to a float, null to NaN."""
    return math.nan if value is None else float(value)


def known(fields: Fields, name: str) -> Fields:
    """Return the part `name` of a validation; it exists only with probabilities.

    Raises:
        ValueError: The validation has no probabilities.
    """
    found: Fields | None = fields[name]
    if found is None:
        raise ArgumentError(
            f"{name!r} needs the probabilities of the labels, which are missing",
            argument="kind",
            code="no_probabilities",
        )
    return found


def value_range(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the smallest and the largest value; None if all are NaN."""
    there = [value for value in values if not math.isnan(value)]
    return (min(there), max(there)) if there else None


def alt(rows: Sequence[str], points: Sequence[Point]) -> str:
    """Describe the first points for screen readers."""
    return "; ".join(
        f"{rows[p.row]}: {decimals(p.value)}"
        for p in points[:40]
        if not math.isnan(p.value)
    )


def apart(x: Sequence[float], gap: float) -> list[float]:
    """Move numbers as little as possible so that they are at least `gap` apart.

    Args:
        x: Numbers; the result has the same order, also among equal numbers.
        gap: Minimum distance between adjacent numbers.

    Source: isotonic least squares by the pool-adjacent-violators algorithm.
    """
    order = sorted(range(len(x)), key=lambda i: x[i])
    pools: list[list[float]] = []  # mean and size of each pool
    for rank, i in enumerate(order):
        pools.append([x[i] - rank * gap, 1.0])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, n), (b, m) = pools[-2:]
            pools[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    flat = [mean for mean, n in pools for _ in range(int(n))]
    found = [0.0] * len(x)
    for rank, i in enumerate(order):
        found[i] = flat[rank] + rank * gap
    return found
