"""Formats of JSON Schema, used in the check of an answer."""

from __future__ import annotations

import ipaddress
import re
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING

from llamaherd.calls.structured.patterns import is_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

    from jsonschema import FormatChecker

_TIME = r"([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([zZ]|[+-]([01]\d|2[0-3]):[0-5]\d)"
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_IDN_LABEL = r"[^\s./\\@:?#\[\]]{1,63}"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"
_OF_URI = r"[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*"
_OF_IRI = r"[^\s<>\"{}|\\^`]*"
_POINTER = r"(/([^~/]|~[01])*)*"
# Checks follow RFC 3339, 5321 (without quoted strings), 1123, 9562 and 6901. For RFC
# 3986, 3987, 5890 and 6570 only the characters are checked.
_PATTERNS = {
    "time": _TIME,
    "duration": r"P(\d+W|(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+S)?)?)",
    "email": r"[^@\s]+@[^@\s]+",
    "hostname": rf"{_LABEL}(\.{_LABEL})*",
    "uuid": r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
    "uri": _SCHEME + _OF_URI,
    "uri-reference": _OF_URI,
    "uri-template": r"([^\s{}<>\"|\\^`]|\{[^\s{}]+\})*",
    "iri": _SCHEME + _OF_IRI,
    "iri-reference": _OF_IRI,
    "idn-email": r"[^@\s]+@[^@\s]+",
    "idn-hostname": rf"{_IDN_LABEL}(\.{_IDN_LABEL})*",
    "json-pointer": _POINTER,
    "relative-json-pointer": rf"(0|[1-9]\d*)(#|{_POINTER})",
}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_OF_DAY = re.compile(rf"[tT ]{_TIME}", re.ASCII)


@lru_cache(maxsize=1)
def format_checker() -> FormatChecker:
    """Return the checker of the formats that JSON Schema defines."""
    from jsonschema import FormatChecker  # noqa: PLC0415 - slow to import

    checker = FormatChecker(formats=())
    checks: dict[str, Callable[[str], object]] = {
        "date": _is_date,
        "date-time": lambda text: _is_date(text[:10]) and _OF_DAY.fullmatch(text[10:]),
        "regex": is_pattern,
        "ipv4": ipaddress.IPv4Address,
        "ipv6": ipaddress.IPv6Address,
    }
    for name, check in checks.items():
        checker.checks(name, raises=ValueError)(_of_text(check))
    for name, pattern in _PATTERNS.items():
        checker.checks(name)(_of_text(re.compile(pattern, re.ASCII).fullmatch))
    return checker


@lru_cache(maxsize=1)
def pattern_checker() -> FormatChecker:
    """Return the checker of the regular expressions that a schema contains."""
    from jsonschema import FormatChecker  # noqa: PLC0415 - slow to import

    checker = FormatChecker(formats=())
    checker.checks("regex")(_of_text(is_pattern))
    return checker


def _is_date(text: str) -> bool:
    return bool(_DATE.fullmatch(text) and date.fromisoformat(text))


def _of_text(check: Callable[[str], object]) -> Callable[[object], bool]:
    """Wrap a check so that it applies to texts only."""

    def holds(value: object) -> bool:
        return not isinstance(value, str) or bool(check(value))

    return holds
