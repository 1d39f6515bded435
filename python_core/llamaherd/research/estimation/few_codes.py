"""What a few codes can tell: how far a t interval reaches, and what no code has shown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.ratings import Flags
    from llamaherd.research.statistics.sampling import Floats, Ints

_NONE = 1e-18  # a variance that is one of rounding


def freedom(problem: Problem, n_fitted: int) -> float:
    """Degrees of freedom of a regression's coefficients.

    Codes less strata less coefficients beyond the first, as in surveys; with clusters not
    more than there are of these, less one.

    Args:
        problem: The regression.
        n_fitted: Its coefficients, and what else was fitted.
    """
    n = len(problem.y)
    strata = 1 if problem.strata is None else len(np.unique(problem.strata))
    found = n - strata + 1 - n_fitted
    if problem.clusters is not None:
        found = min(found, len(np.unique(problem.clusters[problem.rows])) - 1)
    return float(max(found, 1))


def freedoms(problem: Problem, n_fitted: int) -> Floats:
    """Degrees of freedom of the means of groups, float64[p].

    Each mean has its own group's: its codes less what was fitted, and not more than those
    of the strata that they are from, or than clusters less one.

    Args:
        problem: The regression on groups.
        n_fitted: What was fitted in each: 1 for the mean.
    """
    return np.array(
        [_of_group(problem, np.flatnonzero(own), n_fitted) for own in problem.x.T != 0]
    )


def _of_group(problem: Problem, own: Ints, n_fitted: int) -> float:
    found = len(own)
    if problem.strata is not None:
        names, sizes = np.unique(problem.strata, return_counts=True)
        touched = np.isin(names, problem.strata[own])
        found = min(found, int((sizes[touched] - 1).sum()) + 1)
    if problem.clusters is not None:
        found = min(found, len(np.unique(problem.clusters[problem.rows[own]])))
    return float(max(found - n_fitted, 1))


def together(variances: Floats, df: Floats) -> float:
    """Degrees of freedom of a sum of independent terms.

    Sources: Satterthwaite, "An Approximate Distribution of Estimates of Variance
    Components", 1946; Welch, 1947.
    """
    if len(df) == 1:
        return float(df[0])
    of_terms = float((variances**2 / df).sum())
    return float(variances.sum()) ** 2 / of_terms if of_terms > 0 else math.inf


def n_errors(problem: Problem) -> Ints:
    """Coded texts of each group whose label is not their code, int64[p]."""
    wrong = problem.y != problem.y_hat[problem.rows]
    return np.asarray(problem.x[wrong].sum(axis=0), dtype=np.int64)


def has_none(variances: Floats) -> Flags:
    """Where a variance is 0 but for rounding."""
    return np.asarray(variances <= _NONE)
