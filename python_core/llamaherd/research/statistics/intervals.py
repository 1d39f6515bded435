"""Confidence intervals: Wilson's for shares, percentiles of a bootstrap, t."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core import checks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.research.statistics.ratings import Flags, Floats, Integers

LEAST_SPREAD = 1e-12  # what is below it comes of rounding
_MOST = 4_000_000  # numbers that a bootstrap holds at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A number and its confidence interval.

    Attributes:
        value: NaN where it is not defined, as the precision of a label never given.
        low: Lower end of the interval; NaN where there is none.
        high: Upper end.
        n: Units that it is of.
    """

    value: float
    low: float
    high: float
    n: int


def level_of(level: float) -> float:
    """A confidence level.

    Raises:
        TypeError: It is no number.
        ValueError: It is not between 0.5 and 0.9999.
    """
    return checks.real("level", level, 0.5, 0.9999)


def normal_quantile(level: float) -> float:
    """How many standard errors an interval reaches to each side."""
    return NormalDist().inv_cdf((1 + level) / 2)


@lru_cache(maxsize=1)
def _gauss() -> tuple[Floats, Floats]:
    """Nodes and weights of Gauss-Legendre, which take longer than all the rest."""
    nodes, weights = np.polynomial.legendre.leggauss(128)
    return nodes, weights


@lru_cache(maxsize=1024)
def student_quantile(level: float, df: float) -> float:
    """The same for Student's t with `df` degrees of freedom; infinite without any.

    With t = sqrt(df) tan(a) the density is a power of cos(a), which is integrated by
    Gauss-Legendre and inverted by bisection.
    """
    if df < 1:
        return math.inf
    z = normal_quantile(level)
    if df == math.inf:
        return normal_quantile(level)
    if df > 10_000:  # the first term of Cornish and Fisher's expansion: error 1e-8
        return z + (z**3 + z) / (4 * df)
    nodes, weights = _gauss()
    log_c = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(math.pi) / 2

    def inside(t: float) -> float:
        a = math.atan(t / math.sqrt(df))
        powers = np.cos(a * (nodes + 1) / 2) ** (df - 1)
        return math.exp(log_c) * a * float((weights * powers).sum())

    low, high = 0.0, 2 * z
    while inside(high) < level:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < level else (low, middle)
    return (low + high) / 2


def wilson(share: float, n: float, level: float) -> tuple[float, float]:
    """Interval of a share of n; never beyond 0 and 1. (0, 1) where n is 0.

    Source: Wilson, "Probable Inference", J. Am. Stat. Assoc. 22, 1927.
    """
    if n <= 0 or math.isnan(share):
        return (0.0, 1.0)
    z2 = normal_quantile(level) ** 2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    spread = math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    low = 0.0 if share <= 0 else max(0.0, centre - spread)
    high = 1.0 if share >= 1 else min(1.0, centre + spread)
    return (low, high)


def within(low: float, high: float, least: float, most: float) -> tuple[float, float]:
    """Limits of an interval, cut to what the number can be; NaN stays.

    What is cut off cannot be the truth: the interval covers it as often as before. One of
    which nothing is left says nothing: NaN.

    Source: Newcombe, "Two-sided confidence intervals for the single proportion",
    Stat. Med. 17, 1998, on limits beyond 0 and 1, and truncating them.

    Args:
        low: Lower limit.
        high: Upper limit.
        least: The least that the number can be.
        most: The most.
    """
    if (low < least and high <= least) or (high > most and low >= most):
        return (float("nan"), float("nan"))
    return (min(max(low, least), most), min(max(high, least), most))


def share(hits: Flags | Floats, weights: Floats, level: float) -> Measure:
    """The weighted share of hits, with Wilson's interval.

    With weights, or with hits between 0 and 1, for the effective number of units: as many
    as would give the same variance if they were drawn simply. That is Kish's
    (sum w)^2 / sum w^2 where all hits are alike.

    Sources: Korn and Graubard, Survey Methodology 24, 1998; Kish, Survey Sampling, 1965.

    Args:
        hits: bool[n] or float64[n] in [0, 1].
        weights: float64[n], not negative.
        level: Of the interval.
    """
    counted = weights > 0
    values, w = np.asarray(hits, dtype=float)[counted], weights[counted]
    n = len(values)
    if n == 0:
        return Measure(value=math.nan, low=math.nan, high=math.nan, n=0)
    p = min(max(float((w * values).sum() / w.sum()), 0.0), 1.0)
    low, high = wilson(p, effective_n(values, w, p), level)
    return Measure(value=p, low=low, high=high, n=n)


def mean(values: Floats, weights: Floats, level: float) -> Measure:
    """A weighted mean of units, with an interval by t.

    NaN of none; no interval of one, or of units that are all alike: see `percentiles`.
    """
    n = len(values)
    if n == 0:
        return Measure(value=math.nan, low=math.nan, high=math.nan, n=0)
    found = float(np.average(values, weights=weights))
    if n == 1 or np.ptp(values) < LEAST_SPREAD:
        return Measure(value=found, low=math.nan, high=math.nan, n=n)
    squares = float(((weights * (values - found)) ** 2).sum()) / weights.sum() ** 2
    reach = student_quantile(level, n - 1) * math.sqrt(squares * n / (n - 1))
    return Measure(value=found, low=found - reach, high=found + reach, n=n)


def kish_n(weights: Floats) -> float:
    """Kish's effective number of units with these weights; 0.0 of none."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0


def effective_n(values: Floats, weights: Floats, mean: float) -> float:
    """Units drawn simply whose share would have the variance of this one.

    Of hits and misses never more than there are: few of one kind could tell too much.
    """
    n = len(values)
    is_binary = bool(np.isin(values, (0.0, 1.0)).all())
    if is_binary and np.ptp(weights) == 0:
        return float(n)
    if n < 2 or np.ptp(values) == 0:
        return kish_n(weights)
    variance = float(((weights * (values - mean)) ** 2).sum() / weights.sum() ** 2)
    found = mean * (1 - mean) / (variance * n / (n - 1))
    return min(found, float(n)) if is_binary else found


def percentiles(draws: Floats, level: float) -> tuple[float, float]:
    """The percentile interval of a bootstrap; draws that are NaN are left out.

    NaN where draws do not vary: they say nothing of how far the truth may be off.
    """
    known = draws[~np.isnan(draws)]
    if len(known) == 0 or np.ptp(known) < LEAST_SPREAD:
        return (math.nan, math.nan)
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return (float(low), float(high))


def resampled(kinds: Integers, n_draws: int, seed: int) -> Iterator[Floats]:
    """Units drawn again and again with replacement, counted by their kind.

    Args:
        kinds: int64[p], units of each kind.
        n_draws: How often.
        seed: Of the generator.

    Yields:
        float64[b, p] counts, of `n_draws` rows together.
    """
    n, p = int(kinds.sum()), len(kinds)
    if n == 0:
        return
    generator = np.random.default_rng(seed)
    few = p <= n / 4
    rows = max(1, _MOST // (p if few else n))
    kind_of = np.repeat(np.arange(p), kinds)
    for start in range(0, n_draws, rows):
        b = min(rows, n_draws - start)
        if few:  # some kinds of many units each
            yield generator.multinomial(n, kinds / n, size=b).astype(float)
        else:
            drawn = kind_of[generator.integers(0, n, size=(b, n))]
            flat = drawn + np.arange(b)[:, None] * p
            yield np.bincount(flat.ravel(), minlength=b * p).reshape(b, p).astype(float)
