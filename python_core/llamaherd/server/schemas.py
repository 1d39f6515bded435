"""Parts of the JSON Schemas of requests and answers."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
MOST_ITEMS = 2048  # prompts or texts of a request

TEXT: Schema = {"type": "string"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
LIST: Schema = {"type": "array"}
NOTHING: Schema = {"type": "null"}  # null counts as a missing field
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER: Schema = {"type": "number"}
NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
ITEMS = {"minItems": 1, "maxItems": MOST_ITEMS}  # of a list of prompts or texts
TOKENS: Schema = {"type": "array", "items": COUNT}
SOME_TEXT: Schema = {**TEXT, "minLength": 1}
SOME_TOKENS: Schema = {**TOKENS, "minItems": 1}


def whole(least: int | None = None, most: int | None = None) -> Schema:
    """Return the schema of a whole number within limits; None for no limit."""
    limits = {"minimum": least, "maximum": most}
    return {"type": "integer"} | {k: v for k, v in limits.items() if v is not None}


def real(least: float, most: float) -> Schema:
    """Return the schema of a number within limits."""
    return {"type": "number", "minimum": least, "maximum": most}


def listed(items: Schema, **more: object) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": items, **more}


def either(*schemas: Schema) -> Schema:
    """Return the schema of a value that follows one of several schemas."""
    return {"anyOf": list(schemas)}


def record(optional: dict[str, Schema] | None = None, /, **properties: Schema) -> Schema:
    """Return the schema of an object with at least these properties."""
    return {
        "type": "object",
        "properties": {**properties, **(optional or {})},
        "required": list(properties),
    }


def part(needed: dict[str, Schema] | None = None, /, **optional: Schema) -> Schema:
    """Return the schema of an object in a request, which has no other fields."""
    return {
        "type": "object",
        "properties": {
            **(needed or {}),
            **{name: or_null(schema) for name, schema in optional.items()},
        },
        "required": list(needed or ()),
        "additionalProperties": NOTHING,
    }


def with_more(schema: Schema) -> Schema:
    """Return the schema of an object that may have other fields, too."""
    return {n: value for n, value in schema.items() if n != "additionalProperties"}


def ref(name: str) -> Schema:
    """Return a reference to a schema of `COMPONENTS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def or_null(schema: Schema) -> Schema:
    """Return a schema that also accepts null, which stands for a missing field."""
    notes: Schema = {n: schema[n] for n in ("description", "default") if n in schema}
    rest = {n: v for n, v in schema.items() if n not in notes}
    if rest == NOTHING:
        return {**rest, **notes}
    return {**either(rest, {"type": "null"}), **notes}


# Error of a text or of an answer; null without an error.
FAILURE = either({"type": "null"}, record(message=TEXT, code=TEXT))
# Fields with which answers of OpenAI's API begin, and fields of each of their choices.
HEAD = {"id": TEXT, "object": TEXT, "created": COUNT, "model": TEXT}
CHOICE = {"index": COUNT, "finish_reason": TEXT}


def rows(**properties: Schema) -> Schema:
    """Return the schema of an answer with a row for each prompt or text."""
    row = record(index=COUNT, **properties, error=FAILURE)
    return record(
        object={"const": "list"}, model=TEXT, data=listed(row), usage=ref("Usage")
    )


COMPONENTS: dict[str, Schema] = {
    "Usage": record(prompt_tokens=COUNT, total_tokens=COUNT),
    "Error": record(
        error=record(message=TEXT, type=TEXT, param=TEXT_OR_NULL, code=TEXT_OR_NULL)
    ),
    "Message": record(
        {"content": {"type": ["string", "array", "null"]}},
        role={"enum": ["system", "developer", "user", "assistant", "tool"]},
    ),
    "Model": record(
        {"parent": TEXT},  # of a LoRA adapter
        id=TEXT,
        object={"const": "model"},
        created=COUNT,
        owned_by=TEXT,
    ),
}
