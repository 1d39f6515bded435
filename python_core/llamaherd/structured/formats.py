"""Formats of texts that masks enforce, for the check of an answer as well."""

from __future__ import annotations

import ipaddress
import re
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jsonschema import FormatChecker

_TIME = r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([zZ]|[+-]([01]\d|2[0-3]):[0-5]\d)"
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
# RFC 3339, 5321 (not what is quoted), 1123, 9562 and 3986 (the characters alone).
_PATTERNS = {
    "time": _TIME,
    "date-time": rf"\d{{4}}-\d{{2}}-\d{{2}}[tT ]{_TIME}",
    "duration": r"P(\d+W|(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?)",
    "email": r"[^@\s]+@[^@\s]+",
    "hostname": rf"{_LABEL}(\.{_LABEL})*",
    "uuid": r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    "uri": r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*",
}


@lru_cache(maxsize=1)
def format_checker() -> FormatChecker:
    """Checks the formats that masks know; of others nobody says what they are."""
    from jsonschema import FormatChecker  # noqa: PLC0415 - slow to import

    checker = FormatChecker(formats=())
    checks: dict[str, Callable[[str], object]] = {
        "date": date.fromisoformat,
        "ipv4": ipaddress.IPv4Address,
        "ipv6": ipaddress.IPv6Address,
    }
    for name, check in checks.items():
        checker.checks(name, raises=ValueError)(_of_text(check))
    for name, pattern in _PATTERNS.items():
        checker.checks(name)(_of_text(re.compile(pattern, re.ASCII).fullmatch))
    return checker


def _of_text(check: Callable[[str], object]) -> Callable[[object], bool]:
    """A format says something of texts alone."""

    def holds(value: object) -> bool:
        return not isinstance(value, str) or bool(check(value))

    return holds
