"""Patterns in the check of an answer: masks take any, Python's `re` may take for ever."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from llamaherd.native import llguidance

if TYPE_CHECKING:
    from collections.abc import Iterator

_IS_NEW = sys.version_info >= (3, 11)
_MANY = 20  # repetitions, from which on one within another is too much


@lru_cache(maxsize=1024)
def is_safe(pattern: str) -> bool:
    """Whether `re` needs no more than a text's length to a small power.

    False for repetitions within repetitions, and for what `re` does not read at all.
    llguidance takes these, unless they look around.
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


def finds(pattern: str, text: str) -> bool:
    """Whether a pattern is found in a text, in time that grows with the text alone."""
    if is_safe(pattern):
        return re.search(pattern, text) is not None
    return llguidance.finds_pattern(pattern, text)


# ---- keywords of a JSON Schema, as jsonschema calls them -------------------------------


def check_pattern(
    _validator: object, pattern: str, instance: object, _schema: object
) -> Iterator[Any]:
    """`pattern`."""
    if isinstance(instance, str) and not finds(pattern, instance):
        yield _error()(f"{instance!r} does not match {pattern!r}")


def check_pattern_properties(
    validator: Any,  # noqa: ANN401 - a class that jsonschema makes
    patterns: dict[str, object],
    instance: object,
    _schema: object,
) -> Iterator[Any]:
    """`patternProperties`."""
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        for key, value in instance.items():
            if finds(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def check_additional_properties(
    validator: Any,  # noqa: ANN401 - a class that jsonschema makes
    inner: object,
    instance: object,
    schema: dict[str, Any],
) -> Iterator[Any]:
    """`additionalProperties`."""
    if not isinstance(instance, dict):
        return
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    for key, value in instance.items():
        if key in named or any(finds(pattern, key) for pattern in patterns):
            continue
        if inner is False:
            yield _error()(f"additional properties are not allowed: {key!r}")
        elif isinstance(inner, dict):
            yield from validator.descend(value, inner, path=key)


def _error() -> Any:  # noqa: ANN401 - slow to import
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415

    return ValidationError
