"""Recorded requests of other programs are answered.

`client_bodies.json` contains the requests that the programs of tests/clients sent. BODIES
contains requests of further programs, written from descriptions of their requests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from served import Client

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.content }}{% endfor %}"
)
RECORDED = json.loads(
    Path(__file__).with_name("client_bodies.json").read_text(encoding="utf-8")
)
PART = [{"type": "text", "text": "Hello"}]
TURNS = [
    {"role": "system", "content": PART},
    {"role": "user", "content": PART},
    {"role": "assistant", "content": PART},
    {"role": "user", "content": PART},
]
HELLO = [{"role": "user", "content": "Hello"}]
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
RUNNING = {"include_usage": True, "continuous_usage_stats": True}
GUIDELLM = {"stream": True, "stream_options": RUNNING, "stop": None, "ignore_eos": True}
PROMPT = {"prompt": "Hello", "max_tokens": 4}
ASKED = {"messages": HELLO, "max_tokens": 4}
SCHEMA = {
    "type": "object",
    "description": "",
    "properties": {"a": {"type": "boolean", "description": ""}},
    "required": ["a"],
    "additionalProperties": False,
}
FORM = {"name": "structured_data", "schema": SCHEMA, "strict": True}
CACHED = {**PART[0], "cache_control": {"type": "ephemeral"}}
SAID = {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]}
# An item of an answer, sent back with all of its fields.
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
CALL |= {"arguments": "{}", "status": "completed"}
RESULT = {"type": "function_call_output", "call_id": "call_1"}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "vllm bench serve, openai": (
        TEXT,
        {**PROMPT, **USAGE, "temperature": 0.0, "repetition_penalty": 1.0}
        | {"logprobs": None, "ignore_eos": True},
    ),
    "vllm bench serve, openai-chat": (
        CHAT,
        {"messages": [{"role": "user", "content": PART}], "max_completion_tokens": 4}
        | {"temperature": 0.0, **USAGE},
    ),
    "vllm bench serve, openai-embeddings": (
        "/v1/embeddings",
        {"input": "Hello", "truncate_prompt_tokens": -1},
    ),
    "guidellm, completions": (TEXT, {"model": "small", **PROMPT, **GUIDELLM}),
    "guidellm, chats": (
        CHAT,
        {"model": "small", "messages": TURNS, "max_completion_tokens": 4, **GUIDELLM},
    ),
    "guidellm, responses": (
        "/v1/responses",
        {"model": "small", "instructions": "Hello", "max_output_tokens": 4}
        | {"input": [SAID, {"role": "assistant", "content": "Hello"}, SAID]}
        | {"stream": True, "stop": None, "ignore_eos": True},
    ),
    "guidellm before 0.4": (TEXT, {**PROMPT, **GUIDELLM, "max_completion_tokens": 4}),
    "lm_eval before 0.4.13": (
        CHAT,
        {"messages": [{**HELLO[0], "type": "text"}], "max_tokens": 4, "temperature": 0}
        | {"stop": ["\n"], "seed": 1234},
    ),
    "ellmer chat_openai_compatible": (CHAT, {**ASKED, "messages": TURNS, **USAGE}),
    "ellmer chat_structured": (
        CHAT,
        {"messages": TURNS[:2], "stream": False, "max_tokens": 40}
        | {"response_format": {"type": "json_schema", "json_schema": FORM}},
    ),
    "tidyllm llamacpp_chat": (CHAT, {**ASKED, "stream": False}),
    "tidyllm llamacpp_chat, grammar": (
        CHAT,
        {**ASKED, "stream": False, "seed": 1, "grammar": 'root ::= "yes"'}
        | {"logprobs": True, "top_logprobs": 2, "enable_thinking": False},
    ),
    "tidyllm openai_chat": (
        "/v1/responses",
        {"input": [*HELLO, {"role": "assistant", "content": "Hi"}, *HELLO]}
        | {"instructions": "Be brief.", "max_output_tokens": 4, "seed": 3},
    ),
    "tidyllm openai_chat, structured": (
        "/v1/responses",
        {"input": HELLO, "text": {"format": {"type": "json_schema", **FORM}}},
    ),
    "tidyllm openai_chat, the result of a call": (
        "/v1/responses",
        {"input": [*HELLO, CALL, {**RESULT, "output": "[7]"}], "max_output_tokens": 4}
        | {"tools": [{"type": "function", "name": "f", "parameters": SCHEMA}]},
    ),
    "tidyllm openai_embedding": ("/v1/embeddings", {"input": ["a", "b"]}),
    "Open WebUI": (
        CHAT,
        {**ASKED, **USAGE, "chat_id": "1", "session_id": "2", "id": "3", "metadata": {}},
    ),
    "llama.cpp's page": (
        CHAT,
        {**ASKED, "stream": True, "reasoning_format": "auto", "cache_prompt": True}
        | {"timings_per_token": False, "temperature": 0.8, "top_k": 40, "min_p": 0.05}
        | {"dry_multiplier": 0},
    ),
    "aider --cache-prompts": (
        CHAT,
        {"temperature": 0, "max_tokens": 4}
        | {"messages": [{"role": "user", "content": [CACHED]}]},
    ),
}
MODEL = {"changes": {"context_length": 4096}}
SERVER = {"any_model": True, "max_tokens": 20}


def _answered(real: Client, path: str, body: dict[str, Any]) -> None:
    if body.get("stream"):
        if path == "/v1/responses":
            status, text, _ = real.ask("POST", path, body)
            assert status == 200, text
            assert "event: response.incomplete\n" in text  # max_output_tokens
        else:
            assert real.events(path, body)[-1] == "[DONE]"
        return
    status, response = real.post(path, body)
    assert status == 200, response


@pytest.mark.parametrize("program", BODIES)
def test_bodies_of_sources(real: Client, program: str) -> None:
    path, body = BODIES[program]
    _answered(real, path, {"model": "local-model", **body})


@pytest.mark.parametrize("recording", RECORDED, ids=lambda recording: recording["client"])
def test_recorded_bodies(real: Client, recording: dict[str, Any]) -> None:
    _answered(real, recording["path"], recording["body"])


def test_most_programs_are_recorded() -> None:
    clients = " ".join(recording["client"] for recording in RECORDED)
    for name in (
        "litellm",
        "instructor",
        "langchain",
        "pydantic_ai",
        "llama_index",
        "llm",
    ):
        assert name in clients
