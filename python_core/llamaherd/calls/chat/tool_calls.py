"""Tool calls in answers: their data, and the types of their arguments.

Formats such as XML have no quotes, so only the declared type distinguishes the text "1"
from the number 1.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from llamaherd.calls.structured.subschemas import Reader, Subschema, list_at, parts

Tools: TypeAlias = "Sequence[Mapping[str, object]]"
Pieces: TypeAlias = "Iterable[str | WrittenCall]"

CUT_OFF = "the call is cut off"
NOT_JSON = "the call is not valid JSON"
_NAME_KEYS = ("name", "tool_name", "function")
_ARGUMENT_KEYS = ("arguments", "parameters", "args")
_OTHER_KEYS = frozenset({"id", "type", "index", "call_id", "tool_call_id"})
_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_NESTED = 100  # maximum depth of arguments


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call; `name` is "" if it cannot be read.

    An invalid call has a `problem`, its text, and no arguments.
    """

    name: str
    arguments: Mapping[str, object]
    problem: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """An answer with its calls, and its text without the valid calls."""

    text: str
    calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call as a format has it, before its name and arguments are checked.

    `arguments` are an object, perhaps with `Untyped` texts, or JSON text. Without
    `is_sure`, a text that names no declared function is no call.
    """

    text: str
    name: str = ""
    arguments: object = None
    problem: str = ""
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class ToolFormat:
    """A format of tool calls; `read` divides an answer into calls and texts.

    With `has_marks`, `read` also removes marks from answers without calls.
    """

    name: str
    read: Callable[[str], Pieces]
    has_marks: bool = False


def parse_tool_calls(text: str, how: ToolFormat, tools: Tools = ()) -> ToolAnswer:
    """Read the tool calls in an answer.

    An invalid call raises no error; its `problem` is set, and its text stays a part of
    the answer's text. The schemas of `tools` distinguish the text "1" from the number 1
    where the format does not. Without tools, any name is allowed.
    """
    kept, calls = list[str](), list[ToolCall]()
    for piece in how.read(text):
        if isinstance(piece, str):
            kept.append(piece)
            continue
        if not piece.is_sure and parameters_of(piece.name, tools) is None:
            kept.append(piece.text)
            continue
        call = _check_call(piece, tools)
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


def _check_call(call: WrittenCall, tools: Tools) -> ToolCall:
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
            value, end = json_at(value.strip())
        except ValueError as error:
            raise UnreadableError(f"the arguments are not valid JSON: {error}") from None
        if end < len(str(call.arguments).strip()):
            raise UnreadableError("there is text after the arguments")
    value = {} if value is None or value == "" else value
    if not isinstance(value, dict):
        raise UnreadableError("the arguments must be an object")
    arguments = {
        key: typed_argument(key, part, parameters) for key, part in value.items()
    }
    _check_values(arguments)
    return arguments


def _check_values(value: object) -> None:
    """Check that JSON can represent a value."""
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > _MOST_NESTED:
            raise UnreadableError("the arguments are nested too deeply")
        if isinstance(part, str) and _SURROGATE.search(part):
            raise UnreadableError("a text in the arguments has half of a surrogate pair")
        if isinstance(part, dict):
            waiting += [(item, depth + 1) for pair in part.items() for item in pair]
        elif isinstance(part, list):
            waiting += [(item, depth + 1) for item in part]


_MOST_SCHEMAS = 2_000  # maximum number of schemas read for a type
_SHOWN = 80
_ANY = Subschema(True, True)  # the schema that allows any value


class UnreadableError(ValueError):
    """A call cannot be read; it becomes data with this reason."""


@dataclass(frozen=True, slots=True)
class Untyped:
    """An argument whose type the format does not tell.

    `is_text`: whether the model marked it as text or as JSON; None without such marks.
    """

    text: str
    is_text: bool | None = None


def json_at(text: str, at: int = 0) -> tuple[object, int]:
    """Read a JSON value that starts at a position, and return its end, too."""
    decoder = json.JSONDecoder(
        parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_object
    )
    try:
        return decoder.raw_decode(text, at)
    except json.JSONDecodeError as error:
        raise UnreadableError(str(error)) from None
    except RecursionError:
        raise UnreadableError("it is nested too deeply") from None


def _no_constant(name: str) -> object:
    raise UnreadableError(f"{name} is not valid JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise UnreadableError(f"the number {text[:_SHOWN]} is too large")
    return value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object; a repeated key would lose a value."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise UnreadableError("an object has a key twice")
    return value


def parameters_of(name: str, tools: Sequence[Mapping[str, object]]) -> Subschema | None:
    """Return the schema of a function's arguments; None if it is not among the tools."""
    for tool in tools:
        function = tool.get("function", tool)
        if isinstance(function, Mapping) and function.get("name") == name:
            schema = function.get("parameters")
            return Subschema(schema, schema)
    return None if tools else _ANY


def typed_argument(name: str, value: object, owner: Subschema) -> object:
    """Return an argument in which untyped texts have their declared types."""
    return _typed_value(name, value, _field(owner, name)) if _is_untyped(value) else value


def _is_untyped(value: object) -> bool:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return any(map(_is_untyped, value))
    return isinstance(value, Untyped)


def _typed_value(name: str, value: object, node: Subschema) -> object:
    if isinstance(value, Untyped):
        return _value(name, value, node)
    if isinstance(value, dict):
        return {
            key: _typed_value(key, item, _field(node, key)) for key, item in value.items()
        }
    if isinstance(value, list):
        items = _inner(node, lambda schema: schema.get("items"))
        return [_typed_value(name, item, items) for item in value]
    return value


def _value(name: str, untyped: Untyped, node: Subschema) -> object:
    types = _types_of(node)
    text = untyped.text
    if types is None:
        types = frozenset({"string"}) if untyped.is_text else None
    elif "string" in types and (untyped.is_text or text in _constants(node)):
        return text
    parsed = _parse_element(text.strip(), types, is_json=untyped.is_text is False)
    if parsed:
        return parsed[0]
    if types is None or "string" in types:
        return text
    short = json.dumps(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
    kinds = " or ".join(sorted(types)) or "a type that a value can have"
    raise UnreadableError(f"the argument {name!r} must be {kinds}, not {short}")


def _parse_element(
    text: str, types: frozenset[str] | None, *, is_json: bool
) -> list[object]:
    """Return the value of a text as an element of a list; [] if it has another type."""
    allowed = _JSON_TYPES if types is None else types
    for word, value in _WORDS.items():
        # Models write the words of Python, too.
        if text.lower() == word and types is not None and _kind(value) in allowed:
            return [value]
    if text == "None" and types is not None and "null" in allowed:
        return [None]
    try:
        value, end = json_at(text)
    except ValueError:
        return []
    if end < len(text):
        return []
    if isinstance(value, float) and value.is_integer() and "number" not in allowed:
        value = int(value)
    kind = _kind(value)
    if kind == "string" and types is not None and not is_json:
        return []  # the quotes are part of the text
    is_number = kind == "integer" and "number" in allowed
    return [value] if kind in allowed or is_number else []


_WORDS: dict[str, object] = {"true": True, "false": False, "null": None}
_JSON_TYPES = frozenset(
    {"null", "boolean", "integer", "number", "string", "array", "object"}
)


def _kind(value: object) -> str:
    """Return the type of a value in JSON Schema."""
    if value is None:
        return "null"
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string"}
    return kinds.get(type(value), "array" if isinstance(value, list) else "object")


def _constants(node: Subschema) -> list[object]:
    """Return the values of `enum` and `const` of a declaration."""
    constants: list[object] = []
    for part in parts(node):
        constants += list_at(part.schema, "enum")
        if "const" in part.schema:
            constants.append(part.schema["const"])
    return constants


def _field(node: Subschema, name: str) -> Subschema:
    """Return the schema of a field of objects that follow a schema."""
    return _inner(node, lambda schema: _declared_type(schema, name))


def _declared_type(schema: dict[str, Any], name: str) -> object:
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and name in properties:
        return properties[name]
    return schema.get("additionalProperties")


def _inner(node: Subschema, inner: Any) -> Subschema:  # a function
    """Return the schema of inner values: all that are sure, and one of the others."""
    sure = {id(part.schema) for part in parts(node, is_sure=True)}
    always, choices = list[object](), list[object]()
    for part in parts(node):
        schema = inner(part.schema)
        if isinstance(schema, Mapping):
            (always if id(part.schema) in sure else choices).append(schema)
    schema = {"allOf": always, **({"anyOf": choices} if choices else {})}
    return node.at(schema)._replace(references=frozenset())


def _types_of(node: Subschema) -> frozenset[str] | None:
    """Return the names of the types that a schema allows; None for any type."""
    reader = Reader(_own_types, _both, _any_of, unknown=None, n_left=_MOST_SCHEMAS)
    return reader.read(node._replace(references=frozenset()))


def _own_types(node: Subschema, _read: object) -> frozenset[str] | None:
    schema = node.schema
    if "const" in schema:
        return frozenset({_kind(schema["const"])})
    if isinstance(schema.get("enum"), list):
        return frozenset(map(_kind, schema["enum"]))
    types = schema.get("type")
    if types is None and isinstance(schema.get("properties"), Mapping):
        return frozenset({"object"})
    types = [types] if isinstance(types, str) else types
    return frozenset(map(str, types)) if isinstance(types, list) else None


def _both(
    types: frozenset[str] | None, others: frozenset[str] | None
) -> frozenset[str] | None:
    if types is None or others is None:
        return others if types is None else types
    shared = types & others
    if "integer" in types ^ others and "number" in types ^ others:
        shared |= {"integer"}
    return shared


def _any_of(choices: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    kinds: frozenset[str] = frozenset()
    for types in choices:
        if types is None:
            return None
        kinds |= types
    return kinds
