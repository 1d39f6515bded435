"""Bradley-Terry strengths of objects from shares of wins in pairs.

Object i wins against object j with the probability 1 / (1 + exp(s_j - s_i)). The result
of a pair may be any share in [0, 1], not only a win or a loss. The strengths therefore
maximize the quasi-likelihood

    sum over pairs of y log p_ij + (1 - y) log (1 - p_ij)

(fractional logistic regression). The strengths are unique if the pairs connect all
objects and no group of objects won every pair against the others. Results are
probabilities of a model, so their variance is not the binomial variance. The covariance
is White's sandwich, with each residual scaled by its leverage (HC3). Intervals use t
quantiles; the degrees of freedom are the number of pairs minus the number of fitted
strengths.

Sources: Bradley, Terry, "Rank Analysis of Incomplete Block Designs: I. The Method of
Paired Comparisons", Biometrika 39, 1952; Ford, "Solution of a Ranking Problem from Binary
Comparisons", Am. Math. Monthly 64, 1957 (when a solution exists); Papke, Wooldridge,
"Econometric Methods for Fractional Response Variables", J. Appl. Econometrics 11, 1996;
MacKinnon, White, J. Econometrics 29, 1985 (HC3); Aronow, Samii, Assenova, "Cluster-Robust
Variance Estimation for Dyadic Data", Political Analysis 23, 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from llamaherd.research.statistics.sampling import Floats, Ints

EDGE = 1e-6  # shares are at least this far from 0 and 1: strengths stay finite
_MOST_STEPS = 200
_TOLERANCE = 1e-9
_MOST_LEVERAGE = 0.9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StrengthFit:
    """Fitted strengths, which sum to 0.

    Attributes:
        strengths: float64[k], fitted strengths.
        covariance: float64[k, k], covariances of the strengths.
        information: float64[k, k], inverse of the information matrix, to choose further
            pairs.
        df: Degrees of freedom of intervals; 0 if there are as many fitted strengths as
            pairs, and the covariance is then NaN.
        dispersion: Variance of results relative to the binomial variance; NaN if df is 0.
        is_converged: True if the last step was below the tolerance.
    """

    strengths: Floats
    covariance: Floats
    information: Floats
    df: int
    dispersion: float
    is_converged: bool


def fit_strengths(first: Ints, second: Ints, shares: Floats, n: int) -> StrengthFit:
    """Fit strengths to the shares of wins of the first object of each pair.

    Args:
        first: int64[m], index of the first object of each pair.
        second: int64[m], index of the second object of each pair.
        shares: float64[m], shares of wins of `first`; truncated to [1e-6, 1 - 1e-6].
        n: Number of objects. The pairs must connect all objects, see `components`.
    """
    y = np.clip(shares, EDGE, 1 - EDGE)
    s = np.zeros(n)
    value = _likelihood(s, first, second, y)
    converged = False
    for _ in range(_MOST_STEPS):
        p = _wins(s, first, second)
        gradient = np.bincount(first, y - p, n) - np.bincount(second, y - p, n)
        step = np.linalg.solve(
            _filled(_laplacian(first, second, p * (1 - p), n)), gradient
        )
        size = 1.0
        while True:
            new = s + size * step
            new_value = _likelihood(new, first, second, y)
            if new_value >= value - 1e-12 * abs(value) or size < 1e-6:
                break
            size /= 2
        s, value = new - new.mean(), new_value
        if np.abs(size * step).max() < _TOLERANCE:
            converged = True
            break
    return _fitted(s, first, second, y, converged)


def _fitted(
    s: Floats, first: Ints, second: Ints, y: Floats, converged: bool
) -> StrengthFit:
    n, m = len(s), len(y)
    p = _wins(s, first, second)
    w = np.maximum(p * (1 - p), EDGE**2)
    inverse = _inverse(_laplacian(first, second, w, n))
    df = m - (n - 1)
    residuals = y - p
    covariance = np.full((n, n), np.nan)
    dispersion = float("nan")
    if df > 0:
        leverage = np.clip(w * spread(inverse, first, second), 0, _MOST_LEVERAGE)
        meat = _laplacian(first, second, (residuals / (1 - leverage)) ** 2, n)
        covariance = inverse @ meat @ inverse
        dispersion = float((residuals**2 / w).sum() / df)
    return StrengthFit(
        strengths=s,
        covariance=covariance,
        information=inverse,
        df=max(df, 0),
        dispersion=dispersion,
        is_converged=converged,
    )


def components(first: Ints, second: Ints, n: int) -> Ints:
    """Return the index of each object's connected component, int64[n].

    Component 0 is the largest.
    """
    parent = np.arange(n)

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = int(parent[i])
        return i

    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        parent[root(i)] = root(j)
    roots = np.array([root(i) for i in range(n)], dtype=np.int64)
    names, found, sizes = np.unique(roots, return_inverse=True, return_counts=True)
    order = np.argsort(-sizes, kind="stable")
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    return np.asarray(place[found])


def spread(covariance: Floats, first: Ints, second: Ints) -> Floats:
    """Return the variance of the difference in strength of each pair, float64[m]."""
    own = np.diag(covariance)
    both = own[first] + own[second] - 2 * covariance[first, second]
    return np.asarray(np.maximum(both, 0.0))


def dyadic_variance(errors: Floats, first: Ints, second: Ints, n: int) -> float:
    """Return the variance of a mean over pairs, which depend if they share an object.

    Args:
        errors: float64[m], values minus their mean.
        first: int64[m], index of the first object of each pair.
        second: int64[m], index of the second object of each pair.
        n: Number of objects.
    """
    m = len(errors)
    sums = np.bincount(first, errors, n) + np.bincount(second, errors, n)
    alone = float((errors**2).sum())
    # The variance of independent pairs is the lower limit: estimates can be negative.
    return max(float((sums**2).sum()) - alone, alone) / m**2 * m / max(m - 1, 1)


def _wins(s: Floats, first: Ints, second: Ints) -> Floats:
    return np.asarray(1 / (1 + np.exp(s[second] - s[first])))


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
