"""Paired comparison of several raters' numbers with the same right numbers.

The measures are defined in `number_agreement`. As in `paired`, the variance of a
difference follows from the differences of the units' influences, the derivatives of a
measure by the unit's weight.

Source: Särndal, Swensson, Wretman, "Model Assisted Survey Sampling", 1992, section 5.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.core import checks
from llamaherd.research.statistics.intervals import (
    LEAST_SPREAD,
    level_of,
    student_quantile,
)
from llamaherd.research.statistics.number_agreement import number_agreement
from llamaherd.research.statistics.paired import (
    ADJUST,
    Paired,
    PairedDifference,
    covariance_of,
    critical_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.paired import Adjust
    from llamaherd.research.statistics.ratings import Floats, Integers

NumberMeasure = Literal["mae", "rmse", "pearson"]
NUMBER_MEASURES: tuple[NumberMeasure, ...] = ("mae", "rmse", "pearson")
ERRORS = ("mae", "rmse")  # for these measures smaller values are better


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitNumbers:
    """Right numbers of n units, with the weights and strata of their sample.

    Attributes:
        numbers: float64[n], right numbers.
        weights: float64[n], positive weights of the units.
        strata: int64[n], strata from which the units were drawn.
        ends: Smallest and largest number of the scale.
    """

    numbers: Floats
    weights: Floats
    strata: Integers
    ends: tuple[float, float]

    def filled(self, given: Floats) -> Floats:
        """Replace missing numbers by the end of the scale that is farther away."""
        low, high = self.ends
        farther = np.where(self.numbers - low > high - self.numbers, low, high)
        return np.where(np.isfinite(given), given, farther)


def compare_numbers(
    given: Sequence[Floats],
    units: UnitNumbers,
    measure: NumberMeasure = "mae",
    *,
    level: float = 0.95,
    adjust: Adjust = "max-t",
    seed: int = 0,
) -> Paired:
    """Compare raters' numbers with the right numbers of the same units.

    Intervals of differences are t intervals, simultaneous with `adjust="max-t"` as in
    `paired.compare`. `PairedDifference.differ` is the weighted share of units on which
    the absolute errors of both raters differ.

    Args:
        given: For each rater float64[n]; a missing number, NaN, is replaced by the end of
            the scale that is farther from the right number.
        units: Right numbers.
        measure: "mae" and "rmse": mean absolute and root mean squared error. "pearson":
            Pearson's correlation.
        level: Confidence level.
        adjust: "max-t" for simultaneous intervals, "none" if each interval alone has the
            level.
        seed: Seed of the random draws.

    Raises:
        ValueError: An argument is out of range.
    """
    level_of(level)
    checks.choice("measure", measure, NUMBER_MEASURES)
    checks.choice("adjust", adjust, ADJUST)
    filled = [units.filled(np.asarray(each, dtype=np.float64)) for each in given]
    made = [_influence(measure, each, units) for each in filled]
    influences = np.array([own for _, own in made]).reshape(len(made), -1)
    covariance, df = covariance_of(influences, units.strata)
    critical = student_quantile(level, df)
    if adjust == "max-t" and len(made) > 2:
        critical = critical_of(covariance, df, level, seed)
    values = tuple(
        number_agreement(
            np.stack([each, units.numbers]), unit_weights=units.weights, level=level
        ).measures[measure]
        for each in filled
    )
    found = []
    for i, j in combinations(range(len(made)), 2):
        variance = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
        value = made[i][0] - made[j][0]
        reach = critical * math.sqrt(max(float(variance), 0.0))
        errors = [abs(filled[k] - units.numbers) for k in (i, j)]
        apart = abs(errors[0] - errors[1]) > LEAST_SPREAD
        found.append(
            PairedDifference(
                first=i,
                second=j,
                value=value,
                low=value - reach,
                high=value + reach,
                differ=float(np.average(apart, weights=units.weights)),
            )
        )
    return Paired(values=values, differences=tuple(found), critical=critical)


def _influence(
    measure: NumberMeasure, given: Floats, units: UnitNumbers
) -> tuple[float, Floats]:
    """Return a measure, and the influence of each unit times the unit's weight."""
    w = units.weights / units.weights.sum()
    if measure == "pearson":
        return _correlation(given, units.numbers, w)
    error = given - units.numbers
    if measure == "mae":
        value = float(w @ abs(error))
        return value, w * (abs(error) - value)
    square = float(w @ error**2)
    value = math.sqrt(square)
    if value < LEAST_SPREAD:
        return value, np.zeros(len(w))
    return value, w * (error**2 - square) / (2 * value)


def _correlation(x: Floats, y: Floats, w: Floats) -> tuple[float, Floats]:
    """Return Pearson's correlation, NaN if a variance is 0, and influences."""
    x, y = x - w @ x, y - w @ y
    spread = math.sqrt(w @ x**2), math.sqrt(w @ y**2)
    if min(spread) < LEAST_SPREAD:
        return math.nan, np.zeros(len(w))
    x, y = x / spread[0], y / spread[1]
    value = float(w @ (x * y))
    return value, w * (x * y - value * (x**2 + y**2) / 2)
