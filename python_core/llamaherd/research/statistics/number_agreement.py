"""Agreement of numbers: correlations, ICC(2,1), Krippendorff's alpha, errors.

All coefficients are functions of weighted means and sums of cross products. The estimate
without one unit, for each unit in turn, is therefore computed without a loop. Intervals
of correlations, alpha and RMSE are jackknife intervals with t quantiles: on Fisher's z
scale for correlations and alpha, on the log scale for the RMSE. MAE and bias have t
intervals. Units have weights.

Sources: McGraw and Wong, Psychological Methods 1, 1996 (ICC(A,1), two-way random: Shrout
and Fleiss' ICC(2,1)); Krippendorff, Content Analysis, 2004; Bland and Altman, Lancet 327,
1986; Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 11.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.core.plurals import shape_of
from llamaherd.research.statistics.intervals import (
    LEAST_SPREAD,
    LEVEL,
    Measure,
    level_of,
    mean,
    student_quantile,
)
from llamaherd.research.statistics.ratings import unit_weights_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.research.statistics.ratings import Floats

_BLOCK = 2_000_000  # cells of a block of comparisons


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberAgreement:
    """Agreement of numbers that several raters gave to the same texts.

    Attributes:
        n: Number of texts that were rated by all raters.
        n_raters: Number of raters.
        pearson: Pearson's correlation of two raters; None for more raters.
        spearman: Spearman's rank correlation of two raters; None for more raters.
        icc: ICC(2,1): absolute agreement of single raters, two-way random effects.
        alpha: Krippendorff's alpha with squared distances (interval scale).
        rmse: Root of the mean squared difference of two raters; None for more raters.
        mae: Mean absolute difference; None for more than two raters.
        bias: Mean of the first rater's number minus the second rater's number; None for
            more than two raters.
        limits: Limits of agreement: bias plus and minus 1.96 standard deviations of the
            differences; None for more than two raters.
        points: For two raters the mean and the difference of both numbers of each text,
            sorted.
    """

    n: int
    n_raters: int
    pearson: Measure | None
    spearman: Measure | None
    icc: Measure
    alpha: Measure
    rmse: Measure | None
    mae: Measure | None
    bias: Measure | None
    limits: tuple[float, float] | None
    points: tuple[tuple[float, float], ...] = ()

    @property
    def measures(self) -> dict[str, Measure]:
        """The measures that are not None, by name."""
        names = ("pearson", "spearman", "icc", "alpha", "rmse", "mae", "bias")
        found = {name: getattr(self, name) for name in names}
        return {name: each for name, each in found.items() if each is not None}


@dataclass(frozen=True, slots=True)
class _Moments:
    """Weighted moments of b samples of n units by k raters; the mean weight is 1.

    Attributes:
        n: Number of units.
        means: float64[b, k], mean of each rater.
        products: float64[b, k, k], sums of cross products of deviations from the mean.
    """

    n: int
    means: Floats
    products: Floats


def number_agreement(
    ratings: Sequence[Sequence[float]] | Floats,
    *,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = LEVEL,
) -> NumberAgreement:
    """Compare the numbers of two or more raters, such as a model and a person.

    Args:
        ratings: For each of k raters the numbers of n units, NaN if missing. Units
            without a number from every rater are left out.
        unit_weights: float[n], for example 1 / inclusion probability.
        level: Confidence level of the intervals.

    Raises:
        ValueError: There are fewer than two raters, or raters have different numbers of
            units.
    """
    x = np.array(ratings, dtype=np.float64)
    if x.ndim != 2 or len(x) < 2:
        raise ArgumentError(
            "must be numbers of two raters or more, with one row per rater; it has "
            f"{shape_of(x.shape)}",
            argument="ratings",
        )
    level_of(level)
    weights = unit_weights_of(unit_weights, x.shape[1])
    there = np.isfinite(x).all(axis=0) & (weights > 0)
    x, w = x[:, there], weights[there]
    k, n = x.shape

    def measured(of: Callable[[_Moments], Floats], values: Floats) -> Measure:
        return _jackknifed(of, values, w, level)

    scaled = _scaled(x)
    alpha, icc = measured(_alpha, scaled), measured(_icc, scaled)
    if k > 2:
        return NumberAgreement(
            n=n, n_raters=k, pearson=None, spearman=None, icc=icc, alpha=alpha,
            rmse=None, mae=None, bias=None, limits=None,
        )  # fmt: skip
    differences = x[0] - x[1]
    bias = mean(differences, w, level)
    spread = _deviation(differences, w, bias.value)
    points = sorted(zip(x.mean(axis=0).tolist(), differences.tolist(), strict=True))
    return NumberAgreement(
        n=n,
        n_raters=k,
        pearson=measured(_pearson, scaled),
        spearman=_spearman(x, w, level),
        icc=icc,
        alpha=alpha,
        rmse=_rmse(differences, w, level),
        mae=mean(np.abs(differences), w, level),
        bias=bias,
        limits=(bias.value - 1.96 * spread, bias.value + 1.96 * spread),
        points=tuple(points),
    )


def _scaled(x: Floats) -> Floats:
    """Return the numbers with the middle of their range at 0, and a range of 2.

    Coefficients do not depend on the unit of the numbers, but limits for rounding errors
    do. Numbers that differ only by rounding errors become equal.
    """
    if x.size == 0:
        return x
    half = float(np.ptp(x)) / 2
    if half <= LEAST_SPREAD * float(np.abs(x).max()):
        return np.zeros_like(x)
    return np.asarray((x - (float(x.min()) + half)) / half)


def _moments(x: Floats, w: Floats) -> _Moments:
    """Return the moments of the whole sample, b = 1."""
    n = x.shape[1]
    w = w * (n / w.sum())
    means = x @ w / n
    away = x - means[:, None]
    return _Moments(n, means[None], ((away * w) @ away.T)[None])


def _without_each(x: Floats, w: Floats) -> _Moments:
    """Return the moments of n samples, each without one of the units."""
    n, total = x.shape[1], w.sum()
    whole = _moments(x, w)
    away = (x - whole.means[0][:, None]).T
    left = total - w
    means = whole.means - away * (w / left)[:, None]
    products = whole.products * (total / n)
    outer = away[:, :, None] * away[:, None, :]
    products = products - outer * (w * total / left)[:, None, None]
    return _Moments(n - 1, means, products * ((n - 1) / left)[:, None, None])


def _pearson(of: _Moments) -> Floats:
    product, one, other = (
        of.products[:, i, j] for i, j in ((0, 1), (0, 0), (1, 1))
    )  # fmt: skip
    spread = np.sqrt(np.maximum(one * other, 0))
    return _ratio(product, spread)


def _squares(of: _Moments) -> tuple[Floats, Floats, Floats]:
    """Return sums of squares between units, between raters, and of residuals."""
    k = of.means.shape[1]
    between = of.products.sum(axis=(1, 2)) / k
    within = np.trace(of.products, axis1=1, axis2=2) - between
    centre = of.means.mean(axis=1, keepdims=True)
    raters = of.n * ((of.means - centre) ** 2).sum(axis=1)
    return between, raters, within


def _icc(of: _Moments) -> Floats:
    n, k = of.n, of.means.shape[1]
    between, raters, rest = _squares(of)
    of_units, of_raters = between / (n - 1), raters / (k - 1)
    error = rest / ((n - 1) * (k - 1))
    whole = of_units + (k - 1) * error + k * (of_raters - error) / n
    return _ratio(of_units - error, whole)


def _alpha(of: _Moments) -> Floats:
    n, k = of.n, of.means.shape[1]
    between, raters, rest = _squares(of)
    observed = (raters + rest) / (n * (k - 1))
    expected = (between + raters + rest) / (n * k - 1)
    return 1 - _ratio(observed, expected)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    known = bottom > LEAST_SPREAD
    return np.where(known, top / np.where(known, bottom, 1), math.nan)


def _jackknifed(
    of: Callable[[_Moments], Floats], x: Floats, w: Floats, level: float
) -> Measure:
    """Return a coefficient, with an interval on Fisher's z scale."""
    n = x.shape[1]
    if n < 3:
        return Measure(value=math.nan, low=math.nan, high=math.nan, n=n)
    value = float(of(_moments(x, w))[0])
    return _on_z_scale(value, of(_without_each(x, w)), w, level)


def _on_z_scale(value: float, without: Floats, w: Floats, level: float) -> Measure:
    n = len(without)
    if math.isnan(value) or abs(value) >= 1 - LEAST_SPREAD:
        return Measure(value=value, low=math.nan, high=math.nan, n=n)
    inside = np.clip(without, -1 + 1e-12, 1 - 1e-12)
    reach = _reach(np.arctanh(inside), math.atanh(value), w, level)
    low, high = (math.tanh(math.atanh(value) + sign * reach) for sign in (-1, 1))
    return Measure(value=value, low=low, high=high, n=n)


def _reach(without: Floats, value: float, w: Floats, level: float) -> float:
    """Return half the width of a jackknife interval; NaN if estimates do not vary.

    If a unit with the share s of all weights is left out, the estimate changes by the
    unit's influence times s / (1 - s).
    """
    n = len(without)
    share = w / w.sum()
    influence = (value - without) * (1 - share)
    variance = n / (n - 1) * float((influence**2).sum())
    if not math.isfinite(variance) or variance <= 0:
        return math.nan
    return student_quantile(level, n - 1) * math.sqrt(variance)


def _spearman(x: Floats, w: Floats, level: float) -> Measure:
    """Return the correlation of weighted mid-ranks, with a jackknife interval.

    Leaving out one unit changes the ranks of the other units.
    """
    n = x.shape[1]
    if n < 3:
        return Measure(value=math.nan, low=math.nan, high=math.nan, n=n)
    before = np.stack([_below(each, each) @ w for each in x])
    value = float(_pearson(_moments(before, w))[0])
    without = np.empty(n)
    rows = max(1, _BLOCK // n)
    for start in range(0, n, rows):
        part = slice(start, min(start + rows, n))
        # Ranks of all units without one unit of this block, float64[b, n].
        ranks = [
            rank[None, :] - w[part, None] * _below(each, each[part]).T
            for rank, each in zip(before, x, strict=True)
        ]
        kept = np.repeat(w[None, :], part.stop - start, axis=0)
        kept[np.arange(part.stop - start), np.arange(start, part.stop)] = 0
        without[part] = _correlations(ranks[0], ranks[1], kept)
    return _on_z_scale(value, without, w, level)


def _below(values: Floats, others: Floats) -> Floats:
    """Return 1 where the other value is smaller, 0.5 where both are equal, else 0.

    Returns:
        Array of float64[n, b], for n values and b other values.
    """
    below = others[None, :] < values[:, None]
    return np.asarray(below + 0.5 * (others[None, :] == values[:, None]))


def _correlations(x: Floats, y: Floats, w: Floats) -> Floats:
    """Return the weighted correlation of each row, float64[b]."""
    total = w.sum(axis=1, keepdims=True)
    x = x - (w * x).sum(axis=1, keepdims=True) / total
    y = y - (w * y).sum(axis=1, keepdims=True) / total
    spread = np.sqrt((w * x**2).sum(axis=1) * (w * y**2).sum(axis=1))
    return _ratio((w * x * y).sum(axis=1), spread)


def _rmse(differences: Floats, w: Floats, level: float) -> Measure:
    n = len(differences)
    if n == 0:
        return Measure(value=math.nan, low=math.nan, high=math.nan, n=0)
    squares = differences**2
    whole = float(np.average(squares, weights=w))
    root = math.sqrt(whole)
    without = (w.sum() * whole - w * squares) / (w.sum() - w) if n > 2 else np.zeros(1)
    # this condition also holds if a single text has all errors
    if (without <= LEAST_SPREAD * whole).any():
        return Measure(value=root, low=math.nan, high=math.nan, n=n)
    reach = _reach(np.log(without), math.log(whole), w, level) / 2
    return Measure(
        value=root, low=root * math.exp(-reach), high=root * math.exp(reach), n=n
    )


def _deviation(values: Floats, w: Floats, centre: float) -> float:
    """Return a weighted standard deviation, with divisor n - 1; NaN for one value."""
    n = len(values)
    if n < 2:
        return math.nan
    found = float(np.average((values - centre) ** 2, weights=w)) * n / (n - 1)
    return math.sqrt(found)
