"""Messages of chats: their parts, and thoughts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from fake_context import FakeContext, answer
from served import NAME, served

if TYPE_CHECKING:
    import openai
    from served import Client

TEXTS: list[dict[str, Any]] = [
    {"type": "text", "text": "No."},
    {"type": "text", "text": "No.", "cache_control": {"type": "ephemeral"}},
    {"type": "input_text", "text": "No."},
    {"type": "output_text", "text": "No.", "annotations": [], "logprobs": []},
    {"type": "output_text", "text": "No.", "annotations": None, "parsed": None},
    {"type": "refusal", "refusal": "No."},
]


OTHERS = ["image_url", "input_audio", "file", "input_image", "input_file", "video_url"]


OTHERS += ["summary_text", "reasoning_text", "computer_screenshot", "thinking"]


ITEMS = [
    *("file_search_call", "computer_call", "computer_call_output", "web_search_call"),
    *("tool_search_call", "tool_search_output", "compaction", "image_generation_call"),
    *("code_interpreter_call", "local_shell_call", "local_shell_call_output"),
    *("shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output"),
    *("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "mcp_call"),
    *("custom_tool_call", "custom_tool_call_output", "item_reference"),
]


CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"


ASKS = {CHAT: "messages", RESPONSES: "input"}


def _asked(path: str, content: object, **more: object) -> dict[str, object]:
    history = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": content, **more},
        {"role": "user", "content": "b"},
    ]
    return {ASKS[path]: history}


def _text(fake: FakeContext) -> str:
    prompt = fake.handles[-1].prompt
    return prompt if isinstance(prompt, str) else lh.detokenize(fake.model, prompt)


@pytest.mark.parametrize("path", ASKS)
@pytest.mark.parametrize("part", TEXTS)
def test_parts_with_text_are_accepted(
    client: Client, fake: FakeContext, path: str, part: dict[str, Any]
) -> None:
    status, response = client.post(path, _asked(path, [part]))
    assert status == 200, response
    assert "No." in _text(fake)


@pytest.mark.parametrize("path", ASKS)
@pytest.mark.parametrize("kind", OTHERS)
def test_other_parts_are_refused_by_name(client: Client, path: str, kind: str) -> None:
    status, response = client.post(path, _asked(path, [{"type": kind, "text": "a"}]))
    assert status == 400
    where = f"{ASKS[path]}[1].content[0]"
    assert response["error"]["param"] == where
    assert response["error"]["message"] == (
        f'{where} is of type "{kind}": this model reads text only'
    )


@pytest.mark.parametrize("path", ASKS)
@pytest.mark.parametrize("kind", [None, 5, ["text"], {}])
def test_parts_without_a_type_are_refused(
    client: Client, path: str, kind: object
) -> None:
    status, response = client.post(path, _asked(path, [{"type": kind, "text": "a"}]))
    place = f"{ASKS[path]}[1].content[0]{'' if kind is None else '.type'}"
    assert (status, response["error"]["param"]) == (400, place)


def test_a_refusal_instead_of_content(client: Client, fake: FakeContext) -> None:
    status, response = client.post(CHAT, _asked(CHAT, None, refusal="No."))
    assert status == 200, response
    assert "No." in _text(fake)
    status, response = client.post(CHAT, _asked(CHAT, None, refusal=5))
    assert (status, response["error"]["param"]) == (400, "messages[1].refusal")


@pytest.mark.parametrize("content", [None, []])
def test_items_of_thoughts(client: Client, content: object) -> None:
    """Clients send the items of an answer back, with null for what is missing."""
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "a"}],
        "content": content,
        "encrypted_content": None,
        "status": None,
    }
    items = [{"role": "user", "content": "a"}, thought, {"role": "user", "content": "b"}]
    status, response = client.post(RESPONSES, {"input": items})
    assert status == 200, response


@pytest.mark.parametrize("kind", ITEMS)
def test_other_items_are_refused_by_name(client: Client, kind: str) -> None:
    items = [{"role": "user", "content": "a"}, {"type": kind, "id": "a_1"}]
    status, response = client.post(RESPONSES, {"input": items})
    assert (status, response["error"]["param"]) == (400, "input[1].type")
    assert kind in response["error"]["message"] or kind == "item_reference"


TEXT = "/v1/completions"


HELLO: list[Any] = [{"role": "user", "content": "hello"}]


def test_an_answer_has_its_thought_apart(sdk: openai.OpenAI, fake: FakeContext) -> None:
    chat = sdk.chat.completions.create(
        model=NAME, messages=HELLO, max_tokens=3, extra_body={"thinking": 2}
    )
    message = chat.choices[0].message
    assert message.content == answer(fake.handles[0].prompt, 3)
    assert message.reasoning_content == message.reasoning == "hm0 hm1"  # type: ignore[attr-defined]
    usage = chat.usage
    assert usage is not None
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 2
    assert (usage.completion_tokens, usage.total_tokens) == (5, 12)


def test_a_stream_has_the_thought_first(sdk: openai.OpenAI, fake: FakeContext) -> None:
    chunks = sdk.chat.completions.create(
        model=NAME,
        messages=HELLO,
        max_tokens=3,
        stream=True,
        stream_options={"include_usage": True},
        extra_body={"thinking": 3},
    )
    deltas, usage = [], None
    for chunk in chunks:
        usage = chunk.usage or usage
        deltas += [choice.delta.to_dict() for choice in chunk.choices]
    names = ("reasoning_content", "content")
    parts = [(name, d[name]) for d in deltas for name in names if d.get(name)]
    kinds = [name for name, _ in parts]
    assert kinds == ["reasoning_content"] * 3 + ["content"] * 3
    assert "".join(str(text) for _, text in parts[:3]) == "hm0 hm1 hm2"
    expected = answer(fake.handles[0].prompt, 3)
    assert "".join(str(text) for _, text in parts[3:]) == expected
    assert usage is not None
    assert usage.completion_tokens_details is not None
    assert usage.completion_tokens_details.reasoning_tokens == 3


def test_generate_has_the_thought_in_fields_and_events(client: Client) -> None:
    fields = {"prompt": "a", "chat": True, "thinking": 2, "max_tokens": 2}
    status, body = client.post("/generate", fields)
    assert (status, body["thinking"], body["thinking_complete"]) == (200, "hm0 hm1", True)
    assert body["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    events = client.events("/generate", {**fields, "stream": True})
    thoughts = [event["thinking"] for event in events if "thinking" in event]
    assert thoughts == ["hm0", " hm1"]
    assert "".join(event.get("text", "") for event in events) == body["text"]
    assert events[-1]["thinking_complete"] is True
    status, body = client.post("/generate", {"prompt": "a", "max_tokens": 2})
    assert status == 200
    assert not {"thinking", "thinking_complete"} & body.keys()
    assert "completion_tokens_details" not in body["usage"]


WAYS = [
    ({}, {}),
    ({"thinking": 9}, {"thinking": 9}),
    ({"thinking": False}, {"thinking": False}),
    ({"thinking": {"type": "disabled"}}, {"thinking": False}),
    ({"thinking": {"type": "enabled", "budget_tokens": 9}}, {"thinking": 9}),
    ({"thinking": {"type": "enabled"}}, {"thinking": 1024}),
    ({"thinking": {"budget": 9}}, {"thinking": 9}),
    ({"thinking_budget_tokens": 9}, {"thinking": 9}),
    ({"thinking_budget_tokens": 0}, {"thinking": False}),
    ({"thinking_budget_tokens": -1}, {"thinking": None}),
    ({"thinking_budget": 9}, {"thinking": 9}),
    (
        {"enable_thinking": True, "thinking_budget": 7},
        {"thinking": 7, "variables": {"enable_thinking": True}},
    ),
    (
        {"enable_thinking": False},
        {"thinking": False, "variables": {"enable_thinking": False}},
    ),
    ({"reasoning_effort": "none"}, {"thinking": False}),
    ({"reasoning_effort": "low"}, {"variables": {"reasoning_effort": "low"}}),
    (
        {"chat_template_kwargs": {"enable_thinking": False}},
        {"thinking": False, "variables": {"enable_thinking": False}},
    ),
    (
        {"chat_template_kwargs": {"a": [1]}, "reasoning_effort": "high"},
        {"variables": {"a": [1], "reasoning_effort": "high"}},
    ),
    ({"reasoning_effort": "none", "thinking": 3}, {"thinking": 3}),
]


@pytest.mark.parametrize(("fields", "options"), WAYS)
def test_fields_of_other_servers_turn_thinking_on_and_off(
    client: Client, fake: FakeContext, fields: dict[str, Any], options: dict[str, Any]
) -> None:
    status, _ = client.post(CHAT, {"messages": HELLO, "max_tokens": 1, **fields})
    assert status == 200
    settings = {**fake.handles[0].options}
    assert settings.pop("chat") is True
    assert settings.pop("stream") is False
    budget = getattr(settings.get("thinking"), "budget", None)
    if budget is not None:
        settings["thinking"] = budget
    assert settings == options


BAD = [
    ({"thinking": "much"}, "thinking", "must be null, true, false, a number"),
    ({"thinking": -1}, "thinking", "thinking must be between 0 and"),
    ({"thinking": {"budge": 1}}, "thinking", 'has no field "budge"'),
    ({"thinking": {"type": "on"}}, "thinking", 'must be one of "enabled", "disabled"'),
    ({"thinking": {"type": "enabled", "x": 1}}, "thinking.x", "is not supported here"),
    ({"chat_template_kwargs": [1]}, "chat_template_kwargs", "chat_template_kwargs must"),
    (
        {"chat_template_kwargs": {"messages": []}},
        "chat_template_kwargs",
        "chat_template_kwargs must not hold",
    ),
    ({"chat_template": "{{ 1 }}"}, "chat_template", "not supported here"),
    ({"continue_final_message": True}, "continue_final_message", "must be false here"),
    ({"add_generation_prompt": False}, "add_generation_prompt", "must be true here"),
    ({"reasoning_format": "none"}, "reasoning_format", 'must be one of "auto"'),
]


@pytest.mark.parametrize(("fields", "param", "message"), BAD)
def test_wrong_fields_are_named(
    client: Client, fields: dict[str, Any], param: str, message: str
) -> None:
    status, response = client.post(CHAT, {"messages": HELLO, **fields})
    assert (status, response["error"]["param"]) == (400, param)
    assert message in response["error"]["message"]


def test_no_request_brings_a_template(client: Client) -> None:
    for fields in ({"template": "{{ 1 }}"}, {"chat_template": "{{ 1 }}"}):
        status, body = client.post("/generate", {"prompt": "a", "chat": True, **fields})
        assert (status, body["error"]["code"]) == (400, "unsupported_parameter")


def test_the_server_has_defaults_for_chats(chat_model: lh.Model) -> None:
    ctx = FakeContext(chat_model)
    template = "{{ mood }} {{ tone }}: {{ messages[-1].content }}"
    variables = {"mood": "glad", "tone": "dry"}
    try:
        with served(ctx, template=template, variables=variables) as client:
            body = {"messages": HELLO, "max_tokens": 1}
            more = {"chat_template_kwargs": {"tone": "warm"}}
            assert client.post(CHAT, body)[0] == 200
            assert client.post(CHAT, {**body, **more})[0] == 200
            assert client.post("/generate", {"prompt": "b", "chat": True})[0] == 200
            assert client.post("/generate", {"prompt": "b"})[0] == 200
        calls = [handle.options for handle in ctx.handles]
        assert [options.get("template") for options in calls] == [template] * 3 + [None]
        warm = {**variables, "tone": "warm"}
        merged = [options.get("variables") for options in calls]
        assert merged == [variables, warm, variables, None]
        assert "template" not in ctx.handles[-1].options
    finally:
        ctx.close()
