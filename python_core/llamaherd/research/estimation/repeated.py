"""Simultaneous intervals: estimates at the level that each single interval needs."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics.simultaneous import bonferroni, max_t

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.research.estimation.comparing import Compared
    from llamaherd.research.estimation.estimates import Estimate
    from llamaherd.research.estimation.fitting import Found
    from llamaherd.research.statistics.sampling import Floats
    from llamaherd.research.statistics.simultaneous import Simultaneous


def at_level(
    fit: Callable[[float], Compared], level: float, simultaneous: Simultaneous | None
) -> Compared:
    """Estimate with intervals of a level, which may hold for all intervals together.

    Args:
        fit: Function that estimates with intervals of a level.
        level: Confidence level.
        simultaneous: Method of simultaneous intervals; None if each interval alone has
            this level.
    """
    made = fit(level)
    if simultaneous is None:
        return made
    with warnings.catch_warnings():  # about the same estimates
        warnings.simplefilter("ignore", UserWarning)
        again = fit(level_of_each(made.found, level, simultaneous))
    return replace(again, found=replace(again.found, notes=made.found.notes))


def level_of_each(found: Found, level: float, simultaneous: Simultaneous) -> float:
    """Return the level of each interval that gives simultaneous intervals of `level`."""
    kinds = dict.fromkeys((row.outcome, row.method) for row in found.rows)
    methods = {method for _, method in kinds}
    rows = [row for row in found.rows if not math.isnan(row.std_error)]
    most = max(
        (sum(row.method == method for row in rows) for method in methods), default=1
    )
    if simultaneous == "bonferroni":
        return bonferroni(level, most)
    n_outcomes = len({outcome for outcome, _ in kinds})
    levels = [level]
    for outcome, method in kinds:
        own = [
            row for row in found.rows if (row.outcome, row.method) == (outcome, method)
        ]
        matrix, df = _together(own, found.covariances[outcome, method])
        levels.append(max_t(bonferroni(level, n_outcomes), matrix, df))
    return min(max(levels), bonferroni(level, most))


def _together(rows: Sequence[Estimate], covariance: Floats) -> tuple[Floats, float]:
    """Return covariances of all rows, including differences, and degrees of freedom."""
    p = len(covariance)
    eye = np.eye(p)
    ways = np.array([*eye, *(eye[i] - eye[0] for i in range(1, p))])[: len(rows)]
    known = np.flatnonzero([not math.isnan(row.std_error) for row in rows])
    used = np.flatnonzero(~np.isnan(np.diag(covariance)))
    part = ways[np.ix_(known, used)]
    matrix = part @ covariance[np.ix_(used, used)] @ part.T
    return matrix, min((rows[int(i)].df for i in known), default=math.inf)
