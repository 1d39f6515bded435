"""The work of an answer's check is limited, whatever keywords and values a schema has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from llamaherd.calls.structured import work
from llamaherd.calls.structured.shape import shape_of


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
    count = work.count
    monkeypatch.setattr(work, "count", lambda n: (counted.append(n), count(n)))
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
