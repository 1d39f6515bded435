"""Paired comparison of several raters' numbers with the same right numbers.

The measures are defined in `number_agreement`. As in `paired`, the variance of a
difference follows from the differences of the units' influences. Here the influence of a
unit is the change of the measure if the unit is left out (jackknife), because a few
units with extreme numbers determine correlations.

An interval of a difference of two correlations is computed from the limits of both, which
are t intervals of Fisher's z, and from the correlation of their errors (MOVER).

Limits are NaN if they cannot be estimated: for one unit, or three for correlations; if a
correlation is undefined without one of the units; and if the jackknife has the variance 0
although the measures differ.

Sources: Shao, Tu, "The Jackknife and Bootstrap", 1995, section 6.2 (stratified samples);
Zou, "Toward Using Confidence Intervals to Compare Correlations", Psychological Methods
12, 2007.
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
    LEVEL,
    level_of,
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
_FEWEST_OF_Z = 4  # units for an interval of Fisher's z
_NONE = 1e-13  # variances of standardized numbers below this are rounding errors
_CLOSE = 1 - 1e-12  # largest correlation whose Fisher's z is used


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
    level: float = LEVEL,
    adjust: Adjust = "bonferroni",
) -> Paired:
    """Compare raters' numbers with the right numbers of the same units.

    Limits that cannot be estimated are NaN (see above). Intervals of differences are t
    intervals, for correlations by Zou's method; see `paired.compare` for
    `adjust`. `PairedDifference.differ` is the weighted share of units on which
    the absolute errors of both raters differ.

    Args:
        given: For each rater float64[n]; a missing number, NaN, is replaced by the end of
            the scale that is farther from the right number.
        units: Right numbers.
        measure: "mae" and "rmse": mean absolute and root mean squared error. "pearson":
            Pearson's correlation.
        level: Confidence level.
        adjust: "bonferroni" for simultaneous intervals, "none" if each interval alone has
            the level.

    Raises:
        ValueError: An argument is out of range.
    """
    level_of(level)
    checks.choice("measure", measure, NUMBER_MEASURES)
    checks.choice("adjust", adjust, ADJUST)
    filled = [units.filled(np.asarray(each, dtype=np.float64)) for each in given]
    made = [_Estimated.of(measure, each, units) for each in filled]
    influences = np.array([each.influence for each in made]).reshape(len(made), -1)
    covariance, df = covariance_of(influences, units.strata)
    critical = critical_of(level, len(made), df, adjust)
    bounds = _Bounds.of(measure, made, covariance, units.strata)
    values = tuple(
        number_agreement(
            np.stack([each, units.numbers]), unit_weights=units.weights, level=level
        ).measures[measure]
        for each in filled
    )
    found = []
    for i, j in combinations(range(len(made)), 2):
        low, high = bounds.of_difference(i, j, critical)
        errors = [abs(filled[k] - units.numbers) for k in (i, j)]
        apart = abs(errors[0] - errors[1]) > LEAST_SPREAD
        found.append(
            PairedDifference(
                first=i,
                second=j,
                value=made[i].value - made[j].value,
                low=low,
                high=high,
                differ=float(np.average(apart, weights=units.weights)),
            )
        )
    return Paired(values=values, differences=tuple(found), critical=critical)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Estimated:
    """Measure of a rater.

    Attributes:
        value: The measure; NaN for a correlation if a variance is 0.
        influence: float64[n], change of the measure by each unit; NaN if the measure is
            undefined without the unit.
        of_z: float64[n], change of Fisher's z of the measure, for correlations; NaN as in
            `influence`.
    """

    value: float
    influence: Floats
    of_z: Floats

    @classmethod
    def of(cls, measure: NumberMeasure, given: Floats, units: UnitNumbers) -> _Estimated:
        """Return the measure, and the influences by leaving out each unit."""
        if measure == "pearson":
            x, y = _standardized(given), _standardized(units.numbers)
            parts = np.stack([x, y, x * x, y * y, x * y])
            function = _correlation
        else:
            error = given - units.numbers
            parts = (abs(error) if measure == "mae" else error**2)[None]
            function = _mean if measure == "mae" else _root
        weighted = units.weights * np.vstack([np.ones(len(given)), parts])
        value = float(function(weighted.sum(axis=1)))
        left = function(_without_each(weighted, units.strata))
        sizes = _sizes(units.strata)
        share = np.where(sizes > 1, (sizes - 1) / sizes, 1.0)
        none = np.zeros(len(given))
        if math.isnan(value):
            return cls(value=value, influence=none, of_z=none)
        influence = share * (value - left)
        is_z = measure == "pearson"
        of_z = share * (_z(np.array(value)) - _z(left)) if is_z else none
        return cls(value=value, influence=influence, of_z=of_z)


def _sizes(strata: Integers) -> Integers:
    """Return the number of units in the stratum of each unit."""
    numbers = np.unique(strata, return_inverse=True)[1]
    return np.bincount(numbers)[numbers]


def _without_each(weighted: Floats, strata: Integers) -> Floats:
    """Return totals without each unit, float64[k, n].

    The other units of its stratum get the weight of the unit that is left out.

    Args:
        weighted: float64[k, n], numbers times weights.
        strata: int64[n], strata of the units.
    """
    numbers = np.unique(strata, return_inverse=True)[1]
    totals = np.stack([np.bincount(numbers, row)[numbers] for row in weighted])
    others = np.maximum(_sizes(strata) - 1, 1)
    grown = np.where(_sizes(strata) > 1, (totals - weighted) / others, 0.0)
    return np.asarray(weighted.sum(axis=1, keepdims=True) - weighted + grown)


def _standardized(numbers: Floats) -> Floats:
    """Return numbers with the mean 0 and the variance 1; 0 if all are equal."""
    away = numbers - numbers.mean()
    spread = float(away.std())
    return away / spread if spread > LEAST_SPREAD else np.zeros_like(away)


def _averages(totals: Floats) -> Floats:
    """Return the weighted means of totals, whose first row has the weights.

    Means are NaN if no unit is left.
    """
    return np.asarray(totals[1:] / np.where(totals[0] > 0, totals[0], np.nan))


def _mean(totals: Floats) -> Floats:
    return np.asarray(_averages(totals)[0])


def _root(totals: Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(_averages(totals)[0], 0.0)))


def _correlation(totals: Floats) -> Floats:
    """Return Pearson's correlation from weights and moments; NaN if a variance is 0.

    The moments are of standardized numbers.
    """
    x, y, xx, yy, xy = _averages(totals)
    spread = np.maximum(xx - x * x, 0.0), np.maximum(yy - y * y, 0.0)
    product = np.sqrt(spread[0]) * np.sqrt(spread[1])
    none = ~(np.minimum(*spread) >= _NONE)
    return np.where(none, np.nan, (xy - x * y) / np.where(none, 1.0, product))


def _z(correlation: Floats) -> Floats:
    """Return Fisher's z; finite for perfect correlations, too."""
    return np.arctanh(np.clip(correlation, -_CLOSE, _CLOSE))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Bounds:
    """Intervals of differences of two measures.

    Attributes:
        values: float64[m], measures.
        covariance: float64[m, m], covariance of the measures, or of Fisher's z.
        is_z: True if the covariance is of Fisher's z.
        is_known: True if there are enough units for limits.
    """

    values: Floats
    covariance: Floats
    is_z: bool
    is_known: bool

    @classmethod
    def of(
        cls,
        measure: NumberMeasure,
        made: Sequence[_Estimated],
        covariance: Floats,
        strata: Integers,
    ) -> _Bounds:
        """Collect the measures; `covariance` is the covariance of the measures."""
        values, is_z = np.array([each.value for each in made]), measure == "pearson"
        if is_z:
            of_z = np.array([each.of_z for each in made]).reshape(len(made), -1)
            covariance = covariance_of(of_z, strata)[0]
        is_known = len(strata) >= (_FEWEST_OF_Z if is_z else 2)
        return cls(values=values, covariance=covariance, is_z=is_z, is_known=is_known)

    def of_difference(self, i: int, j: int, critical: float) -> tuple[float, float]:
        """Return the limits of measure i minus measure j; NaN if they are unknown."""
        value = float(self.values[i] - self.values[j])
        own = self.covariance[np.ix_([i, j], [i, j])]
        if not self.is_known or not np.isfinite(own).all():
            return math.nan, math.nan
        low, high = self._limits(value, own, (i, j), critical)
        if high - low <= LEAST_SPREAD < abs(value):
            return math.nan, math.nan
        return low, high

    def _limits(
        self, value: float, own: Floats, pair: tuple[int, int], critical: float
    ) -> tuple[float, float]:
        """Return the limits of a difference; `own` is the covariance of the pair."""
        if not self.is_z:
            variance = float(own[0, 0] + own[1, 1] - 2 * own[0, 1])
            reach = critical * math.sqrt(max(variance, 0.0))
            return value - reach, value + reach
        spread = np.sqrt(np.maximum(np.diag(own), 0.0))
        both = float(spread[0] * spread[1])
        shared = float(np.clip(own[0, 1] / both, -1, 1)) if both > 0 else 0.0
        z, near = _z(self.values[[*pair]]), self.values[[*pair]]
        below = np.where(spread > 0, near - np.tanh(z - critical * spread), 0.0)
        above = np.where(spread > 0, np.tanh(z + critical * spread) - near, 0.0)
        low = _combined(float(below[0]), float(above[1]), shared)
        high = _combined(float(above[0]), float(below[1]), shared)
        return value - low, value + high


def _combined(one: float, other: float, shared: float) -> float:
    """Return a distance from a difference to its limit, by those of both measures."""
    return math.sqrt(max(one**2 + other**2 - 2 * shared * one * other, 0.0))
