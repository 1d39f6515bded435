"""Masks of schemas, and schemas that fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import llamaherd as lh
import pydantic
import pytest
from llamaherd.calls.structured.shape import shape_of

if TYPE_CHECKING:
    from collections.abc import Iterator


CASES = json.loads(
    r"""
[
 {"schema": {"type": "object", "required": ["species", "legs"],
   "additionalProperties": false,
   "properties": {"species": {"enum": ["cat", "hen", "ant"]},
                  "legs": {"type": "integer", "minimum": 0, "maximum": 6}}},
  "good": ["{'species':'cat','legs':4}", "{'species':'ant','legs':6}"],
  "stopped": ["{'species':'cow','legs':4}", "{'species':'cat','legs':7}",
   "{'species':'cat'}", "{'species':'cat','legs':4,'x':1}",
   "{'species':'cat','legs':4.5}", "{'species': 'cat','legs':4}"]},
 {"schema": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
  "good": ["[true]", "[true,false,true]"],
  "stopped": ["[]", "[true,true,true,true]", "[1]", "[null]", "[true"]},
 {"schema": {"type": "string", "minLength": 2, "maxLength": 4},
  "good": ["'ab'", "'\u00e9t\u00e9'", "'\ud83d\ude00\ud83d\ude00'"],
  "stopped": ["'a'", "'abcde'", "7"]},
 {"schema": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"},
  "good": ["'AB-1'", "'ZZ-007'"], "stopped": ["'ab-1'", "'AB-'", "'AB-1x'"]},
 {"schema": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
  "good": ["0.5", "1"], "stopped": ["0", "1.1", "-0.5", "'0.5'"]},
 {"schema": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
  "good": ["null", "'2024-02-29'"],
  "stopped": ["'20240229'", "'yesterday'", "'2024-13-01'"]},
 {"schema": {"type": "array", "items": {"type": "integer"}, "uniqueItems": true},
  "good": ["[]", "[1,2,3]"], "stopped": ["['a']"], "checked": ["[1,1]", "[1,2,1]"]},
 {"schema": {"type": "string", "not": {"enum": ["none", "unknown"]}},
  "good": ["'some'"], "stopped": ["1"], "checked": ["'none'", "'unknown'"]},
 {"schema": {"oneOf": [{"type": "integer", "multipleOf": 2},
   {"type": "integer", "multipleOf": 3}]},
  "good": ["4", "9"], "stopped": ["'4'", "7"], "checked": ["12"]},
 {"schema": {"$ref": "#/parts/tree", "parts": {"tree": {"type": "object",
   "properties": {"name": {"type": "string"}, "below": {"type": "array",
    "uniqueItems": true, "items": {"$ref": "#/parts/tree"}}},
   "required": ["name", "below"], "additionalProperties": false}}},
  "good": ["{'name':'a','below':[{'name':'b','below':[]}]}"],
  "stopped": ["{'name':'a','below':[{'name':'b'}]}", "{'name':1,'below':[]}"],
  "checked": [
   "{'name':'a','below':[{'name':'b','below':[]},{'name':'b','below':[]}]}"]},
 {"schema": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}],
   "items": false, "minItems": 2},
  "good": ["['a',1]"], "stopped": ["['a']", "[1,'a']", "['a',1,2]"]},
 {"schema": {"type": "object",
   "properties": {"kind": {"const": "box"}, "size": {"type": "integer"}},
   "required": ["kind"], "additionalProperties": false,
   "if": {"required": ["size"]}, "then": {"properties": {"size": {"minimum": 1}}}},
  "good": ["{'kind':'box'}", "{'kind':'box','size':3}"],
  "stopped": ["{'kind':'bag'}", "{'size':3}"], "checked": ["{'kind':'box','size':0}"]},
 {"schema": {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
   {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}], "type": "object"},
  "good": ["{'a':1,'b':true}"], "stopped": ["{'a':1}", "{'a':'x','b':true}", "[]"]}
]
"""
)


def answers(case: dict[str, list[str]], kind: str) -> list[str]:
    return [text.replace("'", '"') for text in case.get(kind, [])]


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_masks_and_the_check_are_right_together(
    name: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    for case in CASES:
        schema = case["schema"]
        shape = shape_of(schema)
        assert bool(shape.unenforced) == bool("checked" in case), schema
        for text in answers(case, "good"):
            assert lh.structured.accepts(model, schema, text), (schema, text)
            assert shape.read(text) == json.loads(text)
        for text in answers(case, "stopped"):
            assert not lh.structured.accepts(model, schema, text), (schema, text)
        for text in answers(case, "checked"):
            assert lh.structured.accepts(model, schema, text), (schema, text)
            with pytest.raises(ValueError, match="does not follow the schema"):
                shape.read(text)


HOPELESS = {"enum": ["a"], "not": {"enum": ["a"]}}
LONG = {"type": "string", "minLength": 60}


class Named(pydantic.BaseModel):
    name: Literal["x"]

    @pydantic.field_validator("name")
    @classmethod
    def known(cls, name: str) -> object:
        return {}[name]  # as a user's code may fail


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, n_seq_max=4) as context:
        yield context


@pytest.mark.model
def test_a_validator_that_fails_fails_its_prompt_alone(context: lh.Context) -> None:
    beside = context.submit("There was once", max_tokens=64, ignore_eos=True)
    schemas = [Named, {"enum": ["right"]}]
    out = lh.generate_parallel(context, ["a", "b"], schema=schemas, retries=1)
    assert out.errors == ["the answer cannot be converted: KeyError: 'x'", None]
    assert out.parsed == [None, "right"]
    assert out[0].partial == '{"name":"x"}'
    with pytest.raises(lh.GenerationError, match="KeyError: 'x'"):
        context.submit("a", schema=Named).result()
    assert beside.result().n_generated_tokens == 64


@pytest.mark.model
@pytest.mark.parametrize(
    ("schema", "reason", "text"),
    [(HOPELESS, "does not follow the schema", '"a"'), (LONG, "was cut off", '"')],
)
def test_single_prompts_and_streams_fail_as_calls_do(
    context: lh.Context, schema: object, reason: str, text: str
) -> None:
    with pytest.raises(lh.GenerationError, match=reason) as caught:
        context.submit("x", schema=schema, max_tokens=5).result()
    assert (caught.value.results[0].partial or "").startswith(text)
    pieces = lh.generate(context, "x", schema=schema, max_tokens=5, stream=True)
    read: list[str] = []
    with pytest.raises(lh.GenerationError, match=reason):
        read.extend(pieces)
    assert "".join(read).startswith(text)


@pytest.mark.model
def test_single_prompts_may_be_strict(context: lh.Context) -> None:
    with pytest.raises(ValueError, match="strict: masks cannot enforce not"):
        context.submit("x", schema=HOPELESS, strict=True)


@pytest.mark.model
def test_two_types_of_the_same_schema_make_their_own_values(context: lh.Context) -> None:
    quiet = Literal["a"]
    loud = Annotated[quiet, pydantic.AfterValidator(str.upper)]
    schemas = [quiet, loud, quiet, None]
    for prompts in (list("wxyz"), ["x"] * 4):  # equal ones are answered once
        out = lh.generate_parallel(context, prompts, schema=schemas, max_tokens=9)
        assert out.parsed == ["a", "A", "a", None]
