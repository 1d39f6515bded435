"""Reasons of violations are in JSON's words, for each keyword of each draft."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from jsonschema import validators
from llamaherd.calls.structured import keywords
from llamaherd.calls.structured.check import (
    MOST_SHOWN,
    check_schema,
    json_text,
    violation,
)
from llamaherd.calls.structured.enforce import SchemaError
from llamaherd.calls.structured.shape import shape_of

PYTHON = re.compile(r"\b(None|True|False)\b|(?<!\w)'|'(?!\w)")
ODD = [None, True, "it's", {"a": False}]  # values that Python writes differently
SHOWN = '[null, true, "it\'s", {"a": false}]'

# For each keyword a schema and a value, which the reason shows.
CASES: dict[str, tuple[Any, Any]] = {
    "a schema that is false": (False, None),
    "anyOf": ({"anyOf": [{"type": "string"}]}, None),
    "const": ({"const": True}, None),
    "contains": ({"contains": {"const": 1}}, ODD),
    "enum": ({"enum": ODD}, False),
    "exclusiveMaximum": ({"exclusiveMaximum": 3}, 3),
    "exclusiveMinimum": ({"exclusiveMinimum": 3}, 3.0),
    "format": ({"format": "date"}, "x"),
    "items": ({"items": False}, ODD),
    "maxContains": ({"contains": {}, "maxContains": 2}, ODD),
    "maxItems": ({"maxItems": 1}, ODD),
    "maxLength": ({"maxLength": 1}, "it's"),
    "maxProperties": ({"maxProperties": 0}, {"a": None}),
    "maximum": ({"maximum": 1.5}, 2),
    "minContains": ({"contains": {"const": True}, "minContains": 2}, ODD),
    "minItems": ({"minItems": 5}, ODD),
    "minLength": ({"minLength": 5}, "é"),
    "minProperties": ({"minProperties": 2}, {"a": True}),
    "minimum": ({"minimum": 3}, 2),
    "multipleOf": ({"multipleOf": 0.1}, 0.25),
    "not": ({"not": {"const": None}}, None),
    "pattern": ({"pattern": r"^\d$"}, "it's"),
    "unevaluatedItems": ({"unevaluatedItems": False}, ODD),
    "unevaluatedProperties": ({"unevaluatedProperties": False}, {"a": None}),
    "uniqueItems": ({"uniqueItems": True}, [None, None]),
}
# Keywords whose reasons are made from parts of a value or of a schema.
PARTS: dict[str, tuple[Any, Any, str]] = {
    "additionalProperties": (
        {"additionalProperties": False},
        {"b": None},
        'additional properties are not allowed: "b"',
    ),
    "dependentRequired": (
        {"dependentRequired": {"x": ["y"], "a": ["a", "b", "c"]}},
        {"a": None},
        'the properties are missing, but required beside "a": "b", "c"',
    ),
    "oneOf": ({"oneOf": [True, {}]}, None, "null is valid under more than one of the"),
    "oneOf without any": ({"oneOf": [False]}, None, "null is not valid under any of the"),
    "required": (
        {"required": ["a", "b"]},
        {"a": None},
        'the property is missing, but required: "b"',
    ),
    "type": ({"type": ["string", "number"]}, None, 'null is not of type "string", "num'),
}
# Keywords that check a part of the value, or the same value, by another schema.
OTHERS = {
    *("$dynamicRef", "$recursiveRef", "$ref", "additionalItems", "allOf"),
    *("dependencies", "dependentSchemas", "disallow", "divisibleBy", "extends", "if"),
    *("patternProperties", "prefixItems", "properties", "propertyNames"),
}
OLD: dict[str, tuple[Any, Any, str]] = {
    "draft-03": (
        {"properties": {"a": {"required": True}}},
        {},
        "{} has no value for a required property",
    ),
    "draft-03 of another keyword": ({"disallow": "null"}, None, 'null violates "disallo'),
    "draft-04": ({"minimum": 3, "exclusiveMinimum": True}, 3, "3 is not greater than 3"),
    "draft-04 with dependencies": (
        {"dependencies": {"a": ["b"]}},
        {"a": None},
        'the property is missing, but required beside "a": "b"',
    ),
    "draft-06": (
        {"items": [{}], "additionalItems": False},
        [1, None],
        "[1, null] has more items than its schema allows",
    ),
    "draft-07": ({"contains": {"const": 1}}, ODD, f"{SHOWN} contains no item that"),
}


@pytest.mark.parametrize("name", CASES)
def test_reasons_are_in_words_of_json(name: str) -> None:
    schema, value = CASES[name]
    reason = violation(json.dumps(schema), value)
    assert f": {json.dumps(value, ensure_ascii=False)} " in reason
    assert not PYTHON.search(reason), reason


@pytest.mark.parametrize("name", PARTS)
def test_reasons_of_parts_are_in_words_of_json(name: str) -> None:
    schema, value, reason = PARTS[name]
    assert f": {reason}" in violation(json.dumps(schema), value)


@pytest.mark.parametrize("name", OLD)
def test_reasons_of_earlier_drafts_are_in_words_of_json(name: str) -> None:
    schema, value, reason = OLD[name]
    version = f"http://json-schema.org/{name.split(maxsplit=1)[0]}/schema#"
    message = violation(json.dumps({"$schema": version, **schema}), value)
    assert f": {reason}" in message
    assert not PYTHON.search(message), message


def test_each_keyword_has_a_case() -> None:
    kinds = (
        validators.Draft3Validator,
        validators.Draft4Validator,
        validators.Draft7Validator,
        validators.Draft201909Validator,
        validators.Draft202012Validator,
    )
    keywords = {keyword for kind in kinds for keyword in kind.VALIDATORS}
    assert keywords <= CASES.keys() | PARTS.keys() | OTHERS


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": None}, "at $.type: null is not valid under any of the given schemas"),
        ({"enum": True}, 'at $.enum: true is not of type "array"'),
        ({"required": ["a", False]}, 'at $.required[1]: false is not of type "string"'),
        ({"$ref": "#/$defs/it's"}, 'refers to "#/$defs/it\'s"'),
        (
            {"patternProperties": {"^(a|a)*'$": {}}, "unevaluatedProperties": False},
            'the pattern "^(a|a)*\'$" has nested repetitions',
        ),
    ],
)
def test_reasons_against_a_schema_are_in_words_of_json(schema: Any, reason: str) -> None:
    with pytest.raises(SchemaError) as error:
        check_schema(json.dumps(schema), ("unevaluatedProperties",))
    assert reason in str(error.value)


def test_a_large_value_is_cut_off() -> None:
    assert json_text("a" * 5_000) == '"' + "a" * (MOST_SHOWN - 1) + "..."
    assert len(json_text(list(range(1_000_000)))) == MOST_SHOWN + 3
    nested: list[Any] = []
    for _ in range(900):
        nested = [nested]
    assert json_text(nested) == "[" * MOST_SHOWN + "..."
    assert json_text([None] * 5) == "[null, null, null, null, null]"


# ---- the work of an answer's check is limited, whatever keywords and values a schema has


def _doubled(name: str, make: Any) -> dict[str, Any]:
    """Return parts d0 to d40, each of which refers to the next part in a keyword."""
    parts = {f"d{i}": make({"$ref": f"#/$defs/d{i + 1}"}) for i in range(40)}
    return {"$defs": {**parts, "d40": {}}, name: True}


def _nested_unevaluated(depth: int) -> dict[str, Any]:
    part: dict[str, Any] = {"properties": {"a": {"type": "integer"}}}
    for _ in range(depth):
        part = {"anyOf": [part], "unevaluatedProperties": False}
    return {
        "type": "object",
        "properties": {"a": {"const": 1}},
        "required": ["a"],
        "additionalProperties": False,
        "allOf": [part],
    }


BOMBS: dict[str, tuple[dict[str, Any], Any]] = {
    "unevaluatedProperties": (_nested_unevaluated(30), {"a": 1}),
    "dependentSchemas": (
        {
            "type": "object",
            "unevaluatedProperties": False,
            "$ref": "#/$defs/d0",
            **_doubled("title", lambda ref: {"dependentSchemas": {"a": ref, "b": ref}}),
        },
        {"a": 1, "b": 2},
    ),
    "if": (
        {
            "not": {"$ref": "#/$defs/d0", "type": "string"},
            **_doubled("title", lambda ref: {"if": ref, "then": ref}),
        },
        5,
    ),
    "patternProperties": (
        {
            "type": "object",
            "patternProperties": {f"^a{{1,{i + 1}}}$": {} for i in range(500)},
            "not": {"required": ["q"]},
        },
        {"a" * i: 1 for i in range(1, 300)},
    ),
    "anyOf": (
        {"type": "array", "not": {"contains": {"anyOf": [{"const": 1}] * 2000}}},
        ["x"] * 2000,
    ),
    "required": (
        {"type": "array", "items": {"not": {"required": [f"k{i}" for i in range(3000)]}}},
        [{}] * 3000,
    ),
    "pattern": (
        {"type": "string", "not": {"anyOf": [{"pattern": "^(?:a|b)*c$"}] * 300}},
        "ab" * 5000,
    ),
}
for _schema, _ in BOMBS.values():
    _schema.pop("title", None)


@pytest.mark.more(reason="compiles many large schemas", cases=2)
@pytest.mark.parametrize("name", BOMBS)
def test_a_check_that_would_take_too_long_is_refused(name: str) -> None:
    schema, answer = BOMBS[name]
    with pytest.raises(ValueError, match=r"the check takes more than \d+ steps"):
        shape_of(schema).read(json.dumps(answer))


def test_values_are_compared_in_time_that_grows_with_their_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = []
    count = keywords.count
    monkeypatch.setattr(keywords, "count", lambda n: (counted.append(n), count(n)))
    mixed = [i if i % 2 else str(i) for i in range(5000)]  # cannot be sorted
    unique = shape_of({"type": "array", "uniqueItems": True})
    assert unique.read(json.dumps(mixed)) == mixed
    long = [[0] * 20 + [i] for i in range(500)]
    array = shape_of({"type": "array", "items": {"not": {"enum": long}}})
    other = [[0] * 20 + [-1]] * 100
    assert array.read(json.dumps(other)) == other
    assert sum(counted) < 100_000


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"enum": [1, "a", [1], {"x": 1}]},
            [1.0, "a", [1.0], {"x": 1.0}],
            [True, [True]],
        ),
        ({"const": [0, {"a": None}]}, [[0.0, {"a": None}]], [[False, {"a": None}]]),
        ({"uniqueItems": True}, [[1, True, "1", [1], [True], {}]], [[1, 1.0], [{}, {}]]),
    ],
)
def test_equal_values_are_those_of_json_schema(
    schema: dict[str, Any], good: list[Any], bad: list[Any]
) -> None:
    shape = shape_of(schema)
    for value in good:
        assert shape.read(json.dumps(value)) == value
    for value in bad:
        with pytest.raises(ValueError, match="does not follow the schema"):
            shape.read(json.dumps(value))


def test_a_long_answer_may_take_more() -> None:
    field = {"type": "integer", "minimum": 0}
    shape = shape_of(
        {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "type": "object",
                "properties": {"a": field, "b": {"enum": ["x", "y"]}},
                "required": ["a", "b"],
                "additionalProperties": False,
            },
        }
    )
    rows = [{"a": i, "b": "x"} for i in range(5000)]
    assert shape.read(json.dumps(rows)) == rows
