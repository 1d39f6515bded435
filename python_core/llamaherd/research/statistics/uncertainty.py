"""One rule for intervals: t intervals that allow for skewness and for one unseen case.

An estimate has influences: its changes by each text and each code. They have a
design-based variance V and a third central moment M. The interval is

    estimate + s -+ t sqrt(V),    s = (1 + 2 t^2) M / (6 V),

where t has the design's degrees of freedom. With few cases, such as wrong codes, V and M
are too small in many samples, because there may be cases that were not drawn. Each limit
is therefore also computed after one unseen case of the kind that moves it outwards:

    estimate +- ((1 - f) s + f u + t sqrt(V + f u^2)),

where u is the influence of a case of the greatest weight. The case fades with the number
k of cases seen, f = 1 - k / 5: with five cases nothing is added. Cases are counted in
cases of the greatest weight, sum of their squared influences / u^2, so that many cases of
a small stratum do not hide that a large stratum showed none. The limit that is farther
from the estimate is used. On the short side of a skewed estimate the shift s fades, too.
A case that may move an estimate to either side, as on a slope, has a smaller mean than u
and adds the variance of its part on each side.

Sources: Johnson, "Modified t Tests and Confidence Intervals for Asymmetrical
Populations", J. Am. Stat. Assoc. 73, 1978, for s; Fay, Feuer, "Confidence intervals for
directly standardized rates", Stat. Med. 16, 1997, for the unseen case of the greatest
weight; Särndal, Swensson, Wretman, "Model Assisted Survey Sampling", 1992, section 5.5,
for influences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics.intervals import (
    ENOUGH,
    normal_quantile,
    student_quantile,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.sampling import Floats

OTHER_KIND = 0.5  # weight of cases seen of the other kind
_MOST_SKEW = 1.0  # bound of the skewness M / V^1.5
_NONE = 1e-18  # variances below this are rounding errors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cases:
    """Unseen cases of one kind, such as texts that have a label and were not given it.

    Attributes:
        size: float64[q], root mean squared influence of a case on q estimates; 0 if there
            can be no case.
        mean: float64[q], mean influence of a case, with its sign.
        seen: float64[q], number of cases seen, in cases of this size.
    """

    size: Floats
    mean: Floats
    seen: Floats

    @classmethod
    def of(cls, size: Floats, mean: Floats, squares: Floats) -> Cases:
        """Return cases of which those seen have influences with this sum of squares."""
        return cls(
            size=size, mean=mean, seen=squares / np.where(size > 0, size, 1.0) ** 2
        )

    @property
    def fade(self) -> Floats:
        """Weight of the unseen case, from 1 without any case seen to 0."""
        return np.where(self.size > 0, np.clip(1 - self.seen / ENOUGH, 0, 1), 0.0)

    def moved(self, sign: int) -> tuple[Floats, Floats]:
        """Return the shift and the variance by the case on one side of the estimates."""
        f, mean = self.fade, sign * self.mean
        return f * np.maximum(mean, 0), f * ((self.size + mean) / 2) ** 2


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spread:
    """Variability of q estimates.

    Attributes:
        variance: float64[q], variances.
        third: float64[q], third central moments.
        df: float64[q], degrees of freedom of the variances.
        cases: Unseen cases of each kind.
    """

    variance: Floats
    third: Floats
    df: Floats
    cases: tuple[Cases, ...] = ()

    @classmethod
    def symmetric(cls, variance: Floats, df: Floats) -> Spread:
        """Return the variability of estimates with t intervals and no unseen case."""
        return cls(variance=variance, third=np.zeros(len(variance)), df=df)

    def limits(self, values: Floats, level: float) -> tuple[Floats, Floats, Floats]:
        """Return lower limits, upper limits and standard errors, float64[q] each.

        The standard error is the root of the variance; where an unseen case widens the
        interval, it is half the interval divided by t.
        """
        t = np.array([student_quantile(level, float(df)) for df in self.df])
        v = np.maximum(self.variance, 0.0)
        root = np.sqrt(v)
        skew = self.third / np.where(v > _NONE, v, 1.0) ** 1.5
        skew = np.where(v > _NONE, np.clip(skew, -_MOST_SKEW, _MOST_SKEW), 0.0)
        shift = (1 + 2 * t**2) / 6 * skew * root
        distances = []
        for sign in (-1, 1):
            moved = [each.moved(sign) for each in self.cases]
            far = sum((mean for mean, _ in moved), np.zeros(len(v)))
            more = sum((variance for _, variance in moved), np.zeros(len(v)))
            fade = _most_faded(self.cases, sign, len(v))
            short = _most_faded(self.cases, -sign, len(v))
            own = sign * shift * np.where(sign * shift < 0, 1 - short, 1.0)
            unseen = own * (1 - fade) + far + t * np.sqrt(v + more)
            distances.append(np.maximum(own + t * root, unseen))
        is_wide = np.any(
            [np.zeros(len(v)), *(each.fade > 0 for each in self.cases)], axis=0
        )
        half = np.where(np.isfinite(t), (distances[0] + distances[1]) / (2 * t), root)
        errors = np.where(is_wide, np.maximum(root, half), root)
        return values - distances[0], values + distances[1], errors


def _most_faded(cases: Sequence[Cases], sign: int, q: int) -> Floats:
    """Return the greatest weight of an unseen case that moves estimates to one side."""
    weights = [each.fade * (sign * each.mean > 0) for each in cases]
    return np.asarray(np.max([np.zeros(q), *weights], axis=0))


def heaviest(sizes: Floats, probs: Floats, level: float) -> float:
    """Return the mean influence of the cases that a sample most probably misses.

    Suppose that all cases are among the texts with the largest influences. If their
    inclusion probabilities sum to the square of the normal quantile, the sample contains
    none of them with a probability of about 1 - level. Because probabilities are summed,
    a single text with a tiny probability cannot dominate.

    Args:
        sizes: float64[m], influences of the texts that could be cases, at least 0.
        probs: float64[m], their inclusion probabilities.
        level: Confidence level.
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
