"""Readers of the formats in which models write tool calls."""

from __future__ import annotations

import re
from functools import partial

from llamaherd.model.tool_calls import (
    CUT_OFF,
    ToolAnswer,
    ToolCall,
    ToolFormat,
    Tools,
    answer_with,
    call_of,
    checked_call,
    json_value,
    typed_arguments,
    types_of,
)
from llamaherd.model.tool_markup import (
    read_deepseek,
    read_gemma,
    read_invoke,
    read_kimi_k3,
    read_minimax_m3,
)

_SPACES = re.compile(r"[\s,;]*")
_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)(</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_WRAPPER = re.compile(r"</?(?:seed:)?tool_call>")
_GLM = re.compile(r"<tool_call>([^<{]*)(.*?)(</tool_call>|\Z)", re.DOTALL)
_PAIR = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
_MISTRAL = re.compile(r"([^\[{]+?)(?:\[CALL_ID\][^\[]*)?\[ARGS\]")
_OSS_CALL = re.compile(
    r"(?:<\|start\|>assistant)?(?:<\|channel\|>\w+)?\s+to=functions\.([^\s<]+)"
    r"[^{}]*?<\|message\|>(.*?)(<\|call\|>|(?=<\|start\|>)|\Z)",
    re.DOTALL,
)
_OSS_THOUGHT = re.compile(
    r"<\|channel\|>analysis<\|message\|>.*?(?:<\|end\|>|\Z)", re.DOTALL
)
_OSS_MARK = re.compile(
    r"<\|start\|>assistant|<\|channel\|>\w+|<\|message\|>|<\|(?:end|return)\|>"
)
_KIMI = re.compile(
    r"<\|tool_call_begin\|>(.*?)<\|tool_call_argument_begin\|>(.*?)"
    r"(<\|tool_call_end\|>|\Z)",
    re.DOTALL,
)
_KIMI_SECTION = re.compile(r"<\|tool_calls_section_(?:begin|end)\|>")
_KIMI_NAME = re.compile(r"(?:functions\.)?(.+?)(?::\d+)?", re.DOTALL)


def _calls_at(text: str, at: int) -> tuple[list[ToolCall], int]:
    """Read the JSON calls that start at a position: single calls or lists of calls."""
    calls: list[ToolCall] = []
    while True:
        at = _end_of_spaces(text, at)
        if text[at : at + 1] not in ("{", "["):
            return calls, at
        try:
            value, end = json_value(text, at)
        except ValueError:
            return calls, at
        each = value if isinstance(value, list) else [value]
        calls += [call_of(one, text[at:end]) for one in each]
        at = end


def _end_of_spaces(text: str, at: int) -> int:
    found = _SPACES.match(text, at)
    return at if found is None else found.end()


def _read_json(opening: str, closing: str, text: str, _tools: Tools) -> ToolAnswer:
    """Read calls in JSON between two markers."""
    kept, calls, at = [], list[ToolCall](), 0
    while (start := text.find(opening, at)) >= 0:
        kept.append(text[at:start])
        found, at = _calls_at(text, start + len(opening))
        calls += found
        if text.startswith(closing, at):
            at += len(closing)
        elif at < len(text) or not found:  # the text up to the closing marker is not JSON
            end = text.find(closing, at)
            at = len(text) if end < 0 else end + len(closing)
            problem = CUT_OFF if end < 0 else "the call is not valid JSON"
            calls.append(ToolCall("", {}, problem, text[start:at]))
    return answer_with([*kept, text[at:]], calls)


def _read_xml(text: str, tools: Tools) -> ToolAnswer:
    """Read `<function=name><parameter=key>value</parameter></function>`."""
    calls: list[ToolCall] = []
    for name, body, end in _FUNCTION.findall(text):
        pairs = _PARAMETER.findall(body)
        if not end:
            calls.append(ToolCall(name.strip(), {}, CUT_OFF, body))
        elif not pairs and body.strip().startswith("{"):
            calls.append(checked_call(name.strip(), body, body))
        else:
            arguments = typed_arguments(pairs, types_of(name.strip(), tools))
            calls.append(ToolCall(name.strip(), arguments))
    if not calls:
        return ToolAnswer(text, ())
    return answer_with([_WRAPPER.sub("", _FUNCTION.sub("", text))], calls)


def _read_glm(text: str, tools: Tools) -> ToolAnswer:
    """Read `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value>`."""
    calls: list[ToolCall] = []
    for name, body, end in _GLM.findall(text):
        pairs, rest = _PAIR.findall(body), _PAIR.sub("", body).strip()
        problem = "" if end else CUT_OFF
        if rest or not name.strip():
            problem = problem or "the call is not a name with keys and values"
        arguments = (
            {} if problem else typed_arguments(pairs, types_of(name.strip(), tools))
        )
        calls.append(ToolCall(name.strip(), arguments, problem, body if problem else ""))
    return answer_with([_GLM.sub("", text)], calls)


def _read_mistral(text: str, _tools: Tools) -> ToolAnswer:
    """Read `[TOOL_CALLS][{...}]` and `[TOOL_CALLS]name[ARGS]{...}`."""
    before, *blocks = text.split("[TOOL_CALLS]")
    calls: list[ToolCall] = []
    for block in blocks:
        named = _MISTRAL.match(block)
        if named:
            calls.append(checked_call(named[1].strip(), block[named.end() :], block))
            continue
        found, end = _calls_at(block, 0)
        calls += found
        rest = block[end:].removesuffix("</s>").strip()
        if not found or rest[:1] in ("{", "["):
            calls.append(ToolCall("", {}, "the call is not valid JSON", block))
    return answer_with([before], calls)


def _read_oss(text: str, _tools: Tools) -> ToolAnswer:
    """Read gpt-oss's turns with the recipient `to=functions.name`."""
    calls = [
        checked_call(name, body, body)
        if end or _is_whole(body)
        else ToolCall(name, {}, CUT_OFF, body)
        for name, body, end in _OSS_CALL.findall(text)
    ]
    rest = _OSS_THOUGHT.sub("", _OSS_CALL.sub("", text))
    return ToolAnswer(_OSS_MARK.sub("", rest).strip(), tuple(calls))


def _is_whole(body: str) -> bool:
    try:
        json_value(body.strip())
    except ValueError:
        return False
    return True


def _read_llama(text: str, _tools: Tools) -> ToolAnswer:
    """Read an answer of one call in JSON, or of several calls separated by semicolons."""
    body = text.replace("<|python_tag|>", "").strip()
    found, end = _calls_at(body, 0)
    rest = body[end:].strip()
    if found and all(each.name for each in found) and not rest.startswith(("{", "[")):
        return answer_with([rest], found)
    if body.startswith('{"name"') or text.lstrip().startswith("<|python_tag|>"):
        return ToolAnswer("", (ToolCall("", {}, "the call is not valid JSON", body),))
    return ToolAnswer(text, ())


def _read_kimi(text: str, _tools: Tools) -> ToolAnswer:
    """Read `<|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{...}`."""
    calls: list[ToolCall] = []
    for ident, body, end in _KIMI.findall(text):
        name = _KIMI_NAME.fullmatch(ident.strip())
        called = name[1] if name else ""
        cut = ToolCall(called, {}, CUT_OFF, body)
        calls.append(checked_call(called, body, body) if end else cut)
    return answer_with([_KIMI_SECTION.sub("", _KIMI.sub("", text))], calls)


_PAIRS = {
    "hermes": ("<tool_call>", "</tool_call>"),
    "nemotron": ("<TOOLCALL>", "</TOOLCALL>"),
    "list": ("<tool_calls>", "</tool_calls>"),
    "cohere": ("<|START_ACTION|>", "<|END_ACTION|>"),
}
# A template has the first of these formats that can read back a call of the template.
FORMATS = (
    *(ToolFormat(name, partial(_read_json, *pair)) for name, pair in _PAIRS.items()),
    ToolFormat("glm", _read_glm),
    ToolFormat("xml", _read_xml),
    ToolFormat("mistral", _read_mistral),
    ToolFormat("gpt-oss", _read_oss),
    ToolFormat("kimi", _read_kimi),
    ToolFormat("deepseek", read_deepseek),
    ToolFormat("invoke", read_invoke),
    ToolFormat("gemma", read_gemma),
    ToolFormat("kimi-k3", read_kimi_k3),
    ToolFormat("minimax-m3", read_minimax_m3),
    ToolFormat("llama", _read_llama),
)
