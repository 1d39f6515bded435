"""Subschemas of a schema, targets of references, and the cost of their patterns."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple
from urllib.parse import unquote

from llamaherd.engine.core import checks
from llamaherd.engine.core.request import check_wanted

_MOST_REFERENCES = 32  # maximum length of a chain of references

OF_ONE = frozenset(
    {"items", "additionalItems", "additionalProperties", "not", "if", "then", "else"}
) | {"contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
OF_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
OF_NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
) | {"dependencies"}


def subschemas(schema: object) -> list[dict[str, Any]]:
    """Return the schema and all its subschemas, each once, outermost first."""
    check_wanted()
    by_id: dict[int, dict[str, Any]] = {}
    waiting = [schema]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, dict) or id(current) in by_id:
            continue
        by_id[id(current)] = current
        waiting += [referred(current.get("$ref"), schema), *inner_schemas(current)]
    return list(by_id.values())


def inner_schemas(schema: dict[str, Any]) -> list[Any]:
    """Return the schemas in the keywords of a schema; no targets of references."""
    schemas: list[Any] = []
    for key, value in schema.items():
        if key in OF_NAMED and isinstance(value, dict):
            schemas += value.values()
        elif key in OF_MANY and isinstance(value, list):
            schemas += value
        elif key in OF_ONE:
            schemas.append(value)
    return schemas


def referred(reference: object, root: object) -> Any:  # noqa: ANN401 - JSON
    """Return the target of a reference within a schema; None if it is missing."""
    if not isinstance(reference, str) or not (reference + "/").startswith("#/"):
        return None
    target: Any = root
    for part in unquote(reference).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict):
            target = target.get(name)
        elif isinstance(target, list) and (i := checks.digits(name)) is not None:
            target = target[i] if i < len(target) else None
        else:
            return None
    return target


def resolved(schema: object, root: object) -> Any:  # noqa: ANN401 - JSON
    """Return a schema, or the target of its reference; None if the target is missing."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        schema = referred(schema["$ref"], root)
    return None


class Subschema(NamedTuple):
    """A subschema with its whole schema.

    Attributes:
        references: References that were followed to this subschema; a repeated
            reference is a cycle.
    """

    schema: Any
    root: Any
    references: frozenset[str] = frozenset({"#"})

    def referred(self) -> Subschema:
        """Return the target of `$ref`; for a cycle, a schema that accepts any value."""
        reference = self.schema["$ref"]
        if reference in self.references:
            return self.at(None)
        return Subschema(
            referred(reference, self.root), self.root, self.references | {reference}
        )

    def at(self, schema: object) -> Subschema:
        """Return a `Subschema` for a part of this schema, with the same whole schema."""
        return self._replace(schema=schema)


def parts(node: Subschema, *, is_sure: bool = False) -> list[Subschema]:
    """Return the schemas that a value other than null may follow, each once."""
    by_id: dict[int, Subschema] = {}
    waiting = [node]
    for current in waiting:  # the list grows during the loop
        schema = current.schema
        if not isinstance(schema, dict) or id(schema) in by_id:
            continue
        by_id[id(schema)] = current
        if isinstance(schema.get("$ref"), str):
            waiting.append(current.referred())
        waiting += map(current.at, list_at(schema, "allOf"))
        for key in ("anyOf", "oneOf"):
            choices = [one for one in list_at(schema, key) if not is_null(one)]
            if len(choices) == 1 or not is_sure:
                waiting += map(current.at, choices)
    return list(by_id.values())


def list_at(schema: dict[str, Any], key: str) -> list[Any]:
    """Return the list of a keyword; [] if the keyword is missing."""
    value = schema.get(key)
    return value if isinstance(value, list) else []


def is_null(schema: object) -> bool:
    """Return whether a schema accepts only null."""
    return isinstance(schema, dict) and (
        schema.get("type") == "null" or schema.get("const", 0) is None
    )


# llguidance tests whether any text has all patterns. The states of this test are products
# of the states of the patterns: 14 patterns like ".*a.*" take a second, 26 all memory.
_MOST_COST = 3**12
_DEEPEST = 100
# It also intersects the patterns of all names of an object by pairs: 200 patterns take
# half a second, 400 take 14.
_MOST_PAIRS = 1 << 14

_CHOICES = re.compile(r"[*+?{|]")
_JSON_RULE = re.compile(r"%json\s*(?=\{)")


def costs_too_much(schema: object) -> bool:
    """Return whether llguidance would need too long to intersect a schema's patterns."""
    return _cost(schema, schema, {}, 0) > _MOST_COST


def has_costly_names(schema: dict[str, Any]) -> bool:
    """Return whether llguidance would need too long for the names of an object."""
    patterns, names = schema.get("patternProperties"), schema.get("properties")
    n_patterns = len(patterns) if isinstance(patterns, dict) else 0
    n_names = len(names) if isinstance(names, dict) else 0
    return n_patterns * (n_patterns + n_names) > _MOST_PAIRS


def costly_rule(lark: str) -> bool:
    """Return whether a Lark grammar contains a JSON Schema that costs too much."""
    decoder = json.JSONDecoder()
    for rule in _JSON_RULE.finditer(lark):
        try:
            schema, _ = decoder.raw_decode(lark, rule.end())
        except (ValueError, RecursionError):
            continue  # llguidance reports it
        if costs_too_much(schema):
            return True
    return False


def _cost(schema: object, root: object, known: dict[int, float], depth: int) -> float:
    """Return a bound of the states of the patterns that apply to the same text."""
    if not isinstance(schema, dict):
        return 1
    if id(schema) in known:
        return known[id(schema)]
    if depth > _DEEPEST or has_costly_names(schema):
        return math.inf
    known[id(schema)] = 1  # a reference to a schema around this one

    def largest(parts: list[Any]) -> float:
        return max((_cost(part, root, known, depth + 1) for part in parts), default=1)

    pattern = schema.get("pattern")
    cost = 1.0
    if isinstance(pattern, str):
        cost = 2 + len(_CHOICES.findall(pattern))
    for part in list_at(schema, "allOf"):
        cost *= _cost(part, root, known, depth + 1)
    for key in ("anyOf", "oneOf"):
        cost *= largest(list_at(schema, key))
    cost *= _cost(referred(schema.get("$ref"), root), root, known, depth + 1)
    others = schema.keys() - {"$defs", "definitions", "allOf", "anyOf", "oneOf"}
    cost *= largest(inner_schemas({key: schema[key] for key in others}))
    known[id(schema)] = cost
    return cost
