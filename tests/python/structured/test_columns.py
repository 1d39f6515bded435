"""Columns of schemas, as values and as Arrow arrays."""

from __future__ import annotations

import copy
import json
import math
import pickle
from datetime import date  # noqa: TC003 - pydantic reads it
from typing import Any

import llamaherd as lh
import pandas as pd
import pyarrow as pa
import pydantic
import pytest
from llamaherd import _r
from llamaherd.calls.structured.columns import (
    JSON,
    NUMBER,
    Column,
    SchemaLayout,
    array,
    columns_of,
    has_others,
    read_columns,
)
from llamaherd.calls.structured.shape import schema_text

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


# ---- tables of answers have the columns of the schema, whatever the results are


REVIEW = {
    "type": "object",
    "properties": {
        "stars": {"type": "integer"},
        "author": {"type": "object", "properties": {"value": {"type": "string"}}},
        "author.value": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "error": {"type": "string"},
        ".error": {"type": "number"},
    },
}
ANSWER = {"stars": 3, "author": {"value": "Ann", "age": 9}, "author.value": True}
NAMES = ["stars", "author", "author.value", "tags", "error", ".error", "..error"]
DOTTED = ["stars", "author.value", "author.value.1", *NAMES[3:]]
TYPES = [pa.int64(), pa.string(), pa.bool_(), pa.list_(pa.string()), pa.string()]


def results(values: list[Any], *schemas: object) -> lh.Results:
    """Return results of a call; None means that the prompt failed."""
    rows = [
        lh.Result(
            index=i,
            text=None if value is None else "{}",
            tokens=[],
            finish_reason="error" if value is None else "stop",
            complete=value is not None,
            error="it failed" if value is None else None,
            n_prompt_tokens=1,
            n_reused_tokens=0,
            seed=0,
            parsed=value,
        )
        for i, value in enumerate(values)
    ]
    layout = SchemaLayout(tuple(schema_text(schema)[0] for schema in schemas))
    return lh.Results(rows, lh.Stats(), layout=layout)


@pytest.mark.parametrize("values", [[ANSWER, None], [None, None], []])
def test_columns_and_types_are_the_schemas(values: list[Any]) -> None:
    out = results(values, REVIEW)
    for copied in (out, pickle.loads(pickle.dumps(out)), copy.deepcopy(out)):
        assert list(copied.to_pandas().columns) == NAMES
        assert list(copied.to_pandas(dotted=True).columns) == DOTTED
        table = copied.to_arrow()
        assert table.column_names == NAMES
        assert table.schema.types == [*TYPES, pa.float64(), pa.string()]
        assert copied.to_arrow(dotted=True).schema.types == table.schema.types
        text = pd.Series([""]).dtype
        expected = ["Int64", object, "boolean", object, text, float, text]
        assert copied.to_pandas().dtypes.tolist() == expected


def test_values_are_in_the_columns_of_their_fields() -> None:
    rows = results([ANSWER, None], REVIEW).to_arrow(dotted=True).to_pylist()
    assert list(rows[0].values()) == [3, "Ann", True, None, None, None, None]
    assert list(rows[1].values()) == [None] * 6 + ["it failed"]
    whole = results([ANSWER], REVIEW).to_arrow().to_pylist()[0]
    assert json.loads(whole["author"]) == {"value": "Ann", "age": 9}
    assert results([ANSWER], REVIEW).to_pandas()["author"][0] == ANSWER["author"]


@pytest.mark.parametrize(
    ("schemas", "values", "columns"),
    [
        ([{"type": "boolean"}], [True], {"value": [True]}),
        ([True], [{"a": 1}], {"value": ['{"a": 1}']}),
        ([{"type": "object"}], [{"a": 1}], {"value": ['{"a": 1}']}),
        ([{"anyOf": [REVIEW, {"type": "null"}]}], [None], dict.fromkeys(DOTTED[:-1])),
        ([{"anyOf": [REVIEW, {"type": "integer"}]}], [5], {"value": ["5"]}),
        (
            [
                {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
                {"properties": {"a": {"type": "number"}, "b": {"type": "boolean"}}},
            ],
            [{"a": 1, "b": "x"}, {"a": 0.5, "b": True}],
            {"a": [1.0, 0.5], "b": ["x", "true"]},
        ),
        (
            [{"$ref": "#/parts/1", "parts": [1, {"properties": {"a": {"const": 1}}}]}],
            [{"a": 1}],
            {"a": [1]},
        ),
        ([{"allOf": [{"$ref": "#"}]}], [1], {"value": ["1"]}),
    ],
)
def test_which_columns_a_table_has(
    schemas: list[object], values: list[object], columns: dict[str, Any]
) -> None:
    table = results(values, *schemas).to_arrow(dotted=True)
    reason = table.column_names[-1]
    expected = {name: column or [None] for name, column in columns.items()}
    assert table.drop_columns(reason).to_pydict() == expected


def test_what_is_within_itself_ends() -> None:
    node = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": {
                "properties": {
                    "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                    "at": {"type": "integer"},
                }
            }
        },
    }
    out = results([{"next": {"at": 1}, "at": 2}], node)
    assert out.to_arrow(dotted=True).column_names == ["next", "at", "error"]


def test_a_small_schema_that_stands_for_a_huge_table() -> None:
    levels = {
        f"d{i}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/d{i + 1}"} for name in "abcdefgh"},
            "additionalProperties": False,
        }
        for i in range(30)
    }
    out = results([{"a": {}}], {"$ref": "#/$defs/d0", "$defs": levels})
    assert out.to_arrow().num_columns == 9
    assert out.to_arrow(dotted=True).num_columns < 10_001


class Person(pydantic.BaseModel):
    born: date = pydantic.Field(alias="date-of-birth")
    name: str = "nobody"


class Wordy(pydantic.BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def spelled(cls, _: int) -> object:
        return "three"


def test_values_that_pydantic_made_are_plain_again() -> None:
    person = Person.model_validate_json('{"date-of-birth":"1999-12-31"}')
    table = results([person, None], Person).to_arrow()
    assert table.column_names == ["date-of-birth", "name", "error"]
    assert table.to_pylist()[0] == {
        "date-of-birth": "1999-12-31",
        "name": "nobody",
        "error": None,
    }
    several = results([[person]], list[Person]).to_pandas()["value"][0]
    assert several == [{"date-of-birth": "1999-12-31", "name": "nobody"}]
    odd = results([Wordy(n=3)], Wordy)
    assert odd.to_pandas()["n"][0] == "three"
    with pytest.raises(ValueError, match="three"):
        odd.to_arrow()
