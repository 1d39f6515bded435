"""Readers of tool calls in the formats of chat templates, and the search for a format."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from llamaherd.calls.chat.tool_calls import (
    CUT_OFF,
    NOT_JSON,
    Pieces,
    ToolFormat,
    WrittenCall,
    call_in_json,
    json_at,
    parse_tool_calls,
)
from llamaherd.calls.chat.tool_markup import (
    read_gemma,
    read_glm,
    read_invoke,
    read_kimi_k3,
    read_minimax_m3,
    read_xml,
)
from llamaherd.engine.core.errors import ChatTemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.calls.chat.renderer import Renderer


_BETWEEN = re.compile(r"[\s,;]*")
_SPACES = re.compile(r"\s*")


def _values_at(text: str, at: int) -> tuple[list[WrittenCall], int, str]:
    """Read JSON calls at a position; return them, their end, and what is wrong there."""
    calls: list[WrittenCall] = []
    while True:
        start = _end_of(_BETWEEN, text, at)
        if text[start : start + 1] not in ("{", "["):
            return calls, at, ""
        try:
            value, at = json_at(text, start)
        except ValueError as error:
            return calls, at, f"{NOT_JSON}: {error}"
        values = value if isinstance(value, list) else [value]
        whole = text[start:at]
        calls += [call_in_json(value, whole) for value in values]


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _read_json(opening: str, closing: str, text: str) -> Pieces:
    """Read calls in JSON between two markers."""
    at = 0
    while (start := text.find(opening, at)) >= 0:
        yield text[at:start]
        calls, at, problem = _values_at(text, start + len(opening))
        yield from calls
        end = _end_of(_BETWEEN, text, at)
        if text.startswith(closing, end):
            at = end + len(closing)
            if not calls:
                yield WrittenCall(text[start:at], problem=NOT_JSON)
        elif end < len(text) or not calls:  # the text up to the marker is not JSON
            start = at if calls else start
            limit = text.find(opening, max(at, start + len(opening)))
            limit = len(text) if limit < 0 else limit
            end = text.find(closing, at, limit)
            at = len(text) if end < 0 else end + len(closing)
            problem = CUT_OFF if end < 0 else problem or NOT_JSON
            yield WrittenCall(text[start:at], problem=problem)
        else:
            at = end
    yield text[at:]


def _read_named(
    opening: re.Pattern[str], closing: re.Pattern[str], text: str
) -> Iterator[str | WrittenCall]:
    """Read calls whose marker has the name, followed by the arguments in JSON."""
    at = 0
    while start := opening.search(text, at):
        yield text[at : start.start()]
        name, end = (start[start.lastindex or 0] or "").strip(), start.end()
        problem, arguments = "", None
        try:
            arguments, end = json_at(text, _end_of(_SPACES, text, end))
        except ValueError as error:
            problem = f"{NOT_JSON}: {error}"
        following = opening.search(text, end)
        limit = len(text) if following is None else following.start()
        match = closing.search(text, end, limit)
        stop, at = (limit, limit) if match is None else match.span()
        if problem and match is None:
            problem, at = CUT_OFF, len(text)
        elif not problem and text[end:stop].strip():
            problem = "there is text after the arguments"
        elif not problem and not isinstance(arguments, dict):
            problem = "the arguments must be an object"
        yield WrittenCall(text[start.start() : at], name, arguments, problem)
    yield text[at:]


# ---- DeepSeek R1 and V3 ----------------------------------------------------------------
# R1 and V3 write "function" in place of the name, and the name before fenced JSON.

_DEEPSEEK = (
    re.compile(  # with wide bars
        r"<\uff5ctool▁call▁begin\uff5c>\s*"
        r"(?:function<\uff5ctool▁sep\uff5c>\s*(\S+)\s*```(?:json)?"
        r"|([^<]*)<\uff5ctool▁sep\uff5c>)"
    ),
    re.compile(r"(?:```\s*)?<\uff5ctool▁call▁end\uff5c>"),
)
_DEEPSEEK_SECTION = re.compile(
    r"<\uff5ctool▁calls▁(?:begin|end)\uff5c>|<\uff5cend▁of▁sentence\uff5c>"
)

# ---- Kimi K2 ---------------------------------------------------------------------------

_KIMI = (
    re.compile(
        r"<\|tool_call_begin\|>\s*(?:functions\.)?([^<]*?)(?::\d+)?\s*"
        r"<\|tool_call_argument_begin\|>"
    ),
    re.compile(r"<\|tool_call_end\|>"),
)
_KIMI_SECTION = re.compile(r"<\|tool_calls_section_(?:begin|end)\|>")


def _without(
    section: re.Pattern[str],
    opening: re.Pattern[str],
    closing: re.Pattern[str],
    text: str,
) -> Pieces:
    """Read calls in a section, whose markers are no part of the text."""
    for piece in _read_named(opening, closing, text):
        yield section.sub("", piece) if isinstance(piece, str) else piece


# ---- gpt-oss ---------------------------------------------------------------------------

_OSS_CALL = re.compile(
    r"(?:<\|start\|>assistant)?(?:<\|channel\|>\w+)?\s+to=functions\.([^\s<]+)"
    r"[^{}<]*(?:<\|(?!message)[^{}<]*)*<\|message\|>"
)
_OSS_END = re.compile(r"<\|call\|>|(?=<\|start\|>)")
_OSS_THOUGHT = re.compile(
    r"<\|channel\|>analysis<\|message\|>.*?(?:<\|end\|>|\Z)", re.DOTALL
)
_OSS_MARK = re.compile(
    r"<\|start\|>assistant|<\|channel\|>\w+|<\|message\|>|<\|(?:end|return)\|>"
)


def _read_oss(text: str) -> Pieces:
    """Read gpt-oss's turns with the recipient `to=functions.name`."""
    for piece in _read_named(_OSS_CALL, _OSS_END, text):
        if isinstance(piece, str):
            yield _OSS_MARK.sub("", _OSS_THOUGHT.sub("", piece))
        else:
            yield piece


# ---- Mistral ---------------------------------------------------------------------------

_MISTRAL_MARK = "[TOOL_CALLS]"
_MISTRAL = re.compile(r"([^\[{]+?)(?:\[CALL_ID\][^\[]*)?\[ARGS\]\s*")


def _read_mistral(text: str) -> Pieces:
    """Read `[TOOL_CALLS][{...}]` and `[TOOL_CALLS]name[ARGS]{...}`."""
    at = 0
    while (start := text.find(_MISTRAL_MARK, at)) >= 0:
        yield text[at:start]
        calls, at, problem = _named_at(text, start + len(_MISTRAL_MARK))
        if not calls and not problem:
            calls, at, problem = _values_at(text, at)
        yield from calls
        if problem or not calls:
            end = text.find(_MISTRAL_MARK, at)
            end = len(text) if end < 0 else end
            unread = text[at if calls else start : end]
            yield WrittenCall(unread, problem=problem or NOT_JSON)
            at = end
    yield text[at:].removesuffix("</s>")


def _named_at(text: str, at: int) -> tuple[list[WrittenCall], int, str]:
    """Read the calls with `[ARGS]` that start at a position, see `_values_at`."""
    calls: list[WrittenCall] = []
    while named := _MISTRAL.match(text, at):
        try:
            arguments, end = json_at(text, named.end())
        except ValueError as error:
            return calls, at, f"{NOT_JSON}: {error}"
        problem = "" if isinstance(arguments, dict) else "the arguments must be an object"
        call = WrittenCall(text[at:end], named[1].strip(), arguments, problem)
        calls.append(call)
        at = end
    return calls, at, ""


# ---- Llama -----------------------------------------------------------------------------

_LLAMA_MARK = "<|python_tag|>"
_LLAMA_NAME = re.compile(r'\{\s*"name"\s*:\s*"([^"]*)"')


def _read_llama(text: str) -> Pieces:
    """Read JSON calls; without a mark, only calls of declared functions."""
    body = text.lstrip()
    is_marked = body.startswith(_LLAMA_MARK)
    body = body.removeprefix(_LLAMA_MARK)
    calls, end, problem = _values_at(body, 0)
    if not is_marked and calls and (calls[0].problem or not calls[0].name):
        calls, problem = [], ""
    named = _LLAMA_NAME.match(body, _end_of(_BETWEEN, body, end)) if problem else None
    for call in calls:
        yield replace(call, is_sure=is_marked)
    rest = body[end:] if calls else text
    if named or (is_marked and not calls) or (problem and calls):
        name = named[1] if named else ""
        yield WrittenCall(rest, name, None, problem or NOT_JSON, is_sure=is_marked)
    else:
        yield rest


_PAIRS = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "nemotron": ("<TOOLCALL>", "</TOOLCALL>"),
    "list": ("<tool_calls>", "</tool_calls>"),
    "cohere": ("<|START_ACTION|>", "<|END_ACTION|>"),
}
# A template has the first of these formats that can read back a call of the template.
FORMATS = (
    *(ToolFormat(name, partial(_read_json, *pair)) for name, pair in _PAIRS.items()),
    ToolFormat("glm", read_glm),
    ToolFormat("xml", read_xml),
    ToolFormat("mistral", _read_mistral),
    ToolFormat("gpt-oss", _read_oss, has_marks=True),
    ToolFormat("kimi", partial(_without, _KIMI_SECTION, *_KIMI)),
    ToolFormat("deepseek", partial(_without, _DEEPSEEK_SECTION, *_DEEPSEEK)),
    ToolFormat("invoke", read_invoke),
    ToolFormat("gemma", read_gemma),
    ToolFormat("kimi-k3", read_kimi_k3),
    ToolFormat("minimax-m3", read_minimax_m3),
    ToolFormat("llama", _read_llama),
)


_NAME, _ARGUMENTS = "look_up_7", {"word": "Ww7Ww"}
_ASKED: dict[str, object] = {"role": "user", "content": "Qq7Qq"}
_CALL: dict[str, object] = {
    "id": "call00001",
    "type": "function",
    "function": {"name": _NAME, "arguments": _ARGUMENTS},
}
_CALLED: dict[str, object] = {"role": "assistant", "content": "", "tool_calls": [_CALL]}


def tool_format_of(renderer: Renderer) -> ToolFormat | None:
    """Return the first format that reads back a call of the template, or None."""
    return _tool_format_of(renderer.probe({}))


@lru_cache(maxsize=64)
def _tool_format_of(renderer: Renderer) -> ToolFormat | None:
    try:
        whole = renderer.render([_ASKED, _CALLED], add_generation_prompt=False)
    except ChatTemplateError:
        return None
    answer = whole.rpartition("Qq7Qq")[2]
    for tool_format in FORMATS:
        # For an answer that consists only of a call, the header of the turn comes
        # first.
        start = answer.find('{"name"') if tool_format.name == "llama" else 0
        calls = parse_tool_calls(answer[max(0, start) :], tool_format).calls
        if [(c.name, dict(c.arguments)) for c in calls] == [(_NAME, _ARGUMENTS)]:
            return tool_format
    return None
