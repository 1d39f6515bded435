"""Keywords of JSON Schema as this package checks them, within a budget of steps.

jsonschema visits a part of a schema once for each path to the part, so the check of a
schema of some hundred bytes can take hours. The budget counts the visits of all
keywords and the values that each compares, and thus limits every check.
"""

from __future__ import annotations

import math
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any, Self

from llamaherd.calls.structured.enforce import decimal
from llamaherd.calls.structured.patterns import finds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]

MOST_STEPS = 500_000  # maximum number of steps: some tenths of a second
STEPS_A_CHARACTER = 20  # additional steps per character of the answer
_VISIT = 10  # steps per call of a keyword
_SHARE = 32  # characters copied or compared per step
_DESCENT = 10  # steps to descend into a subschema
_ASKED = 5  # steps of a type check, which every keyword makes
_SEARCH = 10  # steps to search a short text for a pattern


class TooMuchWorkError(Exception):
    """The check of an answer exceeds its budget."""


class StepBudget:
    """Remaining steps for the check of one answer, within a `with` block."""

    def __init__(self, answer: object) -> None:
        self._sizes: dict[int, int] = {}
        self._most = self._left = MOST_STEPS + STEPS_A_CHARACTER * self._measure(answer)
        self._token: Token[StepBudget | None] | None = None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)

    def spend(self, n_steps: int) -> None:
        """Spend steps."""
        self._left -= n_steps
        if self._left < 0:
            raise TooMuchWorkError(f"the check takes more than {self._most} steps")

    def size_of(self, part: object) -> int:
        """Return the approximate size of a list or object in characters, or else 0."""
        return self._sizes.get(id(part), 0)

    def _measure(self, value: object) -> int:
        """Return a value's size in characters; store sizes of lists and objects."""
        if isinstance(value, str):
            return 2 + len(value)
        if isinstance(value, list):
            size = 2 + sum(map(self._measure, value))
        elif isinstance(value, dict):
            size = 2 + sum(len(key) + 3 + self._measure(v) for key, v in value.items())
        else:
            return 4
        self._sizes[id(value)] = size
        return size


_current: ContextVar[StepBudget | None] = ContextVar("_current", default=None)


def count(n_steps: int) -> None:
    """Spend steps of the check that is running; do nothing if none is running."""
    work = _current.get()
    if work is not None:
        work.spend(n_steps)


def _count_visit(keyword_value: object, instance: object) -> None:
    work = _current.get()
    if work is None:
        return
    size = len(instance) if isinstance(instance, str) else work.size_of(instance)
    n_parts = len(keyword_value) if isinstance(keyword_value, (list, dict)) else 0
    work.spend(_VISIT + n_parts + size // _SHARE)


# ---- the class of validators


def with_own_keywords(kind: Any) -> Any:  # a class that jsonschema makes
    """Return a class of validators with the keywords of this file, and counted steps."""
    from jsonschema import validators  # slow to import

    keywords: dict[str, Keyword] = {
        **kind.VALIDATORS,
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "enum": _enum_check(),
        "const": _check_const,
        "uniqueItems": _check_unique_items,
        "multipleOf": _check_multiple_of,
    }
    known = {key: _counting_keyword(keywords[key]) for key in kind.VALIDATORS}
    extended: Any = validators.extend(kind, known)
    is_type, descend = extended.is_type, extended.descend

    def counted_is_type(self: object, instance: object, type: str) -> object:  # noqa: A002
        count(_ASKED)
        return is_type(self, instance, type)

    def counted_descend(self: object, *args: object, **more: object) -> object:
        count(_DESCENT)
        return descend(self, *args, **more)

    extended.is_type, extended.descend = counted_is_type, counted_descend
    return extended


def _counting_keyword(keyword: Keyword) -> Keyword:
    """Wrap a keyword of jsonschema to count its calls."""

    def check(
        validator: object, value: object, instance: object, schema: object
    ) -> Iterator[Any] | None:
        _count_visit(value, instance)
        return keyword(validator, value, instance, schema)

    return check


# ---- keywords, with the signature of jsonschema


def _enum_check() -> Keyword:
    """Return a check of `enum` for one validator; the values are prepared only once."""
    keys: dict[int, frozenset[object]] = {}

    def check(
        _validator: object, values: list[object], instance: object, _schema: object
    ) -> Iterator[Any]:
        if id(values) not in keys:
            keys[id(values)] = frozenset(map(_key, values))
        if _key(instance) not in keys[id(values)]:
            yield _violation()

    return check


def _check_const(
    _validator: object, value: object, instance: object, _schema: object
) -> Iterator[Any]:
    """Check `const`."""
    if _key(instance) != _key(value):
        yield _violation()


def _check_unique_items(
    _validator: object, is_wanted: object, instance: object, _schema: object
) -> Iterator[Any]:
    """Check `uniqueItems`."""
    if not is_wanted or not isinstance(instance, list):
        return
    if len(set(map(_key, instance))) < len(instance):
        yield _violation()


def _key(value: object) -> object:
    """Return a hashable key, equal for values that are equal in JSON Schema.

    1 equals 1.0, and 1e25 the integer with the same digits; 1 does not equal true.
    """
    count(1)
    if isinstance(value, list):
        return ("list", *map(_key, value))
    if isinstance(value, dict):
        return ("dict", frozenset((name, _key(item)) for name, item in value.items()))
    if isinstance(value, float):
        return decimal(value)
    return ("bool", value) if isinstance(value, bool) else value


def _check_pattern(
    _validator: object, pattern: str, instance: object, _schema: object
) -> Iterator[Any]:
    """Check `pattern`."""
    if isinstance(instance, str) and not _finds(pattern, instance):
        yield _violation()


def _check_pattern_properties(
    validator: Any,  # a class that jsonschema makes
    patterns: dict[str, object],
    instance: object,
    _schema: object,
) -> Iterator[Any]:
    """Check `patternProperties`."""
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        for key, value in instance.items():
            if _finds(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _check_additional_properties(
    validator: Any,  # a class that jsonschema makes
    inner: object,
    instance: object,
    schema: dict[str, Any],
) -> Iterator[Any]:
    """Check `additionalProperties`."""
    if not isinstance(instance, dict):
        return
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})
    for key, value in instance.items():
        if key in named or any(_finds(pattern, key) for pattern in patterns):
            continue
        if inner is False:
            yield _violation(instance=key)
        elif isinstance(inner, dict):
            yield from validator.descend(value, inner, path=key)


def _check_multiple_of(
    _validator: object, divisor: float, instance: object, _schema: object
) -> Iterator[Any]:
    """Check `multipleOf` of decimal numbers: 1.1 is a multiple of 0.1."""
    if isinstance(instance, bool) or not isinstance(instance, (int, float)):
        return
    if not math.isfinite(instance) or decimal(instance) % decimal(divisor) != 0:
        yield _violation()


def _finds(pattern: str, text: str) -> bool:
    count(_SEARCH + len(text))
    return finds(pattern, text)


def _violation(**more: object) -> Any:  # slow to import
    """Return the violation of a keyword; jsonschema adds its fields, except `more`."""
    from jsonschema.exceptions import ValidationError

    return ValidationError("", **more)
