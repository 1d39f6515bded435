"""Formatting of citations, numbers and lists in methods paragraphs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from llamaherd.core.decimals import decimals
from llamaherd.core.plurals import percent
from llamaherd.research.references import REFERENCES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_OWN = {"llamaherd": "llamaherd authors", "llamacpp": "llama.cpp"}


def cite(used: list[str], key: str) -> str:
    """Return a citation in parentheses, and record its key in `used`."""
    if key not in used:
        used.append(key)
    return f"({_OWN.get(key) or REFERENCES[key].short})"


def listed(names: Sequence[str]) -> str:
    """Join names with commas, and the last two with "and"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def number(value: float | None) -> str:
    """Format a measure; "not available" for None."""
    return "not available" if value is None else decimals(value)


def measured(found: Mapping[str, Any], level: float | None = None) -> str:
    """Format a measure with its interval, and with the confidence level if given."""
    low, high = found.get("low"), found.get("high")
    if low is None or high is None:
        return number(found["value"])
    name = "" if level is None else f"{percent(level)} interval "
    return f"{number(found['value'])} ({name}{decimals(low)} to {decimals(high)})"


def short_hash(sha256: str) -> str:
    """Return the first digits of a SHA-256, to identify it in a text."""
    return f"SHA-256 {sha256[:12]}\u2026"


def date_of(time: str) -> str:
    """Format the date of an ISO time, such as "25 November 2026"."""
    day = datetime.fromisoformat(time)
    return f"{day.day} {day:%B %Y}"
