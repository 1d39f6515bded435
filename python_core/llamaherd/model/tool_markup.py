"""Readers of tool calls whose arguments are in markup like XML, or in special quotes.

DeepSeek, Gemma 4, Kimi K3 and MiniMax write such calls.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from llamaherd.model.tool_calls import (
    CUT_OFF,
    ToolAnswer,
    ToolCall,
    answer_with,
    checked_call,
    typed_arguments,
    types_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.model.tool_calls import Tools

# ---- DeepSeek R1 and V3 ----------------------------------------------------------------

_DEEPSEEK = re.compile(  # with wide bars
    r"<\uff5ctool▁call▁begin\uff5c>(.*?)<\uff5ctool▁sep\uff5c>(.*?)(<\uff5ctool▁call▁end\uff5c>|\Z)",
    re.DOTALL,
)
_DEEPSEEK_SECTION = re.compile(
    r"<\uff5ctool▁calls▁(?:begin|end)\uff5c>|<\uff5cend▁of▁sentence\uff5c>"
)
_FENCED = re.compile(r"\s*(\S+)\s*```(?:json)?\s*(.*?)\s*(?:```\s*)?", re.DOTALL)


def read_deepseek(text: str, _tools: Tools) -> ToolAnswer:
    """Read `<|tool▁call▁begin|>name<|tool▁sep|>{...}<|tool▁call▁end|>`.

    R1 and V3 write "function" in place of the name, and the name before fenced JSON.
    """
    calls: list[ToolCall] = []
    for head, body, end in _DEEPSEEK.findall(text):
        fenced = _FENCED.fullmatch(body) if head.strip() == "function" else None
        name, arguments = (fenced[1], fenced[2]) if fenced else (head.strip(), body)
        cut = ToolCall(name, {}, CUT_OFF, body)
        calls.append(checked_call(name, arguments, body) if end else cut)
    rest = _DEEPSEEK.sub("", text)
    return answer_with([_DEEPSEEK_SECTION.sub("", rest) if calls else rest], calls)


# ---- DeepSeek V3.2 and V4, MiniMax M2 --------------------------------------------------

_INVOKE = re.compile(
    r'<([^\s<>/]*)invoke name="([^"]*)">(.*?)(</\1invoke>|\Z)', re.DOTALL
)
_GIVEN = re.compile(
    r'<([^\s<>/]*)parameter name="([^"]*)"(?: string="(true|false)")?>'
    r"(.*?)</\1parameter>",
    re.DOTALL,
)
_INVOKE_SECTION = re.compile(r"</?[^\s<>/]*(?:tool_calls?|function_calls)>")


def read_invoke(text: str, tools: Tools) -> ToolAnswer:
    """Read `<invoke name="f"><parameter name="a">1</parameter></invoke>`.

    The names of tags may begin with a prefix. DeepSeek marks each value as text or as
    JSON.
    """
    calls: list[ToolCall] = []
    for _, name, body, end in _INVOKE.findall(text):
        if not end:
            calls.append(ToolCall(name, {}, CUT_OFF, body))
            continue
        types = types_of(name, tools)
        told = {"true": "string", "false": "object"}
        pairs, known = [], dict[str, object]()
        for _, key, is_text, value in _GIVEN.findall(body):
            pairs.append((key, value))
            known[key] = told.get(is_text, types.get(key))
        calls.append(ToolCall(name, typed_arguments(pairs, known)))
    rest = _INVOKE.sub("", text)
    return answer_with([_INVOKE_SECTION.sub("", rest) if calls else rest], calls)


# ---- Gemma 4 ---------------------------------------------------------------------------

_GEMMA = re.compile(
    r"<\|tool_call>\s*call:([^{\s]*)\s*(\{.*?)(<tool_call\|>|\Z)", re.DOTALL
)
_QUOTE = '<|"|>'
_KEY = re.compile(r"([{,]\s*)([^\s\"{}\[\],:]+)(\s*:)")
_BARE_NULL = re.compile(r"(?<=[:\[,])\s*None(?=\s*[,\]}])")


def _gemma_json(body: str) -> str:
    """Convert arguments with Gemma's quotes to JSON."""
    parts = body.split(_QUOTE)
    for i in range(0, len(parts), 2):  # outside of quotes
        parts[i] = _BARE_NULL.sub("null", _KEY.sub(r'\1"\2"\3', parts[i]))
    for i in range(1, len(parts), 2):
        parts[i] = json.dumps(parts[i], ensure_ascii=False)
    return "".join(parts)


def read_gemma(text: str, _tools: Tools) -> ToolAnswer:
    """Read `<|tool_call>call:name{key:<|"|>text<|"|>,n:1}<tool_call|>`."""
    calls: list[ToolCall] = []
    for name, body, end in _GEMMA.findall(text):
        cut = ToolCall(name, {}, CUT_OFF, body)
        calls.append(checked_call(name, _gemma_json(body), body) if end else cut)
    return answer_with([_GEMMA.sub("", text)], calls)


# ---- Kimi K3 ---------------------------------------------------------------------------

_K3_CALL = re.compile(
    r'<\|open\|>call tool="([^"]*)"[^<]*<\|sep\|>(.*?)(<\|close\|>call<\|sep\|>|\Z)',
    re.DOTALL,
)
_K3_ARGUMENT = re.compile(
    r'<\|open\|>argument key="([^"]*)" type="([^"]*)"<\|sep\|>(.*?)'
    r"<\|close\|>argument<\|sep\|>",
    re.DOTALL,
)
_K3_JSON = re.compile(
    r"<\|open\|>json[^<]*<\|sep\|>(.*?)<\|close\|>json<\|sep\|>", re.DOTALL
)
_K3_THOUGHT = re.compile(
    r"<\|open\|>think<\|sep\|>.*?<\|close\|>think<\|sep\|>", re.DOTALL
)
_K3_MARK = re.compile(r"<\|(?:open|close)\|>[^<]*<\|sep\|>|<\|end_of_msg\|>")


def read_kimi_k3(text: str, _tools: Tools) -> ToolAnswer:
    """Read `<|open|>call tool="f"<|sep|>...<|close|>call<|sep|>`."""
    calls: list[ToolCall] = []
    for name, body, end in _K3_CALL.findall(text):
        given = _K3_JSON.search(body)
        if not end:
            calls.append(ToolCall(name, {}, CUT_OFF, body))
        elif given:
            calls.append(checked_call(name, given[1], body))
        else:
            found = _K3_ARGUMENT.findall(body)
            types: dict[str, object] = {key: kind for key, kind, _ in found}
            pairs = [(key, value) for key, _, value in found]
            calls.append(ToolCall(name, typed_arguments(pairs, types)))
    if not calls:
        return ToolAnswer(text, ())
    rest = _K3_THOUGHT.sub("", _K3_CALL.sub("", text))
    return answer_with([_K3_MARK.sub("", rest)], calls)


# ---- MiniMax M3 ------------------------------------------------------------------------

_M3_SPACE = "]<]minimax[>["
_M3_CALL = re.compile(
    r'\]<\]minimax\[>\[<invoke name="([^"]*)">(.*?)(\]<\]minimax\[>\[</invoke>|\Z)',
    re.DOTALL,
)
_M3_SECTION = re.compile(r"\]<\]minimax\[>\[</?tool_call>")
_M3_MOST_DEPTH = 50
_M3_UNMATCHED = "the tags of the call do not match"


def read_minimax_m3(text: str, tools: Tools) -> ToolAnswer:
    """Read MiniMax M3's tags, one for each argument, field and item of a list."""
    calls = [
        _m3_call(name, body, types_of(name, tools))
        if end
        else ToolCall(name, {}, CUT_OFF, body)
        for name, body, end in _M3_CALL.findall(text)
    ]
    rest = _M3_CALL.sub("", text)
    return answer_with([_M3_SECTION.sub("", rest) if calls else rest], calls)


def _m3_call(name: str, body: str, types: Mapping[str, object]) -> ToolCall:
    first, *parts = body.split(_M3_SPACE)
    try:
        found, n = _m3_fields(parts, 0, types, 0)
    except ValueError as error:
        return ToolCall(name, {}, str(error), body)
    if n < len(parts) or first.strip():
        return ToolCall(name, {}, _M3_UNMATCHED, body)
    return ToolCall(name, dict(found))


def _m3_fields(
    parts: list[str], at: int, types: Mapping[str, object], depth: int
) -> tuple[list[tuple[str, object]], int]:
    """Read tags up to a closing tag. Each part is a tag and the text after it."""
    if depth > _M3_MOST_DEPTH:
        raise ValueError("the call is nested too deeply")
    found: list[tuple[str, object]] = []
    while at < len(parts) and not parts[at].startswith("</"):
        tag, closing, text = parts[at].partition(">")
        key = tag.removeprefix("<")
        inner, at = _m3_fields(parts, at + 1, {}, depth + 1)
        if not closing or at >= len(parts) or not parts[at].startswith(f"</{key}>"):
            raise ValueError(_M3_UNMATCHED)
        at += 1
        if not inner:
            value = typed_arguments([(key, text)], types)[key]
        elif all(name == "item" for name, _ in inner):
            value = [each for _, each in inner]
        else:
            value = dict(inner)
        found.append((key, value))
    return found, at
