"""Calls of functions: pieces of a forced call, and a format for templates without one."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from llamaherd.calls.chat.tool_readers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Pattern of the start of a call of one of several functions, see the schema in `tools`.
_START = re.compile(
    r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*(?=\{)'
)


def call_in(text: str) -> tuple[str, str] | None:
    """Return name and arguments of a call of one of several functions; None if none."""
    start = _START.match(text)
    if start is None:
        return None
    return str(json.loads(start.group(1))), _EndOfValue().before(text[start.end() :])


class CallStream:
    """Converts pieces of a forced call to the deltas of OpenAI's API."""

    def __init__(self, names: Sequence[str]) -> None:
        self.has_begun = False
        self._name = names[0] if len(names) == 1 else None
        self._held = ""
        self._end = _EndOfValue()

    def add(self, text: str) -> list[dict[str, Any]]:
        """Return the deltas of a piece: the elements of `tool_calls`."""
        if self._name is None:
            self._held += text
            start = _START.match(self._held)
            if start is None:
                return []
            self._name = str(json.loads(start.group(1)))
            text = self._held[start.end() :]
            self._held = ""
        deltas = []
        if not self.has_begun:
            self.has_begun = True
            deltas.append(
                {
                    "index": 0,
                    "id": f"call_{secrets.token_hex(12)}",
                    "type": "function",
                    "function": {"name": self._name, "arguments": ""},
                }
            )
        arguments = self._end.before(text)
        if arguments:
            deltas.append({"index": 0, "function": {"arguments": arguments}})
        return deltas


class _EndOfValue:
    """Finds the end of a JSON object whose text arrives in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_text = False
        self._is_escaped = False
        self._is_over = False

    def before(self, text: str) -> str:
        """Return the part of the next piece that still belongs to the object."""
        if self._is_over:
            return ""
        for i, letter in enumerate(text):
            if self._is_escaped:
                self._is_escaped = False
            elif self._is_text:
                self._is_escaped = letter == "\\"
                self._is_text = letter != '"'
            elif letter == '"':
                self._is_text = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self._is_over = True
                    return text[: i + 1]
        return text


GENERIC = replace(next(form for form in FORMATS if form.name == "hermes"), name="generic")
_DESCRIPTION = """You may call functions. These functions are available:
{functions}

To call a function, write one JSON object with its name and its arguments:
<tool_call>{{"name": "...", "arguments": {{...}}}}</tool_call>
Results of calls are between <tool_response> and </tool_response>. \
If no function is needed, answer as usual."""


def with_generic_tools(
    tools: Sequence[Mapping[str, Any]],
    messages: Sequence[Mapping[str, object]],
    options: Mapping[str, Any],
) -> tuple[list[dict[str, object]], dict[str, Any]]:
    """Return messages with a description of the functions, and the options of the chat.

    Earlier calls and their results become texts of messages of assistant and user. If
    the template refuses system messages, the description is in the user's message.
    """
    lines = [json.dumps(tool["function"], ensure_ascii=False) for tool in tools]
    text = _DESCRIPTION.format(functions="\n".join(lines))
    merges = options.get("merge_system") or messages[0]["role"] != "system"
    return with_system(as_texts(messages), text), {**options, "merge_system": merges}


def as_texts(messages: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return messages in which calls and their results are texts.

    Results and the text of the user beside them are one message, because many templates
    refuse two messages of the user in a row.
    """
    texts: list[dict[str, object]] = []
    for before, message in pairwise([{}, *messages]):
        text = _as_text(message)
        roles = {before.get("role"), message["role"]}
        if "tool" in roles and roles <= {"tool", "user"}:
            texts[-1]["content"] = f"{texts[-1]['content']}\n{text['content']}"
        else:
            texts.append(text)
    return texts


def with_system(messages: list[dict[str, object]], text: str) -> list[dict[str, object]]:
    """Return messages with a text at the end of the system message."""
    first_message = messages[0]
    if first_message["role"] == "system":
        system = {**first_message, "content": f"{first_message['content']}\n\n{text}"}
        return [system, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _as_text(message: Mapping[str, object]) -> dict[str, object]:
    """Return a message whose calls, or whose result, are text."""
    plain = {k: v for k, v in message.items() if k not in ("tool_calls", "tool_call_id")}
    calls: Any = message.get("tool_calls") or ()
    lines = [str(plain["content"])] if plain["content"] or not calls else []
    for call in calls:
        function = call["function"]
        arguments = function["arguments"].strip() or "{}"
        name = json.dumps(function["name"], ensure_ascii=False)
        whole = f'{{"name": {name}, "arguments": {arguments}}}'
        lines.append(f"<tool_call>{whole}</tool_call>")
    if message["role"] == "tool":
        plain["role"] = "user"
        lines = [f"<tool_response>{plain['content']}</tool_response>"]
    return {**plain, "content": "\n".join(lines)}
