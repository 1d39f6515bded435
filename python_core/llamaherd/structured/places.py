"""Where schemas stand within a schema, and what references within it mean."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import unquote

_MOST_REFERENCES = 32  # that lead from one to the next

OF_ONE = frozenset(
    {"items", "additionalItems", "additionalProperties", "not", "if", "then", "else"}
) | {"contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
OF_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
OF_NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
) | {"dependencies"}


def subschemas(schema: object) -> list[dict[str, Any]]:
    """The schema itself and all within it, each once, outermost first.

    What a reference within the schema points to is one of them, wherever it stands.
    """
    found: dict[int, dict[str, Any]] = {}
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, dict) or id(each) in found:
            continue
        found[id(each)] = each
        waiting.append(referred(each.get("$ref"), schema))
        for key, value in each.items():
            if key in OF_NAMED and isinstance(value, dict):
                waiting += value.values()
            elif key in OF_MANY and isinstance(value, list):
                waiting += value
            elif key in OF_ONE:
                waiting.append(value)
    return list(found.values())


def referred(reference: object, root: object) -> Any:  # noqa: ANN401 - JSON
    """What a reference within a schema points to; None: it points nowhere, or elsewhere.

    Args:
        reference: Such as "#/$defs/name".
        root: The whole schema.

    Source: RFC 6901, section 6. Anchors ("#name") are not looked for.
    """
    if not isinstance(reference, str) or not (reference + "/").startswith("#/"):
        return None
    found: Any = root
    for part in unquote(reference).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and name.isascii() and name.isdigit():
            found = found[int(name)] if int(name) < len(found) else None
        else:
            return None
    return found


def resolved(schema: object, root: object) -> Any:  # noqa: ANN401 - JSON
    """A schema, or what it refers to; None: it refers to nothing that is there."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        schema = referred(schema["$ref"], root)
    return None


class Place(NamedTuple):
    """A schema within a whole one.

    Attributes:
        schema: What stands there.
        root: The whole.
        references: Those that led there; such a one that comes again has no end.
    """

    schema: Any
    root: Any
    references: frozenset[str] = frozenset({"#"})

    def referred(self) -> Place:
        """The schema that its `$ref` points to; a schema of anything if it has no end."""
        reference = self.schema["$ref"]
        if reference in self.references:
            return self.at(None)
        return Place(
            referred(reference, self.root), self.root, self.references | {reference}
        )

    def at(self, schema: object) -> Place:
        """A schema within this one."""
        return self._replace(schema=schema)


def parts(place: Place, *, is_sure: bool = False) -> list[Place]:
    """What a value that is not null may follow, each once, the schema itself first.

    Args:
        place: A schema: with what it refers to, and what it is one or all of.
        is_sure: Only what such a value has to follow: of several choices none.
    """
    found: dict[int, Place] = {}
    waiting = [place]
    for each in waiting:  # which grows
        schema = each.schema
        if not isinstance(schema, dict) or id(schema) in found:
            continue
        found[id(schema)] = each
        if isinstance(schema.get("$ref"), str):
            waiting.append(each.referred())
        waiting += map(each.at, listed(schema, "allOf"))
        for key in ("anyOf", "oneOf"):
            choices = [one for one in listed(schema, key) if not is_null(one)]
            if len(choices) == 1 or not is_sure:
                waiting += map(each.at, choices)
    return list(found.values())


def listed(schema: dict[str, Any], key: str) -> list[Any]:
    """The list that a keyword has; []: it has none."""
    value = schema.get(key)
    return value if isinstance(value, list) else []


def is_null(schema: object) -> bool:
    """Whether a schema takes null alone."""
    return isinstance(schema, dict) and (
        schema.get("type") == "null" or schema.get("const", 0) is None
    )
