"""Messages of OpenAI's API in the format of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.server import text_parts
from llamaherd.server.errors import bad_field
from llamaherd.server.neutral import check_of_message

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
# Fields of messages with calls of functions and their results.
_OF_TOOLS = {"assistant": "tool_calls", "tool": "tool_call_id"}


def chat_messages(given: Mapping[str, object]) -> list[dict[str, object]]:
    """Convert the messages of a conversation to the format of the library.

    Raises:
        ApiError: A message has an unsupported part.
    """
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise bad_field("messages", "messages must be a list of at least one message")
    return [_message(f"messages[{i}]", message) for i, message in enumerate(messages)]


def _message(name: str, message: object) -> dict[str, object]:
    if not isinstance(message, dict):
        raise bad_field(name, f"{name} must be an object with role and content")
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        allowed = ", ".join(_ROLES)
        raise bad_field(f"{name}.role", f"{name}.role must be one of {allowed}")
    of_tools = _OF_TOOLS.get(role)
    own = {"role", "content", of_tools}
    refusal = message.get("refusal")
    if of_tools == "tool_calls" and isinstance(refusal, str):
        own.add("refusal")
    for key, value in message.items():
        if key not in own:
            check_of_message(name, key, value)
    found: dict[str, object] = {"role": _ROLES[role]}
    if of_tools == "tool_calls" and message.get("tool_calls"):
        found["tool_calls"] = _calls(f"{name}.tool_calls", message["tool_calls"])
    if of_tools == "tool_call_id" and message.get("tool_call_id") is not None:
        found["tool_call_id"] = _text(f"{name}.tool_call_id", message["tool_call_id"])
    if "tool_calls" in found and _is_empty(message.get("content")):
        found["content"] = ""  # a call needs no text
    else:
        found["content"] = _content(f"{name}.content", message)
    thought = message.get("reasoning_content") or message.get("reasoning")
    return {**found, "reasoning_content": thought} if thought else found


def _is_empty(content: object) -> bool:
    return content is None or (isinstance(content, list) and not content)


def _calls(name: str, calls: object) -> list[dict[str, object]]:
    """Return the calls of functions in a message of the assistant."""
    if not isinstance(calls, list):
        raise bad_field(name, f"{name} must be a list of calls")
    found: list[dict[str, object]] = []
    for i, call in enumerate(calls):
        where = f"{name}[{i}]"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict):
            text = "must be an object with id, type and function"
            raise bad_field(where, f"{where} {text}")
        own = {"name": _text(f"{where}.function.name", function.get("name"))}
        # A call of a function without arguments may have null or an empty text.
        arguments = function.get("arguments")
        arguments = "{}" if arguments is None or arguments == "" else arguments
        own["arguments"] = _text(f"{where}.function.arguments", arguments)
        identity = {"id": _text(f"{where}.id", call["id"])} if call.get("id") else {}
        found.append({**identity, "type": "function", "function": own})
    return found


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise bad_field(name, f"{name} must be a string")
    return value


def _content(name: str, message: Mapping[str, object]) -> str:
    """Return the text of a message, joined if it has several parts."""
    content = message.get("content")
    if message["role"] == "assistant" and content is None:
        content = message.get("refusal")
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        raise bad_field(name, f"{name} must be a string or a list of parts with text")
    return text_parts.joined(name, content)
