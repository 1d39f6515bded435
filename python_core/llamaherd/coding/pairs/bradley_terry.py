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

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection

    from llamaherd.engine.core.arrays import Floats, Ints

    Pair = tuple[int, int]

EDGE = 1e-6  # shares are at least this far from 0 and 1: strengths stay finite
_MOST_STEPS = 200
_TOLERANCE = 1e-9
_CLOSE = 1e-7  # log-odds, tolerance of steps that converge linearly
_MOST_LEVERAGE = 0.9
_LONGEST_STEP = 2.0  # log-odds
_MOST_CANDIDATES = 1_000_000  # largest number of pairs whose gain is computed in a round


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """m pairs of n objects: the edges of a graph."""

    first: Ints  # int64[m], index of the first object of each pair
    second: Ints  # int64[m]
    n: int

    def __len__(self) -> int:
        return len(self.first)

    @property
    def components(self) -> Ints:
        """Connected component of each object, int64[n]; component 0 is the largest."""
        parent = np.arange(self.n)

        def root(i: int) -> int:
            while parent[i] != i:
                parent[i] = parent[parent[i]]
                i = int(parent[i])
            return i

        for i, j in zip(self.first.tolist(), self.second.tolist(), strict=True):
            parent[root(i)] = root(j)
        roots = np.array([root(i) for i in range(self.n)], dtype=np.int64)
        _, component, sizes = np.unique(roots, return_inverse=True, return_counts=True)
        return np.asarray(np.argsort(np.argsort(-sizes, kind="stable"))[component])

    def odds(self, strengths: Floats) -> Floats:
        """Return the log-odds that the first object wins, float64[m]."""
        return np.asarray(strengths[self.first] - strengths[self.second])

    def net(self, values: Floats) -> Floats:
        """Return each object's sum of its pairs' values, negated where it is second."""
        of_first = np.bincount(self.first, values, self.n)
        return np.asarray(of_first - np.bincount(self.second, values, self.n))

    def laplacian(self, weights: Floats) -> Floats:
        """Return the Laplacian of the graph with these edge weights, float64[n, n]."""
        out = np.zeros((self.n, self.n))
        np.add.at(out, (self.first, self.second), -weights)
        out += out.T
        out[np.diag_indices(self.n)] = -out.sum(axis=1)
        return out

    def variances(self, covariance: Floats) -> Floats:
        """Return the variance of the difference in strength of each pair, float64[m]."""
        of_one = np.diag(covariance)
        joint = covariance[self.first, self.second]
        both = of_one[self.first] + of_one[self.second] - 2 * joint
        return np.asarray(np.maximum(both, 0.0))

    def variance_of_mean(self, errors: Floats) -> float:
        """Return the variance of a mean over pairs, which may share an object.

        `errors` are the values of the pairs minus their mean.
        """
        m, n = len(errors), self.n
        sums = np.bincount(self.first, errors, n) + np.bincount(self.second, errors, n)
        alone = float((errors**2).sum())
        # The estimate can be too small, even negative. Its lower limit is the variance of
        # a mean over independent pairs.
        return max(float((sums**2).sum()) - alone, alone) / m**2 * m / max(m - 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StrengthFit:
    """Fitted strengths, float64[n], which sum to 0."""

    strengths: Floats
    covariance: Floats  # float64[n, n]; NaN if df is 0
    # float64[n, n], inverse of the information matrix, to choose further pairs
    information: Floats
    df: int  # Of intervals; 0 if there are as many fitted strengths as pairs
    # Variance of results relative to the binomial variance, at the maximum of the
    # quasi-likelihood; NaN if df is 0
    dispersion: float
    is_converged: bool  # True if the last step was below the tolerance


def fit_strengths(pairs: Pairs, shares: Floats) -> StrengthFit:
    """Fit strengths to the shares of wins of the first object of each pair.

    The pairs must connect all objects. Shares are truncated to [1e-6, 1 - 1e-6]. With
    fewer than one degree of freedom the dispersion is unknown, and the strengths are the
    maximum of the quasi-likelihood without a correction of its bias.
    """
    y = np.clip(shares, EDGE, 1 - EDGE)
    s, converged = _maximum(pairs, y)
    df = max(len(y) - (pairs.n - 1), 0)
    dispersion = math.nan
    covariance = np.full((pairs.n, pairs.n), np.nan)
    if df > 0:
        p, w = _chances(pairs, s)
        dispersion = float(((y - p) ** 2 / w).sum() / df)
        s, converged = _reduced_bias_fit(pairs, y, s, min(dispersion, 1.0))
    p, w = _chances(pairs, s)
    inverse = _inverse(pairs.laplacian(w))
    if df > 0:
        leverage = np.clip(w * pairs.variances(inverse), 0, _MOST_LEVERAGE)
        residuals = (y - p) / (1 - leverage)
        covariance = inverse @ pairs.laplacian(residuals**2) @ inverse
    return StrengthFit(
        strengths=s,
        covariance=covariance,
        information=inverse,
        df=df,
        dispersion=dispersion,
        is_converged=converged,
    )


def _chances(pairs: Pairs, s: Floats) -> tuple[Floats, Floats]:
    """Return each pair's probability that the first wins, and its variance above 0."""
    p = 1 / (1 + np.exp(-pairs.odds(s)))
    return p, np.maximum(p * (1 - p), EDGE**2)


def _maximum(pairs: Pairs, y: Floats) -> tuple[Floats, bool]:
    """Maximize the quasi-likelihood by Newton's method with halved steps."""

    def likelihood(s: Floats) -> float:
        d = pairs.odds(s)
        return float(-(y * np.logaddexp(0, -d) + (1 - y) * np.logaddexp(0, d)).sum())

    s = np.zeros(pairs.n)
    value = likelihood(s)
    for _ in range(_MOST_STEPS):
        p, w = _chances(pairs, s)
        step = np.linalg.solve(_regular_matrix(pairs.laplacian(w)), pairs.net(y - p))
        size = 1.0
        while True:
            new = s + size * step
            new_value = likelihood(new)
            if new_value >= value - 1e-12 * abs(value) or size < 1e-6:
                break
            size /= 2
        s, value = new - new.mean(), new_value
        if np.abs(size * step).max() < _TOLERANCE:
            return s, True
    return s, False


def _reduced_bias_fit(
    pairs: Pairs, y: Floats, s: Floats, phi: float
) -> tuple[Floats, bool]:
    """Solve the score equations of the quasi-likelihood plus phi / 2 log det I(s).

    The term phi h (1 / 2 - p) is added to the score of a pair, y - p, where h is the
    pair's leverage. The steps are those of Fisher's scoring, from the maximum of the
    quasi-likelihood.
    """
    for _ in range(_MOST_STEPS):
        p, w = _chances(pairs, s)
        inverse = _inverse(pairs.laplacian(w))
        leverage = w * pairs.variances(inverse)
        step = inverse @ pairs.net(y - p + phi * leverage * (0.5 - p))
        longest = float(np.abs(step).max())
        s = s + step * min(1.0, _LONGEST_STEP / max(longest, 1e-300))
        s -= s.mean()
        if longest < _CLOSE:
            return s, True
    return s, False


def _inverse(laplacian: Floats) -> Floats:
    """Return the generalized inverse of the Laplacian of a connected graph."""
    n = len(laplacian)
    inverse = np.linalg.inv(_regular_matrix(laplacian))
    return np.asarray(inverse - inverse.sum() / n**2)


def _regular_matrix(laplacian: Floats) -> Floats:
    """Return a regular matrix that acts like the Laplacian on vectors with sum 0."""
    scale = max(float(np.trace(laplacian)), 1e-300)
    return np.asarray(laplacian + scale / len(laplacian) ** 2)


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
    pairs = _candidates(len(fit.strengths), known, rng)
    d = pairs.odds(fit.strengths)
    weights = np.exp(-np.logaddexp(0, d) - np.logaddexp(0, -d))
    gain = np.log1p(weights * pairs.variances(fit.information))
    return _disjoint_pairs(pairs, np.lexsort((rng.random(len(gain)), -gain)), most, rng)


def random_pairs(
    n: int, known: Collection[Pair], most: int, rng: np.random.Generator
) -> list[Pair]:
    """Return random pairs of a round; each object is in at most one pair."""
    pairs = _candidates(n, known, rng)
    return _disjoint_pairs(pairs, rng.permutation(len(pairs)), most, rng)


def _disjoint_pairs(
    candidates: Pairs, order: Ints, most: int, rng: np.random.Generator
) -> list[Pair]:
    """Accept pairs in an order, if neither object is in an accepted pair."""
    matched: set[int] = set()
    pairs: list[Pair] = []
    ordered = (candidates.first[order].tolist(), candidates.second[order].tolist())
    for i, j in zip(*ordered, strict=True):
        if len(pairs) == min(most, candidates.n // 2):
            break
        if i not in matched and j not in matched:
            matched |= {i, j}
            pairs.append((i, j) if rng.random() < 0.5 else (j, i))
    return pairs


def _candidates(n: int, known: Collection[Pair], rng: np.random.Generator) -> Pairs:
    """Return pairs that were not compared, i < j; a random part if there are too many."""
    if n * (n - 1) // 2 <= _MOST_CANDIDATES:
        first, second = np.triu_indices(n, 1)
    else:
        drawn = rng.integers(0, n, (2, _MOST_CANDIDATES))
        drawn = np.unique(np.sort(drawn[:, drawn[0] != drawn[1]], axis=0), axis=1)
        first, second = drawn
    compared = np.array([min(p) * n + max(p) for p in known], dtype=np.int64)
    free = ~np.isin(first * n + second, compared)
    return Pairs(first[free], second[free], n)
