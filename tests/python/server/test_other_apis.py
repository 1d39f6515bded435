"""Anthropic's API and Ollama's: messages, streams, functions, thoughts, vectors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fake_context import FakeContext, answer
from served import NAME, served

if TYPE_CHECKING:
    from served import Client

PATH = "/v1/messages"


CHAT = "/v1/chat/completions"


HELLO = [{"role": "user", "content": "hello"}]


ASK: dict[str, Any] = {"model": NAME, "messages": HELLO, "max_tokens": 4}


CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}},
    "required": ["city"],
}


TOOL = {"name": "weather", "description": "Get the weather.", "input_schema": CITY}


CONTEXT = {"n_ctx": 2048, "n_threads": 1, "deterministic": True}


def _events(client: Client, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a stream, whose names are their types."""
    status, text, headers = client.ask("POST", PATH, {**body, "stream": True})
    assert status == 200, text
    assert headers["content-type"].startswith("text/event-stream")
    events = []
    for event in text.split("\n\n")[:-1]:
        name, data = event.split("\n")
        events.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {events[-1]['type']}"
    return events


def _message(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the message of a stream, as Anthropic's clients build it."""
    message: dict[str, Any] = events[0]["message"]
    parts: dict[int, str] = {}
    is_open = False
    for event in events[1:]:
        kind = event["type"]
        if kind == "content_block_start":
            assert not is_open
            assert event["index"] == len(message["content"])
            message["content"].append(event["content_block"])
            is_open = True
        elif kind == "content_block_delta":
            assert is_open
            block, delta = message["content"][event["index"]], event["delta"]
            if delta["type"] == "input_json_delta":
                parts[event["index"]] = (
                    parts.get(event["index"], "") + delta["partial_json"]
                )
            else:
                name = delta["type"].removesuffix("_delta")
                block[name] += delta[name]
        elif kind == "content_block_stop":
            is_open = False
        elif kind == "message_delta":
            message |= event["delta"]
            message["usage"] |= event["usage"]
    for index, part in parts.items():
        message["content"][index]["input"] = json.loads(part)
    assert events[-1]["type"] == "message_stop"
    return message


def _without_ids(message: dict[str, Any]) -> dict[str, Any]:
    content = [{**block, "id": ""} for block in message["content"]]
    n_new = message["usage"]["output_tokens"]  # a second prompt is not computed again
    return {**message, "id": "", "content": content, "usage": n_new}


def test_a_message_has_the_answer_of_a_chat(real: Client) -> None:
    body = {**ASK, "temperature": 0, "system": "Be brief."}
    status, response = real.post(PATH, body)
    assert status == 200, response
    system = {"role": "system", "content": "Be brief."}
    chat = {**ASK, "temperature": 0, "messages": [system, *HELLO]}
    choice = real.post(CHAT, chat)[1]["choices"][0]
    assert response["content"] == [{"type": "text", "text": choice["message"]["content"]}]
    assert (response["type"], response["role"], response["model"]) == (
        "message",
        "assistant",
        NAME,
    )
    assert response["id"].startswith("msg_")
    assert (response["stop_reason"], response["stop_sequence"]) == ("max_tokens", None)
    usage = response["usage"]
    assert usage["output_tokens"] == 4
    n_read = usage["input_tokens"] + usage["cache_read_input_tokens"]
    status, counted = real.post(f"{PATH}/count_tokens", {**body, "max_tokens": None})
    assert (status, counted["input_tokens"]) == (200, n_read)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"temperature": 0.7, "seed": 1, "top_k": 3, "top_p": 0.9},
        {"tools": [TOOL], "tool_choice": {"type": "any"}, "max_tokens": 60},
        {"tools": [TOOL], "tool_choice": {"type": "auto"}},
    ],
    ids=["plain", "sampling", "forced", "free"],
)
def test_a_stream_builds_the_same_message(real: Client, more: dict[str, Any]) -> None:
    body = {**ASK, "temperature": 0, **more}
    whole = real.post(PATH, body)[1]
    message = _message(_events(real, body))
    assert _without_ids(message) == _without_ids(whole)


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "weather"}])
def test_a_forced_call_has_arguments_of_the_schema(
    real: Client, choice: dict[str, Any]
) -> None:
    body = {**ASK, "tools": [TOOL], "tool_choice": choice, "max_tokens": 60}
    status, response = real.post(PATH, body)
    assert status == 200, response
    (block,) = response["content"]
    assert (block["type"], block["name"]) == ("tool_use", "weather")
    assert block["input"]["city"] in ("Paris", "Rome")
    assert response["stop_reason"] == "tool_use"
    result = {"type": "tool_result", "tool_use_id": block["id"], "content": "rain"}
    turns = [
        *HELLO,
        {"role": "assistant", "content": response["content"]},
        {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]},
    ]
    status, response = real.post(PATH, {**body, "messages": turns})
    assert status == 200, response


def test_a_conversation_is_read_as_a_chat(client: Client, fake: FakeContext) -> None:
    """Blocks of text, thoughts, calls and results have the tokens of the same chat."""
    call = {"id": "c", "name": "f", "input": {"a": 1}}
    blocks: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "one"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "text", "text": "two"},
                {"type": "tool_use", **call},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c", "content": "three"},
                {"type": "text", "text": "four", "cache_control": {"type": "ephemeral"}},
            ],
        },
    ]
    system = [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]
    body = {**ASK, "messages": blocks, "system": system, "metadata": {"user_id": "u"}}
    status, response = client.post(PATH, body)
    assert status == 200, response
    function = {"name": "f", "arguments": '{"a": 1}'}
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "one"},
        {
            "role": "assistant",
            "content": "two",
            "reasoning_content": "hm",
            "tool_calls": [{"id": "c", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "three"},
        {"role": "user", "content": "four"},
    ]
    assert client.post(CHAT, {**ASK, "messages": chat})[0] == 200
    first, second = (handle.prompt for handle in fake.handles)
    assert first == second
    assert response["content"][0]["text"] == answer(first, 4)


def test_clients_go_on_without_a_stored_thread(client: Client) -> None:
    """The tool runner of Anthropic's client reads these details."""
    status, response = client.post(PATH, {**ASK, "thread": {"type": "create"}})
    error = response["error"]
    assert (status, error["param"], error["code"]) == (
        *(400, "thread"),
        "unsupported_parameter",
    )
    assert error["details"]["error_code"] == "thread_unsupported_request"


def test_a_message_without_blocks_is_an_empty_text(
    client: Client, fake: FakeContext
) -> None:
    for content in ([], ""):
        body = {**ASK, "messages": [{"role": "user", "content": content}]}
        assert client.post(PATH, body)[0] == 200
    first, second = (handle.prompt for handle in fake.handles)
    assert first == second


def test_a_stop_text_ends_a_message(real: Client) -> None:
    body = {**ASK, "max_tokens": 40, "temperature": 0}
    text = real.post(PATH, body)[1]["content"][0]["text"]
    stop = text[5:8]
    status, response = real.post(PATH, {**body, "stop_sequences": [stop]})
    assert status == 200
    assert (response["stop_reason"], response["stop_sequence"]) == ("stop_sequence", stop)
    assert response["content"][0]["text"] == text[: text.index(stop)]
    message = _message(_events(real, {**body, "stop_sequences": [stop]}))
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", stop)


def test_a_thought_is_a_block_before_the_answer(client: Client) -> None:
    body = {**ASK, "thinking": {"type": "enabled", "budget_tokens": 2}}
    status, response = client.post(PATH, body)
    assert status == 200, response
    thought = {"type": "thinking", "thinking": "hm0 hm1", "signature": ""}
    assert response["content"][0] == thought
    assert [block["type"] for block in response["content"]] == ["thinking", "text"]
    assert response["usage"]["output_tokens"] == 6
    off = client.post(PATH, {**ASK, "thinking": {"type": "disabled"}})[1]
    assert [block["type"] for block in off["content"]] == ["text"]


def test_a_model_without_thoughts_may_decide_about_them(real: Client) -> None:
    status, response = real.post(PATH, {**ASK, "thinking": {"type": "adaptive"}})
    assert status == 200, response
    assert [block["type"] for block in response["content"]] == ["text"]
    enabled = {"type": "enabled", "budget_tokens": 2}
    assert real.post(PATH, {**ASK, "thinking": enabled})[0] == 400


def test_an_answer_in_a_form(real: Client) -> None:
    form = {"type": "json_schema", "schema": CITY}
    body = {**ASK, "max_tokens": 60, "output_config": {"format": form}}
    status, response = real.post(PATH, body)
    assert status == 200, response
    assert json.loads(response["content"][0]["text"])["city"] in ("Paris", "Rome")


def test_an_error_within_a_stream_is_an_event(client: Client, fake: FakeContext) -> None:
    fake.fails_at = 2
    body = {**ASK, "stream": True}
    status, text, _ = client.ask("POST", PATH, body)
    assert status == 200
    name, data = text.split("\n\n")[-2].split("\n")
    assert name == "event: error"
    error = json.loads(data.removeprefix("data: "))
    assert (error["type"], error["error"]["code"]) == ("error", "generation_failed")


def test_the_key_may_be_in_the_header_of_anthropics_clients(fake: FakeContext) -> None:
    with served(fake, api_key="secret") as client:
        for name, key, status in (
            ("x-api-key", "secret", 200),
            ("x-api-key", "wrong", 401),
            ("authorization", "Bearer secret", 200),
            ("authorization", "secret", 401),
        ):
            assert client.ask("POST", PATH, ASK, {name: key})[0] == status
        both = {"x-api-key": "secret", "authorization": "Bearer wrong"}
        assert client.ask("POST", PATH, ASK, both)[0] == 401
        assert client.ask("POST", PATH, ASK)[0] == 401


OLLAMA, EMBED = "/api/chat", "/api/embed"


ASK_OLLAMA: dict[str, Any] = {
    "model": f"{NAME}:latest",
    "messages": HELLO,
    "options": {"num_predict": 4, "temperature": 0, "num_ctx": 4096},
}


def _lines(client: Client, body: dict[str, Any]) -> list[Any]:
    status, text, headers = client.ask("POST", OLLAMA, body)
    assert status == 200, text
    assert headers["content-type"] == "application/x-ndjson"
    document = client.ask("GET", "/openapi.json")[1]
    answers = document["paths"][OLLAMA]["post"]["responses"]["200"]["content"]
    assert answers.keys() == {"application/json", "application/x-ndjson"}
    return [json.loads(line) for line in text.splitlines()]


def test_a_chat_has_the_answer_of_openais_api(real: Client) -> None:
    status, body = real.post(OLLAMA, {**ASK_OLLAMA, "stream": False})
    assert status == 200, body
    chat = {"messages": HELLO, "max_tokens": 4, "temperature": 0}
    choice = real.post("/v1/chat/completions", chat)[1]["choices"][0]
    message = choice["message"]
    assert body["message"] == {"role": "assistant", "content": message["content"]}
    assert (body["model"], body["done"], body["done_reason"]) == (NAME, True, "length")
    assert body["eval_count"] == 4
    assert body["total_duration"] > 0
    lines = _lines(real, ASK_OLLAMA)  # a stream by default
    assert "".join(line["message"]["content"] for line in lines) == message["content"]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1]["eval_count"] == 4


def test_a_form_and_thoughts(real: Client, client: Client) -> None:
    options = {"num_predict": 60}
    body = {**ASK_OLLAMA, "options": options, "format": CITY, "stream": False}
    status, response = real.post(OLLAMA, body)
    assert status == 200, response
    assert json.loads(response["message"]["content"])["city"] in ("Paris", "Rome")
    lines = _lines(client, {**ASK_OLLAMA, "think": True, "options": {"num_predict": 2}})
    assert lines[0]["message"]["thinking"]
    off = {**ASK_OLLAMA, "think": False, "stream": False}
    assert "thinking" not in client.post(OLLAMA, off)[1]["message"]


def test_earlier_calls_and_their_results_are_read(
    client: Client, fake: FakeContext
) -> None:
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    messages = [
        *HELLO,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "rain", "tool_name": "f"},
    ]
    status, response = client.post(
        OLLAMA, {**ASK_OLLAMA, "messages": messages, "stream": False}
    )
    assert status == 200, response
    assert len(fake.handles) == 1


def test_an_error_within_a_stream_is_a_line(client: Client, fake: FakeContext) -> None:
    fake.fails_at = 2
    assert "failed" in _lines(client, ASK_OLLAMA)[-1]["error"]


def test_vectors_are_those_of_openais_api(real: Client) -> None:
    status, response = real.post(EMBED, {"model": NAME, "input": ["a", "b"]})
    assert status == 200, response
    data = real.post("/v1/embeddings", {"input": ["a", "b"]})[1]["data"]
    assert response["embeddings"] == [row["embedding"] for row in data]
    assert response["prompt_eval_count"] > 0
    assert len(real.post(EMBED, {"input": "a"})[1]["embeddings"]) == 1


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        (OLLAMA, {"options": {"num_predict": 0}}, "options.num_predict"),
        (OLLAMA, {"options": {"num_predict": 1 << 30}}, "options.num_predict"),
        (OLLAMA, {"options": {"temperature": 9}}, "options.temperature"),
        (OLLAMA, {"options": {"nonsense": 1}}, "options.nonsense"),
        (OLLAMA, {"format": "xml"}, "format"),
        (OLLAMA, {"messages": [{"role": "user", "images": ["x"]}]}, "images"),
        (OLLAMA, {"messages": [{"role": "x", "content": "a"}]}, "messages[0].role"),
        (OLLAMA, {"nonsense": 1}, "nonsense"),
        (EMBED, {"dimensions": 0}, "dimensions"),
        (EMBED, {"options": {"temperature": 0}}, "options.temperature"),
    ],
    ids=str,
)
def test_a_wrong_field_is_refused_by_name(
    real: Client, path: str, body: dict[str, Any], word: str
) -> None:
    needed = ASK_OLLAMA if path == OLLAMA else {"input": "a"}
    status, response = real.post(path, {**needed, **body})
    assert status == 400, response
    assert word in response["error"]["message"]
