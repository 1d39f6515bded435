"""Simultaneous confidence intervals of many estimates.

Sources: Dunn, "Multiple Comparisons Among Means", J. Am. Stat. Assoc. 56, 1961
(Bonferroni); Hothorn, Bretz, Westfall, "Simultaneous Inference in General Parametric
Models", Biometrical J. 50, 2008 (the largest of correlated t statistics).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.research.statistics.intervals import student_quantile

if TYPE_CHECKING:
    from llamaherd.research.statistics.sampling import Floats

Simultaneous = Literal["bonferroni", "max_t"]
WAYS: tuple[Simultaneous, ...] = ("bonferroni", "max_t")
_N_DRAWS = 100_000
_SEED = 1


def bonferroni(level: float, n: int) -> float:
    """Return the confidence level for each of n intervals (Bonferroni).

    If each interval has this level, the joint confidence level of all n intervals is at
    least `level`.
    """
    return 1 - (1 - level) / max(n, 1)


def max_t(level: float, covariance: Floats, df: float) -> float:
    """Return the level of each interval that gives all intervals the joint level `level`.

    Args:
        level: Probability that every interval contains its true value.
        covariance: float64[m, m], covariances of the estimates.
        df: Degrees of freedom of the t distribution.

    Returns:
        The level of each interval, at most the level by `bonferroni`.
    """
    errors = np.sqrt(np.diag(covariance))
    used = errors > 0
    m = int(used.sum())
    if m < 2:
        return level
    correlation = covariance[np.ix_(used, used)] / np.outer(errors[used], errors[used])
    root = symmetric_root(correlation)
    rng = np.random.default_rng(_SEED)
    draws = np.abs(rng.normal(size=(_N_DRAWS, m)) @ root.T).max(axis=1)
    if not math.isinf(df):
        draws /= np.sqrt(rng.chisquare(df, _N_DRAWS) / df)
    return min(level_at(float(np.quantile(draws, level)), df), bonferroni(level, m))


def symmetric_root(covariance: Floats) -> Floats:
    """Return the symmetric root of a covariance matrix.

    The root times standard normal draws gives draws with this covariance.
    Unlike the eigenvectors, the symmetric root does not change with rounding errors.

    Args:
        covariance: float64[m, m], positive semidefinite except for rounding errors.
    """
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def level_at(quantile: float, df: float) -> float:
    """Return the level of t intervals whose half-width is `quantile` standard errors."""
    low, high = 0.0, 1 - 1e-12
    for _ in range(60):
        middle = (low + high) / 2
        if student_quantile(middle, df) < quantile:
            low = middle
        else:
            high = middle
    return (low + high) / 2
