"""Patterns and formats of JSON Schemas, checked in linear time."""

from __future__ import annotations

import importlib
import ipaddress
import re
import warnings
from datetime import date
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

from llamaherd.engine.native import llguidance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jsonschema import FormatChecker


_MOST_STEPS = 20_000_000  # most steps of `re` for one text: less than a second
_LONG = 1000  # length of a text in which the search for every pattern must be possible


def can_be_checked(pattern: str) -> bool:
    """Return whether a pattern can be searched for in texts of usual length."""
    return llguidance.takes_pattern(pattern) or is_quick(pattern)


def is_quick(pattern: str) -> bool:
    """Return whether `re` can search texts of usual length in bounded time."""
    return n_steps(pattern, _LONG) <= _MOST_STEPS


def is_pattern(text: str) -> bool:
    """Return whether a text is a valid regular expression for llguidance or `re`."""
    return llguidance.takes_pattern(text) or _parse_pattern(text) is not None


def finds(pattern: str, text: str) -> bool:
    """Return whether a pattern matches within a text."""
    problem = "no such text can be checked"
    if llguidance.takes_pattern(pattern):
        try:
            return llguidance.finds_pattern(pattern, text)
        except ValueError as error:
            problem = str(error)
    if n_steps(pattern, len(text)) > _MOST_STEPS:
        raise ValueError(
            f"it may take too long to look for {pattern!r} in {len(text)} characters "
            f"({problem})"
        )
    return re.search(pattern, text) is not None


# ---- upper bound of the steps of `re` --------------------------------------------------


def n_steps(pattern: str, n_chars: int) -> float:
    """Return an upper bound of the steps of `re.search`; infinity if invalid."""
    parsed = _parse_pattern(pattern)
    if parsed is None:
        return inf
    _, n_each = _of_row(parsed, n_chars)
    is_anchored = len(parsed) > 0 and str(parsed[0][1]) == "AT_BEGINNING"
    return n_each + n_chars if is_anchored else n_each * (n_chars + 1)


@lru_cache(maxsize=1024)
def _parse_pattern(pattern: str) -> Any:  # the module's own classes
    """Return the parse tree of `re`, a list of (name, arguments); None if invalid."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parser = importlib.import_module("re._parser")
            parsed = parser.parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return None
    # Patterns of JSON Schema have no flags; "^" matches only the start of the text.
    return None if parsed.state.flags & re.MULTILINE else parsed


# `re` backtracks: it tries every match of a part and, for each of them, all matches of
# the rest. The functions below return the maximum number of matches that begin at one
# position in a text of n characters, and the steps to try all these matches.


def _of_row(parts: Iterable[Any], n: int) -> tuple[float, float]:
    """Return the maximum numbers of matches and steps for a sequence of parts."""
    ways, steps = 1.0, 1.0
    for part in parts:
        own_ways, own_steps = _of_part(part, n)
        steps += ways * own_steps
        ways *= own_ways
    return ways, steps


def _of_part(part: tuple[Any, Any], n: int) -> tuple[float, float]:
    kind, inner = str(part[0]), part[1]
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _of_repeat(*_of_row(inner[2], n), least=inner[0], most=min(inner[1], n))
    if kind == "BRANCH":
        rows = [_of_row(choice, n) for choice in inner[1]]
        return sum(ways for ways, _ in rows), sum(steps for _, steps in rows)
    if kind == "SUBPATTERN":
        return _of_row(inner[-1], n)
    if kind in ("ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"):  # no backtracking
        return 1.0, _of_row(inner if kind == "ATOMIC_GROUP" else inner[1], n)[1]
    if kind == "GROUPREF_EXISTS":
        rows = [_of_row(choice or (), n) for choice in inner[1:]]
        return max(ways for ways, _ in rows), max(steps for _, steps in rows)
    return 1.0, max(1.0, n) if kind.startswith("GROUPREF") else 1.0


def _of_repeat(
    ways: float, steps: float, *, least: int, most: int
) -> tuple[float, float]:
    """Return the maximum numbers of matches and steps for repetitions of a part."""
    if ways <= 1:
        return max(1.0, most - least + 1.0), max(1.0, most * steps)
    total = power = 1.0
    for _ in range(most):
        power *= ways
        total += power
        if total > _MOST_STEPS:
            return inf, inf
    return total, total * steps


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
    from jsonschema import FormatChecker  # slow to import

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
    from jsonschema import FormatChecker  # slow to import

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
