"""Tables of answers have the columns of the schema, whatever the results are."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import date  # noqa: TC003 - pydantic reads it
from typing import Any

import llamaherd as lh
import pandas as pd
import pyarrow as pa
import pydantic
import pytest
from llamaherd.calls.structured.schema_columns import SchemaLayout
from llamaherd.calls.structured.shape import schema_text

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
    for same in (out, pickle.loads(pickle.dumps(out)), copy.deepcopy(out)):
        assert list(same.to_pandas().columns) == NAMES
        assert list(same.to_pandas(dotted=True).columns) == DOTTED
        table = same.to_arrow()
        assert table.column_names == NAMES
        assert table.schema.types == [*TYPES, pa.float64(), pa.string()]
        assert same.to_arrow(dotted=True).schema.types == table.schema.types
        text = pd.Series([""]).dtype
        expected = ["Int64", object, "boolean", object, text, float, text]
        assert same.to_pandas().dtypes.tolist() == expected


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
def test_which_columns_there_are(
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
