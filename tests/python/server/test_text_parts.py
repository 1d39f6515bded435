"""Parts of messages and items of conversations that clients send back or send first.

Every type of OpenAI's API is accepted, or refused by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest

if TYPE_CHECKING:
    from fake_context import FakeContext
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
    status, got = client.post(path, _asked(path, [part]))
    assert status == 200, got
    assert "No." in _text(fake)


@pytest.mark.parametrize("path", ASKS)
@pytest.mark.parametrize("kind", OTHERS)
def test_other_parts_are_refused_by_name(client: Client, path: str, kind: str) -> None:
    status, got = client.post(path, _asked(path, [{"type": kind, "text": "a"}]))
    assert status == 400
    where = f"{ASKS[path]}[1].content[0]"
    assert got["error"]["param"] == where
    assert got["error"]["message"] == (
        f'{where} is of type "{kind}": this model reads text only'
    )


@pytest.mark.parametrize("path", ASKS)
@pytest.mark.parametrize("kind", [None, 5, ["text"], {}])
def test_parts_without_a_type_are_refused(
    client: Client, path: str, kind: object
) -> None:
    status, got = client.post(path, _asked(path, [{"type": kind, "text": "a"}]))
    place = f"{ASKS[path]}[1].content[0]{'' if kind is None else '.type'}"
    assert (status, got["error"]["param"]) == (400, place)


def test_a_refusal_instead_of_content(client: Client, fake: FakeContext) -> None:
    status, got = client.post(CHAT, _asked(CHAT, None, refusal="No."))
    assert status == 200, got
    assert "No." in _text(fake)
    status, got = client.post(CHAT, _asked(CHAT, None, refusal=5))
    assert (status, got["error"]["param"]) == (400, "messages[1].refusal")


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
    asked = [{"role": "user", "content": "a"}, thought, {"role": "user", "content": "b"}]
    status, got = client.post(RESPONSES, {"input": asked})
    assert status == 200, got


@pytest.mark.parametrize("kind", ITEMS)
def test_other_items_are_refused_by_name(client: Client, kind: str) -> None:
    asked = [{"role": "user", "content": "a"}, {"type": kind, "id": "a_1"}]
    status, got = client.post(RESPONSES, {"input": asked})
    assert (status, got["error"]["param"]) == (400, "input[1].type")
    assert kind in got["error"]["message"] or kind == "item_reference"
