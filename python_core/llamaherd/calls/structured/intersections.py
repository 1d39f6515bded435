"""Cost of the patterns of a schema that apply to the same text."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from llamaherd.calls.structured.subschemas import OF_NAMED, OF_ONE, referred

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
    """Return a bound of the states of the patterns that apply to the same text.

    Args:
        schema: Schema, or one of its subschemas.
        root: Whole schema, for references.
        known: Costs by the id of the subschema.
        depth: Number of schemas around this one; the cost of deeper ones is infinite.
    """
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
    for part in _list(schema.get("allOf")):
        cost *= _cost(part, root, known, depth + 1)
    for key in ("anyOf", "oneOf"):
        cost *= largest(_list(schema.get(key)))
    cost *= _cost(referred(schema.get("$ref"), root), root, known, depth + 1)
    inner = [schema[key] for key in OF_ONE & schema.keys()]
    for key in OF_NAMED & schema.keys() - {"$defs", "definitions"}:
        named = schema[key]
        inner += named.values() if isinstance(named, dict) else []
    inner += _list(schema.get("prefixItems")) + _list(schema.get("items"))
    cost *= largest(inner)
    known[id(schema)] = cost
    return cost


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
