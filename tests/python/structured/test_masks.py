"""Masks of schemas, and schemas that fail."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Literal

import llamaherd as lh
import pydantic
import pytest
from llamaherd.calls.structured.shape import shape_of
from llamaherd.engine.native import engine
from thorough import is_long, sized

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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


# ---- forced tokens are computed together; the answer is the same as with one per step


SCHEMA = {
    "type": "object",
    "properties": {
        "sentiment": {"enum": ["positive", "negative", "neutral"]},
        "intensity": {"type": "integer", "minimum": 0, "maximum": 10},
        "emotions": {
            "type": "array",
            "items": {"enum": ["joy", "anger", "fear", "sadness"]},
            "maxItems": 3,
        },
        "reason": {"type": "string", "maxLength": 60},
        "is_sarcastic": {"type": "boolean"},
    },
    "required": ["sentiment", "intensity", "emotions", "reason", "is_sarcastic"],
    "additionalProperties": False,
}
GBNF = r"""
root ::= "The verdict of the committee is: " verdict ", on the grounds of its " part "."
verdict ::= "accepted" | "rejected without discussion" | "rejected after discussion"
part ::= "introduction" | "conclusion"
"""
PROMPTS = [
    "The food was cold and the waiter rude. ",
    "What a match! Three goals in ten minutes. ",
    "The bus leaves at nine. ",
    "I will never buy from them again. ",
]
KINDS = [
    {"schema": SCHEMA},
    {"schema": SCHEMA, "temperature": 0.9, "penalty_repeat": 1.1, "repeat_last_n": 64},
    {"grammar": GBNF, "max_tokens": 60},
    {"choices": ["the answer is: yes, it is", "the answer is: no, it is not"]},
    {
        "regex": r"On (Monday|Tuesday|Wednesday) at [0-9]{2}:[0-9]{2}, as agreed",
        "max_tokens": 40,
    },
    {"schema": SCHEMA, "stop": '"reason":"'},
    {"schema": SCHEMA, "stop": "ensity"},
    *({"schema": SCHEMA, "max_tokens": n} for n in (1, 2, 9)),
]


def answered(
    context: lh.Context, settings: dict[str, object], prompts: list[str] = PROMPTS
) -> tuple[list[object], lh.Stats]:
    results = lh.generate_parallel(context, prompts, **settings)
    return [
        (result.text, result.partial, result.tokens, result.finish_reason, result.error)
        for result in results
    ], results.stats


@pytest.mark.model
@pytest.mark.long(reason="compiles many large schemas")
@pytest.mark.more(reason="on a real model, 2 of 4 prompts and the first three kinds")
@pytest.mark.parametrize(
    "name",
    ["smollm2", pytest.param("gemma3", marks=pytest.mark.long(reason="half a minute"))],
)
def test_the_answers_are_those_of_one_token_a_step(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = request.getfixturevalue(name)
    prompts = sized(PROMPTS[:2], PROMPTS)
    with lh.Context(model, n_seq_max=3, deterministic=True) as context:
        for settings in KINDS if name == "smollm2" and is_long() else KINDS[:3]:
            monkeypatch.setattr(engine, "STEP_FORCED", False)
            together, fast = answered(context, settings, prompts)
            monkeypatch.setattr(engine, "STEP_FORCED", True)
            stepwise, slow = answered(context, settings, prompts)
            assert together == stepwise, settings
    assert slow.n_generated_tokens == fast.n_generated_tokens


@pytest.mark.model
def test_fewer_steps(smollm2: lh.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    with lh.Context(smollm2, n_seq_max=1) as context:
        for settings in (KINDS[0], {**KINDS[3], "temperature": 0.5}):
            fast = answered(context, settings, PROMPTS[:1])[1]
            monkeypatch.setattr(engine, "STEP_FORCED", True)
            slow = answered(context, settings, PROMPTS[:1])[1]
            monkeypatch.setattr(engine, "STEP_FORCED", False)
            assert fast.n_batches <= 0.7 * slow.n_batches


@pytest.mark.model
def test_one_is_cancelled_between_tokens_that_must_come(
    smollm2: lh.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One token is computed per step, so that there is a time between tokens."""
    monkeypatch.setattr(engine, "STEP_FORCED", True)
    words = " ".join(str(i) for i in range(400))
    with lh.Context(smollm2, n_seq_max=2) as context:
        beside = context.submit(PROMPTS[0], schema=SCHEMA)
        handle = context.submit(
            "Say it. ", schema={"const": words}, max_tokens=2000, stream=True
        )
        pieces = iter(handle)
        first = next(pieces)
        handle.cancel()
        result = handle.result()
        assert result.finish_reason == "cancelled"
        assert result.text is None
        assert result.parsed is None
        whole = json.dumps(words)
        assert (result.partial or "").startswith(first)
        assert whole.startswith(result.partial or "x")
        assert len(result.partial or "") < len(whole)
        assert beside.result().parsed.keys() == SCHEMA["properties"].keys()
        # Its slot is free again, and no cells are left in it.
        monkeypatch.setattr(engine, "STEP_FORCED", False)
        again = context.submit("Say it. ", schema={"const": words}, max_tokens=2000)
        assert again.result().parsed == words


@pytest.mark.model
def test_an_answer_that_is_known_needs_no_step(smollm2: lh.Model) -> None:
    with lh.Context(smollm2) as context:
        out = lh.generate_parallel(
            context, ["Say it. ", "Or not. "], schema={"const": {"a": [1, 2, 3]}}
        )
        assert out.texts == ['{"a":[1,2,3]}'] * 2
        assert out.finish_reasons == ["stop"] * 2
        one = lh.generate(context, "Again: ", grammar='root ::= "just this"')
        assert one.text == "just this"


@pytest.mark.model
@pytest.mark.long(reason="9 s on a real model; make test pauses other requests")
def test_they_survive_what_goes_first(smollm2: lh.Model) -> None:
    """One slot: a prompt of higher priority pauses the one that runs."""
    with lh.Context(smollm2, n_seq_max=1, deterministic=True) as context:
        expected = lh.generate_parallel(context, PROMPTS, schema=SCHEMA)
        handles = [context.submit(prompt, schema=SCHEMA) for prompt in PROMPTS]
        first = context.submit(PROMPTS[-1], schema=SCHEMA, priority=9)
        assert [handle.result().text for handle in handles] == expected.texts
        assert first.result().parsed == expected.parsed[-1]
        assert [handle.result().parsed for handle in handles] == expected.parsed


@pytest.mark.model
def test_they_are_in_the_journal_and_in_streams(
    smollm2: lh.Model, tmp_path: Path
) -> None:
    path = tmp_path / "journal.sqlite"
    with lh.Context(smollm2) as context:
        first = lh.generate_parallel(context, PROMPTS, schema=SCHEMA, journal=path)
        again = lh.generate_parallel(context, PROMPTS, schema=SCHEMA, journal=path)
        assert again.stats.n_journal == len(PROMPTS)
        assert again.texts == first.texts
        assert again.parsed == first.parsed
        pieces = list(lh.generate(context, PROMPTS[0], schema=SCHEMA, stream=True))
        assert json.loads("".join(pieces)).keys() == SCHEMA["properties"].keys()
