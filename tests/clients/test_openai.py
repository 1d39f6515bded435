"""The openai package: sync, async, streams, parsed answers, functions, vectors."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import openai
import pydantic
import pytest
from conftest import EMBEDDINGS, NAME

HELLO: list[Any] = [{"role": "user", "content": "Say hello."}]
PLAIN: dict[str, Any] = {"model": NAME, "temperature": 0, "max_tokens": 12}


class Review(pydantic.BaseModel):
    stars: Literal[1, 2, 3, 4, 5]
    good: bool


TOOL: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def test_chats_and_streams_are_equal(sdk: openai.OpenAI) -> None:
    whole = sdk.chat.completions.create(messages=HELLO, **PLAIN)
    text = whole.choices[0].message.content
    assert text
    chunks = list(
        sdk.chat.completions.create(
            messages=HELLO, stream=True, stream_options={"include_usage": True}, **PLAIN
        )
    )
    pieces = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(pieces) == text
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens


def test_many_at_once_from_asyncio(base_url: str, sdk: openai.OpenAI) -> None:
    async def texts() -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=base_url, api_key="x") as client:
            chats = (
                client.chat.completions.create(messages=HELLO, **PLAIN) for _ in range(8)
            )
            return [
                chat.choices[0].message.content for chat in await asyncio.gather(*chats)
            ]

    text = sdk.chat.completions.create(messages=HELLO, **PLAIN).choices[0].message.content
    assert asyncio.run(texts()) == [text] * 8


def test_parsed_answers(sdk: openai.OpenAI) -> None:
    chat = sdk.chat.completions.parse(
        messages=HELLO, response_format=Review, **{**PLAIN, "max_tokens": 60}
    )
    assert isinstance(chat.choices[0].message.parsed, Review)
    with sdk.chat.completions.stream(
        messages=HELLO, response_format=Review, **{**PLAIN, "max_tokens": 60}
    ) as stream:
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed == chat.choices[0].message.parsed


def test_forced_calls_of_functions(sdk: openai.OpenAI) -> None:
    body: dict[str, Any] = {"messages": HELLO, "tools": [TOOL], "tool_choice": "required"}
    body |= {**PLAIN, "max_tokens": 60}
    choice = sdk.chat.completions.create(**body).choices[0]
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls or []
    assert json.loads(call.function.arguments)["city"] in ("Paris", "Rome")  # type: ignore[union-attr]
    with sdk.chat.completions.stream(**body) as stream:
        final = stream.get_final_completion().choices[0]
    assert final.message.tool_calls is not None
    assert final.message.tool_calls[0].function.arguments == call.function.arguments  # type: ignore[union-attr]
    answered = [
        *HELLO,
        choice.message,
        {"role": "tool", "tool_call_id": call.id, "content": "Sunny."},
    ]
    assert (
        sdk.chat.completions.create(messages=answered, **PLAIN).choices[0].message.content
    )


def test_logprobs_samples_and_completions(sdk: openai.OpenAI) -> None:
    chat = sdk.chat.completions.create(
        messages=HELLO, logprobs=True, top_logprobs=2, **PLAIN
    )
    assert chat.choices[0].logprobs is not None
    assert chat.choices[0].logprobs.content
    several = sdk.completions.create(
        prompt=["One, two,", "A, b,"], n=2, model=NAME, max_tokens=4
    )
    assert [choice.index for choice in several.choices] == [0, 1, 2, 3]
    echoed = sdk.completions.create(
        prompt="One, two,", echo=True, logprobs=1, **{**PLAIN, "max_tokens": 1}
    ).choices[0]
    assert echoed.text.startswith("One, two,")
    assert echoed.logprobs is not None
    assert echoed.logprobs.token_logprobs is not None
    assert echoed.logprobs.token_logprobs[0] is None


@pytest.mark.parametrize("model", [NAME, EMBEDDINGS])
def test_vectors(sdk: openai.OpenAI, model: str) -> None:
    encoded = sdk.embeddings.create(model=model, input=["a cat", "a dog"])
    plain = sdk.embeddings.create(
        model=model, input=["a cat", "a dog"], encoding_format="float"
    )
    for one, other in zip(encoded.data, plain.data, strict=True):
        assert one.embedding == pytest.approx(other.embedding, abs=1e-5)
    short = sdk.embeddings.create(model=model, input="a cat", dimensions=8)
    assert len(short.data[0].embedding) == 8


def test_errors_are_not_tried_again(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        sdk.chat.completions.create(
            messages=HELLO, extra_body={"samplers": ["x"]}, **PLAIN
        )
    assert caught.value.param == "samplers"
    assert caught.value.request_id
