"""Bounds as text: rounded so that the text is still a bound."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal


def at_least(value: float, digits: int, *, as_percent: bool = False) -> str:
    """Round a lower bound down."""
    return _rounded(value, digits, ROUND_FLOOR, as_percent=as_percent)


def at_most(value: float, digits: int, *, as_percent: bool = False) -> str:
    """Round an upper bound up; see `at_least`."""
    return _rounded(value, digits, ROUND_CEILING, as_percent=as_percent)


def _rounded(value: float, digits: int, how: str, *, as_percent: bool) -> str:
    # The shortest decimal of this float: 0.93 is 93.0%, although the float is larger.
    exact = Decimal(repr(float(value))) * (100 if as_percent else 1)
    rounded = exact.quantize(Decimal(1).scaleb(-digits), rounding=how)
    return f"{rounded:f}{'%' if as_percent else ''}"
