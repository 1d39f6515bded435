"""Columns of schemas, as values and as Arrow arrays."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from llamaherd import _r
from llamaherd.calls.structured.columns import JSON, NUMBER, Column
from llamaherd.calls.structured.schema_columns import (
    array,
    columns_of,
    has_others,
    read_columns,
)

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "additionalProperties": False,
}
WIDE = {**CLOSED, "properties": {"a": {"type": "number"}, "b": {"type": "boolean"}}}


def read(*schemas: object) -> Column:
    return read_columns([json.dumps(schema) for schema in schemas])


@pytest.mark.parametrize("key", ["anyOf", "oneOf", "allOf"])
def test_fields_of_several_objects_are_together(key: str) -> None:
    column = read({key: [CLOSED, WIDE]})
    kinds = {name: field.kind for name, field in column.fields}
    assert kinds == {"a": "integer" if key == "allOf" else "number", "b": "boolean"}
    # A struct has all its fields; here a value has only the fields of one alternative.
    assert column.stored == JSON
    inner = json.dumps({"properties": {"x": {key: [CLOSED, WIDE]}}})
    assert columns_of(inner) == {"x": JSON}


def test_texts_of_alternatives_are_levels_in_their_order() -> None:
    column = read({"anyOf": [{"enum": ["b", "a"]}, {"const": "c"}, {"enum": ["a"]}]})
    assert column == Column("enum", levels=("b", "a", "c"))
    assert read({"type": "string", "enum": ["x", None]}).levels == ("x",)
    assert read({"enum": ["a"]}, {"type": "string"}).kind == "string"


def test_lists_of_alternatives_have_the_items_of_both() -> None:
    one, other = ({"type": "array", "items": {"type": t}} for t in ("integer", "number"))
    assert read({"anyOf": [one, other]}).items == NUMBER
    assert read({"anyOf": [one, {"type": "array"}]}).items is None


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "integer"),
        ({"anyOf": [{"const": "a"}, {"type": "string"}]}, "string"),
        ({"enum": [1, 2]}, "integer"),
        ({"enum": [1.5, 2]}, "number"),
        ({"enum": [1, "a"]}, "json"),
        ({"type": ["string", "integer"]}, "json"),
        ({"type": "null"}, "null"),
        ({"type": "object"}, "json"),
        ({"prefixItems": [{"type": "string"}], "items": {"type": "string"}}, "array"),
        ({"$ref": "#/$defs/a~1b%20c"}, "enum"),
        ({"$ref": "#/$defs/loop"}, "json"),
        ({"$ref": "#/$defs/d0"}, "object"),
    ],
)
def test_a_column_has_the_type_that_its_schema_fixes(
    schema: dict[str, Any], kind: str
) -> None:
    definitions: dict[str, Any] = {
        "a/b c": {"enum": ["u", "v"]},
        "loop": {"$ref": "#/$defs/loop"},
    }
    for i in range(31):  # 2^31 objects if each is expanded
        below = {"$ref": f"#/$defs/d{i + 1}"}
        definitions[f"d{i}"] = {"type": "object", "properties": {"a": below, "b": below}}
    ((_, column),) = read({"properties": {"x": schema}, "$defs": definitions}).fields
    assert column.kind == kind


def test_r_gets_plain_lists() -> None:
    schema = {
        "properties": {
            "kind": {"enum": ["u", "v"]},
            "": {"type": "array", "items": {"type": "number"}},
            "open": {"type": "array"},
            "any": {},
        }
    }
    assert _r.schema_columns([json.dumps(schema)])["value"] == {
        "kind": "object",
        "names": ["kind", "", "open", "any"],
        "fields": [
            {"kind": "enum", "levels": ["u", "v"]},
            {"kind": "array", "items": {"kind": "number"}},
            {"kind": "array", "items": {"kind": "any"}},
            {"kind": "any"},
        ],
    }


DEFINED = {"Side": {"enum": ["left", "right"]}, "Node": {}}
DEFINED["Node"] = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/Node"}},
    "additionalProperties": False,
}


def column(schema: object) -> Any:
    whole = {"type": "object", "properties": {"x": schema}, "$defs": DEFINED}
    return columns_of(json.dumps(whole))["x"]


@pytest.mark.parametrize(
    ("schema", "kind", "value", "stored"),
    [
        ({"type": "string", "maxLength": 3}, pa.string(), "a", "a"),
        ({"type": ["string", "null"]}, pa.string(), None, None),
        ({"type": "boolean"}, pa.bool_(), True, True),
        ({"type": "integer"}, pa.int64(), 1.0, 1),
        ({"type": "number"}, pa.float64(), 3, 3.0),
        ({"type": "number"}, pa.float64(), -(10**400), -math.inf),
        ({"type": ["integer", "number"]}, pa.float64(), 3, 3.0),
        ({"enum": ["a", None, "b"]}, pa.string(), None, None),
        ({"enum": [True, 1]}, pa.string(), True, "true"),
        ({"const": 2}, pa.int64(), 2, 2),
        ({"$ref": "#/$defs/Side"}, pa.string(), "left", "left"),
        ({"$ref": "#/$defs/None"}, pa.string(), 1, "1"),
        ({"$ref": "https://example.org/x"}, pa.string(), [1], "[1]"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, pa.int64(), None, None),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, pa.float64(), 1, 1.0),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, pa.string(), 1, "1"),
        ({"anyOf": [{"type": "integer"}, {}]}, pa.string(), "1", "1"),
        ({"anyOf": [{"type": "integer"}, {}]}, pa.string(), [1], "[1]"),
        ({"anyOf": 1}, pa.string(), 1, "1"),
        ({"oneOf": [{"type": "integer"}]}, pa.int64(), 1, 1),
        ({"oneOf": [{"const": "pos"}, {"const": "neg"}]}, pa.string(), "pos", "pos"),
        (
            {"allOf": [{"$ref": "#/$defs/Side"}], "default": "left"},
            pa.string(),
            "left",
            "left",
        ),
        ({"type": "number", "allOf": [{"type": "integer"}]}, pa.int64(), 1.0, 1),
        ({"type": "string", "not": {"const": ""}}, pa.string(), "a", "a"),
        ({"type": "integer", "if": {"minimum": 1}}, pa.int64(), 1, 1),
        ({"allOf": [{"type": "integer"}, {"type": "string"}]}, pa.string(), None, None),
        (True, pa.string(), {"a": "é"}, '{"a": "é"}'),
        ({"type": "array"}, pa.string(), [1], "[1]"),
        (
            {"type": "array", "items": {"type": "integer"}},
            pa.list_(pa.int64()),
            [1, 2.0],
            [1, 2],
        ),
        ({"type": "object"}, pa.string(), {}, "{}"),
        (
            {"type": "object", "properties": {}, "additionalProperties": False},
            pa.string(),
            {},
            "{}",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "number"}, "b": {}},
                "additionalProperties": False,
            },
            pa.struct([("a", pa.float64()), ("b", pa.string())]),
            {"a": 1, "b": [2]},
            {"a": 1.0, "b": "[2]"},
        ),
    ],
)
def test_a_fields_type(
    schema: object, kind: pa.DataType, value: object, stored: object
) -> None:
    stored_column = column(schema)
    cells = array([stored_column.hold(value), stored_column.hold(None)], stored_column)
    assert cells.type == kind
    assert cells.to_pylist() == [stored, None]


def test_a_type_within_itself_ends_as_json() -> None:
    stored_column = column({"$ref": "#/$defs/Node"})
    assert array([stored_column.hold({"next": None})], stored_column).to_pylist()


def test_a_whole_number_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="64 bits"):
        column({"type": "integer"}).hold(2**63)


@pytest.mark.parametrize(
    ("schema", "names", "others"),
    [
        ({"type": "object", "properties": {"a": {}}}, ["a"], True),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
            ["a"],
            False,
        ),
        ({"type": "array"}, [], True),
        (
            {"allOf": [{"properties": {"b": {}}}], "properties": {"a": {}}},
            ["a", "b"],
            True,
        ),
        ({"anyOf": [{"properties": {"b": {}}}, {"type": "null"}]}, ["b"], True),
        ({"anyOf": [{"properties": {"b": {}}}, {"type": "array"}]}, [], True),
        (
            {"patternProperties": {"b": {}}, "additionalProperties": False}
            | {"properties": {"a": {}}},
            ["a"],
            True,
        ),
        (True, [], True),
    ],
)
def test_which_columns_there_are(
    schema: object, names: list[str], *, others: bool
) -> None:
    text = json.dumps(schema)
    assert list(columns_of(text)) == names
    assert has_others(text) is others
