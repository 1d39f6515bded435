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


def unseen(
    problem: Problem, variances: Floats, level: float, *, has_labels: bool
) -> Floats:
    """How far the share in each group can be from its estimate by what no code has shown.

    If a share e of the texts is another than all that were coded, n simple draws miss it
    with probability (1 - e)^n, which is above 1 - level only for e up to about 3 / n: the
    rule of three. It is a bound where no coded text has a wrong label, or where nothing
    varies, so that the estimated variance leaves this out.

    Args:
        problem: The regression on groups.
        variances: float64[p], of the estimates.
        level: Of the intervals.
        has_labels: Whether the estimate uses labels.

    Returns:
        float64[p], 0 where there is no need of it.

    Source: Hanley, Lippman-Hand, "If nothing goes wrong, is everything all right?", JAMA
    249, 1983.
    """
    reach = np.zeros(problem.x.shape[1])
    constant = has_none(variances)
    needed = constant | (n_errors(problem) == 0) if has_labels else constant
    for g in np.flatnonzero(needed):
        own = problem.x[:, g] != 0
        least, n_texts = float(problem.probs[own].min()), problem.x_hat[:, g].sum()
        if problem.clusters is not None:  # texts of one cluster may err together
            n_clusters = len(np.unique(problem.clusters[problem.rows[own]]))
            least *= n_clusters / own.sum()
        missed = math.log(1 - level)
        if constant[g] and problem.target == "population":
            reach[g] = -math.expm1(missed / (n_texts * least))
        elif least < 1:
            reach[g] = min(1.0, missed / (n_texts * math.log1p(-least)))
    return reach
