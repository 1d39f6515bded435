"""Input of `/v1/responses`: items of a conversation as messages of the library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.server import text_parts
from llamaherd.server.errors import ApiError, bad_field, unknown_field
from llamaherd.server.wording import JSON

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_ROLES = ("user", "assistant", "system", "developer")
# Fields of items in responses, which clients send back.
_IDENTITY = frozenset({"type", "id", "status", "created_by"})


def messages_of(given: Mapping[str, object]) -> list[dict[str, Any]]:
    """Return the conversation of a request as messages of chats.

    The instructions are a system message before the other messages.

    Args:
        given: Fields of the request that are not null.

    Raises:
        ApiError: An item is invalid or of an unsupported type.
    """
    conversation = _Conversation()
    asked = given.get("input")
    if asked is None:
        raise ApiError(400, "input is missing", param="input", code="missing_field")
    if isinstance(asked, str):
        conversation.messages.append({"role": "user", "content": asked})
    elif isinstance(asked, list) and asked:
        for i, item in enumerate(asked):
            conversation.add(f"input[{i}]", item)
    else:
        raise bad_field("input", "input must be a text, or a list of items")
    messages = conversation.messages
    instructions = given.get("instructions")
    if instructions is not None:
        _prepend(messages, _text("instructions", instructions))
    if not messages:
        raise bad_field("input", "input has no message")
    return messages


def _prepend(messages: list[dict[str, Any]], text: str) -> None:
    """Put a text before the conversation, into its system message if it has one."""
    if messages and messages[0]["role"] in ("system", "developer"):
        messages[0] = {**messages[0], "content": f"{text}\n\n{messages[0]['content']}"}
    else:
        messages.insert(0, {"role": "system", "content": text})


class _Conversation:
    """Messages of a conversation, built from its items in order.

    Thought, text and calls of one answer are separate items, but one message.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._thought = ""
        self._readers: dict[str, Callable[[str, dict[str, Any]], None]] = {
            "message": self._message,
            "function_call": self._call,
            "function_call_output": self._result,
            "reasoning": self._reasoning,
        }

    def add(self, where: str, item: object) -> None:
        """Add an item.

        Raises:
            ApiError: The item is invalid.
        """
        if not isinstance(item, dict):
            raise bad_field(where, f"{where} must be an object")
        kind = item.get("type")
        kind = "message" if kind is None else kind
        if not isinstance(kind, str) or kind not in self._readers:
            known = ", ".join(self._readers)
            text = f"{where}.type must be one of {known}, not {_shown(kind)}"
            if kind == "item_reference":
                text = f"{where} refers to an item, but no items are stored: send it"
            raise bad_field(f"{where}.type", text)
        self._readers[kind](where, item)

    def _message(self, where: str, item: dict[str, Any]) -> None:
        _only(where, item, {"role", "content", "phase"})
        role = item.get("role")
        if role not in _ROLES:
            text = f"{where}.role must be one of {', '.join(_ROLES)}"
            raise bad_field(f"{where}.role", text)
        content = _content(f"{where}.content", item.get("content"))
        if role == "assistant":
            self._add_answer(content)
        else:
            self._thought = ""
            self.messages.append({"role": role, "content": content})

    def _call(self, where: str, item: dict[str, Any]) -> None:
        _only(where, item, {"call_id", "name", "arguments", "namespace"})
        call_id, name = (
            _text(f"{where}.{key}", item.get(key)) for key in ("call_id", "name")
        )
        # A call of a function without arguments may have null or an empty text.
        arguments = item.get("arguments")
        arguments = "{}" if arguments is None or arguments == "" else arguments
        arguments = _text(f"{where}.arguments", arguments)
        call = {
            "id": call_id,
            "type": "function",
            "function": {"name": name, "arguments": arguments},
        }
        last = self.messages[-1] if self.messages else {}
        if last.get("role") != "assistant" or self._thought:
            last = self._add_answer("")
        last.setdefault("tool_calls", []).append(call)

    def _result(self, where: str, item: dict[str, Any]) -> None:
        _only(where, item, {"call_id", "output"})
        call_id = _text(f"{where}.call_id", item.get("call_id"))
        output = _content(f"{where}.output", item.get("output"))
        self._thought = ""
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": output})

    def _reasoning(self, where: str, item: dict[str, Any]) -> None:
        _only(where, item, {"summary", "content", "encrypted_content"})
        parts = item.get("content") or item.get("summary") or []
        if not isinstance(parts, list):
            raise bad_field(f"{where}.content", f"{where}.content must be a list")
        for i, part in enumerate(parts):
            text = part.get("text") if isinstance(part, dict) else None
            self._thought += _text(f"{where}.content[{i}].text", text)

    def _add_answer(self, content: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if self._thought:
            message["reasoning_content"] = self._thought
            self._thought = ""
        self.messages.append(message)
        return message


def _only(where: str, item: Mapping[str, object], names: set[str]) -> None:
    """Check that an item has no unknown field."""
    for key, value in item.items():
        if key not in names | _IDENTITY and value is not None:
            raise unknown_field(f"{where}.{key}", [f"{where}.{n}" for n in sorted(names)])


def _content(where: str, content: object) -> str:
    """Return the text of a message or of a result, joined if it has several parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise bad_field(where, f"{where} must be a text, or a list of parts with text")
    return text_parts.joined(where, content)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise bad_field(name, f"{name} must be a string, not {_shown(value)}")
    return value


def _shown(value: object) -> str:
    return JSON.value(value, checks.shown(value))
