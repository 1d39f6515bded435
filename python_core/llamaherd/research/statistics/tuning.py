"""Power tuning of the equation of `dsl`: weights of the labels with the least variance.

Sources: Angelopoulos, Duchi, Zrnic, "PPI++", 2023 (arXiv 2311.01453), section 6, for one
weight and for a weight of one coordinate; Zrnic, Candes, "Active Statistical Inference",
2024 (arXiv 2403.03208), for unequal probabilities.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics.dsl import bread_at, meat_at, rectified, solution_at
from llamaherd.research.statistics.regression import sandwich

if TYPE_CHECKING:
    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.regression import Estimated


def tuned(problem: Problem) -> Estimated:
    """Estimate with the lam in [0, 1] that minimizes the sum of variances.

    Raises:
        FitError: The equation has no solution.
    """
    theta = solution_at(problem, 1.0)
    bread = bread_at(problem, 1.0, theta)

    def total(lam: float) -> float:
        return float(np.trace(sandwich(bread, meat_at(problem, lam, theta))))

    none, half, full = total(0.0), total(0.5), total(1.0)
    square = 2 * (none - 2 * half + full)  # the sum of variances is a parabola in lam
    slope = full - none - square
    lam = (
        float(np.clip(-slope / (2 * square), 0, 1)) if square > 0 else float(full < none)
    )
    return rectified(problem, lam)


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
    none, half, full = (
        np.diag(sandwich(bread, meat_at(problem, lam, theta))) for lam in (0.0, 0.5, 1.0)
    )
    square = 2 * (none - 2 * half + full)  # each variance is a parabola in lam
    slope = full - none - square
    best = -slope / (2 * np.where(square > 0, square, 1.0))
    ends = (full < none).astype(np.float64)
    lam = np.where(square > 0, np.clip(best, 0, 1), ends)
    found = rectified(problem, lam)
    one = float(lam[0]) if len(lam) == 1 else float("nan")
    return replace(found, lam=one, lams=np.asarray(lam))
