"""Data classes for tool calls in answers, and functions that read tool calls."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from llamaherd.calls.chat.tool_arguments import (
    UnreadableError,
    json_value,
    parameters_of,
    typed,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Tools: TypeAlias = "Sequence[Mapping[str, object]]"
Pieces: TypeAlias = "Iterable[str | WrittenCall]"

CUT_OFF = "the call is cut off"
NOT_JSON = "the call is not valid JSON"
_NAME_KEYS = ("name", "tool_name", "function")
_ARGUMENT_KEYS = ("arguments", "parameters", "args")
_OTHER_KEYS = frozenset({"id", "type", "index", "call_id", "tool_call_id"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_DEPTH = 100


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call.

    Attributes:
        name: Name of the function; "" if it cannot be read.
        arguments: Arguments by name; empty for an invalid call.
        problem: Reason why the call is invalid; "" for a valid call.
        text: Text of an invalid call; "" for a valid call.
    """

    name: str
    arguments: Mapping[str, object]
    problem: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """An answer with its calls.

    Attributes:
        text: The text without the valid calls; invalid calls are part of it.
        calls: The calls, in order.
    """

    text: str
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as a format has it, before its name and arguments are checked.

    Attributes:
        text: Text of the call.
        name: Name of the function.
        arguments: Arguments as an object, or as JSON text. A format without types has
            `Untyped` texts in the object.
        problem: Reason why the call cannot be read; "" if it can be read.
        is_sure: Whether the format marks the text as a call. If it does not, a text that
            names no declared function is no call.
    """

    text: str
    name: str = ""
    arguments: object = None
    problem: str = ""
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """A format of tool calls.

    Attributes:
        name: Name of the format.
        read: Function that divides an answer into calls and the texts between them.
        has_marks: Whether answers without calls contain marks of the format, which
            `read` removes.
    """

    name: str
    read: Callable[[str], Pieces]
    has_marks: bool = False


def parse_tool_calls(text: str, how: ToolFormat, tools: Tools = ()) -> ToolAnswer:
    """Read the tool calls in an answer.

    An invalid call raises no error; its `problem` is set, and its text stays a part of
    the answer's text. A call is invalid if it cannot be read completely, if its function
    was not declared, or if an argument does not have the declared type in a format
    without types.

    Args:
        tools: Descriptions of the tools. Their schemas give the types of arguments, which
            distinguish the text "1" from the number 1 where the format does not. Without
            descriptions, any name is allowed.
    """
    kept, calls = list[str](), list[ToolCall]()
    for piece in how.read(text):
        if isinstance(piece, str):
            kept.append(piece)
            continue
        if not piece.is_sure and parameters_of(piece.name, tools) is None:
            kept.append(piece.text)
            continue
        call = _checked(piece, tools)
        calls.append(call)
        if call.problem:
            kept.append(piece.text)
    if any(not call.problem for call in calls):
        return ToolAnswer("".join(kept).strip(), tuple(calls))
    return ToolAnswer("".join(kept).strip() if how.has_marks else text, tuple(calls))


def call_in_json(value: object, text: str) -> WrittenCall:
    """Return the call that a parsed JSON object describes."""
    if not isinstance(value, dict):
        return WrittenCall(text, problem="a call must be an object")
    inner = value.get("function")
    outer, value = (value, inner) if isinstance(inner, dict) else ({}, value)
    name = next((value[k] for k in _NAME_KEYS if isinstance(value.get(k), str)), "")
    keys = [key for key in _ARGUMENT_KEYS if key in value]
    known = {*_NAME_KEYS, *_OTHER_KEYS, *keys[:1]}
    others = sorted((value.keys() | outer.keys()) - known)
    if others:
        return WrittenCall(text, name, problem=f"the call has the key {others[0]!r}")
    return WrittenCall(text, name, value[keys[0]] if keys else None)


def _checked(call: WrittenCall, tools: Tools) -> ToolCall:
    """Return a call with its arguments, or with the reason why it is invalid."""
    try:
        return ToolCall(call.name, _arguments(call, tools))
    except ValueError as error:
        return ToolCall(call.name, {}, str(error), call.text)


def _arguments(call: WrittenCall, tools: Tools) -> dict[str, object]:
    if call.problem:
        raise UnreadableError(call.problem)
    if not call.name:
        raise UnreadableError("the call has no name")
    parameters = parameters_of(call.name, tools)
    if parameters is None:
        raise UnreadableError(f"the function {call.name!r} was not declared")
    value = call.arguments
    if isinstance(value, str) and value.strip():
        try:
            value, end = json_value(value.strip())
        except ValueError as error:
            raise UnreadableError(f"the arguments are not valid JSON: {error}") from None
        if end < len(str(call.arguments).strip()):
            raise UnreadableError("there is text after the arguments")
    value = {} if value is None or value == "" else value
    if not isinstance(value, dict):
        raise UnreadableError("the arguments must be an object")
    arguments = {key: typed(key, part, parameters) for key, part in value.items()}
    _check_values(arguments)
    return arguments


def _check_values(value: object) -> None:
    """Check that JSON can represent a value."""
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > _MOST_DEPTH:
            raise UnreadableError("the arguments are nested too deeply")
        if isinstance(part, str) and _SURROGATE.search(part):
            raise UnreadableError("a text in the arguments has half of a surrogate pair")
        if isinstance(part, dict):
            waiting += [(item, depth + 1) for pair in part.items() for item in pair]
        elif isinstance(part, list):
            waiting += [(item, depth + 1) for item in part]
