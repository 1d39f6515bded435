"""Small samples: widths of t intervals, and limits for unobserved events."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.ratings import Flags
    from llamaherd.research.statistics.sampling import Floats, Ints

_NONE = 1e-18  # variances below this are rounding errors


def freedom(problem: Problem, n_fitted: int) -> float:
    """Return the degrees of freedom of a regression's coefficients.

    The degrees of freedom are the number of codes, minus the number of strata, minus the
    number of coefficients beyond the first, as in survey statistics. With clusters, the
    degrees of freedom are at most the number of clusters minus one.

    Args:
        problem: The regression.
        n_fitted: Number of coefficients and other fitted parameters.
    """
    n = len(problem.y)
    strata = 1 if problem.strata is None else len(np.unique(problem.strata))
    found = n - strata + 1 - n_fitted
    if problem.clusters is not None:
        found = min(found, len(np.unique(problem.clusters[problem.rows])) - 1)
    return float(max(found, 1))


def freedoms(problem: Problem, n_fitted: int | Ints) -> Floats:
    """Return the degrees of freedom of the means of groups, float64[p].

    The degrees of freedom of a mean are the number of codes of its group minus the number
    of fitted parameters, but at most the degrees of freedom of the group's strata. With
    clusters they are at most the number of clusters minus one.

    Args:
        problem: The regression on groups.
        n_fitted: Number of parameters fitted in each group, or int64[p]: 1 for the mean.
    """
    fitted = np.broadcast_to(n_fitted, problem.x.shape[1])
    return np.array(
        [
            _of_group(problem, np.flatnonzero(own), int(n))
            for own, n in zip(problem.x.T != 0, fitted, strict=True)
        ]
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
    """Return the degrees of freedom of a sum of independent terms.

    Sources: Satterthwaite, "An Approximate Distribution of Estimates of Variance
    Components", 1946; Welch, 1947.
    """
    if len(df) == 1:
        return float(df[0])
    of_terms = float((variances**2 / df).sum())
    return float(variances.sum()) ** 2 / of_terms if of_terms > 0 else math.inf


def all_coded(problem: Problem) -> Flags:
    """Return bool[p], True for each group whose texts are all coded."""
    n_texts = (problem.x_hat != 0).sum(axis=0)
    return np.asarray((n_texts > 0) & ((problem.x != 0).sum(axis=0) == n_texts))


def with_certainty(problem: Problem) -> Problem:
    """Return the problem with certain texts in groups whose texts are all coded.

    Their inclusion probability is 1.

    The mean of such a group is the mean of its codes: no label counts, and the draw adds
    no variance, even if the texts were all drawn by chance. The estimate is conditional
    on the number of codes of the group, as after poststratification.

    Source: Holt, Smith, "Post stratification", J. R. Stat. Soc. A 142, 1979.

    Args:
        problem: The regression on groups.
    """
    own = (problem.x[:, all_coded(problem)] != 0).any(axis=1)
    if not own.any():
        return problem
    all_probs, drawing = problem.all_probs, problem.drawing
    if all_probs is not None:
        all_probs = all_probs.copy()
        all_probs[problem.rows[own]] = 1.0
    if drawing is not None:
        drawing = replace(
            drawing,
            scale=np.where(own, 1.0, drawing.scale),
            left=np.where(own, 0.0, drawing.left),
        )
    return replace(
        problem,
        probs=np.where(own, 1.0, problem.probs),
        all_probs=all_probs,
        drawing=drawing,
    )


def n_errors(problem: Problem) -> Ints:
    """Count coded texts of each group whose label differs from the code, int64[p]."""
    return np.asarray(problem.x[wrong(problem)].sum(axis=0), dtype=np.int64)


def wrong(problem: Problem) -> Flags:
    """Return bool[n], True where prediction and code differ by more than `slack`."""
    gaps = np.abs(problem.y - problem.y_hat[problem.rows])
    return np.asarray(gaps > problem.slack)


def has_none(variances: Floats) -> Flags:
    """Return an array of bool, True for each variance that is 0 up to rounding errors."""
    return np.asarray(variances <= _NONE)
