"""Rubin's rules: one interval from the estimates of several imputed data sets.

Sources: Rubin, "Multiple Imputation for Nonresponse in Surveys", 1987; Barnard, Rubin,
"Small-sample degrees of freedom with multiple imputation", Biometrika 86, 1999.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from llamaherd.research.statistics.sampling import Floats


def between(values: Floats) -> float:
    """Return the variance that m imputations add: (1 + 1 / m) * variance of `values`."""
    m = len(values)
    return float(np.var(values, ddof=1)) * (1 + 1 / m) if m > 1 else 0.0


def freedom(inside: float, added: float, m: int, complete: float) -> float:
    """Return the degrees of freedom of a combined estimate.

    Args:
        inside: Mean variance within the imputed data sets.
        added: Variance that imputation adds, see `between`.
        m: Number of imputed data sets.
        complete: Degrees of freedom of an estimate from complete data.
    """
    total = inside + added
    if added <= 0 or total <= 0 or m < 2:
        return complete
    gamma = added / total
    by_draws = (m - 1) / gamma**2
    if math.isinf(complete):
        return by_draws
    observed = (complete + 1) / (complete + 3) * complete * (1 - gamma)
    return 1 / (1 / by_draws + 1 / max(observed, 1e-9))
