"""Anthropic's package, with its API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anthropic
import pytest
from conftest import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

ASK: Any = [{"role": "user", "content": "Rate this book: it was good."}]
BRIEF: dict[str, Any] = {
    "model": NAME,
    "max_tokens": 20,
    "system": "Be brief.",
    "extra_body": {"temperature": 0},
}
TOOL: Any = {
    "name": "weather",
    "description": "Return the weather.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"enum": ["Paris", "Rome"]}},
        "required": ["city"],
    },
}


@pytest.fixture
def sdk(url: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        yield client


def test_texts_and_streams_are_equal(sdk: anthropic.Anthropic) -> None:
    whole = sdk.messages.create(messages=ASK, **BRIEF)
    with sdk.messages.stream(messages=ASK, **BRIEF) as stream:
        text = "".join(stream.text_stream)
        last = stream.get_final_message()
    (block,) = whole.content
    assert block.type == "text"
    assert block.text == text
    (built,) = last.content
    assert built.type == "text"
    assert built.text == text
    assert last.stop_reason == whole.stop_reason
    assert last.usage.output_tokens == whole.usage.output_tokens > 0
    n_read = whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)
    counted = sdk.messages.count_tokens(model=NAME, messages=ASK, system="Be brief.")
    assert counted.input_tokens == n_read


def test_models_are_listed(sdk: anthropic.Anthropic) -> None:
    model = next(info for info in sdk.models.list() if info.id == NAME)
    assert (model.display_name, model.type) == (NAME, "model")
    assert sdk.models.retrieve(NAME).created_at == model.created_at
    assert model.created_at.year >= 2026


def test_a_stop_text(sdk: anthropic.Anthropic) -> None:
    (block,) = sdk.messages.create(messages=ASK, **BRIEF).content
    assert block.type == "text"
    stop = block.text[4:7]
    message = sdk.messages.create(messages=ASK, stop_sequences=[stop], **BRIEF)
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)


def test_a_call_and_its_result(sdk: anthropic.Anthropic) -> None:
    forced: Any = {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "weather"}}
    body = {**BRIEF, **forced, "max_tokens": 60}
    first = sdk.messages.create(messages=ASK, **body)
    with sdk.messages.stream(messages=ASK, **body) as stream:
        streamed = stream.get_final_message()
    assert first.stop_reason == streamed.stop_reason == "tool_use"
    for message in (first, streamed):
        (call,) = message.content
        assert call.type == "tool_use"
        assert call.input["city"] in ("Paris", "Rome")
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
    turns: Any = [
        *ASK,
        {"role": "assistant", "content": streamed.content},
        {"role": "user", "content": [result]},
    ]
    last = sdk.messages.create(messages=turns, tools=[TOOL], **BRIEF)
    assert last.content


def test_errors_have_their_classes(sdk: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        sdk.messages.create(messages=ASK, **{**BRIEF, "extra_body": {"temperature": 9}})
    with pytest.raises(anthropic.NotFoundError):
        sdk.messages.create(messages=ASK, **{**BRIEF, "model": "other"})
