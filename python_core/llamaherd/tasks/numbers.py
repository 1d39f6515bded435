"""Conversion of numbers to cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def numbers(values: ArrayLike) -> list[float | None]:
    """Return a list of numbers, with None for NaN."""
    found = np.asarray(values, dtype=np.float64)
    listed: list[float | None] = found.tolist()
    for i in np.flatnonzero(np.isnan(found)):
        listed[i] = None
    return listed
