"""Types that the reader of schemas returns, in addition to those in test_arrow.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llamaherd import _r
from llamaherd.calls.structured.columns import JSON, NUMBER, Column
from llamaherd.calls.structured.schema_columns import columns_of, read_columns

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
    found = read({key: [CLOSED, WIDE]})
    kinds = {name: each.kind for name, each in found.fields}
    assert kinds == {"a": "integer" if key == "allOf" else "number", "b": "boolean"}
    # A struct has all its fields; here a value has only the fields of one alternative.
    assert found.stored == JSON
    inner = json.dumps({"properties": {"x": {key: [CLOSED, WIDE]}}})
    assert columns_of(inner) == {"x": JSON}


def test_texts_of_alternatives_are_levels_in_their_order() -> None:
    found = read({"anyOf": [{"enum": ["b", "a"]}, {"const": "c"}, {"enum": ["a"]}]})
    assert found == Column("enum", levels=("b", "a", "c"))
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
    ((_, found),) = read({"properties": {"x": schema}, "$defs": definitions}).fields
    assert found.kind == kind


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
