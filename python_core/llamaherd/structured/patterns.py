"""Patterns in the check of an answer: masks take any, Python's `re` may take for ever."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_IS_NEW = sys.version_info >= (3, 11)
_MANY = 20  # repetitions, from which on one within another is too much


@lru_cache(maxsize=1024)
def is_safe(pattern: str) -> bool:
    """Whether `re` needs no more than a text's length to a small power.

    False for repetitions within repetitions, and for what `re` does not read at all.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parsed = _parser().parse(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return _height(parsed) < 2


def _parser() -> Any:  # noqa: ANN401 - a module without types
    """How `re` reads patterns; it had another name up to Python 3.10."""
    return importlib.import_module("re._parser" if _IS_NEW else "sre_parse")


def _height(part: Any) -> int:  # noqa: ANN401 - the module's own classes
    """How many repetitions are within each other."""
    if isinstance(part, tuple) and len(part) == 3 and _repeats(part):
        return 1 + _height(part[2])
    return max((_height(each) for each in _inner(part)), default=0)


def _repeats(part: tuple[Any, ...]) -> bool:
    return isinstance(part[0], int) and isinstance(part[1], int) and part[1] >= _MANY


def _inner(part: Any) -> Iterator[Any]:  # noqa: ANN401 - the module's own classes
    if isinstance(part, (list, tuple)) or hasattr(part, "data"):
        yield from getattr(part, "data", part)


def check_pattern(
    validator: Any,  # noqa: ANN401, ARG001 - as jsonschema calls it
    pattern: str,
    instance: object,
    _schema: object,
) -> Iterator[Any]:
    """`pattern` of a JSON Schema; one that is not safe is left to the masks."""
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415 - slow to import

    if (
        isinstance(instance, str)
        and is_safe(pattern)
        and not re.search(pattern, instance)
    ):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")
