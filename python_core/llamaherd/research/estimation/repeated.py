"""Simultaneous intervals: estimates at the level that each single interval needs."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING

from llamaherd.research.statistics.intervals import bonferroni

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.research.estimation.comparing import Compared
    from llamaherd.research.estimation.fitting import Found


def at_level(
    fit: Callable[[float], Compared], level: float, simultaneous: str | None
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
        again = fit(bonferroni(level, n_intervals(made.found)))
    return replace(again, found=replace(again.found, notes=made.found.notes))


def n_intervals(found: Found) -> int:
    """Return the largest number of intervals of a method."""
    methods = [row.method for row in found.rows if not math.isnan(row.std_error)]
    return max(map(methods.count, methods), default=1)
