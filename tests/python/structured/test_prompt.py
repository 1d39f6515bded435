"""Instructions that describe the required answer to a model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import llamaherd as lh
import pydantic
import pytest


class Verdict(pydantic.BaseModel):
    label: Literal["good", "bad"] = pydantic.Field(description="What it was.")
    tags: list[Literal["a", "b"]] = pydantic.Field(max_length=2)


class Person(pydantic.BaseModel):
    age: Annotated[int, pydantic.Field(gt=0, lt=150)]
    name: str = pydantic.Field(description="Family name.")


class Story(pydantic.BaseModel):
    hero: Person | None = pydantic.Field(description="Who, if anyone.")
    others: list[Person] | None = None
    sequel: Story | None = None
    part: int | str


def lines_of(schema: object) -> list[str]:
    first, *lines = lh.structured.schema_prompt(schema).split("\n")
    assert first == "Answer with JSON only, on one line, in this form:"
    return lines


def test_the_prompt_tells_each_field() -> None:
    assert lines_of(Verdict) == [
        '- "label": one of "good", "bad" (What it was.)',
        '- "tags": list of one of "a", "b" (0 to 2)',
    ]
    words = lines_of(
        {
            "properties": {
                "who": {"$ref": "#/$defs/who"},
                "n": {"type": "number", "minimum": 1},
                "why": {"type": ["string", "null"], "maxLength": 9},
                "v": {"anyOf": [{"const": 1}, {"type": "string", "maxLength": 5}]},
            },
            "required": ["who"],
            "$defs": {"who": {"properties": {"name": {"type": "string"}}}},
        }
    )
    assert words == [
        '- "who": object',
        '  - "name": text, may be left out',
        '- "n": number of at least 1, may be left out',
        '- "why": text (0 to 9 characters) or null, may be left out',
        '- "v": 1 or text (0 to 5 characters), may be left out',
    ]
    assert lines_of({"enum": [1, "a"]}) == ['- one of 1, "a"']


def test_what_may_be_null_and_lists_have_their_fields() -> None:
    fields = ['- "age": integer above 0 and below 150', '- "name": text (Family name.)']
    inner = [f"  {field}" for field in fields]
    assert lines_of(Story) == [
        '- "hero": object or null (Who, if anyone.)',
        *inner,
        '- "others": list of object or null, may be left out',
        *inner,
        '- "sequel": object or null, may be left out',
        '- "part": integer or text',
    ]
    assert lines_of(list[Person]) == ["- list of object", *inner]
    assert lines_of(Person | None) == fields


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ({"allOf": [{"$ref": "#/x"}], "x": {"type": "integer"}, "maximum": 5}, None),
        ({"type": "integer", "minimum": 1, "maximum": 5}, "integer from 1 to 5"),
        ({"type": "integer", "exclusiveMinimum": 1}, "integer above 1"),
        (
            {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
            "number of at least 0 and below 1",
        ),
        (
            {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1},
            "number above 0 and at most 1",
        ),
        ({"type": "string", "anyOf": [{"maxLength": 3}, {"pattern": "^a"}]}, "text"),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "any value"),
        ({"$ref": "https://x.y/properties/a"}, "any value"),
    ],
)
def test_kinds(schema: dict[str, Any], line: str | None) -> None:
    line = line or "integer of at most 5"
    assert lines_of(schema) == [f"- {line}"]


def test_all_of_it_counts() -> None:
    schema = {
        "allOf": [
            {"$ref": "#/base"},
            {"properties": {"b": {"type": "boolean"}}, "required": ["b"]},
        ],
        "base": {"type": "object", "properties": {"a": {}}, "required": ["a"]},
    }
    assert sorted(lines_of(schema)) == ['- "a": any value', '- "b": boolean']
