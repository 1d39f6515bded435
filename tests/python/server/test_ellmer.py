"""Requests of ellmer's `chat_openai(base_url = )`, as its sources write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from served import NAME
from waiting import wait_until

if TYPE_CHECKING:
    from fake_context import FakeContext
    from served import Client

PATH = "/v1/responses"
SCHEMA = {
    "type": "object",
    "description": "",
    "properties": {"age": {"enum": [1, 2], "description": ""}},
    "required": ["age"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "name": "age_of",
    "description": "",
    "strict": True,
    "parameters": SCHEMA,
}
TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.role }}:{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}"
    "</tool_call>{% endfor %};{% endfor %}"
)
CONTEXT = {"n_seq_max": 4}


def _turn(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"role": role, "content": [{"type": kind, "text": text}]}


def _body(*turns: dict[str, Any], stream: bool = False, **more: Any) -> dict[str, Any]:
    # The body contains R's empty list.
    fields = {"input": list(turns), "include": [], "model": NAME, "stream": stream}
    return {**fields, "tools": [], "store": False, "service_tier": "auto", **more}


def _events(client: Client, body: dict[str, Any]) -> list[dict[str, Any]]:
    text = client.ask("POST", PATH, body)[1]
    return [json.loads(line[6:]) for line in text.split("\n") if line[:6] == "data: "]


def test_a_chat_with_two_turns(real: Client) -> None:
    turns = [_turn("system", "Be brief."), _turn("user", "a")]
    params = {"temperature": 0, "top_p": 1, "max_output_tokens": 5}
    events = _events(real, _body(*turns, stream=True, **params))
    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    last = events[-1]
    assert last["type"] in ("response.completed", "response.incomplete")
    (message,) = last["response"]["output"]
    text = message["content"][0]["text"]
    assert text == "".join(deltas)
    usage = last["response"]["usage"]
    assert usage["input_tokens"] >= usage["input_tokens_details"]["cached_tokens"]
    turns += [_turn("assistant", text), _turn("user", "b")]
    status, response = real.post(PATH, _body(*turns, **params))
    assert (status, response["status"]) == (200, "incomplete")
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_call_and_its_result(real: Client) -> None:
    """ellmer refers to a call by the id of its item, not by its call_id."""
    turns = [_turn("user", "a")]
    body = _body(*turns, tools=[TOOL], tool_choice="required")
    (call,) = real.post(PATH, body)[1]["output"]
    name = {"call_id": call["id"]}
    arguments = {"arguments": call["arguments"], "name": call["name"]}
    turns += [
        {"type": "function_call", **name, **arguments},
        {"type": "function_call_output", **name, "output": "7"},
    ]
    status, response = real.post(PATH, _body(*turns, tools=[TOOL], max_output_tokens=3))
    assert status == 200, response


def test_a_thought_is_its_summary(client: Client, fake: FakeContext) -> None:
    reasoning = {"effort": "low", "summary": "auto"}
    options = {"reasoning": reasoning, "thinking": 2, "max_output_tokens": 2}
    events = _events(client, _body(_turn("user", "a"), stream=True, **options))
    kind = "response.reasoning_summary_text.delta"
    assert "".join(e["delta"] for e in events if e["type"] == kind) == "hm0 hm1"
    thought, message = events[-1]["response"]["output"]
    assert thought["summary"] == [{"type": "summary_text", "text": "hm0 hm1"}]
    # The next turn sends the item unchanged.
    answer = _turn("assistant", message["content"][0]["text"])
    turns = [_turn("user", "a"), thought, answer, _turn("user", "b")]
    assert client.post(PATH, _body(*turns, **options))[0] == 200
    assert len(fake.handles) == 2


def test_an_error_in_a_stream_has_a_type(client: Client, fake: FakeContext) -> None:
    fake.fails_at = 2
    body = _body(_turn("user", "a"), stream=True, max_output_tokens=5)
    last = _events(client, body)[-1]
    assert (last["type"], last["error"]["type"]) == ("error", "server_error")
    assert last["error"]["message"]


def test_batch_chat(real: Client) -> None:
    lines = [
        json.dumps(
            {
                "custom_id": f"chat-{i}",
                "method": "POST",
                "url": PATH,
                "body": _body(_turn("user", text), max_output_tokens=3),
            }
        )
        for i, text in enumerate(("a", "b"), 1)
    ]
    content = "\n".join(lines) + "\n"
    # The form as libcurl writes it.
    start = "------------------------1a2b3c"
    form = (
        f'--{start}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{start}\r\nContent-Disposition: form-data; name="file"; '
        'filename="file12ab"\r\nContent-Type: application/octet-stream\r\n\r\n'
        f"{content}\r\n--{start}--\r\n"
    )
    kind = {"content-type": f"multipart/form-data; boundary={start}"}
    file = real.ask("POST", "/v1/files", form.encode(), kind)[1]
    body = {"input_file_id": file["id"], "endpoint": PATH, "completion_window": "24h"}
    batch = real.post("/v1/batches", body)[1]
    page = f"/v1/batches/{batch['id']}"
    wait_until(lambda: real.ask("GET", page)[1]["status"] == "completed")
    batch = real.ask("GET", page)[1]
    assert batch["request_counts"] == {"total": 2, "completed": 2, "failed": 0}
    text = real.ask("GET", f"/v1/files/{batch['output_file_id']}/content")[1]
    results = [json.loads(line) for line in text.splitlines()]
    assert [result["custom_id"] for result in results] == ["chat-1", "chat-2"]
    for result in results:
        assert result["response"]["status_code"] == 200
        assert result["response"]["body"]["output"][0]["type"] == "message"
