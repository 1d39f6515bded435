"""Numbers that a caller gives: weights, probabilities, confidences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentTypeError
from llamaherd.core.plain import is_missing

if TYPE_CHECKING:
    from numpy.typing import NDArray


def numbers_of(values: object, argument: str) -> NDArray[np.float64]:
    """Return numbers as an array, float64 of the same shape; NaN for missing values.

    Args:
        values: A list, array or column of numbers, or of rows of numbers.
        argument: Name of `values` in messages.

    Raises:
        TypeError: `values` is not a list of numbers, or a value is not a number.
    """
    what = checks.no_list(values)
    is_other = isinstance(values, (str, bytes, bytearray, Mapping))
    is_single = getattr(values, "ndim", 1) == 0
    if what or is_other or is_single or not isinstance(values, Iterable):
        raise ArgumentTypeError(
            f"must be a list of numbers, not {what or checks.shown(values)}",
            argument=argument,
        )
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        return np.asarray(values, dtype=np.float64)
    listed = [None if is_missing(each) else each for each in values]
    try:
        return np.array(listed, dtype=np.float64)
    except (TypeError, ValueError):
        bad = next((i for i, each in enumerate(listed) if not _is_number(each)), 0)
        raise ArgumentTypeError(
            f"must be a number, not {checks.shown(listed[bad])}",
            argument=argument,
            place=(bad,),
        ) from None


def _is_number(value: object) -> bool:
    try:
        np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, Iterable) or isinstance(value, str)
