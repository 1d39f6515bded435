"""Form of a codebook with fields: the questions that a coder answers about a text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.calls.structured.quoting import quote_rule
from llamaherd.calls.structured.subschemas import (
    Subschema,
    is_null,
    list_at,
    parts,
    resolved,
)
from llamaherd.coding.annotation.answer_types import JOINED
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.coding.statistics.ratings import Scale

# Input elements. "choice": one level; "choices": any number of levels; "lines": texts,
# one a line; "passage" and "passages": parts of the text; "object": an input element
# for each field of an object; "json": anything else.
Input = Literal[
    "choice",
    "choices",
    "integer",
    "number",
    "text",
    "lines",
    "passage",
    "passages",
    "object",
    "json",
]
Number = int | float

_MOST_LEVELS = 11  # whole numbers in a range that are shown as levels
_TYPES: dict[str, Input] = {"string": "text", "integer": "integer", "number": "number"}
# Input elements for the fields of an object.
_IN_OBJECTS = ("choice", "choices", "integer", "number", "text", "lines")
# Keywords with the schema of fields whose names are not listed.
_OF_MORE_NAMES = ("additionalProperties", "patternProperties", "unevaluatedProperties")
_YES_OR_NO = {True: "yes", False: "no"}


@dataclass(frozen=True, slots=True)
class Level:
    """A possible value of a field.

    Attributes:
        value: Value in JSON types.
        name: Text on the page.
        definition: Definition; "" without a definition.
    """

    value: Any
    name: str
    definition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of a codebook as coders fill it in.

    Attributes:
        name: Name, as in the schema.
        title: Name on the page.
        definition: Description; "" without a description.
        kind: Input element.
        levels: Possible values of "choice" and "choices".
        fields: Fields of "object".
        is_required: Whether every answer has the field.
        is_nullable: Whether a value may be null: the field does not apply to the text.
        low: Minimum of a number; None without a minimum.
        high: Maximum of a number; None without a maximum.
    """

    name: str
    title: str
    definition: str
    kind: Input
    levels: tuple[Level, ...] = ()
    fields: tuple[FormField, ...] = ()
    is_required: bool = False
    is_nullable: bool = False
    low: Number | None = None
    high: Number | None = None

    @property
    def is_several(self) -> bool:
        """Whether a cell may list several labels, separated by ";"."""
        is_joined = all(JOINED.strip() not in name for name in self.names)
        return self.kind == "choices" and is_joined

    @property
    def is_coded(self) -> bool:
        """Whether coders' answers are compared (not for free text, passages and JSON)."""
        return self.kind in ("choice", "choices", "integer", "number")

    @property
    def names(self) -> tuple[str, ...]:
        """Texts of the levels in cells of a table."""
        return tuple(scalar_cell(each.value) for each in self.levels)

    @property
    def measured(self) -> Scale:
        """Scale of measurement."""
        numbers = [type(each.value) in (int, float) for each in self.levels]
        is_number = self.kind in ("integer", "number") or (numbers and all(numbers))
        return "interval" if is_number else "nominal"


@lru_cache(maxsize=64)
def form_of(schema: str) -> tuple[FormField, ...]:
    """Return the fields of a JSON Schema, in order.

    Raises:
        ArgumentError: The schema has no properties.
    """
    root = json.loads(schema)
    found = resolved(root, root)
    properties = found.get("properties") if isinstance(found, dict) else None
    if not isinstance(properties, dict) or not properties:
        raise ArgumentError(
            "must have fields: its schema has no properties",
            argument="codebook",
            code="unsupported",
        )
    required = set(list_at(found, "required"))
    return tuple(
        _field(str(name), Subschema(each, root), is_required=name in required)
        for name, each in properties.items()
    )


def _field(
    name: str, node: Subschema, *, is_required: bool, is_inner: bool = False
) -> FormField:
    every = _own(node)
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
        is_nullable=any(map(_takes_null, (each.schema for each in every))),
        low=_number(_first(every, "minimum")),
        high=_number(_first(every, "maximum")),
    )


def _fields_of(every: Sequence[Subschema]) -> tuple[FormField, ...]:
    """Return the fields of an object if the form can give every answer; otherwise ().

    The fields of an object within an object have no input elements. An object with
    names that the schema does not list needs JSON.
    """
    kinds = {kind for each in every for kind in _kinds(each.schema)} - {"null"}
    described = [each for each in every if isinstance(_properties(each), dict)]
    if kinds != {"object"} or len(described) != 1 or any(map(_has_more_names, every)):
        return ()
    (node,) = described
    required = {name for each in every for name in list_at(each.schema, "required")}
    if not required <= _properties(node).keys():
        return ()
    fields = tuple(
        _field(str(name), node.at(each), is_required=name in required, is_inner=True)
        for name, each in _properties(node).items()
    )
    return fields if all(each.kind in _IN_OBJECTS for each in fields) else ()


def _has_more_names(node: Subschema) -> bool:
    """Whether a schema describes fields that it does not list by name."""
    schema = node.schema
    least = schema.get("minProperties")
    others = (schema.get(key) for key in _OF_MORE_NAMES)
    is_open = any(each is True or isinstance(each, dict) for each in others)
    n_named = len(schema.get("properties", {}))
    return is_open or (isinstance(least, int) and least > n_named)


def _properties(node: Subschema) -> Any:  # noqa: ANN401 - JSON
    return node.schema.get("properties")


def _own(node: Subschema) -> list[Subschema]:
    """Return the schema, and the other schemas that each of its values must follow."""
    return parts(node, is_sure=True)


def _input(every: Sequence[Subschema]) -> tuple[Input, tuple[Level, ...]]:
    """Return the input element of a value other than null, and its levels."""
    if any(quote_rule(each.schema) is not None for each in every):
        return "passage", ()
    levels = next((found for each in every if (found := _levels(each))), ())
    if levels:
        return "choice", levels
    kinds = {kind for each in every for kind in _kinds(each.schema)} - {"null"}
    if len(kinds) != 1:
        return "json", ()
    (kind,) = kinds
    if kind == "boolean":
        return "choice", tuple(Level(each, _YES_OR_NO[each]) for each in (True, False))
    if kind == "integer" and (numbers := _range(every)):
        return "choice", tuple(Level(each, str(each)) for each in numbers)
    return _list_input(every) if kind == "array" else (_TYPES.get(kind, "json"), ())


def _list_input(every: Sequence[Subschema]) -> tuple[Input, tuple[Level, ...]]:
    """Return the input element of a list, by the type of its items."""
    item = next((each for each in every if isinstance(_items(each), dict)), None)
    if item is None or any("prefixItems" in each.schema for each in every):
        return "json", ()
    own = _own(item.at(_items(item)))
    kind, levels = _input(own)
    if kind != "passage" and any(_takes_null(each.schema) for each in own):
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
        return _scalars(Level(each, scalar_cell(each)) for each in _values(schema))
    for key in ("oneOf", "anyOf"):
        choices = [resolved(each, node.root) for each in list_at(schema, key)]
        choices = [each for each in choices if not is_null(each)]
        if choices and all(isinstance(each, dict) and _values(each) for each in choices):
            return _scalars(_defined(each) for one in choices for each in _each(one))
    return ()


def _each(schema: dict[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    return [(value, schema) for value in _values(schema)]


def _defined(given: tuple[Any, dict[str, Any]]) -> Level:
    """Return a value with the description of its alternative in the schema."""
    value, schema = given
    definition = schema.get("description") or schema.get("title") or ""
    return Level(value, scalar_cell(value), str(definition))


def _values(schema: dict[str, Any]) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    return list_at(schema, "enum")


def _scalars(levels: Iterable[Level]) -> tuple[Level, ...]:
    """Return levels without null; () if a value is a list or an object."""
    found = [each for each in levels if each.value is not None]
    if any(isinstance(each.value, (list, dict)) for each in found):
        return ()
    return tuple(
        Level(each.value, _YES_OR_NO[each.value], each.definition)
        if isinstance(each.value, bool)
        else each
        for each in found
    )


def _kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return [str(each) for each in kinds]
    return [] if kinds is None else [str(kinds)]


def _takes_null(schema: dict[str, Any]) -> bool:
    alternatives = [*list_at(schema, "anyOf"), *list_at(schema, "oneOf")]
    is_value = any(each is None for each in _values(schema))
    return is_value or "null" in _kinds(schema) or any(map(is_null, alternatives))


def _range(every: Sequence[Subschema]) -> range | None:
    """Return the whole numbers from minimum to maximum, if they are few."""
    low, high = _first(every, "minimum"), _first(every, "maximum")
    if type(low) is not int or type(high) is not int or _first(every, "multipleOf"):
        return None
    numbers = range(low, high + 1)
    return numbers if 0 < len(numbers) <= _MOST_LEVELS else None


def _first(every: Sequence[Subschema], key: str) -> Any:  # noqa: ANN401 - JSON
    return next((each.schema[key] for each in every if key in each.schema), None)


def _number(value: object) -> Number | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number else None  # type: ignore[return-value]


def scalar_cell(value: object) -> str:
    """Return a text, number or truth value as a cell of a table."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
