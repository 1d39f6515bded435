"""Tests that a schema is described to the model, by default, in a chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
    asked = GenerateOptions(
        chat=True,
        template=TEMPLATE,
        sampling={"schema": schema, "max_tokens": 8},
        **options,
    )
    (request,) = make_requests(model, [prompt], asked)[0]
    assert not request.problem
    return str(request.text)


def test_a_chat_shows_its_schema_before_the_last_text_of_the_user(model: Any) -> None:
    asked = f"{WORDS}\n\nIs it good?"
    assert seen(model, "Is it good?") == f"<user>{asked}<assistant>"
    assert seen(model, "Is it good?", show_schema=False) == "<user>Is it good?<assistant>"
    talk = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Yes?"), ("user", "Q")]
    messages = [{"role": role, "content": content} for role, content in talk]
    told = "<system>Be brief.<user>Hi<assistant>Yes?"
    assert seen(model, messages) == f"{told}<user>{WORDS}\n\nQ<assistant>"
    assert messages[-1]["content"] == "Q"  # the caller's messages are not changed


@pytest.mark.parametrize("schema", [{"type": "object"}, True, None])
def test_a_schema_without_fields_adds_no_words(model: Any, schema: Any) -> None:
    assert seen(model, "Is it?", schema) == "<user>Is it?<assistant>"


def test_a_schema_is_described_once(model: Any) -> None:
    for prompt in (asked := f"{WORDS}\n\nQ", [{"role": "user", "content": asked}]):
        assert seen(model, prompt).count(WORDS) == 1
    messages = [{"role": "system", "content": WORDS}, {"role": "user", "content": "Q"}]
    assert seen(model, messages).count(WORDS) == 1


def test_prompts_without_a_chat_stay_as_they_are(model: Any) -> None:
    (request,) = make_requests(
        model, ["Is it?"], GenerateOptions(sampling={"schema": SCHEMA})
    )[0]
    assert request.text == "Is it?"


def test_each_prompt_shows_its_own_schema(model: Any) -> None:
    asked = GenerateOptions(
        chat=True, template=TEMPLATE, sampling={"schema": [SCHEMA, None], "max_tokens": 8}
    )
    one, other = make_requests(model, ["Is it?", "Is it?"], asked)[0]
    assert WORDS in str(one.text)
    assert other.text == "<user>Is it?<assistant>"


def test_answers_that_max_tokens_ends_are_told_once(model: Any) -> None:
    with lh.Context(model, deterministic=True) as context:
        for n, words in ((1, "the answer ended"), (3, "3 of 3 answers ended")):
            with pytest.warns(lh.CutOffWarning, match=words) as told:
                lh.generate_parallel(context, ["the cat"] * n, max_tokens=3)
            assert len(told) == 1
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
