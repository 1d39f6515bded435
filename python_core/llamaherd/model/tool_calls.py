"""Data classes for tool calls in answers, and functions that read tool calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Tools: TypeAlias = "Sequence[Mapping[str, object]]"

CUT_OFF = "the call is cut off"


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
        text: The text without the calls.
        calls: The calls, in order.
    """

    text: str
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """A format of tool calls.

    Attributes:
        name: Name of the format.
        read: Function that reads an answer; descriptions of tools give the types of
            arguments.
    """

    name: str
    read: Callable[[str, Tools], ToolAnswer]


def parse_tool_calls(text: str, how: ToolFormat, tools: Tools = ()) -> ToolAnswer:
    """Read the tool calls in an answer.

    An invalid call raises no error; its `problem` is set.

    Args:
        text: The answer with its special tokens, as returned by `detokenize(model,
            tokens, unparse_special=True)`.
        how: Format of the calls, see `tool_format_of`.
        tools: Descriptions of the tools. Their schemas give the types of arguments, which
            distinguish the text "1" from the number 1 where the format does not.
    """
    return how.read(text, tools)


def json_value(text: str, at: int = 0) -> tuple[object, int]:
    """Read a JSON value that starts at a position.

    Raises:
        ValueError: There is no JSON value.
    """
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    try:
        return decoder.raw_decode(text, at)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not valid JSON")


def call_of(value: object, text: str) -> ToolCall:
    """Return the call that a parsed JSON object describes."""
    if not isinstance(value, dict):
        return ToolCall("", {}, "a call must be an object", text)
    inner = value.get("function")
    value = inner if isinstance(inner, dict) else value
    names = [value.get(key) for key in ("name", "tool_name", "function")]
    name = next((each for each in names if isinstance(each, str)), "")
    keys = [key for key in ("arguments", "parameters", "args") if key in value]
    return checked_call(name, value[keys[0]] if keys else {}, text)


def checked_call(name: str, arguments: object, text: str) -> ToolCall:
    """Return a call whose arguments are given as an object, or as JSON text.

    Args:
        name: Name of the function.
        arguments: Arguments as written.
        text: Text of the call, stored if the call is invalid.
    """
    if not name:
        return ToolCall("", {}, "the call has no name", text)
    if isinstance(arguments, str):
        try:
            arguments, _ = json_value(arguments.strip())
        except ValueError:
            return ToolCall(name, {}, "the arguments are not valid JSON", text)
    if not isinstance(arguments, dict):
        return ToolCall(name, {}, "the arguments must be an object", text)
    return ToolCall(name, arguments)


def answer_with(kept: Sequence[str], calls: Sequence[ToolCall]) -> ToolAnswer:
    """Return an answer with calls, whose text is joined from the pieces between them."""
    text = "".join(kept)
    return ToolAnswer(text.strip() if calls else text, tuple(calls))


def types_of(name: str, tools: Tools) -> dict[str, object]:
    """Return the types of a tool's arguments in JSON Schema, by name."""
    for tool in tools:
        function = tool.get("function", tool)
        if not isinstance(function, Mapping) or function.get("name") != name:
            continue
        schema = function.get("parameters")
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        if isinstance(properties, Mapping):
            return {
                str(key): each.get("type") if isinstance(each, Mapping) else None
                for key, each in properties.items()
            }
    return {}


def typed_arguments(
    pairs: Sequence[tuple[str, str]], types: Mapping[str, object]
) -> dict[str, object]:
    """Convert arguments that the model wrote as text to values of their types."""
    return {key: _typed_value(text, types.get(key)) for key, text in pairs}


def _typed_value(text: str, kind: object) -> object:
    if kind == "string":
        return text
    try:
        value, end = json_value(text.strip())
    except ValueError:
        return text
    return value if end == len(text.strip()) else text
