"""The words that tell a model what to answer."""

from __future__ import annotations

import json
from typing import Any

from llamaherd.structured.places import Place, listed, parts
from llamaherd.structured.source import schema_text

_MAX_DEPTH = 8
_MAX_NESTED = 3  # lists of lists, and choices of choices


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
    place = Place(root, root)
    lines = _fields(place, 0)
    if not _named(place):
        lines = [f"- {_kind(place)}{_words(place)}", *_fields(place, 1)]
    return "\n".join(["Answer with JSON only, on one line, in this form:", *lines])


def _named(place: Place) -> dict[str, Place]:
    """The fields of an object."""
    named: dict[str, Place] = {}
    for part in parts(place, is_sure=True):
        fields = part.schema.get("properties")
        for name, field in fields.items() if isinstance(fields, dict) else ():
            named.setdefault(name, part.at(field))
    return named


def _fields(place: Place, depth: int) -> list[str]:
    """Lines for the fields of an object, or of the objects in a list."""
    if depth > _MAX_DEPTH:
        return []
    sure = parts(place, is_sure=True)
    required = {name for part in sure for name in listed(part.schema, "required")}
    lines = []
    for name, field in _named(place).items():
        optional = "" if name in required else ", may be left out"
        indent = "  " * depth
        lines.append(f'{indent}- "{name}": {_kind(field)}{optional}{_words(field)}')
        lines += _fields(field, depth + 1)
    for part in sure:
        if isinstance(part.schema.get("items"), dict):
            lines += _fields(part.at(part.schema["items"]), depth)
    return lines


def _kind(place: Place, depth: int = 0) -> str:
    # Of what is within itself the fields are not told again, but what it is.
    sure = parts(place._replace(references=frozenset()), is_sure=True)
    if not sure or depth > _MAX_NESTED:
        return "any value"
    schema: dict[str, Any] = {}
    for part in sure:
        schema = {**part.schema, **schema}
    place = place.at(schema)
    if "const" in schema:
        return json.dumps(schema["const"], ensure_ascii=False)
    if listed(schema, "enum"):
        values = [json.dumps(value, ensure_ascii=False) for value in schema["enum"]]
        return "one of " + ", ".join(values)
    choices = listed(schema, "anyOf") or listed(schema, "oneOf")
    kinds = dict.fromkeys(_kind(place.at(one), depth + 1) for one in choices[:_MAX_DEPTH])
    if kinds and "any value" not in kinds:
        return " or ".join(kinds)
    return _typed(place, depth)


def _typed(place: Place, depth: int) -> str:
    """What the type of a schema says."""
    schema = place.schema
    likely = "array" if "items" in schema else "any value"
    kind = schema.get("type", "object" if "properties" in schema else likely)
    if isinstance(kind, list):
        return " or ".join(
            _typed(place.at({**schema, "type": one}), depth) for one in kind
        )
    if kind == "array":
        items = _kind(place.at(schema.get("items")), depth + 1)
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
        if strict is True:  # as it was up to draft 4
            strict, limit = limit, None
        if isinstance(limit, (int, float)):
            limits.append(f"{least} {limit}")
        elif isinstance(strict, (int, float)):
            limits.append(f"{beyond} {strict}")
    if len(limits) == 2 and all(limit.startswith("at") for limit in limits):
        return f" from {schema['minimum']} to {schema['maximum']}"
    words = " and ".join(limits)
    return f" of {words}" if words.startswith("at") else f" {words}" * bool(words)


def _words(place: Place) -> str:
    """The description, of a field itself or else of what it refers to."""
    for part in parts(place, is_sure=True):
        words = part.schema.get("description")
        if isinstance(words, str):
            return f" ({words})"
    return ""
