"""Pieces of a forced call of a function, while the model writes it."""

from __future__ import annotations

import json
import re
import secrets
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """Converts pieces of a forced call to the deltas of OpenAI's API.

    Args:
        names: Names of functions; the answer is a call of one of them.

    Attributes:
        has_begun: Whether a delta was returned.
    """

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
