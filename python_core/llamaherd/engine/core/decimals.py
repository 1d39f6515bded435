"""Shares and coefficients as text: only an exact 0 or 1 is shown as 0 or 1.

499 of 500 is 0.998, not 1.00, and 1 of 500 is 0.002, not 0.00. A number that would be
rounded to 0, 1 or -1 gets as many decimals as it needs to differ from them. Numbers of
other kinds, such as log-odds, are rounded. No number is shown as -0.
"""

from __future__ import annotations

import math
from typing import Literal

Sign = Literal["", "+"]
_MOST = 9  # largest number of decimals
_ROUNDING = 1e-9  # smaller distances from 0, 1 and -1 are rounding errors


def decimals(value: float, digits: int = 2, *, sign: Sign = "") -> str:
    """Format a share, a coefficient or a difference of shares.

    Args:
        value: Number; numbers beyond -1 and 1 are rounded as usual.
        digits: Usual number of decimals.
        sign: "+" to show the sign of positive numbers.
    """
    return rounded(value, _enough(value, digits), sign=sign)


def rounded(value: float, digits: int = 2, *, sign: Sign = "") -> str:
    """Format a number of any kind, such as log-odds; see `decimals` for shares."""
    shown = f"{value:{sign}.{digits}f}"
    return shown if float(shown) != 0 else f"{0:{sign}.{digits}f}"  # never -0.00


def limits(low: float, high: float, digits: int = 2, *, sign: Sign = "") -> str:
    """Format an interval, such as "[0.93, 0.98]"."""
    ends = (decimals(end, digits, sign=sign) for end in (low, high))
    return f"[{', '.join(ends)}]"


def percents(share: float, digits: int = 1) -> str:
    """Format a share in percent with `digits` decimals, such as "99.8%"."""
    return f"{rounded(100 * share, _enough(share, digits, whole=100))}%"


def _enough(value: float, digits: int, whole: int = 1) -> int:
    """Return how many decimals tell `whole * value` from 0 and from `whole`."""
    size = abs(value)
    gap = min(size, 1 - size)
    if not gap > _ROUNDING or not math.isfinite(size):
        return digits
    while digits < _MOST and float(rounded(whole * size, digits)) in {0, whole}:
        digits += 1
    return digits
