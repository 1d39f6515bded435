"""Ollama's API: chats in lines of JSON, vectors, names with a tag."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from served import NAME

if TYPE_CHECKING:
    from fake_context import FakeContext
    from served import Client

CHAT, EMBED = "/api/chat", "/api/embed"
HELLO = [{"role": "user", "content": "hello"}]
ASK: dict[str, Any] = {
    "model": f"{NAME}:latest",
    "messages": HELLO,
    "options": {"num_predict": 4, "temperature": 0, "num_ctx": 4096},
}
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}},
    "required": ["city"],
}
CONTEXT = {"n_ctx": 2048, "n_threads": 1, "deterministic": True}


def _lines(client: Client, body: dict[str, Any]) -> list[Any]:
    status, text, headers = client.ask("POST", CHAT, body)
    assert status == 200, text
    assert headers["content-type"] == "application/x-ndjson"
    document = client.ask("GET", "/openapi.json")[1]
    answers = document["paths"][CHAT]["post"]["responses"]["200"]["content"]
    assert answers.keys() == {"application/json", "application/x-ndjson"}
    return [json.loads(line) for line in text.splitlines()]


def test_a_chat_has_the_answer_of_openais_api(real: Client) -> None:
    status, got = real.post(CHAT, {**ASK, "stream": False})
    assert status == 200, got
    chat = {"messages": HELLO, "max_tokens": 4, "temperature": 0}
    choice = real.post("/v1/chat/completions", chat)[1]["choices"][0]
    message = choice["message"]
    assert got["message"] == {"role": "assistant", "content": message["content"]}
    assert (got["model"], got["done"], got["done_reason"]) == (NAME, True, "length")
    assert got["eval_count"] == 4
    assert got["total_duration"] > 0
    lines = _lines(real, ASK)  # a stream by default
    assert "".join(line["message"]["content"] for line in lines) == message["content"]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1]["eval_count"] == 4


def test_a_form_and_thoughts(real: Client, client: Client) -> None:
    options = {"num_predict": 60}
    body = {**ASK, "options": options, "format": CITY, "stream": False}
    status, got = real.post(CHAT, body)
    assert status == 200, got
    assert json.loads(got["message"]["content"])["city"] in ("Paris", "Rome")
    lines = _lines(client, {**ASK, "think": True, "options": {"num_predict": 2}})
    assert lines[0]["message"]["thinking"]
    off = {**ASK, "think": False, "stream": False}
    assert "thinking" not in client.post(CHAT, off)[1]["message"]


def test_earlier_calls_and_their_results_are_read(
    client: Client, fake: FakeContext
) -> None:
    call = {"function": {"name": "f", "arguments": {"a": 1}}}
    messages = [
        *HELLO,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "rain", "tool_name": "f"},
    ]
    status, got = client.post(CHAT, {**ASK, "messages": messages, "stream": False})
    assert status == 200, got
    assert len(fake.handles) == 1


def test_an_error_within_a_stream_is_a_line(client: Client, fake: FakeContext) -> None:
    fake.fails_at = 2
    assert "failed" in _lines(client, ASK)[-1]["error"]


def test_vectors_are_those_of_openais_api(real: Client) -> None:
    status, got = real.post(EMBED, {"model": NAME, "input": ["a", "b"]})
    assert status == 200, got
    data = real.post("/v1/embeddings", {"input": ["a", "b"]})[1]["data"]
    assert got["embeddings"] == [each["embedding"] for each in data]
    assert got["prompt_eval_count"] > 0
    assert len(real.post(EMBED, {"input": "a"})[1]["embeddings"]) == 1


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        (CHAT, {"options": {"num_predict": 0}}, "options.num_predict"),
        (CHAT, {"options": {"num_predict": 1 << 30}}, "options.num_predict"),
        (CHAT, {"options": {"temperature": 9}}, "options.temperature"),
        (CHAT, {"options": {"nonsense": 1}}, "options.nonsense"),
        (CHAT, {"format": "xml"}, "format"),
        (CHAT, {"messages": [{"role": "user", "images": ["x"]}]}, "images"),
        (CHAT, {"messages": [{"role": "x", "content": "a"}]}, "messages[0].role"),
        (CHAT, {"nonsense": 1}, "nonsense"),
        (EMBED, {"dimensions": 0}, "dimensions"),
        (EMBED, {"options": {"temperature": 0}}, "options.temperature"),
    ],
    ids=str,
)
def test_a_wrong_field_is_refused_by_name(
    real: Client, path: str, body: dict[str, Any], word: str
) -> None:
    needed = ASK if path == CHAT else {"input": "a"}
    status, got = real.post(path, {**needed, **body})
    assert status == 400, got
    assert word in got["error"]["message"]
