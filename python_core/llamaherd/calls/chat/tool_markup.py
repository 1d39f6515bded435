"""Readers of tool calls whose arguments are in markup like XML, or in special quotes.

DeepSeek since V3.2, Gemma 4, GLM, Kimi K3, MiniMax and Qwen3-Coder write such calls. A
value may contain a closing tag of its format: the last one before the next opening tag
ends it. If a value contains an opening tag, the call cannot be read.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.calls.chat.tool_calls import (
    CUT_OFF,
    Pieces,
    UnreadableError,
    Untyped,
    WrittenCall,
    json_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


_UNMATCHED = "the tags of the call do not match"


@dataclass(frozen=True, slots=True)
class _Tags:
    """Tags of a format, with `{0}` for the first group of a call's opening tag.

    Attributes:
        opening: Pattern of the opening tag of a call, with the group `name`.
        argument: Pattern of the opening tag of an argument, with the group `key`. Its
            groups `text` and `json` mark the value as text or as JSON; `type` is the
            name of its exact type.
        section: Pattern of marks around calls.
        is_padded: Whether values are on lines of their own.
    """

    opening: re.Pattern[str]
    closing: str
    argument: re.Pattern[str]
    end: str
    section: re.Pattern[str]
    is_padded: bool = False


def _regions(
    text: str, opening: re.Pattern[str], closing: Callable[[re.Match[str]], str]
) -> Iterator[str | tuple[re.Match[str], str | None, str]]:
    """Yield texts, and for each call its opening tag, body (None if cut) and text."""
    starts = list(opening.finditer(text))
    yield text[: starts[0].start()] if starts else text
    for i, start in enumerate(starts):
        limit = starts[i + 1].start() if i + 1 < len(starts) else len(text)
        tag = closing(start)
        end = text.rfind(tag, start.end(), limit)
        if end < 0:  # what follows may be inside of the call
            yield start, None, text[start.start() :]
            return
        at = end + len(tag)
        yield start, text[start.end() : end], text[start.start() : at]
        yield text[at:limit]


def _read_tags(tags: _Tags, text: str) -> Pieces:
    """Read calls whose arguments are in tags."""

    def closing(start: re.Match[str]) -> str:
        return tags.closing.format(*start.groups())

    for piece in _regions(text, tags.opening, closing):
        if isinstance(piece, str):
            yield tags.section.sub("", piece)
            continue
        start, body, whole = piece
        name = start["name"].strip()
        if body is None:
            yield WrittenCall(whole, name, problem=CUT_OFF)
        elif body.lstrip().startswith("{"):
            yield WrittenCall(whole, name, body)
        else:
            yield _call_in_tags(tags, WrittenCall(whole, name), body, start)


def _call_in_tags(
    tags: _Tags, call: WrittenCall, body: str, start: re.Match[str]
) -> WrittenCall:
    """Return a call with the arguments in its body."""
    end = tags.end.format(*start.groups())
    arguments: dict[str, object] = {}
    for piece in _regions(body, tags.argument, lambda _: end):
        if isinstance(piece, str):
            if piece.strip():
                return _invalid(call, _UNMATCHED)
            continue
        match, value, _ = piece
        named = match.groupdict()
        key = named["key"].strip()
        if value is None:
            return _invalid(call, f"the argument {key!r} has no closing tag")
        if key in arguments:
            return _invalid(call, f"the call has the argument {key!r} twice")
        if tags.is_padded:
            value = value.removeprefix("\n").removesuffix("\n")
        is_told = named.get("text") or named.get("json")
        arguments[key] = Untyped(value, bool(named.get("text")) if is_told else None)
        if named.get("type"):
            arguments[key] = _json_or_untyped(value)
    return WrittenCall(call.text, call.name, arguments)


def _json_or_untyped(text: str) -> object:
    try:
        value, end = json_at(text.strip())
    except ValueError:
        return Untyped(text)
    return value if end == len(text.strip()) else Untyped(text)


def _invalid(call: WrittenCall, problem: str) -> WrittenCall:
    return WrittenCall(call.text, call.name, problem=problem)


_XML = _Tags(
    re.compile(r"<function=(?P<name>[^>\n]+)>"),
    "</function>",
    re.compile(r"<parameter=(?P<key>[^>\n]+)>"),
    "</parameter>",
    re.compile(r"</?(?:seed:)?tool_call>"),
    is_padded=True,
)
_GLM = _Tags(
    re.compile(r"<tool_call>(?P<name>[^<{]*)"),
    "</tool_call>",
    re.compile(r"<arg_key>(?P<key>[^<]*)</arg_key>\s*<arg_value>"),
    "</arg_value>",
    re.compile(r"(?!)"),
)
# DeepSeek's tags have a prefix, and mark each value as text or as JSON.
_INVOKE = _Tags(
    re.compile(r'<([^\s<>/]*)invoke name="(?P<name>[^"]*)">'),
    "</{0}invoke>",
    re.compile(
        r'<[^\s<>/]*parameter name="(?P<key>[^"]*)"'
        r'(?: string="(?:(?P<text>true)|(?P<json>false))")?>'
    ),
    "</{0}parameter>",
    re.compile(r"</?[^\s<>/]*(?:tool_calls?|function_calls)>"),
)


def read_xml(text: str) -> Pieces:
    """Read `<function=name><parameter=key>value</parameter></function>`."""
    return _read_tags(_XML, text)


def read_glm(text: str) -> Pieces:
    """Read `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value>`."""
    return _read_tags(_GLM, text)


def read_invoke(text: str) -> Pieces:
    """Read `<invoke name="f"><parameter name="a">1</parameter></invoke>`."""
    return _read_tags(_INVOKE, text)


# ---- Gemma 4 ---------------------------------------------------------------------------

_QUOTE = '<|"|>'
_GEMMA = re.compile(
    r"<\|tool_call>((?:<\|\"\|>.*?<\|\"\|>|(?!<\|?tool_call\|?>).)*)"
    r"(<tool_call\|>)?",
    re.DOTALL,
)
_GEMMA_CALL = re.compile(r"\s*call:([^{\s]*)\s*(\{.*)", re.DOTALL)
_KEY = re.compile(r"([{,]\s*)([^\s\"{}\[\],:]+)(\s*:)")
_BARE_NULL = re.compile(r"(?<=[:\[,])\s*None(?=\s*[,\]}])")


def _gemma_json(body: str) -> str:
    """Convert arguments with Gemma's quotes to JSON."""
    pieces = body.split(_QUOTE)
    for i in range(0, len(pieces), 2):  # outside of quotes
        pieces[i] = _BARE_NULL.sub("null", _KEY.sub(r'\1"\2"\3', pieces[i]))
    for i in range(1, len(pieces), 2):
        pieces[i] = json.dumps(pieces[i], ensure_ascii=False)
    return "".join(pieces)


def read_gemma(text: str) -> Pieces:
    """Read `<|tool_call>call:name{key:<|"|>text<|"|>,n:1}<tool_call|>`."""
    at = 0
    for match in _GEMMA.finditer(text):
        yield text[at : match.start()]
        at = match.end()
        call = _GEMMA_CALL.fullmatch(match[1])
        name = call[1] if call else ""
        if match[2] is None:
            yield WrittenCall(match[0], name, problem=CUT_OFF)
        elif call is None:
            yield WrittenCall(match[0], problem="the call is not a name and an object")
        else:
            yield WrittenCall(match[0], name, _gemma_json(call[2]))
    yield text[at:]


# ---- Kimi K3 ---------------------------------------------------------------------------

_K3 = _Tags(
    re.compile(r'<\|open\|>call tool="(?P<name>[^"]*)"[^<]*<\|sep\|>'),
    "<|close|>call<|sep|>",
    re.compile(
        r'<\|open\|>argument key="(?P<key>[^"]*)" type="'
        r'(?:(?P<text>string)|(?P<type>[^"]*))"'
        r"<\|sep\|>"
    ),
    "<|close|>argument<|sep|>",
    re.compile(
        r"<\|open\|>think<\|sep\|>.*?<\|close\|>think<\|sep\|>"
        r"|<\|(?:open|close)\|>[^<]*<\|sep\|>|<\|end_of_msg\|>",
        re.DOTALL,
    ),
)
_K3_JSON = re.compile(
    r"(<\|open\|>call [^<]*<\|sep\|>)\s*<\|open\|>json[^<]*<\|sep\|>(.*?)"
    r"<\|close\|>json<\|sep\|>\s*(?=<\|close\|>call<\|sep\|>)",
    re.DOTALL,
)


def read_kimi_k3(text: str) -> Pieces:
    """Read `<|open|>call tool="f"<|sep|>...<|close|>call<|sep|>`."""
    return _read_tags(_K3, _K3_JSON.sub(r"\1\2", text))


# ---- MiniMax M3 ------------------------------------------------------------------------

_M3_SPACE = "]<]minimax[>["
_M3_CALL = re.compile(r'\]<\]minimax\[>\[<invoke name="([^"]*)">')
_M3_SECTION = re.compile(r"\]<\]minimax\[>\[</?tool_call>")
_M3_MOST_DEPTH = 50


def read_minimax_m3(text: str) -> Pieces:
    """Read MiniMax M3's tags, one for each argument, field and item of a list."""
    for piece in _regions(text, _M3_CALL, lambda _: f"{_M3_SPACE}</invoke>"):
        if isinstance(piece, str):
            yield _M3_SECTION.sub("", piece)
        elif piece[1] is None:
            yield WrittenCall(piece[2], piece[0][1], problem=CUT_OFF)
        else:
            yield _m3_call(WrittenCall(piece[2], piece[0][1]), piece[1])


def _m3_call(call: WrittenCall, body: str) -> WrittenCall:
    first, *tags = body.split(_M3_SPACE)
    try:
        fields, n = _m3_fields(tags, 0, 0)
    except ValueError as error:
        return _invalid(call, str(error))
    if n < len(tags) or first.strip() or len(dict(fields)) < len(fields):
        return _invalid(call, _UNMATCHED)
    return WrittenCall(call.text, call.name, dict(fields))


def _m3_fields(
    parts: list[str], at: int, depth: int
) -> tuple[list[tuple[str, object]], int]:
    """Read tags up to a closing tag. Each part is a tag and the text after it."""
    if depth > _M3_MOST_DEPTH:
        raise UnreadableError("the call is nested too deeply")
    fields: list[tuple[str, object]] = []
    while at < len(parts) and not parts[at].startswith("</"):
        tag, closing, text = parts[at].partition(">")
        key = tag.removeprefix("<")
        inner, at = _m3_fields(parts, at + 1, depth + 1)
        end = f"</{key}>"
        if not closing or at >= len(parts) or parts[at].rstrip() != end:
            raise UnreadableError(_UNMATCHED)
        at += 1
        fields.append((key, _m3_value(text, inner)))
    return fields, at


def _m3_value(text: str, fields: list[tuple[str, object]]) -> object:
    """Return the value of a tag, from its text or from the tags in it."""
    if not fields:
        return Untyped(text)
    is_list = all(name == "item" for name, _ in fields)
    if text.strip() or (not is_list and len(dict(fields)) < len(fields)):
        raise UnreadableError(_UNMATCHED)
    return [item for _, item in fields] if is_list else dict(fields)
