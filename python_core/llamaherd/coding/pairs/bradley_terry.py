"""Bradley-Terry strengths of objects from shares of wins in pairs.

Object i wins against object j with the probability 1 / (1 + exp(s_j - s_i)). The result
of a pair may be any share in [0, 1], not only a win or a loss. The strengths therefore
maximize the quasi-likelihood

    sum over pairs of y log p_ij + (1 - y) log (1 - p_ij)

(fractional logistic regression). With a few pairs per object this maximum exaggerates the
differences of strengths, especially if the results are noisy: by 11% with six pairs per
object and beta distributed results. `fit_strengths` therefore removes the bias of the
first order: the function adds phi / 2 log det I(s) to the quasi-likelihood, where I(s) is
the information matrix and phi the variance of the results relative to the binomial
variance (Firth 1993, Jeffreys' prior; Kosmidis and Firth 2009 for phi). The strengths are
unique if the pairs connect all objects. phi is estimated at the maximum of the
quasi-likelihood without this term. If the estimate of phi is above 1, it is replaced by
1, the value for wins and losses.

Results are probabilities of a model, so their variance is not the binomial variance. The
covariance is White's sandwich, with each residual scaled by its leverage (HC3). Intervals
use t quantiles; the degrees of freedom are the number of pairs minus the number of fitted
strengths.

Pairs to compare are chosen by their information. The start is a random cycle through all
objects. After this cycle, each object has been compared twice, and strengths can be
fitted. Each later round draws at most half as many pairs as there are objects, and each
object is in at most one pair. The gain of a pair is the increase of the log determinant
of the information about strengths if this pair is compared next:

    log(1 + p (1 - p) v),

where p is the fitted probability that the first object wins, and v is the variance of the
difference of both strengths. The gain is large if the outcome is uncertain, or if little
is known about the objects. No pair is drawn twice, because a model repeats its answer.

Sources: Bradley, Terry, "Rank Analysis of Incomplete Block Designs: I. The Method of
Paired Comparisons", Biometrika 39, 1952; Ford, "Solution of a Ranking Problem from Binary
Comparisons", Am. Math. Monthly 64, 1957 (when a maximum exists); Firth, "Bias Reduction
of Maximum Likelihood Estimates", Biometrika 80, 1993; Kosmidis, Firth, "Bias Reduction in
Exponential Family Nonlinear Models", Biometrika 96, 2009; Papke, Wooldridge, "Econometric
Methods for Fractional Response Variables", J. Appl. Econometrics 11, 1996; MacKinnon,
White, J. Econometrics 29, 1985 (HC3); Aronow, Samii, Assenova, "Cluster-Robust Variance
Estimation for Dyadic Data", Political Analysis 23, 2015; Glickman, Jensen, "Adaptive
Paired Comparison Design", J. Stat. Planning and Inference 127, 2005 (pairs by expected
information); Pollitt, "The Method of Adaptive Comparative Judgement", Assessment in
Education 19, 2012 (rounds); Grasshoff, Schwabe, "Optimal Design for the Bradley-Terry
Paired Comparison Model", Stat. Methods & Appl. 17, 2008 (the determinant).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    from llamaherd.coding.statistics.sampling import Floats, Ints

    Pair = tuple[int, int]

EDGE = 1e-6  # shares are at least this far from 0 and 1: strengths stay finite
_MOST_STEPS = 200
_TOLERANCE = 1e-9
_CLOSE = 1e-7  # log-odds, tolerance of steps that converge linearly
_MOST_LEVERAGE = 0.9
_LONGEST_STEP = 2.0  # log-odds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StrengthFit:
    """Fitted strengths, float64[k], which sum to 0."""

    strengths: Floats
    covariance: Floats  # float64[k, k]; NaN if df is 0
    # float64[k, k], inverse of the information matrix, to choose further pairs
    information: Floats
    df: int  # Of intervals; 0 if there are as many fitted strengths as pairs
    # Variance of results relative to the binomial variance, at the maximum of the
    # quasi-likelihood; NaN if df is 0
    dispersion: float
    is_converged: bool  # True if the last step was below the tolerance


def fit_strengths(first: Ints, second: Ints, shares: Floats, n: int) -> StrengthFit:
    """Fit strengths to the shares of wins of the first object of each pair.

    With fewer than one degree of freedom the dispersion is unknown, and the strengths are
    the maximum of the quasi-likelihood without a correction of its bias.

    Args:
        first: int64[m], index of the first object of each pair.
        second: int64[m], index of the second object of each pair.
        shares: float64[m], shares of wins of `first`; truncated to [1e-6, 1 - 1e-6].
        n: Number of objects. The pairs must connect all objects, see `components`.
    """
    y = np.clip(shares, EDGE, 1 - EDGE)
    s, converged = _maximum(first, second, y, n)
    w = _weights(s, first, second)
    df = max(len(y) - (n - 1), 0)
    dispersion = float("nan")
    if df > 0:
        residuals = y - _wins(s, first, second)
        dispersion = float((residuals**2 / w).sum() / df)
        s, converged = _reduced(s, first, second, y, min(dispersion, 1.0))
    covariance, inverse = _covariance(s, first, second, y, df)
    return StrengthFit(
        strengths=s,
        covariance=covariance,
        information=inverse,
        df=df,
        dispersion=dispersion,
        is_converged=converged,
    )


def _maximum(first: Ints, second: Ints, y: Floats, n: int) -> tuple[Floats, bool]:
    """Maximize the quasi-likelihood by Newton's method with halved steps."""
    s = np.zeros(n)
    value = _likelihood(s, first, second, y)
    for _ in range(_MOST_STEPS):
        w = _weights(s, first, second)
        gradient = _net(first, second, y - _wins(s, first, second), n)
        step = np.linalg.solve(_filled(_laplacian(first, second, w, n)), gradient)
        size = 1.0
        while True:
            new = s + size * step
            new_value = _likelihood(new, first, second, y)
            if new_value >= value - 1e-12 * abs(value) or size < 1e-6:
                break
            size /= 2
        s, value = new - new.mean(), new_value
        if np.abs(size * step).max() < _TOLERANCE:
            return s, True
    return s, False


def _reduced(
    s: Floats, first: Ints, second: Ints, y: Floats, phi: float
) -> tuple[Floats, bool]:
    """Solve the score equations of the quasi-likelihood plus phi / 2 log det I(s).

    The term phi h (1 / 2 - p) is added to the score of a pair, y - p, where h is the
    pair's leverage. The steps are those of Fisher's scoring, from the maximum of the
    quasi-likelihood.
    """
    n = len(s)
    for _ in range(_MOST_STEPS):
        w = _weights(s, first, second)
        inverse = _inverse(_laplacian(first, second, w, n))
        p = _wins(s, first, second)
        leverage = w * variances_of_differences(inverse, first, second)
        step = inverse @ _net(first, second, y - p + phi * leverage * (0.5 - p), n)
        longest = float(np.abs(step).max())
        s = s + step * min(1.0, _LONGEST_STEP / max(longest, 1e-300))
        s -= s.mean()
        if longest < _CLOSE:
            return s, True
    return s, False


def _covariance(
    s: Floats, first: Ints, second: Ints, y: Floats, df: int
) -> tuple[Floats, Floats]:
    """Return the sandwich covariance (NaN if df is 0), and the inverse information."""
    n = len(s)
    w = _weights(s, first, second)
    inverse = _inverse(_laplacian(first, second, w, n))
    if df == 0:
        return np.full((n, n), np.nan), inverse
    leverage = np.clip(
        w * variances_of_differences(inverse, first, second), 0, _MOST_LEVERAGE
    )
    residuals = (y - _wins(s, first, second)) / (1 - leverage)
    return inverse @ _laplacian(first, second, residuals**2, n) @ inverse, inverse


def components(first: Ints, second: Ints, n: int) -> Ints:
    """Return each object's connected component, int64[n]; component 0 is the largest."""
    parent = np.arange(n)

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = int(parent[i])
        return i

    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        parent[root(i)] = root(j)
    roots = np.array([root(i) for i in range(n)], dtype=np.int64)
    names, component, sizes = np.unique(roots, return_inverse=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    return np.asarray(place[component])


def variances_of_differences(covariance: Floats, first: Ints, second: Ints) -> Floats:
    """Return the variance of the difference in strength of each pair, float64[m]."""
    variances = np.diag(covariance)
    both = variances[first] + variances[second] - 2 * covariance[first, second]
    return np.asarray(np.maximum(both, 0.0))


def dyadic_variance(errors: Floats, first: Ints, second: Ints, n: int) -> float:
    """Return the variance of a mean over pairs of n objects; pairs may share an object.

    `errors` are the values of the pairs minus their mean.
    """
    m = len(errors)
    sums = np.bincount(first, errors, n) + np.bincount(second, errors, n)
    alone = float((errors**2).sum())
    # The estimate can be too small, even negative. Its lower limit is the variance of a
    # mean over independent pairs.
    return max(float((sums**2).sum()) - alone, alone) / m**2 * m / max(m - 1, 1)


def _wins(s: Floats, first: Ints, second: Ints) -> Floats:
    return np.asarray(1 / (1 + np.exp(s[second] - s[first])))


def _weights(s: Floats, first: Ints, second: Ints) -> Floats:
    """Return the binomial variance of each pair's result, above 0."""
    p = _wins(s, first, second)
    return np.asarray(np.maximum(p * (1 - p), EDGE**2))


def _net(first: Ints, second: Ints, values: Floats, n: int) -> Floats:
    """Return each object's sum of its pairs' values, negated where it is the second."""
    return np.asarray(np.bincount(first, values, n) - np.bincount(second, values, n))


def _likelihood(s: Floats, first: Ints, second: Ints, y: Floats) -> float:
    d = s[first] - s[second]
    return float(-(y * np.logaddexp(0, -d) + (1 - y) * np.logaddexp(0, d)).sum())


def _laplacian(first: Ints, second: Ints, weights: Floats, n: int) -> Floats:
    """Return the Laplacian of the pairs' graph with these edge weights, float64[n, n]."""
    out = np.zeros((n, n))
    np.add.at(out, (first, second), -weights)
    out += out.T
    out[np.diag_indices(n)] = -out.sum(axis=1)
    return out


def _inverse(laplacian: Floats) -> Floats:
    """Return the generalized inverse of the Laplacian of a connected graph."""
    n = len(laplacian)
    inverse = np.linalg.inv(_filled(laplacian))
    return np.asarray(inverse - inverse.sum() / n**2)


def _filled(laplacian: Floats) -> Floats:
    """Return a regular matrix that acts like the Laplacian on vectors with sum 0."""
    scale = max(float(np.trace(laplacian)), 1e-300)
    return np.asarray(laplacian + scale / len(laplacian) ** 2)


_MOST_CANDIDATES = 1_000_000  # largest number of pairs whose gain is computed in a round


def first_pairs(n: int, rng: np.random.Generator) -> list[Pair]:
    """Return a random cycle through n objects; for two objects, their only pair."""
    order = rng.permutation(n).tolist()
    if n == 2:
        return [(order[0], order[1])]
    return list(zip(order, [*order[1:], order[0]], strict=True))


def next_pairs(
    fit: StrengthFit, known: Collection[Pair], most: int, rng: np.random.Generator
) -> list[Pair]:
    """Return the pairs of the next round; each object is in at most one pair."""
    n = len(fit.strengths)
    first, second = _candidates(n, known, rng)
    gain = _gain(fit, first, second)
    order = np.lexsort((rng.random(len(gain)), -gain))
    return _matched(first[order], second[order], min(most, n // 2), rng)


def random_pairs(
    n: int, known: Collection[Pair], most: int, rng: np.random.Generator
) -> list[Pair]:
    """Return random pairs of a round; each object is in at most one pair."""
    first, second = _candidates(n, known, rng)
    order = rng.permutation(len(first))
    return _matched(first[order], second[order], min(most, n // 2), rng)


def _matched(
    first: Ints, second: Ints, most: int, rng: np.random.Generator
) -> list[Pair]:
    """Accept pairs in their order, if neither object is in an accepted pair."""
    matched: set[int] = set()
    pairs: list[Pair] = []
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        if len(pairs) == most:
            break
        if i not in matched and j not in matched:
            matched |= {i, j}
            pairs.append((i, j) if rng.random() < 0.5 else (j, i))
    return pairs


def _candidates(
    n: int, known: Collection[Pair], rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Return pairs that were not compared, i < j; a random part if there are too many."""
    if n * (n - 1) // 2 <= _MOST_CANDIDATES:
        first, second = np.triu_indices(n, 1)
    else:
        drawn = rng.integers(0, n, (2, _MOST_CANDIDATES))
        drawn = np.unique(np.sort(drawn[:, drawn[0] != drawn[1]], axis=0), axis=1)
        first, second = drawn
    compared = np.array([min(p) * n + max(p) for p in known], dtype=np.int64)
    free = ~np.isin(first * n + second, compared)
    return first[free], second[free]


def _gain(fit: StrengthFit, first: Ints, second: Ints) -> Floats:
    d = fit.strengths[first] - fit.strengths[second]
    weight = np.exp(-np.logaddexp(0, d) - np.logaddexp(0, -d))
    return np.asarray(
        np.log1p(weight * variances_of_differences(fit.information, first, second))
    )
