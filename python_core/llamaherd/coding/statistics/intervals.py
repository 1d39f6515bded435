"""Confidence intervals: Wilson's for shares, Student's t."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.engine.core import checks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.arrays import Flags, Floats

LEVEL = 0.95  # usual confidence level
_ROUNDING = 1e-9  # relative to the range of a quantity
NO_LIMITS = (-math.inf, math.inf)  # of `within`
ENOUGH = 5  # cases seen from which on no unseen case is added
_USUAL = 1 / 3  # part of the continuity correction of shares with enough cases
LEAST_SPREAD = 1e-12  # smaller spreads are rounding errors

# Arguments of the bootstrap, for `removed_arguments`.
REMOVED_BOOTSTRAP = dict.fromkeys(
    ("n_bootstrap", "seed"), "intervals are computed without a bootstrap"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Estimate and its confidence interval.

    Attributes:
        value: Estimate; NaN if undefined, for example the precision of a label that was
            never given.
        low: Lower confidence limit; NaN if there is no interval.
        high: Upper confidence limit.
        n: Number of units.
    """

    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    n: int


def level_of(level: float) -> float:
    """Check a confidence level and return it as a float."""
    return checks.real("level", level, 0.5, 0.9999)


def normal_quantile(level: float) -> float:
    """Return the half-width of a normal interval in standard errors."""
    return NormalDist().inv_cdf((1 + level) / 2)


@lru_cache(maxsize=1)
def _gauss() -> tuple[Floats, Floats]:
    """Return cached Gauss-Legendre nodes and weights, which are slow to compute."""
    nodes, weights = np.polynomial.legendre.leggauss(128)
    return nodes, weights


def bonferroni(level: float, n: int) -> float:
    """Return the level of each of n intervals that together have the level `level`.

    Source: Dunn, "Multiple Comparisons Among Means", J. Am. Stat. Assoc. 56, 1961.
    """
    return 1 - (1 - level) / max(n, 1)


@lru_cache(maxsize=1024)
def student_quantile(level: float, df: float) -> float:
    """Return the quantile of Student's t with `df` degrees of freedom; inf for 0.

    With t = sqrt(df) tan(a) the density is a power of cos(a). The density is integrated
    by Gauss-Legendre quadrature, and the integral is inverted by bisection.
    """
    if df < 1:
        return math.inf
    z = normal_quantile(level)
    if df == math.inf:
        return normal_quantile(level)
    if df > 10_000:  # first term of the Cornish-Fisher expansion, error 1e-8
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
    """Return Wilson's interval of a share of n, within [0, 1]; (0, 1) if n is 0.

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


def share_limits(share: float, n: float, level: float) -> tuple[float, float]:
    """Return Wilson's interval of a share of n, with a part of a continuity correction.

    The numbers of hits and of misses are whole. Where one of them is small, Wilson's
    interval contains the share in 84 to 97% of samples, depending on where the share lies
    between two whole numbers. Each limit is therefore that of a share which is farther by
    c / 2 units, with c = 1 / 3. Towards the nearer end of the scale c rises to 1 for the
    hits or misses that are fewer than five. Exact coverage of 95% intervals of simple
    samples of 30 and more is at least 93.7% for every share, on average 96%; they are at
    most 1.05 times as wide as Wilson's where five misses are expected.

    Source: Newcombe, "Two-sided confidence intervals for the single proportion",
    Stat. Med. 17, 1998, method 4, for c = 1.
    """
    if n <= 0 or math.isnan(share):
        return (0.0, 1.0)
    few = max(1 - n * min(share, 1 - share) / ENOUGH, 0.0)
    far, near = (_USUAL / (2 * n), (_USUAL + (1 - _USUAL) * few) / (2 * n))
    below, above = (far, near) if share > 0.5 else (near, far)
    low = wilson(max(share - below, 0.0), n, level)[0] if share > 0 else 0.0
    high = wilson(min(share + above, 1.0), n, level)[1] if share < 1 else 1.0
    return (low, high)


def within(low: float, high: float, least: float, most: float) -> tuple[float, float]:
    """Truncate an interval to the possible range of the quantity; NaN stays NaN.

    Truncation removes only impossible values, so that coverage does not change. An
    interval that is completely outside the range becomes NaN, unless only by rounding.

    Source: Newcombe, "Two-sided confidence intervals for the single proportion",
    Stat. Med. 17, 1998, on limits beyond 0 and 1, and truncating them.
    """
    slack = _ROUNDING * (most - least) if math.isfinite(most - least) else 0.0
    is_below = low < least - slack and high <= least
    if is_below or (high > most + slack and low >= most):
        return (float("nan"), float("nan"))
    return (min(max(low, least), most), min(max(high, least), most))


def share(
    hits: Flags | Floats, weights: Floats, level: float, *, unseen: float = 0.0
) -> Measure:
    """Return the weighted share of hits, with the interval of `share_limits`.

    With weights, or hits between 0 and 1, the interval uses the effective number of
    units: the size of a simple random sample with the same variance. If all hits are
    equal, this is Kish's number, (sum w)^2 / sum w^2. `unseen` is the weight of a miss
    that was not drawn: the lower limit is also computed with it, beyond the usual weight,
    which the interval allows for; it fades as in `uncertainty`.

    Sources: Korn and Graubard, Survey Methodology 24, 1998; Kish, Survey Sampling, 1965.
    """
    counted = weights > 0
    values, w = np.asarray(hits, dtype=float)[counted], weights[counted]
    n = len(values)
    if n == 0:
        return Measure(n=0)
    p = min(max(float((w * values).sum() / w.sum()), 0.0), 1.0)
    low, high = share_limits(p, effective_n(values, w, p), level)
    seen = float((w[values == 0] ** 2).sum())
    more = unseen - float((w**2).sum() / w.sum())
    more *= max(1 - seen / (ENOUGH * unseen**2), 0.0) if unseen > 0 else 0.0
    if more > 0:
        values, w = np.append(values, 0.0), np.append(w, more)
        below = float((w * values).sum() / w.sum())
        low = min(low, share_limits(below, effective_n(values, w, below), level)[0])
    return Measure(value=p, low=low, high=high, n=n)


def mean_of_parts(parts: Sequence[Measure], pooled: Measure, n: int) -> Measure:
    """Return the mean of independent shares, with an interval by MOVER.

    Shares without a value have the value 0 and no error. With few misses, MOVER's limit
    towards the nearer end of the scale is too short: a share of 1 has no arm on this
    side, as if none of the misses could have been in it. The interval then reaches as far
    as that of all units together, `pooled`; from five to ten misses this fades to
    nothing. Two shares of 98% of 25 units each are covered in 98%, by MOVER alone in
    93.5%.

    Source: Zou and Donner, Stat. Med. 27, 2008 (method of variance estimates recovery).
    """
    known = [part for part in parts if not math.isnan(part.value)]
    if not known:
        return Measure(n=n)
    k = len(parts)
    value = sum(part.value for part in known) / k
    below = math.sqrt(sum((part.value - part.low) ** 2 for part in known)) / k
    above = math.sqrt(sum((part.high - part.value) ** 2 for part in known)) / k
    low, high = max(value - below, 0.0), min(value + above, 1.0)
    few = min(max(2 - pooled.n * min(value, 1 - value) / ENOUGH, 0.0), 1.0)
    if value > 0.5:
        high += few * max(pooled.high * len(known) / k - high, 0.0)
    else:
        low -= few * max(low - pooled.low * len(known) / k, 0.0)
    return Measure(value=value, low=low, high=high, n=n)


def kish_n(weights: Floats) -> float:
    """Return Kish's effective number of units for these weights; 0.0 for no units."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0


def effective_n(values: Floats, weights: Floats, mean: float) -> float:
    """Return the size of a simple random sample that gives this share's variance.

    If all values are 0 or 1, this size is at most the number of units, because a few
    units of one kind could otherwise give too large a number.
    """
    n = len(values)
    is_binary = bool(np.isin(values, (0.0, 1.0)).all())
    if is_binary and np.ptp(weights) == 0:
        return float(n)
    if n < 2 or np.ptp(values) == 0:
        return kish_n(weights)
    variance = float(((weights * (values - mean)) ** 2).sum() / weights.sum() ** 2)
    size = mean * (1 - mean) / (variance * n / (n - 1))
    return min(size, float(n)) if is_binary else size
