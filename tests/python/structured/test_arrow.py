"""Arrow types of JSON Schemas."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest
from llamaherd.calls.structured.schema_columns import array, columns_of, has_others

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
        (
            {"anyOf": [{"type": "integer"}, {"type": "number"}]},
            pa.float64(),
            1,
            1.0,
        ),
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
    found = column(schema)
    made = array([found.hold(value), found.hold(None)], found)
    assert made.type == kind
    assert made.to_pylist() == [stored, None]


def test_a_type_within_itself_ends_as_json() -> None:
    found = column({"$ref": "#/$defs/Node"})
    assert array([found.hold({"next": None})], found).to_pylist()


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
