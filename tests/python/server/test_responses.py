"""OpenAI's Responses API over HTTP, with OpenAI's package as client."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import llamaherd as lh
import openai
import pydantic
import pytest
from fake_context import FakeContext, answer
from llamaherd.engine.core.outcome import TextPiece
from llamaherd.server.responses import Responses
from openai.types.responses import Response, ResponseStreamEvent
from served import NAME, path_format, served

if TYPE_CHECKING:
    from served import Client

PATH = "/v1/responses"
TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}<|{{ m.role }}|>"
    "{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}
PAINT: dict[str, Any] = {
    "type": "function",
    "name": "paint",
    "description": "Paint it.",
    "parameters": SCHEMA,
    "strict": True,
}
WIPE = {**PAINT, "name": "wipe"}
FORM = {"format": {"type": "json_schema", "name": "c", "schema": SCHEMA, "strict": True}}


# Class of each event in OpenAI's package.
KINDS = {
    get_args(event_class.model_fields["type"].annotation)[0]: event_class
    for event_class in get_args(get_args(ResponseStreamEvent)[0])
}
CONTEXT = {"n_seq_max": 8}


class Colour(pydantic.BaseModel):
    colour: Literal["red", "blue"]


def _checked_events(client: Client, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a stream; check each by the types of OpenAI's package."""
    status, text, _ = client.ask("POST", PATH, {**body, "stream": True})
    assert status == 200, text
    parts = text.split("\n\n")
    assert parts.pop() == ""
    events = []
    for i, part in enumerate(parts):
        name, data = part.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert (name, event["sequence_number"]) == (f"event: {event['type']}", i)
        KINDS[event["type"]].model_validate(event)
        events.append(event)
    return events


def test_a_text_and_its_settings(sdk: openai.OpenAI, fake: FakeContext) -> None:
    reply = sdk.responses.create(
        model=NAME,
        input="hello",
        instructions="Be brief.",
        max_output_tokens=3,
        temperature=0.5,
        store=True,
        metadata={"a": "b"},
        include=["reasoning.encrypted_content"],
        truncation="disabled",
        background=False,
    )
    Response.model_validate(reply.to_dict())
    (handle,) = fake.handles
    assert reply.output_text == answer(handle.prompt, 3)
    assert (reply.status, reply.model, reply.store) == ("incomplete", NAME, False)  # type: ignore[attr-defined]
    assert reply.incomplete_details is not None
    assert reply.incomplete_details.reason == "max_output_tokens"
    assert (reply.instructions, reply.temperature) == ("Be brief.", 0.5)
    assert reply.metadata == {"a": "b"}
    assert handle.params.temperature == 0.5
    assert reply.usage is not None
    counts = (
        reply.usage.input_tokens,
        reply.usage.output_tokens,
        reply.usage.total_tokens,
    )
    assert counts == (7, 3, 10)
    assert reply.usage.input_tokens_details.cached_tokens == 3


def test_a_response_is_the_answer_of_a_chat(real_sdk: openai.OpenAI) -> None:
    messages: list[Any] = [
        {"role": "system", "content": "Be brief.\n\nBe kind."},
        {"role": "user", "content": "ab"},
    ]
    chat = real_sdk.chat.completions.create(
        model=NAME, messages=messages, temperature=0, max_tokens=6
    )
    items: list[Any] = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "a"},
                {"type": "input_text", "text": "b"},
            ],
        },
    ]
    response = real_sdk.responses.create(
        model=NAME,
        input=items,
        instructions="Be brief.",
        temperature=0,
        max_output_tokens=6,
    )
    assert response.output_text == chat.choices[0].message.content


def test_items_of_earlier_answers_become_messages(ctx: lh.Context) -> None:
    items = [
        {"type": None, "role": "user", "content": "paint"},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"text": "hm"}]},
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "yes", "annotations": [], "logprobs": []}
            ],
        },
        {"type": "function_call", "call_id": "c1", "name": "paint", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "wipe", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "done"},
        {
            "type": "function_call_output",
            "call_id": "c2",
            "output": [{"type": "input_text", "text": "fine"}],
        },
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]},
        {"type": "function_call", "call_id": "c3", "name": "wipe", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c3", "output": ""},
    ]
    form = path_format(Responses, ctx.model)
    (messages,) = form.understand({"input": items}).prompts
    assert [m["role"] for m in messages] == [
        *("user", "assistant", "tool", "tool", "assistant", "tool")
    ]
    first, second = (m for m in messages if m["role"] == "assistant")
    assert (first["content"], first["reasoning_content"]) == ("yes", "hm")
    assert [c["id"] for c in first["tool_calls"]] == ["c1", "c2"]
    assert (second["content"], second["reasoning_content"]) == ("", "so")
    assert messages[3] == {"role": "tool", "tool_call_id": "c2", "content": "fine"}


def test_a_schema(real_sdk: openai.OpenAI) -> None:
    response = real_sdk.responses.parse(
        model=NAME, input="a", text_format=Colour, max_output_tokens=300, temperature=0
    )
    assert response.status == "completed"
    assert isinstance(response.output_parsed, Colour)
    whole = real_sdk.responses.create(model=NAME, input="a", text=FORM)  # type: ignore[call-overload]
    assert json.loads(whole.output_text)["colour"] in ("red", "blue")
    assert whole.text.to_dict() == FORM
    anything = real_sdk.responses.create(
        model=NAME,
        input="a",
        text={"format": {"type": "json_object"}},
        max_output_tokens=2,
    )
    assert anything.output_text.startswith("{")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "paint"}])
@pytest.mark.parametrize("n_most", [2, 60])
def test_a_forced_call(real_sdk: openai.OpenAI, choice: Any, n_most: int) -> None:
    body: dict[str, Any] = {"model": NAME, "input": "a", "max_output_tokens": n_most}
    tools: list[Any] = [PAINT] if choice == "required" else [PAINT, WIPE]
    response = real_sdk.responses.create(**body, tools=tools, tool_choice=choice)
    Response.model_validate(response.to_dict())
    (call,) = response.output
    assert call.type == "function_call"
    assert (call.name, call.status) == ("paint", response.status)
    if n_most > 2:
        assert json.loads(call.arguments)["colour"] in ("red", "blue")
    assert response.tools[0].to_dict() == PAINT


def test_a_stream_is_as_its_package_expects(
    client: Client, sdk: openai.OpenAI, fake: FakeContext
) -> None:
    body = {"input": "hello", "max_output_tokens": 3, "thinking": 2}
    events = _checked_events(client, body)
    text = answer(fake.handles[0].prompt, 3)
    assert [event["type"].removeprefix("response.") for event in events] == [
        *("created", "in_progress"),
        *("output_item.added", "content_part.added"),
        *("reasoning_text.delta", "reasoning_text.delta", "reasoning_text.done"),
        *("content_part.done", "output_item.done"),
        *("output_item.added", "content_part.added"),
        *("output_text.delta", "output_text.delta", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done", "incomplete"),
    ]
    thought, message = events[-1]["response"]["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "hm0 hm1"}]
    assert message["content"][0]["text"] == text
    places = [event.get("output_index") for event in events]
    assert places == [None, None, *[0] * 7, *[1] * 8, None]
    ids = {event["item_id"] for event in events if "item_id" in event}
    assert ids == {thought["id"], message["id"]}
    with sdk.responses.stream(model=NAME, input="hello", max_output_tokens=3) as stream:
        deltas = [e.delta for e in stream if e.type == "response.output_text.delta"]
    assert "".join(deltas) == answer(fake.handles[1].prompt, 3)


def test_a_stream_with_a_summary_is_as_its_package_expects(client: Client) -> None:
    reasoning = {"summary": "auto"}
    body = {"input": "a", "max_output_tokens": 2, "thinking": 2, "reasoning": reasoning}
    types = [event["type"] for event in _checked_events(client, body)]
    start = "response.reasoning_summary"
    assert [kind.removeprefix(start) for kind in types if kind.startswith(start)] == [
        *("_part.added", "_text.delta", "_text.delta", "_text.done", "_part.done")
    ]


def test_a_stream_with_a_schema_and_with_a_call(real_sdk: openai.OpenAI) -> None:
    with real_sdk.responses.stream(
        model=NAME, input="a", text_format=Colour, max_output_tokens=300
    ) as stream:
        assert isinstance(stream.get_final_response().output_parsed, Colour)
    with real_sdk.responses.stream(
        model=NAME,
        input="a",
        tools=[PAINT],
        tool_choice="required",  # type: ignore[list-item]
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert kinds[2:6] == [
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
    ]
    assert final.output[0].type == "function_call"
    assert json.loads(final.output[0].arguments)["colour"] in ("red", "blue")


def test_a_stream_of_calls_has_the_types_of_its_package(ctx: lh.Context) -> None:
    body = {"input": "a", "tools": [PAINT, WIPE], "tool_choice": "required"}
    with served(ctx) as client:
        events = _checked_events(client, body)
    assert events[-1]["type"] == "response.completed"


def test_text_and_calls_of_a_free_answer(ctx: lh.Context) -> None:
    """A random model writes no call, so the test inserts a call into the answer."""
    form = path_format(Responses, ctx.model)
    parsed = form.understand({"input": "a", "tools": [PAINT, WIPE]})
    text = 'Well.<tool_call>{"name": "wipe", "arguments": {"colour": "red"}}</tool_call>'
    generated = lh.generate(ctx, "a", max_tokens=1)
    tokens = lh.tokenize(ctx.model, text, add_special=False)
    result = replace(generated, text=text, tokens=tokens, finish_reason="stop")
    message, call = form.answer(parsed).whole([result])["output"]  # type: ignore[misc]
    assert message["content"][0]["text"] == "Well."
    assert (call["name"], json.loads(call["arguments"])) == ("wipe", {"colour": "red"})
    writer = form.answer(parsed)
    text = writer.start() + writer.piece(TextPiece("We")) + writer.end([result])
    events = [json.loads(line[6:]) for line in text.split("\n") if line[:5] == "data:"]
    types = [e["type"].removeprefix("response.") for e in events]
    assert types.count("output_text.delta") == 1
    assert types[-5:] == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


def test_log_probabilities(real_sdk: openai.OpenAI) -> None:
    body: dict[str, Any] = {"model": NAME, "input": "a", "max_output_tokens": 4}
    body["temperature"] = 0  # a sampled answer may end before 4 tokens
    response = real_sdk.responses.create(
        **body, top_logprobs=2, include=["message.output_text.logprobs"]
    )
    (message,) = response.output
    assert message.type == "message"
    rows = message.content[0].logprobs  # type: ignore[union-attr]
    assert rows is not None
    assert len(rows) == 4
    assert all(len(row.top_logprobs) == 2 for row in rows)


def test_an_error_in_a_stream_is_raised_by_its_package(
    sdk: openai.OpenAI, fake: FakeContext
) -> None:
    fake.fails_at = 2
    stream = sdk.responses.create(model=NAME, input="a", max_output_tokens=5, stream=True)
    with pytest.raises(openai.APIError):
        list(stream)


@pytest.mark.parametrize("more", [{}, {"tools": [PAINT]}, {"text": FORM}])
def test_the_tokens_of_a_conversation_are_counted(
    real_sdk: openai.OpenAI, more: dict[str, Any]
) -> None:
    body: dict[str, Any] = {"input": "Hello", "instructions": "Short.", **more}
    counted = real_sdk.responses.input_tokens.count(model=NAME, **body)
    assert counted.object == "response.input_tokens"
    response = real_sdk.responses.create(model=NAME, max_output_tokens=1, **body)
    assert response.usage is not None
    assert counted.input_tokens == response.usage.input_tokens
    with pytest.raises(openai.BadRequestError, match="input is missing") as caught:
        real_sdk.responses.input_tokens.count(model=NAME)
    assert (caught.value.param, caught.value.code) == ("input", "missing_field")


@pytest.mark.parametrize("wish", ["low", "medium", "high"])
def test_verbosity_changes_nothing(real_sdk: openai.OpenAI, wish: Any) -> None:
    body: dict[str, Any] = {"model": NAME, "input": "Hello", "temperature": 0}
    plain = real_sdk.responses.create(max_output_tokens=4, **body)
    response = real_sdk.responses.create(
        max_output_tokens=4, text={"verbosity": wish}, **body
    )
    assert response.output_text == plain.output_text
    assert response.text is not None
    assert response.text.verbosity == wish
    chat: dict[str, Any] = {"model": NAME, "temperature": 0, "max_tokens": 4}
    chat["messages"] = [{"role": "user", "content": "Hello"}]
    answers = [
        real_sdk.chat.completions.create(**chat, **more).choices[0].message.content
        for more in ({}, {"verbosity": wish})
    ]
    assert answers[0] == answers[1]
