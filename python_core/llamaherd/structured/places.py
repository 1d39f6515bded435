"""Where schemas stand within a schema."""

from __future__ import annotations

from typing import Any

OF_ONE = frozenset(
    {"items", "additionalItems", "additionalProperties", "not", "if", "then", "else"}
) | {"contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
OF_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
OF_NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
) | {"dependencies"}


def subschemas(schema: object) -> list[dict[str, Any]]:
    """The schema itself and all within it, outermost first."""
    found: list[dict[str, Any]] = []
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict):
            continue
        found.append(each)
        for key, value in each.items():
            if key in OF_NAMED and isinstance(value, dict):
                waiting += value.values()
            elif key in OF_MANY and isinstance(value, list):
                waiting += value
            elif key in OF_ONE:
                waiting.append(value)
    return found
