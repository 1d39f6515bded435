"""Streams that OpenAI's package puts together are the answers without `stream`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from served import NAME

if TYPE_CHECKING:
    import openai

TEMPLATE = (
    "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for m in messages %}{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function | tojson }}</tool_call>"
    "{% endfor %}{% endfor %}"
)
COLOUR = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": COLOUR}}
    for name in ("f", "g")
]
CHATS: dict[str, dict[str, Any]] = {
    "text": {},
    "stop text": {"stop": ["e"]},
    "no text": {"max_tokens": 1, "extra_body": {"guided_regex": "|a"}},
    "several answers": {"n": 3},
    "log-probabilities": {"logprobs": True, "top_logprobs": 2},
    "several answers with log-probabilities": {"n": 2, "logprobs": True},
    "forced call": {"tools": TOOLS[:1], "tool_choice": "required", "max_tokens": 100},
    "one of two calls": {"tools": TOOLS, "tool_choice": "required", "max_tokens": 100},
    "named call": {
        "tools": TOOLS,
        "tool_choice": {"type": "function", "function": {"name": "g"}},
        "max_tokens": 100,
    },
    "several calls": {"tools": TOOLS[:1], "tool_choice": "required", "n": 2},
    "optional call": {"tools": TOOLS},
}
CONTEXT = {"n_seq_max": 4, "deterministic": True}


def _comparable(value: Any) -> Any:
    """Return an answer without ids, times and fields that only whole answers have."""
    if isinstance(value, dict):
        left_out = {"id", "created", "created_at", "completed_at", "item_id"}
        left_out |= {"parsed", "parsed_arguments", "refusal", "index"}
        # The second request finds the prompt in the cache.
        left_out |= {"prompt_tokens_details", "input_tokens_details"}
        return {
            # Only in streams, arguments keep the white space that the model wrote.
            key: _arguments(part) if key == "arguments" else _comparable(part)
            for key, part in value.items()
            if key not in left_out and part is not None
        }
    return [_comparable(part) for part in value] if isinstance(value, list) else value


def _arguments(text: str) -> Any:
    """Return the arguments of a call; the text if it was cut off."""
    try:
        return json.loads(text)
    except ValueError:
        return text


@pytest.mark.parametrize("kind", CHATS)
def test_a_chat(real_sdk: openai.OpenAI, kind: str) -> None:
    body: dict[str, Any] = {
        "model": NAME,
        "messages": [{"role": "user", "content": "a"}],
        "max_tokens": 12,
        "seed": 3,
        **CHATS[kind],
    }
    whole = real_sdk.chat.completions.create(**body)
    usage = {"include_usage": True}
    with real_sdk.chat.completions.stream(**body, stream_options=usage) as stream:
        chunks = [event.chunk for event in stream if event.type == "chunk"]
        snapshot = stream.current_completion_snapshot
    assert _comparable(snapshot.to_dict()) == _comparable(whole.to_dict())
    for choice, other in zip(snapshot.choices, whole.choices, strict=True):
        assert choice.message.content == other.message.content
    # Each answer begins with its role and ends with its reason; then comes the usage.
    *others, last = chunks
    assert len({chunk.id for chunk in chunks}) == 1
    assert last.choices == []
    assert last.usage is not None
    assert all(chunk.usage is None for chunk in others)
    for i in range(len(whole.choices)):
        parts = [part for chunk in others for part in chunk.choices if part.index == i]
        assert parts[0].delta.role == "assistant"
        assert [part.finish_reason is None for part in parts[:-1]] == [True] * len(
            parts[:-1]
        )
        assert parts[-1].finish_reason is not None
        assert not parts[-1].delta.to_dict()
        for part in parts[1:-1]:
            assert part.delta.content or part.delta.tool_calls


@pytest.mark.parametrize("n", [1, 2])
def test_a_completion(real_sdk: openai.OpenAI, n: int) -> None:
    body: dict[str, Any] = {"model": NAME, "prompt": "a", "max_tokens": 12, "seed": 3}
    body |= {"n": n, "stop": ["e"]}
    whole = real_sdk.completions.create(**body)
    chunks = list(
        real_sdk.completions.create(
            **body, stream=True, stream_options={"include_usage": True}
        )
    )
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens
    for choice in whole.choices:
        parts = [c for chunk in chunks for c in chunk.choices if c.index == choice.index]
        assert "".join(part.text for part in parts) == choice.text
        reasons = [part.finish_reason for part in parts]
        assert reasons == [None] * (len(parts) - 1) + [choice.finish_reason]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
        {
            "tools": [{"type": "function", "name": "f", "parameters": COLOUR}],
            "tool_choice": "required",
            "max_output_tokens": 100,
        },
    ],
)
def test_a_response(real_sdk: openai.OpenAI, fields: dict[str, Any]) -> None:
    body: dict[str, Any] = {"model": NAME, "input": "a", "max_output_tokens": 16}
    body |= {"extra_body": {"seed": 3}, **fields}
    whole = real_sdk.responses.create(**body)
    with real_sdk.responses.stream(**body) as stream:
        events = list(stream)
    response = events[-1].response  # type: ignore[union-attr]
    one, other = _comparable(response.to_dict()), _comparable(whole.to_dict())
    for item in (*one["output"], *other["output"]):
        item.pop("call_id", None)
    assert one == other
    assert [event.sequence_number for event in events] == list(range(len(events)))
