"""Form of a codebook with a JSON Schema: an input element for each property."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from llamaherd.calls.structured.quoting import quote_rule
from llamaherd.calls.structured.subschemas import (
    Subschema,
    is_null,
    list_at,
    parts,
    resolve,
)
from llamaherd.coding_page.form import (
    Form,
    FormField,
    Input,
    Level,
    Number,
    label_form,
    scalar_cell,
)
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.statistics.ratings import Scale

_MOST_LEVELS = 11  # whole numbers in a range that are shown as levels
_TYPES: dict[str, Input] = {"string": "text", "integer": "integer", "number": "number"}
# Input elements for the fields of an object.
_IN_OBJECTS = ("choice", "choices", "integer", "number", "text", "lines")
# Keywords with the schema of fields whose names are not listed.
_OF_MORE_NAMES = ("additionalProperties", "patternProperties", "unevaluatedProperties")
_YES_OR_NO = {True: "yes", False: "no"}


def form_of(codebook: Codebook) -> Form:
    """Return the form of a codebook."""
    if codebook.schema is None:
        return label_form(codebook)
    return Form(schema_fields(codebook.schema), codebook.schema)


def schema_fields(text: str) -> tuple[FormField, ...]:
    """Return the fields of a JSON Schema, in order."""
    root = json.loads(text)
    record = resolve(root, root)
    properties = record.get("properties") if isinstance(record, dict) else None
    if not isinstance(properties, dict) or not properties:
        raise ArgumentError(
            "must have fields: its schema has no properties",
            argument="codebook",
            code="unsupported",
        )
    required = set(list_at(record, "required"))
    return tuple(
        _field(str(name), Subschema(schema, root), is_required=name in required)
        for name, schema in properties.items()
    )


def _field(
    name: str, node: Subschema, *, is_required: bool, is_inner: bool = False
) -> FormField:
    every = parts(node, is_sure=True)  # with others that each value must follow
    kind, levels = _input(every)
    fields = _fields_of(every) if kind == "json" and not is_inner else ()
    return FormField(
        name=name,
        title=str(_first(every, "title") or name),
        definition=str(_first(every, "description") or ""),
        kind="object" if fields else kind,
        levels=levels,
        fields=fields,
        is_required=is_required,
        is_nullable=any(map(_takes_null, (node.schema for node in every))),
        low=_number(_first(every, "minimum")),
        high=_number(_first(every, "maximum")),
        measured=_scale(kind, levels),
    )


def _scale(kind: Input, levels: Sequence[Level]) -> Scale:
    numbers = [type(level.value) in (int, float) for level in levels]
    is_number = kind in ("integer", "number") or (numbers and all(numbers))
    return "interval" if is_number else "nominal"


def _fields_of(every: Sequence[Subschema]) -> tuple[FormField, ...]:
    """Return the fields of an object if the form can give every answer; otherwise ().

    The fields of an object within an object have no input elements. An object with
    names that the schema does not list needs JSON.
    """
    kinds = {kind for node in every for kind in _kinds(node.schema)} - {"null"}
    described = [node for node in every if isinstance(_properties(node), dict)]
    if kinds != {"object"} or len(described) != 1 or any(map(_has_more_names, every)):
        return ()
    (node,) = described
    required = {name for part in every for name in list_at(part.schema, "required")}
    if not required <= _properties(node).keys():
        return ()
    fields = tuple(
        _field(str(name), node.at(schema), is_required=name in required, is_inner=True)
        for name, schema in _properties(node).items()
    )
    return fields if all(field.kind in _IN_OBJECTS for field in fields) else ()


def _has_more_names(node: Subschema) -> bool:
    """Whether a schema describes fields that it does not list by name."""
    schema = node.schema
    least = schema.get("minProperties")
    more = (schema.get(key) for key in _OF_MORE_NAMES)
    is_open = any(rule is True or isinstance(rule, dict) for rule in more)
    n_named = len(schema.get("properties", {}))
    return is_open or (isinstance(least, int) and least > n_named)


def _properties(node: Subschema) -> Any:  # JSON
    return node.schema.get("properties")


def _input(every: Sequence[Subschema]) -> tuple[Input, tuple[Level, ...]]:
    """Return the input element of a value other than null, and its levels."""
    if any(quote_rule(node.schema) is not None for node in every):
        return "passage", ()
    levels = next((levels for node in every if (levels := _levels(node))), ())
    if levels:
        return "choice", levels
    kinds = {kind for node in every for kind in _kinds(node.schema)} - {"null"}
    if len(kinds) != 1:
        return "json", ()
    (kind,) = kinds
    if kind == "boolean":
        return "choice", tuple(Level(flag, name) for flag, name in _YES_OR_NO.items())
    if kind == "integer" and (numbers := _range(every)):
        return "choice", tuple(Level(n, str(n)) for n in numbers)
    return _list_input(every) if kind == "array" else (_TYPES.get(kind, "json"), ())


def _list_input(every: Sequence[Subschema]) -> tuple[Input, tuple[Level, ...]]:
    """Return the input element of a list, by the type of its items."""
    array = next((node for node in every if isinstance(_items(node), dict)), None)
    if array is None or any("prefixItems" in node.schema for node in every):
        return "json", ()
    items = parts(array.at(_items(array)), is_sure=True)
    kind, levels = _input(items)
    if kind != "passage" and any(_takes_null(node.schema) for node in items):
        return "json", ()  # a list with null among its items
    of_list: dict[Input, Input] = {
        "choice": "choices",
        "text": "lines",
        "passage": "passages",
    }
    return of_list.get(kind, "json"), levels


def _items(node: Subschema) -> object:
    return node.schema.get("items")


def _levels(node: Subschema) -> tuple[Level, ...]:
    """Return the values that a schema lists, without null; () if it lists none."""
    schema = node.schema
    if "const" in schema or isinstance(schema.get("enum"), list):
        return _scalars((value, "") for value in _values(schema))
    for key in ("oneOf", "anyOf"):
        choices = [resolve(choice, node.root) for choice in list_at(schema, key)]
        choices = [choice for choice in choices if not is_null(choice)]
        if choices and all(isinstance(one, dict) and _values(one) for one in choices):
            return _scalars(
                (value, str(choice.get("description") or choice.get("title") or ""))
                for choice in choices
                for value in _values(choice)
            )
    return ()


def _values(schema: dict[str, Any]) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    return list_at(schema, "enum")


def _scalars(levels: Iterable[tuple[Any, str]]) -> tuple[Level, ...]:
    """Return levels of values and definitions, without null; () if one is no scalar."""
    defined = [(value, text) for value, text in levels if value is not None]
    if any(isinstance(value, (list, dict)) for value, _ in defined):
        return ()
    return tuple(
        Level(
            value,
            _YES_OR_NO[value] if isinstance(value, bool) else scalar_cell(value),
            text,
        )
        for value, text in defined
    )


def _kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return list(map(str, kinds))
    return [] if kinds is None else [str(kinds)]


def _takes_null(schema: dict[str, Any]) -> bool:
    alternatives = [*list_at(schema, "anyOf"), *list_at(schema, "oneOf")]
    is_value = None in _values(schema)
    return is_value or "null" in _kinds(schema) or any(map(is_null, alternatives))


def _range(every: Sequence[Subschema]) -> range | None:
    """Return the whole numbers from minimum to maximum, if they are few."""
    low, high = _first(every, "minimum"), _first(every, "maximum")
    if type(low) is not int or type(high) is not int or _first(every, "multipleOf"):
        return None
    numbers = range(low, high + 1)
    return numbers if 0 < len(numbers) <= _MOST_LEVELS else None


def _first(every: Sequence[Subschema], key: str) -> Any:  # JSON
    return next((node.schema[key] for node in every if key in node.schema), None)


def _number(value: object) -> Number | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number else None  # type: ignore[return-value]
