"""Power tuning (PPI++): the weight of the labels that gives a mean the least variance.

n texts have a code Y and a prediction f; N other texts have only a prediction. The
estimate weights predictions by their usefulness:

    theta = mean of Y + lam (mean of f over the N texts - mean of f over the n texts),

with lam in [0, 1]. lam = 0 uses only the codes. The best lam is estimated, so that
asymptotically the interval is never wider than with codes alone.

Sources: Angelopoulos, Duchi, Zrnic, "PPI++: Efficient Prediction-Powered Inference", 2023
(arXiv 2311.01453), section 6; Zrnic, Candes, "Active Statistical Inference", 2024 (arXiv
2403.03208), for unequal probabilities.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics.dsl import bread_at, meat_at, rectified, solution_at
from llamaherd.research.statistics.regression import FitError, sandwich

if TYPE_CHECKING:
    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.regression import Estimated
    from llamaherd.research.statistics.sampling import Floats


def best_lam(y: Floats, y_hat: Floats, y_hat_others: Floats) -> float:
    """Return the weight of the predictions in a simple random sample.

    Args:
        y: float64[n], codes.
        y_hat: float64[n], predictions of the same texts.
        y_hat_others: float64[N], predictions of the texts without codes.
    """
    both = np.concatenate([y_hat, y_hat_others])
    spread = float(np.var(both, ddof=1)) * (1 + len(y) / len(y_hat_others))
    shared = float(np.mean((y - y.mean()) * (y_hat - y_hat.mean())))
    return float(np.clip(shared / spread, 0, 1)) if spread > 0 else 0.0


def tuned_means(problem: Problem) -> Estimated:
    """Estimate means in groups, each with the lam that minimizes its own variance.

    The equation of a group contains only the texts of this group. A group on which the
    model is accurate therefore gets a larger lam than the other groups.

    Args:
        problem: Least squares; each row of the covariates has at most one 1, in the
            column of the text's group, and else 0.

    Raises:
        FitError: The equation has no solution.
    """
    theta = solution_at(problem, 1.0)
    bread = bread_at(problem, 1.0, theta)
    # Factors that do not depend on lam, so that each variance is a parabola in lam.
    n, p = problem.x.shape
    factors = np.sqrt((n - 1) / max(n - p, 1) / (1 - problem.stratum_leverage))
    none, half, full = (
        np.diag(sandwich(bread, meat_at(problem, lam, theta, factors)))
        for lam in (0.0, 0.5, 1.0)
    )
    square = 2 * (none - 2 * half + full)
    slope = full - none - square
    best = -slope / (2 * np.where(square > 0, square, 1.0))
    ends = (full < none).astype(np.float64)
    lam = np.where(square > 0, np.clip(best, 0, 1), ends)
    found = rectified(problem, lam)
    one = float(lam[0]) if len(lam) == 1 else float("nan")
    return replace(found, lam=one, lams=np.asarray(lam))


def simple_means(problem: Problem) -> tuple[Problem, Estimated]:
    """Fit each group's mean by PPI++, with its coded texts as a simple random sample.

    The estimate is that of `rectified` with the weight lam / (1 - share of coded
    texts) of the labels. The number of codes of a group is taken as given. The mean of a
    group whose texts are all coded is that of its codes.
    """
    is_known = problem.all_coded
    others = np.ones(len(problem.y_hat), dtype=bool)
    others[problem.rows] = False
    if not others.any():
        raise FitError("all texts have codes: no code remains to be predicted")
    shares = problem.x.sum(axis=0) / problem.x_hat.sum(axis=0)
    hat = problem.y_hat[problem.rows]
    lams = np.zeros(len(shares))
    for g in np.flatnonzero(~is_known):
        own, rest = problem.x[:, g] == 1, others & (problem.x_hat[:, g] == 1)
        lams[g] = best_lam(problem.y[own], hat[own], problem.y_hat[rest])
    strata = problem.x_hat @ np.arange(1, len(shares) + 1)
    all_probs = np.where(strata > 0, problem.x_hat @ shares, 1.0)
    by_group = replace(
        problem,
        probs=all_probs[problem.rows],
        strata=strata[problem.rows].astype(np.int64),
        all_probs=all_probs,
        all_strata=None,
        outside=None,
    )
    scaled = lams / np.where(is_known, 1.0, 1 - shares)
    found = rectified(by_group, scaled)
    lam = float(lams[0]) if len(lams) == 1 else float("nan")
    return by_group, replace(found, lam=lam, lams=scaled)
