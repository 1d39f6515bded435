"""Objects of a schema are closed while answers are generated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.calls.structured.closing import close_objects
from llamaherd.calls.structured.shape import shape_of
from llamaherd.calls.structured.subschemas import standalone

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INT = {"type": "integer"}
A = {"type": "object", "properties": {"a": INT}}
B = {"properties": {"b": INT}, "required": ["b"]}
TREE = {
    "P": {
        "type": "object",
        "properties": {"a": INT, "p": {"$ref": "#/$defs/P"}},
        "required": ["a"],
    },
    "Q": {"type": "object", "properties": {"q": INT}, "required": ["q"]},
}
KIND = {"type": "object", "properties": {"k": INT}, "required": ["k"]}
# A schema, answers that remain possible, and answers that JSON Schema allows only.
CASES: list[tuple[dict[str, Any], list[str], list[str]]] = [
    ({"type": "object", "properties": {}}, ["{}"], ["{'x':1}"]),
    ({"type": "object"}, ["{}", "{'x':1}"], []),
    ({"type": "object", "required": ["a"]}, ["{'a':1,'b':2}"], []),
    (A, ["{}", "{'a':1}"], ["{'a':1,'x':2}"]),
    ({**A, "additionalProperties": True}, ["{'a':1,'x':2}"], []),
    ({**A, "additionalProperties": INT}, ["{'a':1,'x':2}"], []),
    ({**A, "unevaluatedProperties": True}, ["{'a':1,'x':2}"], []),
    ({**A, "unevaluatedProperties": False, "allOf": [B]}, ["{'a':1,'b':1}"], []),
    (
        {"properties": {"o": A}, "additionalProperties": {}},
        ["{'x':1}"],
        ["{'o':{'x':1}}"],
    ),
    ({**A, "required": ["a", "z"]}, ["{'a':1,'z':2}"], ["{'a':1,'z':2,'x':3}"]),
    ({**A, "minProperties": 2}, ["{'a':1,'x':2}"], []),
    ({**A, "enum": [{"x": 1}]}, ["{'x':1}"], []),
    ({**A, "patternProperties": {"^x": INT}}, ["{'a':1,'xy':2}"], ["{'y':1}"]),
    ({**A, "dependentRequired": {"a": ["z"]}}, ["{'a':1,'z':2}"], ["{'x':1}"]),
    ({**A, "if": True, "then": B}, ["{'a':1,'b':2}"], ["{'b':1,'x':1}"]),
    ({"type": "array", "items": A}, ["[{'a':1}]"], ["[{'x':1}]"]),
    ({"prefixItems": [A], "items": B}, ["[{'a':1},{'b':1}]"], ["[{'x':1}]"]),
    ({"$ref": "#/$defs/P"}, ["{'a':1,'p':{'a':2}}"], ["{'a':1,'p':{'a':2,'x':1}}"]),
    ({"allOf": [{"$ref": "#/$defs/P"}]}, ["{'a':1}"], ["{'a':1,'x':1}"]),
    (
        {"allOf": [{"$ref": "#/$defs/P"}, B]},
        ["{'a':1,'b':1}", "{'a':1,'p':{'a':2},'b':1}"],
        ["{'a':1,'b':1,'x':1}", "{'a':1,'p':{'a':2,'x':1},'b':1}"],
    ),
    ({"$ref": "#/$defs/P", **B}, ["{'a':1,'b':1}"], ["{'a':1,'b':1,'x':1}"]),
    (
        {"properties": {"y": {"$ref": "#/$defs/P", **B}, "z": {"$ref": "#/$defs/P"}}},
        ["{'y':{'a':1,'b':1},'z':{'a':1}}"],
        ["{'z':{'a':1,'b':1}}", "{'y':{'a':1,'b':1,'x':1}}"],
    ),
    (
        {"anyOf": [{"$ref": "#/$defs/P"}, {"$ref": "#/$defs/Q"}, {"type": "null"}]},
        ["{'a':1}", "{'q':1}", "null"],
        ["{'a':1,'q':1}", "{'q':1,'x':1}"],
    ),
    (
        {**KIND, "oneOf": [{"$ref": "#/$defs/P"}, {"$ref": "#/$defs/Q"}]},
        ["{'k':1,'a':1}", "{'k':1,'q':1}"],
        ["{'k':1,'a':1,'x':1}"],
    ),
    (
        {**KIND, "anyOf": [B, {"properties": {"c": INT}, "required": ["c"]}]},
        ["{'k':1,'b':1}", "{'k':1,'c':1}"],
        ["{'k':1,'b':1,'c':1}"],
    ),
    (
        {**A, "anyOf": [{"required": ["a"]}, {"required": ["z"]}]},
        ["{'a':1}", "{'z':1}"],
        ["{'a':1,'x':1}"],
    ),
    (
        {**A, "additionalProperties": True, "anyOf": [{"$ref": "#/$defs/Q"}]},
        ["{'a':1,'q':1,'x':1}"],
        [],
    ),
    ({"properties": {"n": {"$ref": "#"}}}, ["{'n':{}}"], ["{'n':{'x':1}}"]),
    ({"$ref": "#p", "$defs": {"P": {"$anchor": "p", **A}}}, ["{'a':1}"], ["{'x':1}"]),
]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Model]:
    folder: Path = tmp_path_factory.mktemp("closing")
    with lh.Model(tiny_models.write(folder / "m.gguf", "llama")) as model:
        yield model


@pytest.mark.parametrize(("schema", "kept", "stopped"), CASES)
def test_an_answer_has_only_the_fields_that_its_schema_names(
    model: lh.Model, schema: dict[str, Any], kept: list[str], stopped: list[str]
) -> None:
    whole = {"$defs": TREE, **schema}
    before = json.dumps(whole)
    narrow = close_objects(whole)
    assert json.dumps(whole) == before
    for text in (case.replace("'", '"') for case in kept):
        assert lh.structured.accepts(model, whole, text)
        assert lh.structured.accepts(model, narrow, text), (text, narrow)
    for text in (case.replace("'", '"') for case in stopped):
        assert shape_of(whole).read(text) is not None  # as JSON Schema has it
        assert not lh.structured.accepts(model, narrow, text), (text, narrow)


def test_answers_are_closed(model: lh.Model) -> None:
    with lh.Context(model) as ctx:
        schema = {"type": "object", "properties": {}}
        assert lh.generate(ctx, "a", schema=schema, max_tokens=9).text == "{}"


@pytest.mark.parametrize("key", ["allOf", "anyOf"])
def test_a_schema_that_explodes_is_left_open_in_bounded_work(key: str) -> None:
    parts = {
        str(i): {key: [{"$ref": f"#/$defs/{i + 1}"}] * 2, "properties": {f"p{i}": INT}}
        for i in range(40)
    }
    schema = {"$ref": "#/$defs/0", "$defs": {**parts, "40": A}}
    assert len(json.dumps(close_objects(schema))) < 10 * len(json.dumps(schema))


PLACED: list[tuple[dict[str, Any], str, str]] = [
    (
        {
            "$id": "https://x.y/z",
            "properties": {"a": {"$ref": "part"}, "b": {"$ref": "part#/$defs/i"}},
            "$defs": {"x": {"$id": "part", "$ref": "#/$defs/i", "$defs": {"i": INT}}},
        },
        "{'a':1,'b':2}",
        "{'a':'x'}",
    ),
    (
        {"properties": {"a": {"$ref": "#q"}}, "$defs": {"x": {"$anchor": "q", **INT}}},
        "{'a':1}",
        "{'a':'x'}",
    ),
    (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "properties": {
                "a": {"items": [INT, {"type": "null"}], "additionalItems": False},
                "b": {"$ref": "#/properties/a/items/1", "minimum": 3},
            },
        },
        "{'a':[1,null],'b':null}",
        "{'a':[1,null,2]}",
    ),
    (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "urn:x",
            "properties": {
                "id": {"type": "integer", "minimum": 1, "exclusiveMinimum": True}
            },
        },
        "{'id':2}",
        "{'id':1}",
    ),
    (
        {"properties": {"$ref": INT, "$id": {"const": {"$ref": "#q"}}}},
        "{'$ref':1}",
        "{'$ref':'x'}",
    ),
]


@pytest.mark.parametrize(("schema", "good", "bad"), PLACED)
def test_a_schema_keeps_its_meaning_beside_others(
    model: lh.Model, schema: dict[str, Any], good: str, bad: str
) -> None:
    others = [{"$anchor": "q", "type": "boolean"}, *(placed[0] for placed in PLACED)]
    parts = [standalone(part, f"#/anyOf/{i}") for i, part in enumerate([schema, *others])]
    whole = {"anyOf": parts}
    alone = {"anyOf": [parts[0], parts[1]]}
    for case, is_good in ((good, True), (bad, False)):
        text = case.replace("'", '"')
        assert lh.structured.accepts(model, alone, text) is is_good
        shape = shape_of(whole)
        if is_good:
            assert shape.read(text) is not None


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": []},
        {"properties": {"a": 5}},
        {"items": "string"},
        {"allOf": 5},
        {"$defs": None},
        {"$id": 5},
        {"$schema": 5},
        {"$defs": {"a": {"$anchor": "b", "items": 3}}, "$ref": "#b"},
    ],
    ids=str,
)
def test_schemas_that_are_not_valid(schema: dict[str, Any]) -> None:
    with pytest.raises(lh.ArgumentError, match=r"schema is not valid at \$"):
        shape_of(schema, closes=True)


def test_a_reference_to_a_place_that_is_no_schema() -> None:
    schema = {"$ref": "#/x", "x": {"properties": []}}
    assert close_objects(schema) == schema
    assert shape_of(schema, closes=True).unenforced == ("$ref",)


def test_a_reference_to_a_schema_that_llguidance_knows() -> None:
    schema = {"$ref": "http://json-schema.org/draft-07/schema#"}
    with pytest.raises(lh.ArgumentError, match="references are not fetched"):
        shape_of(schema, closes=True)
