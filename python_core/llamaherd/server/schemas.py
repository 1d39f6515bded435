"""JSON Schemas of requests and answers, and the checks that follow from them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, BadArgumentError
from llamaherd.server.errors import JSON, ApiError, bad_field, unknown_field

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

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


def list_schema(items: Schema, **more: object) -> Schema:
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
        object={"const": "list"}, model=TEXT, data=list_schema(row), usage=ref("Usage")
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
        type={"const": "model"},
        display_name=TEXT,
        created_at=TEXT,
    ),
}


_IN_WORDS = {
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "a list",
    "object": "an object",
}
_CLASSES = {"boolean": bool, "string": str, "array": list, "object": dict}
_KINDS = {bool: "boolean", int: "integer", float: "number", str: "string"}


def _has_type(value: object, kind: str) -> bool:
    """Whether a value has a JSON type; 1.0 is an integer, as in JSON Schema."""
    if kind == "null":
        return value is None
    if kind in _CLASSES:
        return isinstance(value, _CLASSES[kind])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return kind == "number" or value == int(value)


def is_same(value: object, other: object) -> bool:
    """Whether two values are equal in JSON; true does not equal 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def shown_value(value: object) -> str:
    """Return a value of a request for a message."""
    return JSON.value(value, checks.brief(value))


def unfit(where: str, expected: str, value: object, *, param: str = "") -> ApiError:
    """Return the error of a value; `param` is its field, without it `where`."""
    return bad_field(
        param or where, f"{where} must be {expected}, not {shown_value(value)}"
    )


def checked_string(name: str, value: object) -> str:
    """Return a string within a request."""
    if not isinstance(value, str):
        raise unfit(name, "a string", value)
    return value


def checked_fields(
    where: str, value: object, schema: Schema, *, param: str = ""
) -> dict[str, Any]:
    """Return the fields of an object that `check_value` accepts, null left out."""
    check_value(where, value, schema, param=param)
    fields: Any = value
    return {name: item for name, item in fields.items() if item is not None}


def check_value(where: str, value: object, schema: Schema, *, param: str = "") -> None:
    """Check a value by its schema: types, limits, names and presence of fields.

    Null counts as missing. Patterns are checked where a value is used. `param` is the
    field of errors; without it, the place of the fault.
    """
    options = _options(schema, value)
    if not options:
        expected = " or ".join(_IN_WORDS[kind] for kind in kinds_of(schema))
        raise unfit(where, expected, value, param=param)
    for option in options[1:]:
        with suppress(ApiError):
            _check_limits(where, value, option, param)
            return
    _check_limits(where, value, options[0], param)


def _options(schema: Schema, value: object) -> list[Schema]:
    """Return the alternatives of a schema that a value may follow, by its types."""
    options = [
        option
        for option in _alternatives(schema)
        if any(_has_type(value, kind) for kind in _kinds_of(option))
    ]
    if len(options) < 2 or not isinstance(value, list) or not value:
        return options
    lists = [option for option in options if _options(option.get("items", {}), value[0])]
    return lists or options[:1]


def _check_limits(where: str, value: Any, schema: Schema, param: str) -> None:  # JSON
    try:
        if "enum" in schema or "const" in schema:
            _check_choice(where, value, schema)
        elif isinstance(value, str):
            _check_size(where, len(checks.text(where, value)), schema, "Length")
        elif isinstance(value, list):
            _check_size(where, len(value), schema, "Items")
            _check_items(where, value, schema.get("items", {}), param)
        elif isinstance(value, dict):
            _check_size(where, len(value), schema, "Properties")
            _check_fields(where, value, schema, param)
        elif "minimum" in schema:
            check = checks.integer if schema["type"] == "integer" else checks.real
            most = schema.get("maximum", checks.INT32_MAX)
            check(where, value, schema["minimum"], most)
    except BadArgumentError as error:
        raise bad_field(param or where, str(error)) from None


def _check_choice(where: str, value: object, schema: Schema) -> None:
    values, why = _values_of(schema), schema.get("$comment")
    if len(values) > 1:
        checks.choice(where, value, values)
    elif not is_same(value, values[0]):
        problem = f"must be {JSON.literal(values[0])}, not {shown_value(value)}"
        raise ArgumentError(f"{problem}: {why}" if why else problem, argument=where)


_NOUNS = {"Length": "characters", "Items": "elements", "Properties": "fields"}


def _check_size(where: str, n: int, schema: Schema, kind: str) -> None:
    """Check the number of elements, characters or fields."""
    least, most = schema.get(f"min{kind}", 0), schema.get(f"max{kind}", n)
    problem = ""
    if n < least:
        few = f"must have at least {least} {_NOUNS[kind]}, not {n}"
        problem = few if n else "must not be empty"
    elif n > most:
        problem = f"must have at most {most} {_NOUNS[kind]}, not {n}"
    if problem:
        raise ArgumentError(problem, argument=where)


def _check_items(where: str, items: list[Any], schema: Schema, param: str) -> None:
    if not schema:
        return
    places: Iterable[int] = range(len(items))
    if schema.get("type") == "integer" and set(map(type, items)) == {int}:
        # Lists of tokens may be long: the least and the largest number stand for all.
        places = {items.index(min(items)), items.index(max(items))}
    for i in places:
        check_value(f"{where}[{i}]", items[i], schema, param=param)


def _check_fields(
    where: str, fields: Mapping[str, object], schema: Schema, param: str
) -> None:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for name, value in fields.items():
        if "propertyNames" in schema:
            name_of = f"{where}: the name {checks.quoted(name)}"
            _check_limits(name_of, name, schema["propertyNames"], param)
        if value is None:
            continue
        if name not in known and others == NOTHING:
            raise unknown_field(f"{where}.{name}", [f"{where}.{n}" for n in known])
        inner = known.get(name, others)
        if inner:
            check_value(f"{where}.{name[:60]}", value, inner, param=param)
    for name in schema.get("required", ()):  # a wrong type of a tool says more than this
        if fields.get(name) is None:
            check_value(f"{where}.{name}", None, known[name], param=param)


def _alternatives(schema: Schema) -> list[Schema]:
    """Return the alternatives of a schema, without null."""
    parts = schema.get("anyOf")
    if parts is None:
        return [] if schema == NOTHING else [schema]
    return [option for part in parts for option in _alternatives(part)]


def kinds_of(schema: Schema) -> list[str]:
    """Return the JSON types that a schema accepts, without null."""
    kinds = [kind for option in _alternatives(schema) for kind in _kinds_of(option)]
    return [kind for kind in dict.fromkeys(kinds) if kind != "null"]


def _kinds_of(schema: Schema) -> Sequence[str]:
    kinds: Any = schema.get("type")
    if kinds is None and ("enum" in schema or "const" in schema):
        return tuple({_KINDS[type(value)] for value in _values_of(schema)})
    kinds = tuple(_IN_WORDS) if kinds is None else kinds
    return (kinds,) if isinstance(kinds, str) else kinds


def _values_of(schema: Schema) -> list[Any]:
    values: list[Any] = schema.get("enum", [schema.get("const")])
    return values
