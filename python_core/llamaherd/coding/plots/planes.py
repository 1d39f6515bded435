"""Plots of two numbers: calibration, coverage, differences of model and people."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from llamaherd.coding.plots.description import (
    SQUARE,
    Axis,
    Band,
    Fields,
    Line,
    Mark,
    Plot,
    Points,
    Range,
    Texts,
    interval,
    number,
    numbers,
)
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, decimals

if TYPE_CHECKING:
    from collections.abc import Iterable


_LARGEST = 6.0  # diameter of the largest point of texts, relative to the smallest
_BEYOND = 0.01  # room beyond the largest share, for points on the edge


def calibration_plot(fields: Fields) -> Plot:
    """Show a reliability diagram."""
    calibration = _required_part(fields, "calibration")
    bins = calibration["bins"]
    x = [number(part["confidence"]) for part in bins]
    y, low, high = (
        [number(part["accuracy"][name]) for part in bins]
        for name in ("value", "low", "high")
    )
    left = _least([*x, 0.45])
    return Plot(
        title=f"Calibration (error {decimals(calibration['ece'])}, "
        f"{count_of(calibration['n'], 'text')})",
        x=Axis(title="mean probability of the label", limits=(left - 0.05, 1 + _BEYOND)),
        y=Axis(
            title=f"share that is right, with {interval(fields['level'])}",
            limits=(_least([*low, left]) - 0.05, 1 + _BEYOND),
        ),
        marks=[
            Line(x=[left - 0.05, 1.0], y=[left - 0.05, 1.0], is_dashed=True),
            Points(x=x, y=y, low=low, high=high, along="y", series=[0] * len(x)),
        ],
        note="dashed line: perfect calibration",
        alt="; ".join(f"{decimals(a)}: {decimals(b)}" for a, b in zip(x, y, strict=True)),
        width=SQUARE,
    )


def coverage_plot(fields: Fields) -> Plot:
    """Show the accuracy of the most confident labels, against their share."""
    coverage = _required_part(fields, "coverage")
    if not len(coverage["accuracy"]):
        raise ArgumentError(
            "has no coded texts to plot", argument="x", code="nothing_to_plot"
        )
    x, y, low, high = (
        numbers(coverage[name]) for name in ("coverage", "accuracy", "low", "high")
    )
    marks: list[Mark] = [Line(x=[0.0, 1.0], y=[y[-1], y[-1]], is_dashed=True)]
    if len(x) > 1:
        marks += [
            Band(at=x, low=low, high=high, along="y", series=0, is_light=True),
            Line(x=x, y=y, series=0),
        ]
    if len(x) < 3:  # a line of few points is easily overlooked
        none = [math.nan] * len(x) if len(x) > 1 else low
        most = [math.nan] * len(x) if len(x) > 1 else high
        series = [0] * len(x)
        marks.append(Points(x=x, y=y, low=none, high=most, along="y", series=series))
    share = f"share of these labels that is right, with {interval(fields['level'])}"
    return Plot(
        title=f"Accuracy of the most confident labels, {count_of(coverage['n'], 'text')}",
        x=Axis(
            title="share of texts, most confident labels first", limits=(0.0, 1 + _BEYOND)
        ),
        y=Axis(title=share, limits=(max(0.0, _least([*low, *y]) - 0.05), 1 + _BEYOND)),
        marks=marks,
        note="dashed line: accuracy of all texts",
        alt=f"all texts: {decimals(y[-1])}",
        width=SQUARE,
    )


def numbers_plot(fields: Fields) -> Plot:
    """Plot differences of model and people against their mean (Bland-Altman plot)."""
    comparison = fields.get("numbers")
    if comparison is None or not comparison["points"]:
        raise ArgumentError(
            "cannot be 'numbers': the labels are not numbers of an ordered scale",
            argument="kind",
            code="no_numbers",
        )
    counts = Counter((float(x), float(y)) for x, y in comparison["points"])
    x, y = [x for x, _ in counts], [y for _, y in counts]
    bias = number(comparison["bias"]["value"])
    low, high = numbers(comparison["limits"])
    lines = [
        (at, name)
        for at, name in (
            (bias, f"mean difference {decimals(bias)}"),
            (low, f"bias - 1.96 SD: {decimals(low)}"),
            (high, f"bias + 1.96 SD: {decimals(high)}"),
        )
        if not math.isnan(at)
    ]
    across, up = _wider(x), _wider([*y, *(at for at, _ in lines)])
    none = [math.nan] * len(x)
    return Plot(
        title=f"Numbers by the model and by people, {count_of(comparison['n'], 'text')}",
        x=Axis(title="mean of model and people", limits=across),
        y=Axis(title="model minus people", limits=up),
        marks=[
            *(
                Line(x=list(across), y=[at, at], is_dashed=i > 0)
                for i, (at, _) in enumerate(lines)
            ),
            Points(
                x=x,
                y=y,
                low=none,
                high=none,
                series=[0] * len(x),
                size=[min(math.sqrt(n), _LARGEST) for n in counts.values()],
            ),
            Texts(
                x=[across[1]] * len(lines),
                y=[at for at, _ in lines],
                text=[name for _, name in lines],
                align="right",
            ),
        ],
        alt="; ".join(name for _, name in lines),
        width=SQUARE,
    )


def _required_part(fields: Fields, name: str) -> Fields:
    """Return the part `name` of a validation; it exists only with probabilities."""
    part: Fields | None = fields[name]
    if part is None:
        raise ArgumentError(
            f"{name!r} needs the probabilities of the labels, which are missing",
            argument="kind",
            code="no_probabilities",
        )
    return part


def _least(values: Iterable[float]) -> float:
    return min((value for value in values if not math.isnan(value)), default=0.0)


def _wider(values: Iterable[float]) -> Range:
    """Return the range of numbers, with some room at its ends."""
    numbers = list(values)
    low, high = min(numbers), max(numbers)
    room = 0.08 * max(high - low, 0.1)
    return low - room, high + room
