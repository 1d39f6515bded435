"""One rule for intervals: t intervals that allow for skewness and for one unseen case.

An estimate has influences: its changes by each text and each code. They have a
design-based variance V, a third central moment M, and a covariance C with the estimate of
V, which is M for independent units. The interval is

    estimate + s -+ t sqrt(V),    s = (M + (3 C - M) t^2) / (6 V),

where t has the design's degrees of freedom. With few cases, such as wrong codes, V and M
are too small in many samples, because there may be cases that were not drawn. Each limit
is therefore also computed after one unseen case of the kind that moves it outwards:

    estimate +- ((1 - f) s + f u + t sqrt(V + f u^2)),

where u is the influence of a case of the greatest weight. The case fades with the number
k of cases seen, f = 1 - k / 5: with five cases nothing is added. Cases are counted in
cases of the greatest weight, sum of their squared influences / u^2, so that many cases of
a small stratum do not hide that a large stratum showed none. The limit that is farther
from the estimate is used. On the short side of a skewed estimate the shift s fades, too.

M comes from the same cases as the estimate, so that s is too large where the estimate is
too far off. On the short side s is therefore reduced, at most to 0, by twice its expected
error at the limit,

    2 t (1 + 2 t^2) / 6 sqrt(V) (b - a^2 - 1) / n,

with the skewness a and the kurtosis b of the n influences. It is 0 for a share, whose
skewness follows from the share itself (Pearson: b >= a^2 + 1, equal for two values), and
large if a few cases of great weight, or cases of both signs, determine M.

A case that may move an estimate to either side, as on a slope, has a smaller mean than u
and adds the variance of its part on each side.

Statistics of coded units, such as F1, kappa or a difference of two accuracies, are smooth
functions of the weights of units (`UnitStatistic`). The influence of a unit is its weight
times the derivative of the statistic by the weight. Units are independent draws in their
strata. If groups of units are known before they are coded, such as the model's labels,
and weights differ, an unseen unit belongs to one of the groups, and its influence is the
difference from the mean of the group: a unit is a case if its code is unusual for its
group.

Sources: Johnson, "Modified t Tests and Confidence Intervals for Asymmetrical
Populations", J. Am. Stat. Assoc. 73, 1978, for s; Fay, Feuer, "Confidence intervals for
directly standardized rates", Stat. Med. 16, 1997, for the unseen case of the greatest
weight; Särndal, Swensson, Wretman, "Model Assisted Survey Sampling", 1992, section 5.5,
for influences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.coding.statistics.intervals import (
    ENOUGH,
    LEAST_SPREAD,
    Measure,
    kish_n,
    normal_quantile,
    student_quantile,
    within,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.arrays import Flags, Floats, Ints

OTHER_KIND = 0.5  # weight of cases seen of the other kind
_UNSEEN = 1.5  # unseen cases of a statistic of units, if none is seen
_MOST_SKEW = 1.0  # bound of the skewness M / V^1.5
_NONE = 1e-18  # variances below this are rounding errors
_NO_VARIANCE = 1e-30  # the same for numbers in any unit
_ROUNDING = 1e-9  # relative difference of equal weights
_LEAST_DF = 4.0  # degrees of freedom of a statistic of five units or more


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cases:
    """Unseen cases of one kind, such as texts that have a label and were not given it."""

    # float64[q], root mean squared influence of a case on q estimates; 0 if there can be
    # no case
    size: Floats
    mean: Floats  # float64[q], mean influence of a case, with its sign
    seen: Floats  # float64[q], number of cases seen, in cases of this size
    unseen: float = 1.0  # Number of unseen cases if none is seen

    @classmethod
    def of(
        cls, size: Floats, mean: Floats, squares: Floats, unseen: float = 1.0
    ) -> Cases:
        """Return cases of which those seen have influences with this sum of squares."""
        seen = squares / np.where(size > 0, size, 1.0) ** 2
        return cls(size=size, mean=mean, seen=seen, unseen=unseen)

    @property
    def fade(self) -> Floats:
        """Weight of the unseen case, from 1 without any case seen to 0."""
        return np.where(self.size > 0, np.clip(1 - self.seen / ENOUGH, 0, 1), 0.0)

    def moved(self, sign: int) -> tuple[Floats, Floats]:
        """Return the shift and the variance by the cases on one side of the estimates."""
        f, mean = self.unseen * self.fade, sign * self.mean
        return f * np.maximum(mean, 0), f * ((self.size + mean) / 2) ** 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spread:
    """Variability of q estimates."""

    variance: Floats  # float64[q], variances
    third: Floats  # float64[q], third central moments
    joint: Floats  # float64[q], covariances of estimates with their estimated variances
    df: Floats  # float64[q], degrees of freedom of the variances
    noise: Floats  # float64[q], see `skewness_noise`
    cases: tuple[Cases, ...] = ()  # Unseen cases of each kind

    @classmethod
    def symmetric(cls, variance: Floats, df: Floats) -> Spread:
        """Return the variability of estimates with t intervals and no unseen case."""
        zeros = np.zeros(len(variance))
        return cls(variance=variance, third=zeros, joint=zeros, df=df, noise=zeros)

    def limits(self, values: Floats, level: float) -> tuple[Floats, Floats, Floats]:
        """Return lower limits, upper limits and standard errors, float64[q] each.

        The standard error is the root of the variance; where an unseen case widens the
        interval, it is half the interval divided by t.
        """
        t = np.array([student_quantile(level, float(df)) for df in self.df])
        v = np.maximum(self.variance, 0.0)
        root = np.sqrt(v)
        moment = self.third + (3 * self.joint - self.third) * t**2
        skew = moment / (1 + 2 * t**2) / np.where(v > _NONE, v, 1.0) ** 1.5
        skew = np.where(v > _NONE, np.clip(skew, -_MOST_SKEW, _MOST_SKEW), 0.0)
        shift = (1 + 2 * t**2) / 6 * skew * root
        error = 2 * t * (1 + 2 * t**2) / 6 * self.noise * root
        distances = []
        for sign in (-1, 1):
            moved = [kind.moved(sign) for kind in self.cases]
            far = sum((mean for mean, _ in moved), np.zeros(len(v)))
            more = sum((variance for _, variance in moved), np.zeros(len(v)))
            fade = _most_faded(self.cases, sign, len(v))
            short = _most_faded(self.cases, -sign, len(v))
            skew_shift = sign * shift
            reduced = np.minimum(skew_shift * (1 - short) + error, 0.0)
            skew_shift = np.where(skew_shift < 0, reduced, skew_shift)
            unseen = skew_shift * (1 - fade) + far + t * np.sqrt(v + more)
            distances.append(np.maximum(skew_shift + t * root, unseen))
        is_wide = np.any(
            [np.zeros(len(v)), *(kind.fade > 0 for kind in self.cases)], axis=0
        )
        half = np.where(np.isfinite(t), (distances[0] + distances[1]) / (2 * t), root)
        errors = np.where(is_wide, np.maximum(root, half), root)
        return values - distances[0], values + distances[1], errors


def skewness_noise(terms: Floats) -> Floats:
    """Return (kurtosis - skewness^2 - 1) / n of n differences from means, float64[n, q].

    It is 0 for terms with two values, and 0 without a variance.
    """
    size = np.sqrt((terms**2).sum(axis=0))
    relative = terms / np.where(size > 0, size, 1.0)
    kurtosis, skewness = (relative**4).sum(axis=0), (relative**3).sum(axis=0)
    noise = kurtosis - skewness**2 - 1 / max(len(terms), 1)
    return np.where(size > 0, np.maximum(noise, 0.0), 0.0)


def _most_faded(cases: Sequence[Cases], sign: int, q: int) -> Floats:
    """Return the greatest weight of an unseen case that moves estimates to one side."""
    weights = [kind.fade * (sign * kind.mean > 0) for kind in cases]
    return np.asarray(np.max([np.zeros(q), *weights], axis=0))


def heaviest(sizes: Floats, probs: Floats, level: float) -> float:
    """Return the mean influence of the cases that a sample most probably misses.

    Suppose that all cases are among the texts with the largest influences. If their
    inclusion probabilities sum to the square of the normal quantile, the sample contains
    none of them with a probability of about 1 - level. Because probabilities are summed,
    a single text with a tiny probability cannot dominate.
    """
    if len(sizes) == 0:
        return 0.0
    if np.ptp(sizes) <= 1e-9 * sizes.max():
        return float(sizes[0])
    order = np.argsort(-sizes, kind="stable")
    summed = np.cumsum(probs[order])
    last = int(np.searchsorted(summed, normal_quantile(level) ** 2))
    used = order[: min(last, len(order) - 1) + 1]
    return float(np.average(sizes[used], weights=probs[used]))


def unseen_case(influences: Floats, probs: Floats, level: float) -> tuple[float, float]:
    """Return size and mean of an unseen case of the greatest weight; see `Cases`."""
    sizes = np.abs(influences)
    sizes = np.minimum(sizes, heaviest(sizes, probs, level))
    weights = probs * sizes**2
    size = float(np.sqrt(np.average(sizes**2, weights=weights)))
    return size, float(np.average(np.sign(influences) * sizes, weights=weights))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitStatistic:
    """A statistic of n units, and its derivatives by the weights of units."""

    value: float  # The statistic; NaN if it is undefined
    weights: Floats  # float64[n], positive weights of the units
    slopes: Floats  # float64[n], derivatives by the weights. Their mean, weighted, is 0.
    # float64[q, c], derivatives by the weight of an unseen unit with one of q labels and
    # c codes; of kappa and alpha, whose denominator can be nearly 0, what a unit of the
    # mean weight really changes, divided by this weight. NaN for impossible units. If all
    # are NaN, the statistic is one of numbers, whose sample shows no third moment.
    unseen: Floats
    # int64[n], group of each unit, from 0; -1 for a unit without one. They are the q
    # labels if q > 1. None without groups.
    groups: Ints | None = None
    # int64[n], strata with fixed numbers of units; None for independent draws
    strata: Ints | None = None
    least: float = 0.0  # Smallest possible value
    most: float = 1.0  # Largest possible value
    # Degrees of freedom; None for the effective number of units by their weights
    df: float | None = None

    @classmethod
    def mean(
        cls, numbers: Floats, weights: Floats, values: Sequence[float] = ()
    ) -> UnitStatistic:
        """Return the mean of numbers, or of hits if they have two values."""
        value, total = float(np.average(numbers, weights=weights)), weights.sum()
        return cls(
            value=value,
            weights=weights,
            slopes=(numbers - value) / total,
            unseen=(np.array(values or (math.nan,))[:, None] - value) / total,
            least=min(values, default=-math.inf),
            most=max(values, default=math.inf),
        )

    def minus(self, other: UnitStatistic) -> UnitStatistic:
        """Return the difference from another statistic of the same units and codes.

        The two labels of an unseen unit are not known, its code is the same in both.
        """
        (low, high), (other_low, other_high) = self._of_codes, other._of_codes
        return replace(
            self,
            value=self.value - other.value,
            slopes=self.slopes - other.slopes,
            unseen=np.concatenate([low - other_high, high - other_low])[None],
            least=self.least - other.most,
            most=self.most - other.least,
        )

    @property
    def _of_codes(self) -> tuple[Floats, Floats]:
        """Lowest and highest derivatives of unseen units by code, NaN if impossible."""
        known = ~np.isnan(self.unseen)
        low = np.where(known, self.unseen, np.inf).min(axis=0)
        high = np.where(known, self.unseen, -np.inf).max(axis=0)
        is_known = known.any(axis=0)
        return np.where(is_known, low, np.nan), np.where(is_known, high, np.nan)

    def limits(self, level: float) -> tuple[float, float]:
        """Return confidence limits; NaN if they are undefined.

        They are undefined if units show nothing about the error: for a single unit, or
        if all have the same influence and there can be no unseen case.
        """
        n, w = len(self.slopes), self.weights
        if n < 2 or math.isnan(self.value):
            return (math.nan, math.nan)
        variance, third, noise, n_strata = self._moments
        usual, lowest, highest = self._edges
        gaps = w * (self.slopes - usual)
        kinds = [
            self._kind(np.maximum(room, 0.0), gaps[sign * gaps > 0], sign, level)
            for sign, room in ((1, highest - usual), (-1, usual - lowest))
        ]
        is_none = variance <= max((LEAST_SPREAD * self.value) ** 2, _NO_VARIANCE)
        if is_none and not any(size > 0 for size, _, _ in kinds):
            return (math.nan, math.nan)
        both = kinds[0][2] + kinds[1][2]
        df = max(kish_n(w) - n_strata, min(n - n_strata, _LEAST_DF), 1.0)
        moment = np.array([0.0 if np.isnan(self.unseen).all() else third])
        spread = Spread(
            variance=np.array([variance]),
            third=moment,
            joint=moment,
            df=np.array([df if self.df is None else self.df]),
            noise=np.array([noise]),
            cases=tuple(
                Cases.of(
                    np.array([size]),
                    np.array([mean]),
                    np.array([seen + (both - seen) * OTHER_KIND]),
                    _UNSEEN,
                )
                for size, mean, seen in kinds
            ),
        )
        low, high, _ = spread.limits(np.array([self.value]), level)
        return within(float(low[0]), float(high[0]), self.least, self.most)

    def measure(self, level: float) -> Measure:
        """Return the statistic with its confidence limits."""
        low, high = self.limits(level)
        return Measure(value=self.value, low=low, high=high, n=len(self.weights))

    @property
    def _moments(self) -> tuple[float, float, float, int]:
        """Variance, third moment, its noise, and number of strata of two units or more.

        Strata of a single unit are merged, a single one with the largest stratum.
        """
        terms = self.weights * self.slopes
        strata = np.zeros(len(terms), dtype=np.int64)
        if self.strata is not None:
            strata = np.unique(self.strata, return_inverse=True)[1]
            sizes = np.bincount(strata)
            alone = np.flatnonzero(sizes == 1)
            if len(alone) and len(sizes) > 1:
                joined = alone[0] if len(alone) > 1 else int(np.argmax(sizes))
                strata = np.where(np.isin(strata, alone), joined, strata)
                strata = np.unique(strata, return_inverse=True)[1]
        sizes = np.bincount(strata)
        away = terms - (np.bincount(strata, terms) / sizes)[strata]
        unbiased = (sizes / np.maximum(sizes - 1, 1))[strata]
        return (
            float((unbiased * away**2).sum()),
            float((unbiased * away**3).sum()),
            float(skewness_noise(away[:, None])[0]),
            len(sizes),
        )

    @property
    def _edges(self) -> tuple[Floats, Floats, Floats]:
        """Mean derivative of each unit's group, and the extremes of unseen units."""
        n, groups = len(self.slopes), self.groups
        lowest = np.where(np.isnan(self.unseen), np.inf, self.unseen).min(axis=1)
        highest = np.where(np.isnan(self.unseen), -np.inf, self.unseen).max(axis=1)
        if groups is None or are_equal(self.weights):
            return np.zeros(n), np.full(n, lowest.min()), np.full(n, highest.max())
        at = groups + 1
        sums = np.bincount(at, self.weights * self.slopes)
        usual = np.asarray(sums[at] / np.bincount(at, self.weights)[at])
        if len(lowest) == 1:
            return usual, np.full(n, lowest[0]), np.full(n, highest[0])
        return (
            usual,
            np.append(lowest, lowest.min())[groups],
            np.append(highest, highest.max())[groups],
        )

    def _kind(
        self, room: Floats, seen: Floats, sign: int, level: float
    ) -> tuple[float, float, float]:
        """Return size, mean and sum of squares of those seen of one kind; see `Cases`."""
        squares = float((seen**2).sum())
        sizes = self.weights * room
        possible = sizes > 0
        if not possible.any():
            return 0.0, 0.0, squares
        probs = self.weights.mean() / self.weights[possible]
        return *unseen_case(sign * sizes[possible], probs, level), squares


def mean(values: Floats, weights: Floats, level: float) -> Measure:
    """Return the weighted mean of units, with a t interval.

    Units with weight 0 are left out. The mean is NaN if there are no units. There is no
    interval if there is one unit, or if all values are equal, because equal values show
    nothing about the error.
    """
    values, weights = values[weights > 0], weights[weights > 0]
    if len(values) == 0:
        return Measure(n=0)
    return UnitStatistic.mean(values, weights).measure(level)


def are_equal(weights: Floats) -> bool:
    """Return True if all weights are equal, but for rounding; True without weights."""
    return len(weights) == 0 or bool(np.ptp(weights) <= _ROUNDING * weights.max())


def possible_pairs(occurs: Flags, *, is_ordered: bool) -> Flags:
    """Return the pairs of labels that an unseen unit may have, bool[q, q].

    The labels must occur. On a scale with an order, unseen labels differ by one step: the
    size of larger differences shows only where some are seen.
    """
    pairs = np.logical_and.outer(occurs, occurs)
    if is_ordered:
        rank = np.cumsum(occurs)
        pairs &= np.abs(np.subtract.outer(rank, rank)) <= 1
    return np.asarray(pairs)
