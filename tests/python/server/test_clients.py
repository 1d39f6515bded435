"""Recorded requests of other programs are answered.

`client_bodies.json` contains the requests that the programs of tests/clients sent. BODIES
contains requests of further programs, written from descriptions of their requests.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

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
USAGE = {"include_usage": True}
BODIES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "vllm bench serve, openai",
        TEXT,
        {
            "prompt": "Hello",
            "temperature": 0.0,
            "repetition_penalty": 1.0,
            "max_tokens": 4,
            "logprobs": None,
            "stream": True,
            "stream_options": USAGE,
            "ignore_eos": True,
        },
    ),
    (
        "vllm bench serve, openai-chat",
        CHAT,
        {
            "messages": [{"role": "user", "content": PART}],
            "temperature": 0.0,
            "max_completion_tokens": 4,
            "stream": True,
            "stream_options": USAGE,
        },
    ),
    (
        "vllm bench serve, openai-embeddings",
        "/v1/embeddings",
        {"input": "Hello", "truncate_prompt_tokens": -1},
    ),
    (
        "guidellm, completions",
        TEXT,
        {
            "model": "small",
            "prompt": "Hello",
            "stream": True,
            "stream_options": {**USAGE, "continuous_usage_stats": True},
            "max_tokens": 4,
            "stop": None,
            "ignore_eos": True,
        },
    ),
    (
        "guidellm, chats",
        CHAT,
        {
            "model": "small",
            "messages": TURNS,
            "stream": True,
            "stream_options": {**USAGE, "continuous_usage_stats": True},
            "max_completion_tokens": 4,
            "stop": None,
            "ignore_eos": True,
        },
    ),
    (
        "guidellm, responses",
        "/v1/responses",
        {
            "model": "small",
            "instructions": "Hello",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
                {"role": "assistant", "content": "Hello"},
                {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
            ],
            "stream": True,
            "max_output_tokens": 4,
            "stop": None,
            "ignore_eos": True,
        },
    ),
    (
        "guidellm before 0.4",
        TEXT,
        {
            "prompt": "Hello",
            "stream": True,
            "stream_options": {**USAGE, "continuous_usage_stats": True},
            "max_tokens": 4,
            "max_completion_tokens": 4,
            "stop": None,
            "ignore_eos": True,
        },
    ),
    (
        "lm_eval before 0.4.13",
        CHAT,
        {
            "messages": [{"role": "user", "content": "Hello", "type": "text"}],
            "max_tokens": 4,
            "temperature": 0,
            "stop": ["\n"],
            "seed": 1234,
        },
    ),
    (
        "ellmer chat_openai_compatible",
        CHAT,
        {"messages": TURNS, "stream": True, "stream_options": USAGE, "max_tokens": 4},
    ),
    (
        "ellmer chat_structured",
        CHAT,
        {
            "messages": TURNS[:2],
            "stream": False,
            "max_tokens": 40,
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "structured_data",
                    "schema": {
                        "type": "object",
                        "description": "",
                        "properties": {"a": {"type": "boolean", "description": ""}},
                        "required": ["a"],
                        "additionalProperties": False,
                    },
                    "strict": True,
                },
            },
        },
    ),
    (
        "tidyllm llamacpp_chat",
        CHAT,
        {"messages": HELLO, "stream": False, "max_tokens": 4},
    ),
    (
        "Open WebUI",
        CHAT,
        {
            "messages": HELLO,
            "stream": True,
            "stream_options": USAGE,
            "chat_id": "1",
            "session_id": "2",
            "id": "3",
            "metadata": {},
            "max_tokens": 4,
        },
    ),
    (
        "llama.cpp's page",
        CHAT,
        {
            "messages": HELLO,
            "stream": True,
            "reasoning_format": "auto",
            "cache_prompt": True,
            "timings_per_token": False,
            "temperature": 0.8,
            "top_k": 40,
            "min_p": 0.05,
            "dry_multiplier": 0,
            "max_tokens": 4,
        },
    ),
    (
        "aider --cache-prompts",
        CHAT,
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{**PART[0], "cache_control": {"type": "ephemeral"}}],
                }
            ],
            "temperature": 0,
            "max_tokens": 4,
        },
    ),
]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("clients") / "tiny.gguf"
    changes = {"context_length": 4096}
    tiny_models.write(path, "llama", chat_template=TEMPLATE, changes=changes)
    with (
        lh.Model(path) as model,
        lh.Context(model) as ctx,
        served(ctx, any_model=True, max_tokens=20) as made,
    ):
        yield made


def _answered(client: Client, path: str, body: dict[str, Any]) -> None:
    if body.get("stream"):
        if path == "/v1/responses":
            status, text, _ = client.ask("POST", path, body)
            assert status == 200, text
            assert "event: response.incomplete\n" in text  # max_output_tokens
        else:
            assert client.events(path, body)[-1] == "[DONE]"
        return
    status, got = client.post(path, body)
    assert status == 200, got


@pytest.mark.parametrize(
    ("path", "body"),
    [each[1:] for each in BODIES],
    ids=[client for client, _, _ in BODIES],
)
def test_bodies_of_sources(client: Client, path: str, body: dict[str, Any]) -> None:
    _answered(client, path, {"model": "local-model", **body})


@pytest.mark.parametrize("each", RECORDED, ids=lambda each: each["client"])
def test_recorded_bodies(client: Client, each: dict[str, Any]) -> None:
    _answered(client, each["path"], each["body"])


def test_most_programs_are_recorded() -> None:
    told = " ".join(each["client"] for each in RECORDED)
    for name in (
        "litellm",
        "instructor",
        "langchain",
        "pydantic_ai",
        "llama_index",
        "llm",
    ):
        assert name in told
