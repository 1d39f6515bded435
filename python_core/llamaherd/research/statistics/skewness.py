"""Number of codes that a t interval needs if the numbers are skewed.

A t interval assumes that the estimate is about normally distributed. Cochran's rule
requires more than 25 G^2 codes, where G is the skewness of the numbers whose mean is
estimated; the skewness of the mean, G / sqrt(n), is then below 0.2. An estimate from
labels and codes is a sum of two independent parts: the texts as a sample of a
population, with the terms psi of the codes, and the draw of the coded texts, with the
terms c of the errors that the labels leave. Its third central moment is

    sum_i R_i (psi_i^3 / pi_i + 3 psi_i (1 - pi_i) t_i^2 + (1 - pi_i) (1 - 2 pi_i) t_i^3)

with t_i = c_i / pi_i, minus its mean in the stratum. If estimates describe these texts,
only the last term remains. For codes alone and one simple sample of a population the
skewness is exactly G / sqrt(n).

The skewness of a sample is below the square root of its size, and on average much smaller
than that of a population with a heavy tail. A sample that contains none of the largest
numbers therefore does not show that it is too small.

Sources: Cochran, "Sampling Techniques", 3rd ed., 1977, section 2.15; Joanes, Gill,
"Comparing measures of sample skewness and kurtosis", The Statistician 47, 1998 (the
correction for small samples).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics.dsl import bread_at
from llamaherd.research.statistics.regression import scores

if TYPE_CHECKING:
    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.sampling import Floats

MOST = 0.2  # skewness of an estimate above which its t interval may be too short
_LEAST = 3  # smallest number of codes with a skewness
_BINARY = 2  # values of an outcome; more: a number


def codes_needed(
    problem: Problem, lam: float | Floats, theta: Floats, *, below: Floats, above: Floats
) -> Floats:
    """Return the numbers of codes that Cochran's rule requires, float64[p].

    Args:
        problem: The regression.
        lam: Weight of the labels, or one weight for each coefficient.
        theta: float64[p], coefficients.
        below: float64[p], variances that few observed errors add to the lower limits.
        above: float64[p], variances that few observed errors add to the upper limits.

    Returns:
        The numbers; 0 for an estimate without variance. NaN with fewer than three codes,
        and for outcomes with at most two values, whose intervals are not t intervals.
    """
    n = (problem.x != 0).sum(axis=0).astype(np.float64)
    if len(np.unique(problem.y)) <= _BINARY:
        return np.full(len(n), np.nan)
    third, variance = _moments(problem, lam, theta)
    # The interval is too short on the side of the long tail.
    variance = variance + np.where(third > 0, above, below)
    has_variance = variance > 1e-300
    skew = third / np.where(has_variance, variance, 1.0) ** 1.5
    small = n * (n - 1) / np.maximum(n - 2, 1) ** 2
    needed = np.where(has_variance, n * small * (skew / MOST) ** 2, 0.0)
    return np.asarray(np.where(n < _LEAST, np.nan, needed), dtype=np.float64)


def _moments(
    problem: Problem, lam: float | Floats, theta: Floats
) -> tuple[Floats, Floats]:
    """Return the third central moments and the variances, float64[p] each."""
    kind, rows, v = problem.kind, problem.rows, problem.survey[:, None]
    inverse = np.linalg.pinv(bread_at(problem, lam, theta))
    own = (scores(kind, problem.x, problem.y, theta) * v[rows]) @ inverse
    hat = (lam * scores(kind, problem.x_hat, problem.y_hat, theta) * v) @ inverse
    change = own - hat[rows]
    if problem.clusters is not None:
        hat[rows] += change / problem.probs[:, None]
        sums = np.zeros((int(problem.clusters.max()) + 1, hat.shape[1]))
        np.add.at(sums, problem.clusters, hat)
        return np.asarray((sums**3).sum(axis=0)), np.asarray((sums**2).sum(axis=0))
    scale, left = problem.drawn_terms
    drawn, left = change * scale[:, None], left[:, None]
    if problem.strata is not None:
        drawn = _centered(drawn, left, problem)
    third = (left * (2 * left - 1) * drawn**3).sum(axis=0)
    variance = (left * drawn**2).sum(axis=0)
    if problem.target == "texts":
        return third, variance
    probs = problem.probs[:, None]
    third = third + (own**3 / probs + 3 * own * left * drawn**2).sum(axis=0)
    return third, variance + (own**2 / probs).sum(axis=0)


def _centered(drawn: Floats, left: Floats, problem: Problem) -> Floats:
    """Return terms minus their weighted mean in the stratum, float64[n, p]."""
    strata = np.zeros(0) if problem.strata is None else problem.strata
    out = drawn.copy()
    for h in np.unique(strata):
        own = strata == h
        more = 0.0 if problem.outside is None else problem.outside.of(int(h))[1]
        whole = float(left[own].sum()) + more
        if whole > 0:
            out[own] -= (left[own] * drawn[own]).sum(axis=0) / whole
    return np.asarray(out)
