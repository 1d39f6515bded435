"""Division of a JSON Schema into an enforced part and a checked part.

llguidance compiles a schema to a grammar, or rejects it because of some keywords.
Rejected keywords are removed until the schema compiles. The remaining schema accepts
every answer that the whole schema accepts.

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
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.calls.structured.subschemas import (
    OF_MANY,
    OF_NAMED,
    OF_ONE,
    costs_too_much,
    has_costly_names,
    subschemas,
)
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.native import llguidance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Compact JSON, because white space costs tokens and small models may repeat it without
# end.
_COMPACT: dict[str, object] = {"whitespace_flexible": False}
_LENIENT: dict[str, object] = {**_COMPACT, "lenient": True}

# Keywords that llguidance cannot enforce (see its docs/json_schema.md).
_UNKNOWN = frozenset(
    {
        *("not", "if", "then", "else", "uniqueItems", "contains", "minContains"),
        *("maxContains", "dependencies", "dependentRequired", "dependentSchemas"),
        *("propertyNames", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef"),
        *("$recursiveRef",),
    }
)
_FORMATS = frozenset(
    {
        *("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6"),
        *("uuid", "uri"),
    }
)
# Errors of llguidance for schemas that exceed its limits.
_SIZE_WORDS = ("too big", "too large", "limit", "too many", "too complex")

_MAX_SCHEMAS = 256
# llguidance refuses more optional properties of an object, too, but only after a time
# that grows with the square of their number.
_MOST_OPTIONAL = 2000


class SchemaError(ArgumentError):
    """The schema is invalid, unsatisfiable or too large."""


class Enforced(NamedTuple):
    """Part of a schema that masks enforce.

    `unenforced` has the keywords that remain for the check, as "keyword" or "format: x".
    """

    text: str
    unenforced: tuple[str, ...]


@lru_cache(maxsize=_MAX_SCHEMAS)
def enforceable_part(text: str) -> Enforced:
    """Return the largest part of a JSON Schema that masks can enforce."""
    schema = json.loads(text)
    if not isinstance(schema, dict):
        if schema is False:
            raise SchemaError(
                "no answer can follow the schema false",
                argument="schema",
                code="unsatisfiable",
                form="{problem}",
            )
        schema = {}
    schema.pop("x-guidance", None)
    without_unknown = json.loads(text)
    list(_take_unknown(without_unknown))
    check_values(without_unknown, subschemas(without_unknown))
    every = subschemas(schema)
    write_sizes(every)
    _check_optional(every)
    unenforced = take_limits(every)
    if costs_too_much(schema):
        for subschema in every:
            drop = _drop_patterns if has_costly_names(subschema) else _drop("pattern")
            unenforced.update(drop(subschema))
    problem = _problem(schema, _COMPACT)
    if not problem:
        return Enforced(_with(schema, _COMPACT), tuple(sorted(unenforced)))
    unenforced.update(_take_unknown(schema))
    options = _COMPACT
    for loosen in (_drop(), _coerce, *_LOOSER):
        if loosen is _coerce:
            options = _LENIENT
            if "oneOf" not in problem:
                continue
        unenforced |= {
            word for subschema in subschemas(schema) for word in loosen(subschema)
        }
        problem = _problem(schema, options)
        if not problem:
            # Add keywords in subschemas that the steps above do not visit, such as
            # targets of anchors.
            unenforced.update(llguidance.ignored_of_schema(_with(schema, options)))
            return Enforced(_with(schema, options), tuple(sorted(unenforced)))
    unenforced |= schema.keys() & (OF_ONE | OF_MANY | OF_NAMED | {"$ref"})
    schema = {"type": schema["type"]} if _has_plain_type(schema) else {}
    return Enforced(_with(schema, _LENIENT), tuple(sorted(unenforced)))


def _check_optional(every: list[dict[str, Any]]) -> None:
    for subschema in every:
        properties, required = subschema.get("properties"), subschema.get("required")
        n = len(properties) if isinstance(properties, dict) else 0
        n -= len(required) if isinstance(required, list) else 0
        if n > _MOST_OPTIONAL:
            raise SchemaError(
                f"the schema is too large: an object has {n} optional properties, and "
                f"masks can enforce {_MOST_OPTIONAL}: name them in required",
                argument="schema",
                code="too_many",
                form="{problem}",
            )


def _with(schema: dict[str, Any], options: dict[str, object]) -> str:
    whole = {**schema, "x-guidance": options}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))


def _problem(schema: dict[str, Any], options: dict[str, object]) -> str:
    """Return the reason why llguidance rejects a schema; "" if it accepts the schema."""
    problem = llguidance.problem_of_schema(_with(schema, options))
    lower = problem.lower()
    # If the error names a position, only this part is unsatisfiable, and answers may
    # leave it out.
    if "unsatisfiable" in lower and "while processing" not in lower:
        raise SchemaError(
            f"no answer can follow the schema: {problem}",
            argument="schema",
            code="unsatisfiable",
            form="{problem}",
        )
    if "intersection" not in lower and any(words in lower for words in _SIZE_WORDS):
        raise SchemaError(
            f"the schema is too large: {problem}",
            argument="schema",
            code="too_many",
            form="{problem}",
        )
    return problem


def _has_plain_type(schema: dict[str, Any]) -> bool:
    types = schema.get("type")
    kinds = types if isinstance(types, list) else [types]
    known = {"null", "boolean", "integer", "number", "string", "array", "object"}
    return all(isinstance(one, str) and one in known for one in kinds)


def _take_unknown(schema: dict[str, Any]) -> Iterator[str]:
    """Remove the keywords that llguidance cannot enforce, and return them."""
    for subschema in subschemas(schema):
        for key in subschema.keys() & _UNKNOWN:
            value = subschema.pop(key)
            if key != "uniqueItems" or value is not False:
                yield key
        name = subschema.get("format")
        if isinstance(name, str) and name not in _FORMATS:
            del subschema["format"]
            yield f"format: {name}"


# ---- relaxations, tried one after the other; each returns the removed keywords
# -------------


def _coerce(schema: dict[str, Any]) -> list[str]:
    """Set the option of llguidance that treats `oneOf` with overlaps as `anyOf`."""
    return ["oneOf"] if "oneOf" in schema else []


def _drop(*keys: str) -> Callable[[dict[str, Any]], list[str]]:
    def drop(schema: dict[str, Any]) -> list[str]:
        return [key for key in keys if schema.pop(key, None) is not None]

    return drop


def _drop_patterns(schema: dict[str, Any]) -> list[str]:
    dropped = _drop("pattern", "patternProperties")(schema)
    if "patternProperties" in dropped:
        # Properties that the removed patterns allowed must still be allowed.
        schema["additionalProperties"] = True
    return dropped


_LOOSER = (
    _drop("minProperties", "maxProperties"),
    _drop_patterns,
    _drop("minLength", "maxLength"),
    _drop("allOf"),
)


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
    unenforced = set()
    for subschema in every:
        for key in (_LOWER | _UPPER | SIZES | {"multipleOf"}) & subschema.keys():
            if _is_number(subschema[key]) and not _is_limit(
                key, subschema[key], subschema.get("type")
            ):
                del subschema[key]
                unenforced.add(key)
    return unenforced


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
    ids = set(map(id, every))
    waiting: list[tuple[object, bool]] = [(root, False)]
    while waiting:
        current, is_named = waiting.pop()
        if isinstance(current, dict):
            if not is_named:  # otherwise its keys are names of properties
                _check_object(current, has_limits=id(current) not in ids)
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
                raise _range_error(key, number)
    for key in (_LOWER | _UPPER) & schema.keys() if has_limits else ():
        for number in _numbers(schema[key]):
            if number < _LEAST:
                raise _range_error(key, number)


def _is_value(number: Any) -> bool:  # a float or an integer
    """Return whether masks allow exactly the text of a number."""
    if abs(number) >= _TOO_LARGE:
        return False
    if isinstance(number, float) or abs(number) <= _EXACT or number == _INT64 - 1:
        return True
    if -_INT64 <= number < _INT64:
        return bool(number >= _LEAST and int(float(number)) == number)
    return bool(decimal(float(number)) == number)


def decimal(number: Any) -> float | Fraction:  # a float or an integer
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


def _range_error(key: str, number: float) -> ArgumentError:
    text = number if abs(number) < 10**40 else "one of more than 40 digits"
    return _out_of_range(
        f"has the number {text} in {key}, which masks cannot enforce exactly: use "
        f"integers of at most {_EXACT} (2^53), or strings"
    )


def _out_of_range(problem: str) -> ArgumentError:
    return ArgumentError(problem, argument="schema", code="out_of_range")
