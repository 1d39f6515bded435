"""Numbers of a schema that token masks cannot enforce exactly.

llguidance computes with floats of 64 bits, and with integers of 64 bits in ranges of
integers. It rounds other numbers, and its recursion over the smallest integers never
ends, which ends the process. These numbers are therefore taken out before llguidance
reads a schema: limits are left to the check of the answer, and values of `const` and
`enum` are refused, because a model would hardly ever write them without a mask.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from llamaherd.calls.structured.subschemas import OF_NAMED
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.native import llguidance

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZES = frozenset(
    {"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"}
)
_LOWER = frozenset({"minimum", "exclusiveMinimum"})
_UPPER = frozenset({"maximum", "exclusiveMaximum"})
_VALUES = frozenset({"const", "enum"})
_EXACT = 2**53  # floats have each integer up to this one
_INT64 = 2**63
_LEAST = -_INT64 + 1024  # llguidance rounds smaller integers to -2^63
_TOO_LARGE = 2**1024  # no float of 64 bits
_MOST_SIZE = 2**31 - 1


def write_sizes(every: list[dict[str, Any]]) -> None:
    """Write sizes such as 2.0, which JSON Schema accepts, as integers."""
    for subschema in every:
        for key in SIZES & subschema.keys():
            value = subschema[key]
            if isinstance(value, float) and value.is_integer():
                subschema[key] = int(value)


def take_limits(every: list[dict[str, Any]]) -> set[str]:
    """Remove limits that llguidance cannot read or would round; return their keywords."""
    left = set()
    for subschema in every:
        for key in (_LOWER | _UPPER | SIZES | {"multipleOf"}) & subschema.keys():
            if _is_number(subschema[key]) and not _is_limit(
                key, subschema[key], subschema.get("type")
            ):
                del subschema[key]
                left.add(key)
    return left


def _is_limit(key: str, value: float, kind: object) -> bool:
    """Return whether llguidance enforces a limit exactly."""
    if abs(value) >= _TOO_LARGE:
        return False
    if key in SIZES:
        return value <= _MOST_SIZE
    if key in _UPPER and kind == "integer" and value >= _INT64 - 1:
        return True  # masks allow integers of 64 bits only
    if key != "multipleOf" and (value == 0 or 1 <= abs(value) <= _EXACT):
        return True
    if isinstance(value, int) and int(float(value)) != value:
        return False
    return _is_accepted("integer" if kind == "integer" else "number", key, value)


@lru_cache(maxsize=4096)
def _is_accepted(kind: str, key: str, value: float) -> bool:
    return not llguidance.problem_of_schema(json.dumps({"type": kind, key: value}))


def check_values(root: object, every: list[dict[str, Any]]) -> None:
    """Check that masks enforce each number in `const` and `enum` exactly."""
    known = set(map(id, every))
    waiting: list[tuple[object, bool]] = [(root, False)]
    while waiting:
        current, is_named = waiting.pop()
        if isinstance(current, dict):
            if not is_named:  # otherwise its keys are names of properties
                _check_object(current, has_limits=id(current) not in known)
            waiting += [
                (value, not is_named and key in OF_NAMED)
                for key, value in current.items()
            ]
        elif isinstance(current, list):
            waiting += [(value, False) for value in current]
        elif isinstance(current, int) and abs(current) >= _TOO_LARGE:
            raise _out_of_range("has a number of more than 308 digits")


def _check_object(schema: dict[str, Any], *, has_limits: bool) -> None:
    """Check the values of `const` and `enum` of an object, and its limits if asked."""
    for key in _VALUES & schema.keys():
        for number in _numbers(schema[key]):
            if not _is_value(number):
                raise _refused(key, number)
    for key in (_LOWER | _UPPER) & schema.keys() if has_limits else ():
        for number in _numbers(schema[key]):
            if number < _LEAST:
                raise _refused(key, number)


def _is_value(number: Any) -> bool:  # noqa: ANN401 - a float or an integer
    """Return whether masks allow exactly the text of a number."""
    if abs(number) >= _TOO_LARGE:
        return False
    if isinstance(number, float) or abs(number) <= _EXACT or number == _INT64 - 1:
        return True
    if -_INT64 <= number < _INT64:
        return bool(number >= _LEAST and int(float(number)) == number)
    return bool(decimal(float(number)) == number)


def decimal(number: Any) -> float | Fraction:  # noqa: ANN401 - a float or an integer
    """Return the decimal number with which JSON writes a float, or an integer itself."""
    is_written = isinstance(number, float) and math.isfinite(number)
    return Fraction(repr(number)) if is_written else number


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif _is_number(value):
        yield value  # type: ignore[misc]


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _refused(key: str, number: float) -> ArgumentError:
    text = number if abs(number) < 10**40 else "one of more than 40 digits"
    return _out_of_range(
        f"has the number {text} in {key}, which masks cannot enforce exactly: use "
        f"integers of at most {_EXACT} (2^53), or strings"
    )


def _out_of_range(problem: str) -> ArgumentError:
    return ArgumentError(problem, argument="schema", code="out_of_range")
