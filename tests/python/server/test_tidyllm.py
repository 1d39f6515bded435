"""Requests of tidyllm's `openai_chat()` and `llamacpp_chat()`, as its sources write them.

`openai_chat()` sends requests to `/v1/responses`, here at the server's address.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from served import NAME

if TYPE_CHECKING:
    from served import Client

RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
SCHEMA = {
    "type": "object",
    "properties": {"age": {"enum": [1, 2]}},
    "required": ["age"],
    "additionalProperties": False,
}
TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}"
    "</tool_call>{% endfor %};{% endfor %}"
)
CONTEXT = {"n_seq_max": 4}
SERVER = {"any_model": True}


def _ok(real: Client, path: str, body: dict[str, Any]) -> Any:
    status, got = real.post(path, body)
    assert status == 200, got
    return got


def _text(response: Any) -> str:
    """Return the text of the first message, as `parse_chat_response()` does."""
    message = next(each for each in response["output"] if each["type"] == "message")
    part = next(each for each in message["content"] if each["type"] == "output_text")
    return str(part["text"])


def test_a_conversation(real: Client) -> None:
    turns: list[dict[str, Any]] = [{"role": "user", "content": "a"}]
    body = {"model": NAME, "instructions": "Be brief.", "max_output_tokens": 5}
    body |= {"temperature": 0, "seed": 3}
    got = _ok(real, RESPONSES, {**body, "input": turns})
    assert got["usage"]["output_tokens_details"]["reasoning_tokens"] == 0
    turns += [{"role": "assistant", "content": _text(got)}]
    turns += [{"role": "user", "content": "b"}]
    again = _ok(real, RESPONSES, {**body, "input": turns})
    text = real.ask("POST", RESPONSES, {**body, "input": turns, "stream": True})[1]
    events = [
        json.loads(line[6:]) for line in text.split("\n") if line.startswith("data: ")
    ]
    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    assert "".join(deltas) == _text(again)


def test_structured_data(real: Client) -> None:
    form = {"type": "json_schema", "strict": True, "name": "tidyllm_schema"}
    ask = {"model": NAME, "input": [{"role": "user", "content": "a"}]}
    ask["text"] = {"format": {**form, "schema": SCHEMA}}
    assert json.loads(_text(_ok(real, RESPONSES, ask)))["age"] in (1, 2)


def test_a_call_and_its_result(real: Client) -> None:
    """The real sends the items of an answer back, with all of their fields."""
    tool = {"type": "function", "name": "age_of", "description": "", "strict": True}
    turns: list[Any] = [{"role": "user", "content": "a"}]
    body = {"model": NAME, "tools": [{**tool, "parameters": SCHEMA}]}
    got = _ok(real, RESPONSES, {**body, "input": turns, "tool_choice": "required"})
    (call,) = got["output"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "[7]"}
    turns += [*got["output"], result]
    _ok(real, RESPONSES, {**body, "input": turns, "max_output_tokens": 3})


def test_a_chat_with_llamacpp(real: Client) -> None:
    body = {"model": "local-model", "max_tokens": 4, "stream": False, "seed": 1}
    body |= {"messages": [{"role": "user", "content": "a"}], "temperature": 0.5}
    got = _ok(real, CHAT, {**body, "logprobs": True, "top_logprobs": 2})
    assert len(got["choices"][0]["logprobs"]["content"]) <= 4
    (choice,) = _ok(real, CHAT, {**body, "grammar": 'root ::= "yes"'})["choices"]
    assert choice["message"]["content"] == "yes"
    form = {"name": "output", "schema": SCHEMA, "strict": True}
    ask = {"max_tokens": 40, "response_format": {"type": "json_schema"}}
    ask["response_format"]["json_schema"] = form  # type: ignore[index]
    (choice,) = _ok(real, CHAT, {**body, **ask})["choices"]
    assert json.loads(choice["message"]["content"])["age"] in (1, 2)
    for thinking in ({"enable_thinking": False}, {"stop": ["x"], "top_p": 0.9}):
        _ok(real, CHAT, {**body, **thinking})


def test_vectors_and_models(real: Client) -> None:
    got = _ok(real, "/v1/embeddings", {"model": "local-model", "input": ["a", "b"]})
    assert len(got["data"]) == 2
    status, models, _ = real.ask("GET", "/v1/models")
    assert (status, models["data"][0]["object"]) == (200, "model")
    assert real.ask("GET", "/health")[1] == {"status": "ok"}
