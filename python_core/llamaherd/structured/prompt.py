"""The words that tell a model what to answer."""

from __future__ import annotations

import json
from typing import Any

from llamaherd.structured.source import schema_text

_MAX_DEPTH = 8


def schema_prompt(schema: object) -> str:
    """An instruction for the prompt: the fields of a schema, with their descriptions.

    Masks make an answer follow the schema, but the model does not see the schema: what a
    field means it learns from the prompt alone.

    Args:
        schema: As `generate_parallel` takes it.

    Returns:
        Lines of text, without one at the end that is empty.

    Raises:
        TypeError: It is no schema.
        ValueError: It is no JSON, or no such file.
    """
    text, _ = schema_text(schema)
    root = json.loads(text)
    lines = ["Answer with JSON only, on one line, in this form:"]
    lines += _fields(root, root, 0)
    return "\n".join(lines)


def _fields(schema: Any, root: Any, depth: int) -> list[str]:  # noqa: ANN401 - JSON
    schema = _resolved(schema, root)
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return []
    indent = "  " * depth
    if depth == 0 and "properties" not in schema:
        return [f"- {_kind(schema, root)}{_words(schema)}"]
    lines = []
    required = schema.get("required", [])
    for name, field in (schema.get("properties") or {}).items():
        inner = _resolved(field, root)
        optional = "" if name in required else ", may be left out"
        lines.append(
            f'{indent}- "{name}": {_kind(inner, root)}{optional}{_words(field, inner)}'
        )
        lines += _fields(inner, root, depth + 1)
        if isinstance(inner, dict):
            lines += _fields(inner.get("items"), root, depth + 1)
    return lines


def _resolved(schema: Any, root: Any) -> Any:  # noqa: ANN401 - JSON
    """What a reference within the schema means."""
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, dict) or "$ref" not in schema:
            break
        place: Any = root
        for part in str(schema["$ref"]).lstrip("#").strip("/").split("/"):
            key = part.replace("~1", "/").replace("~0", "~")
            place = place.get(key) if isinstance(place, dict) and key else place
        schema = place
    return schema


def _kind(schema: Any, root: Any) -> str:  # noqa: ANN401, PLR0911 - one for each kind
    schema = _resolved(schema, root)
    if not isinstance(schema, dict):
        return "any value"
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if "enum" in schema:
        values = [json.dumps(value, ensure_ascii=False) for value in schema["enum"]]
        return "one of " + ", ".join(values)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_kind(each, root) for each in schema[key][:_MAX_DEPTH])
    kind = schema.get("type", "any value")
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    if kind == "array":
        return f"list of {_kind(schema.get('items'), root)}{_bounds(schema, 'Items')}"
    if kind in ("integer", "number"):
        return f"{kind}{_range(schema)}"
    if kind == "string":
        return f"text{_bounds(schema, 'Length', ' characters')}"
    return str(kind)


def _bounds(schema: dict[str, Any], what: str, unit: str = "") -> str:
    low, high = schema.get(f"min{what}"), schema.get(f"max{what}")
    if low is None and high is None:
        return ""
    if high is None:
        return f" (at least {low}{unit})"
    return f" ({low or 0} to {high}{unit})"


def _range(schema: dict[str, Any]) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    if low is not None:
        return f" of at least {low}"
    return "" if high is None else f" of at most {high}"


def _words(*schemas: Any) -> str:  # noqa: ANN401 - JSON
    for schema in schemas:
        if isinstance(schema, dict) and isinstance(schema.get("description"), str):
            return f" ({schema['description']})"
    return ""
