"""The cost of a small constraint is limited, and other callers do not wait for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.calls.asks import requests
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests
from llamaherd.engine.native import request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


# Each constraint is refused, or answered up to `max_tokens`. Without limits, each took
# ten seconds or more; some never ended.
BOMBS: dict[str, dict[str, Any]] = {
    "regex repeats a letter": {"regex": "a{2000000000}"},
    "regex repeats a word": {"regex": "(abc){300000}"},
    "regex repeats it after a choice": {"regex": "[xy]a{2000000000}"},
    "regex has two such ways": {"regex": "(a{2000000000}|b{2000000000})"},
    "regex nests repetitions": {"regex": "(((a{1,100}){1,100}){1,100}){1,100}"},
    "regex nests groups": {"regex": "(" * 3000 + "a" + ")" * 3000},
    "pattern repeats": {"schema": {"type": "string", "pattern": "^a{2000000000}$"}},
    "minLength": {"schema": {"type": "string", "minLength": 2_000_000_000}},
    "minItems": {
        "schema": {"type": "array", "items": {"const": 1}, "minItems": 1_000_000_000}
    },
    "minProperties": {
        "schema": {
            "type": "object",
            "additionalProperties": {"const": 1},
            "minProperties": 100_000,
        }
    },
    "a long constant": {"schema": {"const": "a" * 1_000_000}},
    "a long property": {
        "schema": {
            "type": "object",
            "properties": {"a" * 300_000: {"const": 1}},
            "required": ["a" * 300_000],
        }
    },
    "anyOf times anyOf": {
        "schema": {
            "allOf": [
                {"anyOf": [{"properties": {f"a{j}_{i}": {}}} for i in range(20)]}
                for j in range(20)
            ]
        }
    },
    "references that double": {
        "schema": {
            "$ref": "#/$defs/d0",
            "$defs": {
                **{
                    f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2}
                    for i in range(30)
                },
                "d30": {"type": "integer"},
            },
        }
    },
    "GBNF repeats": {"grammar": 'root ::= "a"{900000}'},
    "GBNF repeats repetitions": {"grammar": 'root ::= (("a"{1000}){1000}){1000}'},
    "GBNF is ambiguous": {"grammar": "root ::= a a a a a a a a\na ::= a a | [a-z]*"},
    "Lark repeats": {"grammar": "%llguidance {}\nstart: /a{2000000000}/"},
    "Lark repeats rules": {"grammar": '%llguidance {}\nstart: ("a" "b"){1000000}'},
    "Lark nests rules": {
        "grammar": "%llguidance {}\nstart: r0\n"
        + "".join(f"r{i}: r{i + 1} r{i + 1}\n" for i in range(40))
        + 'r40: "a"'
    },
    "a long choice": {"choices": ["a" * 1_000_000]},
    "many choices": {"choices": [f"label {i}" for i in range(100_000)]},
    "choices within each other": {"choices": ["a" * n for n in range(1, 1000)]},
    "a long stop text": {"stop": ["a" * 1_000_000]},
    "many biases": {"logit_bias": dict.fromkeys(range(100), 1.0)},
}


@pytest.fixture(scope="module")
def ctx(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model, n_ctx=2048) as context:
        yield context


@pytest.mark.more(reason="texts that need seconds", cases=2)
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_or_answered(ctx: lh.Context, name: str) -> None:
    problem, n_tokens = "", 0
    try:
        n_tokens = len(ctx.submit("x", max_tokens=4, **BOMBS[name]).result().tokens)
    except (ValueError, lh.GenerationError) as error:
        problem = str(error)
    assert n_tokens <= 4
    assert len(problem) < 1000
    assert ctx.submit("y", max_tokens=2).result().n_generated_tokens <= 2


def test_a_text_that_is_forced_for_too_long_is_refused_before_it_runs(
    ctx: lh.Context,
) -> None:
    with pytest.raises(ValueError, match="smaller repetitions"):
        ctx.submit("x", regex="a{2000000000}", max_tokens=4)


def test_a_constraint_that_fails_while_it_runs_is_named(ctx: lh.Context) -> None:
    options: dict[str, Any] = {"regex": "[xy]a{2000000000}", "max_tokens": 4}
    result = lh.generate_parallel(ctx, ["x"], **options)[0]
    assert result.error_code == "constraint"
    assert str(result.error).startswith(
        "regex '[xy]a{2000000000}' cannot be used: it needs more states than are kept"
    )
    with pytest.raises(
        lh.GenerationError, match="cannot be used: it needs more states"
    ) as caught:
        ctx.submit("x", **options).result()
    assert caught.value.code == "constraint"


def test_of_several_constraints_only_the_bomb_fails(ctx: lh.Context) -> None:
    results = lh.generate_parallel(
        ctx,
        ["x", "y", "z"],
        regex=["[ab]{3}", "a{2000000000}", "[cd]{3}"],
        max_tokens=4,
        on_error="return",
    )
    assert [bool(result.error) for result in results] == [False, True, False]
    assert "smaller repetitions" in str(results[1].error)


@pytest.mark.parametrize("is_per_prompt", [False, True])
def test_others_go_on_while_a_constraint_is_compiled(
    ctx: lh.Context, monkeypatch: pytest.MonkeyPatch, *, is_per_prompt: bool
) -> None:
    is_compiling, may_go_on = threading.Event(), threading.Event()
    check = request.check_sampling

    def held(model: Any, params: lh.SamplingParams, shape: Any = None) -> None:
        if params.regex is not None:
            is_compiling.set()
            may_go_on.wait()
        check(model, params, shape)

    monkeypatch.setattr(requests, "check_sampling", held)
    prompts = ["x", "y"]
    regex = ["[ab]{3}", "[cd]{3}"] if is_per_prompt else "[ab]{3}"
    outcomes: list[lh.Results] = []

    def call() -> None:
        outcomes.append(lh.generate_parallel(ctx, prompts, regex=regex, max_tokens=4))

    caller = threading.Thread(target=call)
    caller.start()
    try:
        assert is_compiling.wait(60)
        running = ctx.submit("other", max_tokens=500, ignore_eos=True)
        assert ctx.submit("another", max_tokens=2).result(60).n_generated_tokens <= 2
        running.cancel()
        assert running.result(60).finish_reason == "cancelled"
    finally:
        may_go_on.set()
        caller.join()
    assert len(outcomes[0]) == 2


def test_forced_text_of_any_length_is_the_text(ctx: lh.Context) -> None:
    result = ctx.submit("x", regex="(abc){20000}", max_tokens=400).result()
    assert result.text is not None
    assert result.text == ("abc" * 200)[: len(result.text)]
    assert len(result.tokens) == 400


# ---- tests that a schema is described to the model, by default, in a chat


SCHEMA = {"type": "object", "properties": {"kind": {"enum": ["good", "bad"]}}}
LONG = {"type": "string", "minLength": 20}
WORDS = lh.structured.schema_prompt(SCHEMA)
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def model(tiny_path: Callable[[str], Path]) -> Any:
    with lh.Model(tiny_path("llama")) as opened:
        yield opened


def seen(model: lh.Model, prompt: Any, schema: Any = SCHEMA, **options: Any) -> str:
    arguments = GenerateOptions(
        chat=True,
        template=TEMPLATE,
        sampling={"schema": schema, "max_tokens": 8},
        **options,
    )
    (request,) = make_requests(model, [prompt], arguments)[0]
    assert not request.problem
    return str(request.text)


def test_a_chat_shows_its_schema_before_the_last_text_of_the_user(model: Any) -> None:
    text = f"{WORDS}\n\nIs it good?"
    assert seen(model, "Is it good?") == f"<user>{text}<assistant>"
    assert seen(model, "Is it good?", show_schema=False) == "<user>Is it good?<assistant>"
    talk = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Yes?"), ("user", "Q")]
    messages = [{"role": role, "content": content} for role, content in talk]
    head = "<system>Be brief.<user>Hi<assistant>Yes?"
    assert seen(model, messages) == f"{head}<user>{WORDS}\n\nQ<assistant>"
    assert messages[-1]["content"] == "Q"  # the caller's messages are not changed


@pytest.mark.parametrize("schema", [{"type": "object"}, True, None])
def test_a_schema_without_fields_adds_no_words(model: Any, schema: Any) -> None:
    assert seen(model, "Is it?", schema) == "<user>Is it?<assistant>"


def test_a_schema_is_described_once(model: Any) -> None:
    for prompt in (text := f"{WORDS}\n\nQ", [{"role": "user", "content": text}]):
        assert seen(model, prompt).count(WORDS) == 1
    messages = [{"role": "system", "content": WORDS}, {"role": "user", "content": "Q"}]
    assert seen(model, messages).count(WORDS) == 1


def test_prompts_without_a_chat_stay_as_they_are(model: Any) -> None:
    (request,) = make_requests(
        model, ["Is it?"], GenerateOptions(sampling={"schema": SCHEMA})
    )[0]
    assert request.text == "Is it?"


def test_each_prompt_shows_its_own_schema(model: Any) -> None:
    options = GenerateOptions(
        chat=True, template=TEMPLATE, sampling={"schema": [SCHEMA, None], "max_tokens": 8}
    )
    one, other = make_requests(model, ["Is it?", "Is it?"], options)[0]
    assert WORDS in str(one.text)
    assert other.text == "<user>Is it?<assistant>"


def test_answers_that_max_tokens_ends_are_told_once(model: Any) -> None:
    with lh.Context(model, deterministic=True) as context:
        for n, words in ((1, "the answer ended"), (3, "3 of 3 answers ended")):
            with pytest.warns(lh.CutOffWarning, match=words) as caught:
                lh.generate_parallel(context, ["the cat"] * n, max_tokens=3)
            assert len(caught) == 1
        with pytest.warns(lh.CutOffWarning, match="2 of 2 answers"):
            lh.generate_parallel(context, ["a", "b"], schema=LONG, max_tokens=2)
        with pytest.warns(lh.CutOffWarning):
            lh.generate(context, "the cat", max_tokens=3)
        with pytest.warns(lh.CutOffWarning):
            lh.chat(context, template=TEMPLATE).ask("the cat", max_tokens=3)


@pytest.mark.filterwarnings("error")
def test_answers_of_a_wanted_length_are_not_told(model: Any) -> None:
    with lh.Context(model, deterministic=True) as context:
        lh.generate_parallel(context, ["a", "b"], max_tokens=3, ignore_eos=True)
        lh.generate_parallel(context, ["a", "b"], choices=["yes", "no"])
