"""Instructions for a prompt, from a JSON Schema."""

from __future__ import annotations

import json
from typing import Any

from llamaherd.calls.structured.quoting import quote_rule
from llamaherd.calls.structured.shape import schema_text
from llamaherd.calls.structured.subschemas import Subschema, list_at, parts

JSON_ONLY = "Answer with JSON only, on one line, in this form:"
_MAX_DEPTH = 8
_MAX_NESTED = 3  # maximum nesting depth of lists and choices


def schema_prompt(schema: object) -> str:
    """Return an instruction for a prompt: the fields of a schema with their descriptions.

    Masks make an answer follow the schema, but the model does not see the schema. Only
    the prompt can explain the meaning of a field to the model.

    Args:
        schema: See `generate_parallel`.

    Returns:
        Lines of text, without a trailing newline.

    Raises:
        TypeError: `schema` is not a schema.
        ValueError: `schema` is not JSON, or the file does not exist.
    """
    text, _ = schema_text(schema)
    root = json.loads(text)
    node = Subschema(root, root)
    lines = _fields(node, 0)
    if not _fields_of(node):
        lines = [f"- {_kind(node)}{_words(node)}", *_fields(node, 1)]
    return "\n".join([JSON_ONLY, *lines])


def _fields_of(node: Subschema) -> dict[str, Subschema]:
    """Return the fields of an object schema."""
    named: dict[str, Subschema] = {}
    for part in parts(node, is_sure=True):
        fields = part.schema.get("properties")
        for name, field in fields.items() if isinstance(fields, dict) else ():
            named.setdefault(name, part.at(field))
    return named


def _fields(node: Subschema, depth: int) -> list[str]:
    """Return lines for the fields of an object, or of the objects in a list."""
    if depth > _MAX_DEPTH:
        return []
    sure = parts(node, is_sure=True)
    required = {name for part in sure for name in list_at(part.schema, "required")}
    lines = []
    for name, field in _fields_of(node).items():
        optional = "" if name in required else ", may be left out"
        indent = "  " * depth
        lines.append(f'{indent}- "{name}": {_kind(field)}{optional}{_words(field)}')
        lines += _fields(field, depth + 1)
    for part in sure:
        if isinstance(part.schema.get("items"), dict):
            lines += _fields(part.at(part.schema["items"]), depth)
    return lines


def _kind(node: Subschema, depth: int = 0) -> str:
    # For a recursive schema, only the type is described, without its fields.
    sure = parts(node._replace(references=frozenset()), is_sure=True)
    if not sure or depth > _MAX_NESTED:
        return "any value"
    schema: dict[str, Any] = {}
    for part in sure:
        schema = {**part.schema, **schema}
    node = node.at(schema)
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if list_at(schema, "enum"):
        values = [json.dumps(value, ensure_ascii=False) for value in schema["enum"]]
        return "one of " + ", ".join(values)
    choices = list_at(schema, "anyOf") or list_at(schema, "oneOf")
    kinds = dict.fromkeys(_kind(node.at(one), depth + 1) for one in choices[:_MAX_DEPTH])
    if kinds and "any value" not in kinds:
        return " or ".join(kinds)
    return _describe_type(node, depth)


def _describe_type(node: Subschema, depth: int) -> str:
    """Describe the type of a schema."""
    schema = node.schema
    rule = quote_rule(schema)
    if rule is not None:
        return f"words copied from the text ({rule.least} to {rule.most} {rule.unit})"
    likely = "array" if "items" in schema else "any value"
    kind = schema.get("type", "object" if "properties" in schema else likely)
    if isinstance(kind, list):
        return " or ".join(
            _describe_type(node.at({**schema, "type": one}), depth) for one in kind
        )
    if kind == "array":
        items = _kind(node.at(schema.get("items")), depth + 1)
        return f"list of {items}{_bounds(schema, 'Items')}"
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
    limits = []
    for name, least, beyond in (
        ("inimum", "at least", "above"),
        ("aximum", "at most", "below"),
    ):
        limit, strict = schema.get(f"m{name}"), schema.get(f"exclusiveM{name}")
        if strict is True:  # the notation of draft 4
            strict, limit = limit, None
        if isinstance(limit, (int, float)):
            limits.append(f"{least} {limit}")
        elif isinstance(strict, (int, float)):
            limits.append(f"{beyond} {strict}")
    if len(limits) == 2 and all(limit.startswith("at") for limit in limits):
        return f" from {schema['minimum']} to {schema['maximum']}"
    words = " and ".join(limits)
    return f" of {words}" if words.startswith("at") else f" {words}" * bool(words)


def _words(node: Subschema) -> str:
    """Return the description of a field, or else of its reference's target."""
    for part in parts(node, is_sure=True):
        words = part.schema.get("description")
        if isinstance(words, str):
            return f" ({words})"
    return ""
