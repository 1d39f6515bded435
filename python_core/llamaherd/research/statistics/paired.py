"""Paired comparison of several classifiers on the same units, with design weights.

All measures are functions of weighted totals. The influence of a unit on a measure is the
derivative of the measure by the unit's weight. The variance of a difference of two
measures follows from the differences of the units' influences, for any measure and any
design.

Sources: Särndal, Swensson, Wretman, "Model Assisted Survey Sampling", 1992, section 5.5
(linearization); Bonett, Price, "Adjusted Wald Confidence Interval for a Difference of
Binomial Proportions Based on Paired Data", J. Educ. Behav. Stat. 37, 2012; Edwards, Hsu,
"Multiple Comparisons with the Best Treatment", J. Am. Stat. Assoc. 78, 1983.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.research.statistics.intervals import (
    LEAST_SPREAD,
    LEVEL,
    Measure,
    bonferroni,
    kish_n,
    level_of,
    on_z_scale,
    share,
    student_quantile,
)
from llamaherd.research.statistics.number_agreement import number_agreement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.ratings import Flags, Floats, Integers

MeasureName = Literal["accuracy", "balanced_accuracy", "macro_f1", "kappa"]
MEASURES: tuple[MeasureName, ...] = ("accuracy", "balanced_accuracy", "macro_f1", "kappa")
Adjust = Literal["bonferroni", "none"]
ADJUST: tuple[Adjust, ...] = ("bonferroni", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Difference of a measure between two classifiers on the same units.

    Attributes:
        first: Index of the first classifier.
        second: Index of the second classifier.
        value: Measure of the first classifier minus measure of the second.
        low: Lower confidence limit.
        high: Upper confidence limit.
        differ: Weighted share of units for which exactly one classifier is right.
    """

    first: int
    second: int
    value: float
    low: float
    high: float
    differ: float

    @property
    def is_clear(self) -> bool:
        """True if the interval excludes 0."""
        return self.low > 0 or self.high < 0

    def turned(self) -> PairedDifference:
        """Return the difference with both classifiers exchanged."""
        return PairedDifference(
            first=self.second,
            second=self.first,
            value=-self.value,
            low=-self.high,
            high=-self.low,
            differ=self.differ,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """Measures of m classifiers and their differences.

    Attributes:
        values: m measures; each interval alone has the confidence level.
        differences: Differences of all pairs (i, j), i < j.
        critical: Half the width of the interval of a difference, in standard errors.
    """

    values: tuple[Measure, ...]
    differences: tuple[PairedDifference, ...]
    critical: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitCodes:
    """Correct labels of n units and how the units were drawn.

    Attributes:
        should: bool[n, k], right labels of each unit.
        weights: float64[n], positive weights of the units.
        strata: int64[n], strata from which the units were drawn.
    """

    should: Flags
    weights: Floats
    strata: Integers


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


def compare(
    given: Sequence[tuple[Flags, Flags]],
    units: UnitCodes,
    measure: MeasureName = "accuracy",
    *,
    level: float = LEVEL,
    adjust: Adjust = "bonferroni",
) -> Paired:
    """Compare classifiers on the same units.

    With `adjust="bonferroni"` the intervals of all differences together contain the true
    differences with probability `level`. These intervals include the intervals of
    differences from the best classifier, whichever classifier is the best.

    Intervals of differences of accuracies are adjusted Wald intervals: one unit is added
    to each of both kinds of disagreement. With weights, these intervals use the
    effective number of units. For other measures, limits are NaN if all units have the
    same influence on the difference, although the measures differ.

    Args:
        given: For each classifier bool[n, k], the labels that it gave, and bool[n], True
            for units that it answered. A unit without an answer is counted as wrong.
        units: Correct labels.
        measure: Measure to compare.
        level: Confidence level.
        adjust: "bonferroni" for simultaneous intervals, "none" if each interval alone has
            the level.

    Raises:
        ValueError: An argument is out of range; or the measure is "kappa", but units have
            several labels.
    """
    level_of(level)
    checks.choice("measure", measure, MEASURES)
    checks.choice("adjust", adjust, ADJUST)
    hits = [(has == units.should).all(axis=1) & is_given for has, is_given in given]
    if measure == "kappa" and (units.should.sum(axis=1) != 1).any():
        raise ArgumentError(
            "'kappa' is for one label per text; use 'accuracy' or 'macro_f1'",
            argument="measure",
            code="conflict",
        )
    made = [
        _influence(measure, has & is_given[:, None], hit, units)
        for (has, is_given), hit in zip(given, hits, strict=True)
    ]
    covariance, df = _covariance_of([own for _, own in made], units.strata)
    m = len(made)
    critical = student_quantile(level, df)
    values = tuple(
        share(hit, units.weights, level)
        if measure == "accuracy"
        else _own(value, covariance[i, i], critical, len(hit), measure)
        for i, ((value, _), hit) in enumerate(zip(made, hits, strict=True))
    )
    critical = _critical_of(level, m, df, adjust)
    most = 2.0 if measure == "kappa" else 1.0
    found = []
    for i, j in combinations(range(m), 2):
        pair = _Pair(hits[i], hits[j], units.weights, _variance(covariance, i, j))
        value = made[i][0] - made[j][0]
        if measure == "accuracy":
            low, high = pair.adjusted(critical)
        else:
            low, high = _limits(value, pair.variance, critical)
        found.append(
            PairedDifference(
                first=i,
                second=j,
                value=value,
                low=max(low, -most),
                high=min(high, most),
                differ=pair.differ,
            )
        )
    return Paired(values=values, differences=tuple(found), critical=critical)


def compare_numbers(
    given: Sequence[Floats],
    units: UnitNumbers,
    *,
    level: float = LEVEL,
    adjust: Adjust = "bonferroni",
) -> Paired:
    """Compare the mean absolute errors of raters' numbers on the same units.

    Intervals of differences are paired t intervals. `PairedDifference.differ` is the
    weighted share of units on which the absolute errors of both raters differ.

    Args:
        given: For each rater float64[n]; a missing number, NaN, is replaced by the end of
            the scale that is farther from the right number.
        units: Right numbers.
        level: Confidence level.
        adjust: As in `compare`.

    Raises:
        ValueError: An argument is out of range.
    """
    level_of(level)
    checks.choice("adjust", adjust, ADJUST)
    w = units.weights
    filled = [units.filled(np.asarray(each, dtype=np.float64)) for each in given]
    errors = [abs(each - units.numbers) for each in filled]
    means = [float(np.average(each, weights=w)) for each in errors]
    influences = [w * (e - mean) / w.sum() for e, mean in zip(errors, means, strict=True)]
    covariance, df = _covariance_of(influences, units.strata)
    critical = _critical_of(level, len(given), df, adjust)
    found = []
    for i, j in combinations(range(len(given)), 2):
        value = means[i] - means[j]
        low, high = _limits(value, _variance(covariance, i, j), critical)
        apart = abs(errors[i] - errors[j]) > LEAST_SPREAD
        found.append(
            PairedDifference(
                first=i,
                second=j,
                value=value,
                low=low,
                high=high,
                differ=float(np.average(apart, weights=w)),
            )
        )
    values = tuple(
        number_agreement(
            np.stack([each, units.numbers]), unit_weights=w, level=level
        ).measures["mae"]
        for each in filled
    )
    return Paired(values=values, differences=tuple(found), critical=critical)


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Hits of two classifiers on the same units."""

    one: Flags
    other: Flags
    weights: Floats
    variance: float

    @property
    def differ(self) -> float:
        return float(np.average(self.one != self.other, weights=self.weights))

    def adjusted(self, critical: float) -> tuple[float, float]:
        """Return the adjusted Wald interval of the difference of shares of hits."""
        more = float(np.average(self.one & ~self.other, weights=self.weights))
        less = float(np.average(self.other & ~self.one, weights=self.weights))
        value = more - less
        n = self._n(more + less - value**2)
        more, less = (n * more + 1) / (n + 2), (n * less + 1) / (n + 2)
        centre = more - less
        reach = critical * math.sqrt((more + less - centre**2) / (n + 2))
        return min(centre - reach, value), max(centre + reach, value)

    def _n(self, spread: float) -> float:
        """Return the size of a simple random sample with the same variance, at most n."""
        if self.variance < LEAST_SPREAD**2:
            return kish_n(self.weights)
        return min(spread / self.variance + 1, float(len(self.one)))


def _own(
    value: float, variance: float, critical: float, n: int, measure: MeasureName
) -> Measure:
    """Return a measure with its interval; NaN limits if the variance is 0."""
    if math.isnan(value) or variance < LEAST_SPREAD**2:
        return Measure(value=value, low=math.nan, high=math.nan, n=n)
    if measure == "kappa":
        low, high = on_z_scale(value, math.sqrt(variance), critical)
        return Measure(value=value, low=low, high=high, n=n)
    reach, least = critical * math.sqrt(variance), 0.0
    return Measure(
        value=value, low=max(value - reach, least), high=min(value + reach, 1.0), n=n
    )


def _influence(
    measure: MeasureName, has: Flags, hit: Flags, units: UnitCodes
) -> tuple[float, Floats]:
    """Return a measure, and the influence of each unit times the unit's weight."""
    w, should = units.weights, units.should
    if measure == "accuracy":
        value = float(np.average(hit, weights=w))
        return value, w * (hit - value) / w.sum()
    if measure == "kappa":
        return _kappa(has, should, w)
    tp, given, gold = (w @ each.astype(float) for each in (has & should, has, should))
    if measure == "balanced_accuracy":
        there = gold > 0
        recall = tp[there] / gold[there]
        parts = should[:, there] * (has[:, there] - recall) / gold[there]
        return float(recall.mean()), w * parts.mean(axis=1)
    there = given + gold > 0
    total = (given + gold)[there]
    f1 = 2 * tp[there] / total
    both, each = (has & should)[:, there], has[:, there] + 0.0 + should[:, there]
    return float(f1.mean()), w * ((2 * both - f1 * each) / total).mean(axis=1)


def _kappa(has: Flags, should: Flags, w: Floats) -> tuple[float, Floats]:
    """Return Cohen's kappa and influences; "no answer" is treated as one more label."""
    none = ~has.any(axis=1, keepdims=True)
    of_model = np.hstack([has, none]).astype(float)
    of_people = np.hstack([should, np.zeros_like(none)]).astype(float)
    n = w.sum()
    rows, columns = w @ of_model / n, w @ of_people / n
    hits = (of_model * of_people).sum(axis=1)
    share_alike, by_chance = float(w @ hits / n), float(rows @ columns)
    if by_chance >= 1 - LEAST_SPREAD:
        return math.nan, np.zeros(len(w))
    expected = of_model @ columns + of_people @ rows - 2 * by_chance
    value = (share_alike - by_chance) / (1 - by_chance)
    slope = (hits - share_alike) - (1 - value) * expected
    return value, w * slope / (n * (1 - by_chance))


def _covariance_of(
    influences: Sequence[Floats], strata: Integers
) -> tuple[Floats, float]:
    """Return the covariance of the measures, float64[m, m], and degrees of freedom.

    Units are treated as drawn with replacement within strata. Strata that have only one
    unit are merged.

    Args:
        influences: For each of m measures float64[n], influences of the units, weighted.
        strata: int64[n], strata of the units.
    """
    strata = np.unique(strata, return_inverse=True)[1]
    sizes = np.bincount(strata)
    alone = np.flatnonzero(sizes == 1)
    if len(alone) and len(sizes) > 1:
        joined = alone[0] if len(alone) > 1 else int(np.argmax(sizes))
        strata = np.where(np.isin(strata, alone), joined, strata)
    m, n = len(influences), len(strata)
    parts = np.array(influences).reshape(m, n)
    covariance = np.zeros((m, m))
    names = np.unique(strata)
    for name in names:
        own = parts[:, strata == name]
        size = own.shape[1]
        if size > 1:
            centred = own - own.mean(axis=1, keepdims=True)
            covariance += size / (size - 1) * centred @ centred.T
    return covariance, float(max(n - len(names), 1))


def _variance(covariance: Floats, i: int, j: int) -> float:
    """Return the variance of the difference of two measures."""
    spread = covariance[i, i] + covariance[j, j] - 2 * covariance[i, j]
    return max(float(spread), 0.0)


def _limits(value: float, variance: float, critical: float) -> tuple[float, float]:
    """Return the limits of a difference; NaN if the units show no variance of it."""
    if variance < LEAST_SPREAD**2 and abs(value) > LEAST_SPREAD:
        return math.nan, math.nan
    reach = critical * math.sqrt(variance)
    return value - reach, value + reach


def _critical_of(level: float, m: int, df: float, adjust: Adjust) -> float:
    """Return half the width of the intervals of differences, in standard errors."""
    n_pairs = m * (m - 1) // 2 if adjust == "bonferroni" else 1
    return student_quantile(bonferroni(level, n_pairs), df)
