"""Agreement of numbers: correlations, ICC(2,1), Krippendorff's alpha, errors.

All measures are smooth functions of the weights of units, with closed derivatives.
Intervals are t intervals by the influences of units, see `uncertainty`: on Fisher's z
scale for correlations, ICC and alpha, on the log scale for the RMSE.

Sources: McGraw and Wong, Psychological Methods 1, 1996 (ICC(A,1), two-way random: Shrout
and Fleiss' ICC(2,1)); Krippendorff, Content Analysis, 2004; Bland and Altman, Lancet 327,
1986.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.statistics.intervals import (
    LEAST_SPREAD,
    LEVEL,
    Measure,
    kish_n,
    level_of,
)
from llamaherd.coding.statistics.ratings import unit_weights_of
from llamaherd.coding.statistics.uncertainty import UnitStatistic, mean
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.arrays import Floats


# Measures in the order of tables, with their titles.
NUMBERS = {
    "pearson": "Pearson's correlation",
    "spearman": "Spearman's rank correlation",
    "icc": "ICC(2,1), absolute agreement",
    "alpha": "Krippendorff's alpha, interval",
    "rmse": "root mean squared error",
    "mae": "mean absolute error",
    "bias": "mean difference (bias)",
}


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
    pearson: Measure | None = None
    spearman: Measure | None = None
    icc: Measure
    alpha: Measure
    rmse: Measure | None = None
    mae: Measure | None = None
    bias: Measure | None = None
    limits: tuple[float, float] | None = None
    points: tuple[tuple[float, float], ...] = ()

    @property
    def measures(self) -> dict[str, Measure]:
        """The measures that are not None, by name."""
        measures = ((name, getattr(self, name)) for name in NUMBERS)
        return {name: measure for name, measure in measures if measure is not None}


def number_agreement(
    ratings: Sequence[Sequence[float]] | Floats,
    *,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = LEVEL,
) -> NumberAgreement:
    """Compare numbers of k raters, float[k, n]; units with NaN are left out."""
    x = np.array(ratings, dtype=np.float64)
    if x.ndim != 2 or len(x) < 2:
        raise ArgumentError(
            "must be numbers of two raters or more, with one row per rater; it has "
            f"{shape_of(x.shape)}",
            argument="ratings",
        )
    level_of(level)
    weights = unit_weights_of(unit_weights, x.shape[1])
    is_complete = np.isfinite(x).all(axis=0) & (weights > 0)
    x, w = x[:, is_complete], weights[is_complete]
    k, n = x.shape

    scaled = _scale_numbers(x)
    alpha, icc = (_on_z_scale(statistic, level) for statistic in _of_squares(scaled, w))
    if k > 2:
        return NumberAgreement(n=n, n_raters=k, icc=icc, alpha=alpha)
    differences = x[0] - x[1]
    bias = mean(differences, w, level)
    spread = _deviation(differences, w, bias.value)
    points = sorted(zip(x.mean(axis=0).tolist(), differences.tolist(), strict=True))
    return NumberAgreement(
        n=n,
        n_raters=k,
        pearson=_on_z_scale(_pearson(scaled, w), level),
        spearman=_on_z_scale(_spearman(x, w), level),
        icc=icc,
        alpha=alpha,
        rmse=_rmse(differences, w, level),
        mae=mean(np.abs(differences), w, level),
        bias=bias,
        limits=(bias.value - 1.96 * spread, bias.value + 1.96 * spread),
        points=tuple(points),
    )


def _scale_numbers(x: Floats) -> Floats:
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


def _statistic(value: float, weights: Floats, slopes: Floats) -> UnitStatistic:
    """Return a statistic of numbers; NaN for fewer than three units.

    Squares and products have heavy tails, so that the variance of a small sample varies
    more than that of normal numbers. Its degrees of freedom are those of a multiple of a
    chi-square variable with the same variance, by the kurtosis of the influences.

    Source: Satterthwaite, "An approximate distribution of estimates of variance
    components", Biometrics Bulletin 2, 1946.
    """
    n, influences = len(weights), weights * slopes
    squares = float((influences**2).sum())
    df = None
    if n > 2 and squares > 0:
        kurtosis = n * float((influences**4).sum()) / squares**2
        spread = kurtosis / n - (n - 3) / (n * (n - 1))  # Var(s^2) / s^4
        df = max(min(2 / spread, kish_n(weights) - 1), 1.0)
    return UnitStatistic(
        value=value if len(weights) > 2 else math.nan,
        weights=weights,
        slopes=slopes,
        unseen=np.full((1, 1), math.nan),
        least=-math.inf,
        most=math.inf,
        df=df,
    )


def _ratio(
    top: float, bottom: float, of_top: Floats, of_bottom: Floats, w: Floats
) -> UnitStatistic:
    """Return a quotient from the derivatives of both parts by the weights."""
    if bottom <= LEAST_SPREAD:
        return _statistic(math.nan, w, np.zeros(len(w)))
    value = top / bottom
    return _statistic(value, w, (of_top - value * of_bottom) / bottom)


def _of_squares(x: Floats, w: Floats) -> tuple[UnitStatistic, UnitStatistic]:
    """Return alpha and ICC, from sums of squares of units, raters and residuals."""
    k, n = x.shape
    if n < 2:
        none = _statistic(math.nan, w, np.zeros(n))
        return none, none
    w = w * (n / w.sum())
    means = x @ w / n
    away, apart = x - means[:, None], means - means.mean()
    of_units, of_all = away.sum(axis=0) ** 2 / k, (away**2).sum(axis=0)
    units, total = float(w @ of_units), float(w @ of_all)
    of_units, of_all = of_units - units / n, of_all - total / n  # by the weights
    raters, of_raters = n * float((apart**2).sum()), 2 * apart @ away
    rest, of_rest = total - units, of_all - of_units

    def icc_parts(units: Any, raters: Any, rest: Any) -> tuple[Any, Any]:
        error = rest / ((n - 1) * (k - 1))
        more = (k - 1) * error + k * (raters / (k - 1) - error) / n
        return units / (n - 1) - error, units / (n - 1) + more

    def alpha_parts(units: Any, raters: Any, rest: Any) -> tuple[Any, Any]:
        observed = (raters + rest) / (n * (k - 1))
        return observed, (units + raters + rest) / (n * k - 1)

    icc, apart_from_chance = (
        _ratio(*parts(units, raters, rest), *parts(of_units, of_raters, of_rest), w)
        for parts in (icc_parts, alpha_parts)
    )
    alpha = replace(
        apart_from_chance,
        value=1 - apart_from_chance.value,
        slopes=-apart_from_chance.slopes,
    )
    return alpha, icc


def _pearson(x: Floats, w: Floats) -> UnitStatistic:
    """Return the correlation of two rows of numbers."""
    if x.shape[1] < 2:
        return _statistic(math.nan, w, np.zeros(len(w)))
    one, other = x - np.average(x, axis=1, weights=w)[:, None]
    squares = float(w @ one**2), float(w @ other**2)
    spread = math.sqrt(squares[0] * squares[1])
    of_spread = np.zeros(len(w))
    if spread > 0:
        of_spread = spread / 2 * (one**2 / squares[0] + other**2 / squares[1])
    return _ratio(float(w @ (one * other)), spread, one * other, of_spread, w)


def _spearman(x: Floats, w: Floats) -> UnitStatistic:
    """Return the correlation of weighted mid-ranks, which depend on the weights."""
    w = w / w.sum()
    at = [np.unique(numbers, return_inverse=True)[1] for numbers in x]
    ranks = []
    for positions in at:
        mass = np.bincount(positions, w)
        ranks.append((np.cumsum(mass) - mass / 2)[positions])
    correlation = _pearson(np.array(ranks), w)
    if math.isnan(correlation.value):
        return correlation
    away = [rank - w @ rank for rank in ranks]
    squares = [float(w @ deviation**2) for deviation in away]
    through = np.zeros(len(w))
    for i in (0, 1):
        of_rank = away[1 - i] / math.sqrt(squares[0] * squares[1])
        of_rank = w * (of_rank - correlation.value * away[i] / squares[i])
        sums = np.bincount(at[i], of_rank)  # higher ranks rise by the whole weight
        through += (sums.sum() - np.cumsum(sums) + sums / 2)[at[i]]
    through -= w @ through
    return _statistic(correlation.value, w, correlation.slopes + through)


def _on_z_scale(coefficient: UnitStatistic, level: float) -> Measure:
    """Return a coefficient with an interval that is symmetric on Fisher's z scale."""
    value, n = coefficient.value, len(coefficient.weights)
    if math.isnan(value) or abs(value) >= 1 - LEAST_SPREAD:
        return Measure(value=value, n=n)
    scaled = replace(
        coefficient, value=math.atanh(value), slopes=coefficient.slopes / (1 - value**2)
    )
    low, high = map(math.tanh, scaled.limits(level))
    return Measure(value=value, low=low, high=high, n=n)


def _rmse(differences: Floats, w: Floats, level: float) -> Measure:
    """Return the RMSE; NaN limits if a single text has all errors."""
    n = len(differences)
    if n == 0:
        return Measure(n=0)
    squares = differences**2
    whole = float(np.average(squares, weights=w))
    root, low, high = math.sqrt(whole), math.nan, math.nan
    others = w.sum() * whole - w * squares
    if n > 2 and (others > LEAST_SPREAD * w.sum() * whole).all():
        slopes = (squares / whole - 1) / (2 * w.sum())
        low, high = _statistic(math.log(root), w, slopes).limits(level)
        low, high = math.exp(low), math.exp(high)
    return Measure(value=root, low=low, high=high, n=n)


def _deviation(values: Floats, w: Floats, centre: float) -> float:
    """Return a weighted standard deviation, with divisor n - 1; NaN for one value."""
    n = len(values)
    if n < 2:
        return math.nan
    variance = float(np.average((values - centre) ** 2, weights=w)) * n / (n - 1)
    return math.sqrt(variance)
