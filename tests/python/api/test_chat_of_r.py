"""Conversations in the interface for R: plain data, and errors as data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd import _r
from plain_forms import plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SETTINGS = {"sampling": {"max_tokens": 5, "ignore_eos": True, "seed": 3e9}}


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with lh.Model(tiny_path("chat")) as model, lh.Context(model) as context:
        yield context


def value(status: dict[str, Any]) -> Any:
    assert status["ok"], status["message"]
    return plain(status["value"])


def turns_of(chat: lh.Chat) -> dict[str, list[Any]]:
    return value(_r.chat_turns(chat))["turns"]


def chat_of(context: lh.Context, turns: list[dict[str, Any]] | None = None) -> lh.Chat:
    return value(_r.chat_create(context, "S", turns or [], SETTINGS))["python"]


def read(reply: lh.types.Reply) -> str:
    texts: list[str] = []
    done = False
    while not done:
        new = value(_r.chat_read(reply, len(texts), 0.1))
        assert len(new["texts"]) == len(new["kinds"])
        assert set(new["kinds"]) <= {"answer"}
        texts += new["texts"]
        done = new["done"]
    return "".join(texts)


def test_a_question_in_steps(context: lh.Context) -> None:
    chat = chat_of(context)
    reply = value(_r.chat_ask(chat, "One", {"max_tokens": 8}))["reply"]
    text = read(reply)
    result = value(_r.chat_result(reply))
    assert result["text"] == text
    assert result["n_generated_tokens"] == 8
    assert (result["thinking"], result["n_thinking_tokens"]) == (None, 0)
    assert result["finish_reason"] == "length"
    assert 0 < result["n_computed_tokens"] <= result["n_prompt_tokens"]
    assert value(_r.chat_turns(chat))["system"] == "S"
    assert turns_of(chat) == {
        "role": ["system", "user", "assistant"],
        "content": ["S", "One", text],
        "thinking": [None, None, None],
        "interrupted": [False, False, False],
    }
    again = value(_r.chat_ask(chat, None, {"temperature": 2.0}))["reply"]
    value(_r.chat_result(again))
    turns = turns_of(chat)
    assert turns["content"][1] == "One"
    assert turns["content"][2] not in {"", text}


def test_frequent_polls_do_not_delay_a_long_question(smollm2: lh.Model) -> None:
    """Each poll once aborted the step of the prefix that two questions share."""
    with lh.Context(smollm2) as context:
        text = "The river is long and slow. " * 60
        settings = {"sampling": {"max_tokens": 2}}
        for _ in range(3):
            chat = value(_r.chat_create(context, text, [], settings))["python"]
            reply = value(_r.chat_ask(chat, "How long is it?", {}))["reply"]
            n_before = context.loop.n_batches  # the prompt, its rest, two tokens follow
            while not value(_r.chat_read(reply, 0, 0.001))["done"]:
                pass
            assert value(_r.chat_result(reply))["finish_reason"] == "length"
            assert context.loop.n_batches - n_before <= 4


def test_ctrl_c_in_r_keeps_what_was_written(context: lh.Context) -> None:
    chat = chat_of(context)
    reply = value(_r.chat_ask(chat, "One", {"max_tokens": 400}))["reply"]
    (first, *_) = value(_r.chat_read(reply, 0, 60.0))["texts"]
    value(_r.chat_cancel(reply))
    result = value(_r.chat_result(reply))
    assert result["text"] is None
    assert result["partial"].startswith(first)
    assert result["finish_reason"] == "cancelled"
    turns = turns_of(chat)
    assert turns["interrupted"] == [False, False, True]
    assert turns["content"][2] == result["partial"]


def test_memory_from_r(context: lh.Context) -> None:
    chat = chat_of(context)
    for text in ("One", "Two", "Three"):
        value(_r.chat_result(value(_r.chat_ask(chat, text, {}))["reply"]))
    assert value(_r.chat_undo(chat))["content"][0] == "Three"
    assert value(_r.chat_forget(chat, 1))["content"][0] == "One"
    value(_r.chat_set_system(chat, None))
    assert value(_r.chat_turns(chat))["system"] is None
    turns = turns_of(chat)
    assert turns["content"][0] == "Two"
    first, second = value(_r.chat_fork(chat, 2))["pythons"]
    assert turns_of(second) == turns_of(first) == turns
    job = value(_r.chat_ask_all(chat, ["A", "B"], {"temperature": 0.5}))["job"]
    assert len(value(_r.job_result(job))) == 2
    # R sends NULL for a missing value.
    saved = [
        {"role": role, "content": text, "reasoning_content": None, "interrupted": False}
        for role, text in zip(turns["role"], turns["content"], strict=True)
    ]
    again = turns_of(chat_of(context, saved))
    assert again["content"] == ["S", *turns["content"]]


def test_errors_are_data(context: lh.Context) -> None:
    chat = chat_of(context)
    full = _r.chat_ask(chat, "a" * 600, {})
    assert (full["ok"], full["error_type"]) == (False, "ChatFullError")
    assert full["code"] == "too_long"
    wrong = _r.chat_ask(chat, "One", {"tempature": 1})
    assert (wrong["error_type"], wrong["argument"]) == ("ArgumentTypeError", "tempature")
    nothing = _r.chat_undo(chat)
    assert nothing["error_type"] == "ValueError"
    assert "no question yet" in nothing["message"]
    turns = _r.chat_create(context, None, [{"role": "user"}], {})
    assert (turns["argument"], turns["place"]) == ("turns", [1])
    owner = value(_r.chat_create(context.model, None, [], {}))["python"]
    value(_r.close(owner))
    assert _r.chat_ask(owner, "One", {})["error_type"] == "ContextClosedError"
