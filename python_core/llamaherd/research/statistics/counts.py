"""Confidence limits of rates with few observed cases, and of their sums and ratios.

A t interval of a mean uses the observed variance. With few observed cases, or none, that
variance is far too small in many samples. Wilson's interval uses the variance under the
tested rate instead. Sums of independent rates use the method of variance estimates
recovery (MOVER): the squared distance from each estimate to its limit is used as a
variance on that side.

Sources: Wilson, "Probable Inference", J. Am. Stat. Assoc. 22, 1927; Fay and Feuer,
"Confidence intervals for directly standardized rates", Stat. Med. 16, 1997, for weights;
Zou and Donner, "Construction of confidence limits about effect measures", Stat. Med. 27,
2008, for sums; Donner and Zou, "Closed-form confidence intervals for functions of the
normal mean and standard deviation", Stat. Methods Med. Res. 21, 2012, for ratios.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics.intervals import normal_quantile

if TYPE_CHECKING:
    from llamaherd.research.statistics.sampling import Floats

FEW = 15  # rates with fewer observed cases get Wilson's limits
_ROUNDING = 1e-9  # relative difference of equal weights


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfidenceLimits:
    """An estimate and its confidence limits.

    Attributes:
        value: Estimate.
        low: Lower limit.
        high: Upper limit.
    """

    value: float
    low: float
    high: float


def are_equal(weights: Floats) -> bool:
    """Return whether all weights are equal, but for rounding; True without weights."""
    return len(weights) == 0 or bool(np.ptp(weights) <= _ROUNDING * weights.max())


def total(
    terms: Floats, heaviest: float, most: float, level: float, cap: float = math.inf
) -> ConfidenceLimits:
    """Return a weighted total of cases with Wilson's limits.

    With equal weights this is exactly Wilson's interval. With unequal weights the
    variance of a total mu is w mu (1 - mu / most), where w is the mean weight of the
    observed cases. For the upper limit, one case of the greatest weight is added, as in
    Fay and Feuer.

    Args:
        terms: float64[k], weights of the observed cases, all above 0.
        heaviest: Weight of an unobserved case; see `heaviest`.
        most: Total if all drawn texts were cases.
        level: Confidence level.
        cap: Upper bound of the total.
    """
    value = float(terms.sum())
    squares = float((terms**2).sum())
    z2 = normal_quantile(level) ** 2
    most = max(most, value)
    if most <= 0 or cap <= 0:
        return ConfidenceLimits(value=value, low=value, high=value)
    many = (squares + heaviest**2) / (value + heaviest)
    high = _root(value, z2 * many, most, 1)
    low = _root(value, z2 * squares / value, most, -1) if value > 0 else 0.0
    return ConfidenceLimits(value=value, low=low, high=max(value, min(high, cap)))


def _root(value: float, scaled: float, most: float, sign: int) -> float:
    """Solve (mu - value)^2 = scaled mu (1 - mu / most)."""
    half = value + scaled / 2
    square = 1 + scaled / most
    inner = max(half**2 - square * value**2, 0.0)
    return (half + sign * math.sqrt(inner)) / square


def ratio(above: ConfidenceLimits, below: ConfidenceLimits) -> ConfidenceLimits:
    """Return the ratio of two independent non-negative numbers, by MOVER.

    Source: Donner and Zou, 2012.
    """
    if below.value <= 0:
        return ConfidenceLimits(value=math.nan, low=0.0, high=math.inf)
    product = above.value * below.value
    found = []
    for sign, a, b in ((-1, above.low, below.high), (1, above.high, below.low)):
        if b <= 0:
            found.append(math.inf)
            continue
        left, right = a * (2 * above.value - a), b * (2 * below.value - b)
        if right <= 0:
            found.append(math.inf if sign > 0 else 0.0)
            continue
        root = math.sqrt(max(product**2 - left * right, 0.0))
        found.append(max((product + sign * root) / right, 0.0))
    return ConfidenceLimits(value=above.value / below.value, low=found[0], high=found[1])
