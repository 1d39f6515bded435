"""Answers that follow a schema, from the caller's argument to the value."""

from __future__ import annotations

import dataclasses
import json
import socket
from typing import TYPE_CHECKING, Annotated, Any, Literal

import llamaherd as lh
import pydantic
import pytest
from llamaherd.calls.asks.answers import again, check_answer
from llamaherd.calls.structured.check import violation
from llamaherd.calls.structured.enforce import SchemaError
from llamaherd.calls.structured.shape import shape_of
from llamaherd.engine.core.errors import AbiMismatchError
from llamaherd.engine.native import llguidance
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LABEL = {
    "type": "object",
    "properties": {
        "label": {"enum": ["good", "bad"]},
        "score": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["label", "score"],
    "additionalProperties": False,
}
PROMPTS = ["The soup was cold. ", "The soup was hot. ", "There was soup. "]
# No answer can be valid, but masks cannot detect this: the enforced part allows only
# "a".
HOPELESS = {"enum": ["a"], "not": {"enum": ["a"]}}


class Verdict(pydantic.BaseModel):
    label: Literal["good", "bad"] = pydantic.Field(description="What it was.")
    tags: list[Literal["a", "b"]] = pydantic.Field(max_length=2)


@dataclasses.dataclass
class Point:
    x: Annotated[int, pydantic.Field(ge=0, le=99)]
    y: bool


class Pair(TypedDict):
    first: bool
    second: Literal["yes", "no"]


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, n_seq_max=4) as context:
        yield context


# ---- what masks enforce ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "left"),
    [
        (LABEL, []),
        (True, []),
        ({"not": {"type": "null"}}, ["not"]),
        ({"type": "array", "uniqueItems": True}, ["uniqueItems"]),
        ({"type": "array", "uniqueItems": False, "contains": {}}, ["contains"]),
        ({"type": "string", "format": "path"}, ["format: path"]),
        ({"type": "string", "format": "date"}, []),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, []),
        ({"oneOf": [{"minimum": 1}, {"minimum": 2}], "type": "integer"}, ["oneOf"]),
        ({"if": {}, "then": False, "else": {}}, ["else", "if", "then"]),
        ({"type": "object", "propertyNames": {"maxLength": 3}}, ["propertyNames"]),
        ({"type": "object", "minProperties": 2}, []),
        ({"type": "string", "pattern": "^(?=a)b"}, ["pattern"]),
        (
            {"properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 2},
            ["minProperties"],
        ),
    ],
)
def test_what_no_mask_enforces_is_named(schema: object, left: list[str]) -> None:
    assert lh.structured.unenforced(schema) == left


def test_strict_names_what_is_left(context: lh.Context) -> None:
    schema = {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True}
    with pytest.raises(ValueError, match="strict: masks cannot enforce uniqueItems"):
        lh.generate_parallel(context, ["x"], schema=schema, strict=True)
    lh.generate_parallel(context, ["x"], schema=LABEL, strict=True)
    with pytest.raises(TypeError, match="strict"):
        lh.generate_parallel(context, ["x"], schema=LABEL, strict="yes")
    with pytest.raises(ValueError, match="retries"):
        lh.generate_parallel(context, ["x"], schema=LABEL, retries=-1)


@pytest.mark.model
@pytest.mark.parametrize("name", ["smollm2", "gemma3"])
def test_texts_are_accepted_token_by_token(
    name: str, request: pytest.FixtureRequest
) -> None:
    model = request.getfixturevalue(name)
    accepts = lh.structured.accepts
    assert accepts(model, LABEL, '{"label":"good","score":7}')
    assert not accepts(model, LABEL, '{"label":"good","score":17}')
    assert not accepts(model, LABEL, '{"label":"good","score":7')
    assert not accepts(model, LABEL, '{"label": "good","score":7}')
    texts = {"type": "array", "items": {"type": "string"}}
    for text in (
        "",
        "a\nb",
        "\U0001f600 \u00e9t\u00e9 \u4e2d",
        '"\\',
        "<b>{}</b>",
        "0" * 99,
    ):
        written = json.dumps([text, "end"], ensure_ascii=False, separators=(",", ":"))
        assert accepts(model, texts, written), text
    # Where braces meet, the tokens of a text differ from the forced tokens.
    nested = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"e": LABEL | {"properties": {"label": {"enum": ["aB", "c"]}}}},
            "required": ["e"],
            "additionalProperties": False,
        },
    }
    nested["items"]["properties"]["e"]["required"] = ["label"]
    assert accepts(model, nested, '[{"e":{"label":"aB"}},{"e":{"label":"c"}}]')


# ---- from schemas to values -----------------------------------------------------------


@pytest.mark.model
def test_whatever_is_a_schema_makes_values(context: lh.Context, tmp_path: Path) -> None:
    path = tmp_path / "label.json"
    path.write_text(json.dumps(LABEL), encoding="utf-8")
    for schema in (LABEL, json.dumps(LABEL), path, str(path)):
        out = lh.generate_parallel(context, PROMPTS, schema=schema)
        assert out.errors == [None] * 3
        assert out.parsed == [json.loads(text or "") for text in out.texts]
        assert all(" " not in (text or "") for text in out.texts)
    for kind in (Verdict, Point, Pair, list[Literal["x", "y"]]):
        out = lh.generate_parallel(context, PROMPTS, schema=kind, max_tokens=60)
        answered = [result for result in out if result.error is None]
        assert answered
        adapter: pydantic.TypeAdapter[object] = pydantic.TypeAdapter(kind)
        for result in answered:
            plain = json.loads(result.text or "")
            assert adapter.dump_python(result.parsed, mode="json") == plain
            assert type(result.parsed) is type(adapter.validate_python(plain))
    assert isinstance(lh.generate(context, "x", schema=Verdict).parsed, Verdict)
    assert isinstance(lh.generate(context, "x", schema=Point).parsed, Point)


@pytest.mark.model
def test_each_prompt_may_have_its_own(context: lh.Context) -> None:
    schemas = [LABEL, None, {"type": "boolean"}]
    out = lh.generate_parallel(context, PROMPTS, schema=schemas, max_tokens=30)
    assert isinstance(out.parsed[0], dict)
    assert out.parsed[1] is None
    assert out.texts[1]
    assert out.parsed[2] in (True, False)
    out = lh.generate_parallel(context, PROMPTS, regex=["[0-9]{3}", "[a-c]{2}", None])
    assert len(out.texts[0] or "") == 3
    assert set(out.texts[1] or "x") <= set("abc")
    out = lh.generate_parallel(context, PROMPTS[:2], choices=[["a", "b"], ["c", "d"]])
    assert out.texts[0] in {"a", "b"}
    assert out.texts[1] in {"c", "d"}
    with pytest.raises(ValueError, match=r"regex must have one element per prompt \(3\)"):
        lh.generate_parallel(context, PROMPTS, regex=["a"])
    with pytest.raises(ValueError, match="schema and regex cannot be given together"):
        lh.generate_parallel(context, PROMPTS, schema=LABEL, regex="a")


@pytest.mark.model
def test_a_lark_grammar_is_told_by_its_first_word(context: lh.Context) -> None:
    lark = '%llguidance {}\nstart: "no " /[a-f]{4}/'
    text = lh.generate(context, "Say: ", grammar=lark).text
    assert text is not None
    assert text.startswith("no ")
    assert len(text) == 7


# ---- answers that are wrong -----------------------------------------------------------


@pytest.mark.model
def test_an_answer_that_was_cut_is_an_error(context: lh.Context) -> None:
    out = lh.generate_parallel(context, PROMPTS[:1], schema=LABEL, max_tokens=4)
    assert out[0].error == (
        "the answer was cut off by max_tokens (4) before it was complete under the schema"
    )
    assert out[0].text is None
    assert out[0].parsed is None
    assert (out[0].partial or "").startswith('{"label"')


@pytest.mark.model
def test_what_the_check_refuses_is_tried_again_and_then_fails(
    context: lh.Context, tmp_path: Path
) -> None:
    journal = tmp_path / "journal.sqlite"
    once = lh.generate_parallel(context, ["x"], schema=HOPELESS, retries=0)
    out = lh.generate_parallel(
        context, ["x", "y"], schema=[HOPELESS, LABEL], retries=3, journal=journal
    )
    assert "does not follow the schema" in (out.errors[0] or "")
    assert out[0].partial == '"a"'
    assert not out[0].complete
    assert once[0].partial == '"a"'
    assert out[0].seed != once[0].seed
    assert out.errors[1] is None
    assert [entry.error is None for entry in lh.journal_read(journal)].count(True) == 1
    # An answer that can be valid is valid after some tries.
    schema = {"enum": [1, 2, 3, 4], "not": {"enum": [2, 3, 4]}}
    tried = lh.generate_parallel(
        context, ["9 8 7 6 5 4 3 2 "] * 4, schema=schema, retries=50
    )
    assert tried.parsed == [1] * 4
    with pytest.raises(lh.GenerationError, match="does not follow the schema"):
        lh.generate(context, "x", schema=HOPELESS, retries=1)


def test_retries_are_drawn_with_other_seeds() -> None:
    from array import array

    from llamaherd.engine.core.outcome import Finish, Output
    from llamaherd.engine.core.request import Request

    request = Request(tokens=array("i", [1]), max_tokens=9, seed=5, shape=shape_of(LABEL))
    first, second = again(request, 1), again(request, 2)
    assert len({request.seed, first.seed, second.seed}) == 3
    assert first.sampling.temperature > 0
    good = Output(finish=Finish.EOG, text='{"label":"bad","score":1}')
    assert check_answer(request, good).value == {"label": "bad", "score": 1}
    for text in ("{", '{"label":"bad"}', '{"label":"bad","score":1e400}', "[" * 100_000):
        answer = check_answer(request, Output(finish=Finish.EOG, text=text))
        assert answer.is_wrong
        assert answer.output.finish is Finish.ERROR


# ---- hostile schemas ------------------------------------------------------------------


def nested(depth: int) -> str:
    return '{"items":' * depth + "{}" + "}" * depth


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "no_such"}, "not valid"),
        ("{", "not valid JSON"),
        ('{"type": "object", "type": "array"}', 'the key "type" twice'),
        ("/no/such/file.json", "neither JSON nor a file"),
        (nested(100_000), "not valid JSON|nested|large"),
        ({"type": "object", "properties": {"a": False}, "required": ["a"]}, "no answer"),
        (False, "no answer can follow the schema false"),
        ({"type": "string", "pattern": "(" * 50}, "not valid|follow|pattern"),
        ({"a": float("nan")}, "JSON"),
    ],
)
def test_what_is_no_schema_is_refused(schema: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        lh.structured.unenforced(schema)


@pytest.mark.parametrize("schema", [5, None, ["a"], b"x", lambda: 1])
def test_what_has_the_wrong_type_is_named(schema: object) -> None:
    with pytest.raises((TypeError, ValueError), match="schema"):
        lh.structured.unenforced(schema)


CUT = "was cut off by max_tokens"
# Schemas with the reason why the prompt fails; None if it is answered.
EXPLODING: list[tuple[dict[str, Any], str | None]] = [
    (
        {"type": "string", "pattern": "^" + "(a{1,100}){1,100}" * 20 + "$"},
        "too many expressions",
    ),
    ({"type": "string", "pattern": "(.*a.{20}){20}"}, CUT),
    ({"type": "string", "minLength": 100_000, "pattern": "^([a-z][0-9])+$"}, CUT),
    ({"enum": [f"value {i} " + "x" * 50 for i in range(25_000)]}, None),
    (
        {
            "allOf": [
                {"anyOf": [{"properties": {f"{i}{j}": {}}} for j in range(6)]}
                for i in range(12)
            ]
        },
        "too large",
    ),
    (
        {
            "$defs": {
                f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 8} for i in range(12)
            }
            | {"d12": {"type": "null"}},
            "$ref": "#/$defs/d0",
        },
        None,
    ),
    ({"$ref": "#"}, "nothing can follow"),
    ({"allOf": [{"$ref": "#"}]}, "nothing can follow"),
    ({"type": "array", "minItems": 10**9, "items": {"type": "null"}}, "Too many items"),
    (
        {
            "type": "object",
            "properties": {f"p{i}": {"type": "string"} for i in range(20_000)},
        },
        "too large",
    ),
]


@pytest.mark.more(reason="compiles many large schemas", cases=3)
@pytest.mark.model
@pytest.mark.parametrize(("schema", "reason"), EXPLODING)
def test_a_schema_that_explodes_fails_its_prompt_alone(
    context: lh.Context, schema: dict[str, Any], reason: str | None
) -> None:
    out = lh.generate_parallel(
        context, PROMPTS, schema=[LABEL, schema, LABEL], max_tokens=30, retries=0
    )
    assert out.errors[0] is None
    assert out.errors[2] is None
    if reason is None:
        assert out.errors[1] is None
        assert shape_of(schema).read(out.texts[1] or "") == out.parsed[1]
    else:
        assert reason in (out.errors[1] or "")
        assert out.texts[1] is None


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    places = ("http://127.0.0.1:9/x.json", "file:///etc/passwd", "other.json", "#/nope")
    for place in places:
        with pytest.raises(ValueError, match=r"schema refers to .*are not fetched"):
            shape_of({"properties": {"a": {"$ref": place}}})
    # For parts with `$id`, only the check detects the error.
    shape = shape_of({"$id": "urn:x", "properties": {"a": {"$ref": places[0]}}})
    with pytest.raises(ValueError, match="are not fetched"):
        shape.read('{"a":1}')


# ---- the library ----------------------------------------------------------------------


def test_another_llguidance_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert llguidance.load().startswith("1.")
    llguidance.load.cache_clear()
    monkeypatch.setattr(llguidance, "_FUNCTIONS", ("get_version", "no_such"))
    with pytest.raises(
        AbiMismatchError, match=r"no function llg_no_such; install it: pip"
    ):
        llguidance.load()
    monkeypatch.setattr(llguidance, "_FUNCTIONS", ("get_version",))
    with pytest.raises(AbiMismatchError, match="is missing"):
        llguidance.load()
    monkeypatch.undo()
    llguidance.load()


def test_an_error_of_schemas_is_a_value_error() -> None:
    assert issubclass(SchemaError, ValueError)


def test_a_schema_that_only_refers_to_itself_fails_by_itself(context: lh.Context) -> None:
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    out = lh.generate_parallel(context, ["a", "b"], schema=[loop, {"enum": ["x"]}])
    text = "schema: nothing can follow the grammar (NoExtensionBias)"
    assert out.errors == [text, None]
    assert out.error_codes == ["constraint", None]
    assert out.parsed == [None, "x"]


@pytest.mark.parametrize(
    ("number", "divisor", "is_multiple"),
    [
        (1.1, 0.1, True),
        (19.99, 0.01, True),
        (-0.3, 0.1, True),
        (1e300, 1e-300, True),
        (3.0, 1.5, True),
        (2**80, 2, True),
        (2**80 + 1, 2, False),
        (0.15, 0.1, False),
        (1e-9, 0.1, False),
        (7, 2.5, False),
    ],
)
def test_multiples_are_those_of_decimal_numbers(
    number: float, divisor: float, is_multiple: bool
) -> None:
    text = json.dumps({"multipleOf": divisor})
    assert (violation(text, number) == "") is is_multiple
    assert violation(text, True) == violation(text, "a") == ""
