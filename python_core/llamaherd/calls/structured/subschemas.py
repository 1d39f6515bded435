"""Subschemas of a schema, and the targets of its references."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import unquote

from llamaherd.engine.core import checks
from llamaherd.engine.core.preparing import check_wanted

_MOST_REFERENCES = 32  # maximum length of a chain of references

OF_ONE = frozenset(
    {"items", "additionalItems", "additionalProperties", "not", "if", "then", "else"}
) | {"contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
OF_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
OF_NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
) | {"dependencies"}


def subschemas(schema: object) -> list[dict[str, Any]]:
    """Return the schema and all its subschemas, each once, outermost first.

    The result includes the targets of references within the schema.
    """
    check_wanted()
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
    """Return the target of a reference within a schema; None if it is missing.

    Args:
        reference: Reference such as "#/$defs/name".
        root: Whole schema.

    Source: RFC 6901, section 6. Anchors ("#name") are not supported.
    """
    if not isinstance(reference, str) or not (reference + "/").startswith("#/"):
        return None
    found: Any = root
    for part in unquote(reference).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and (i := checks.digits(name)) is not None:
            found = found[i] if i < len(found) else None
        else:
            return None
    return found


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
        schema: The subschema.
        root: Whole schema.
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
    """Return the schemas that a value other than null may follow, each once.

    The schema itself comes first, then targets of references and members of `allOf`,
    `anyOf` and `oneOf`.

    Args:
        node: Schema to expand.
        is_sure: Whether to return only schemas that every value other than null must
            follow.
    """
    found: dict[int, Subschema] = {}
    waiting = [node]
    for each in waiting:  # the list grows during the loop
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
    """Return the list of a keyword; [] if the keyword is missing."""
    value = schema.get(key)
    return value if isinstance(value, list) else []


def is_null(schema: object) -> bool:
    """Return whether a schema accepts only null."""
    return isinstance(schema, dict) and (
        schema.get("type") == "null" or schema.get("const", 0) is None
    )
