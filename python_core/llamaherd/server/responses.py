"""Requests of `/v1/responses`; the server stores none of them.

A request is rewritten as a request of `/v1/chat/completions`, so both give the same
answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.argument import Argument, Field
from llamaherd.server import answer_form, stop_texts, tools
from llamaherd.server.errors import ApiError, bad_field, renamed, unknown_field
from llamaherd.server.neutral import (
    FLAG,
    INTEGER,
    LIST,
    OBFUSCATION,
    OBJECT,
    TEXT,
    VERBOSITY,
    UnusedField,
    check_unused,
)
from llamaherd.server.openai import ChatCompletions, logprobs_writer
from llamaherd.server.responses_answer import ResponseAnswer
from llamaherd.server.responses_input import messages_of
from llamaherd.server.wording import JSON
from llamaherd.server.work_api import check_answer_fits, given_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from llamaherd.model.model import Model
    from llamaherd.server.api_shape import ParsedRequest
    from llamaherd.server.settings import ServerSettings

_OWN = frozenset(
    {
        *("input", "instructions", "text", "max_output_tokens", "reasoning"),
        *("include", "top_logprobs", "stream", "stream_options"),
        *tools.FIELDS,
    }
)
# Fields of chats that have another name in this API.
_OF_CHATS = frozenset(
    {
        *("messages", "max_tokens", "max_completion_tokens", "n", "logprobs"),
        *("prompt_logprobs", "add_special_tokens", stop_texts.FIELD),
        *("reasoning_effort", "continue_final_message", "add_generation_prompt"),
        *(answer_form.FIELDS - {"structured_outputs"}),
    }
)
_KEEPS_NOTHING = "this server stores no responses: send the whole conversation in input"
_NOT_SHORTENED = "a conversation is never shortened"
# Fields that request unsupported features.
REFUSED: dict[str, UnusedField] = {
    "previous_response_id": UnusedField(TEXT, (), _KEEPS_NOTHING),
    "conversation": UnusedField(TEXT + OBJECT, (), _KEEPS_NOTHING),
    "background": UnusedField(
        FLAG, (False,), "responses do not run in the background: see /v1/batches"
    ),
    "prompt": UnusedField(OBJECT, (), "this server stores no prompts: send it in input"),
    "truncation": UnusedField(TEXT, ("disabled",), _NOT_SHORTENED),
    "max_tool_calls": UnusedField(INTEGER, (), "this server calls no functions itself"),
    "context_management": UnusedField(LIST, ([],), _NOT_SHORTENED),
    "access_programs": UnusedField(OBJECT, ({},), "this server has no programs"),
    "background_options": UnusedField(
        OBJECT, (), "responses do not run in the background"
    ),
    "image": UnusedField(OBJECT, (), "this server makes no images"),
    "previous_response": UnusedField(OBJECT, (), _KEEPS_NOTHING),
    "previous_input_messages": UnusedField(LIST, (), _KEEPS_NOTHING),
    "moderation": UnusedField(OBJECT, (), "this server has no moderation"),
}
_SUMMARIES = ("auto", "concise", "detailed")
_LOGPROBS = "message.output_text.logprobs"
_INCLUDES = (_LOGPROBS, "reasoning.encrypted_content")  # the second has no effect
# Name of a field in this API by its name in chats, for errors.
_NAMES = {
    "messages": "input",
    "response_format": "text",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning",
}


class Responses:
    """Format of `/v1/responses`."""

    fields = (ChatCompletions.fields - _OF_CHATS) | _OWN

    def __init__(self, model: Model, settings: ServerSettings) -> None:
        self._model = model
        self._settings = settings
        self._chats = ChatCompletions(model, settings)

    def understand(self, fields: dict[str, object]) -> ParsedRequest:
        """See `ApiShape`."""
        given = given_fields(fields, self.fields, check=_check_unused)
        if "max_output_tokens" in given:
            n = checks.integer("max_output_tokens", given["max_output_tokens"], 1)
            n_ctx = self._settings.n_ctx_of(self._model)
            check_answer_fits("max_output_tokens", n, n_ctx)
        try:
            with renamed(_NAMES):
                parsed = self._chats.understand(_as_chat(given))
        except ApiError as error:
            error.param = _NAMES.get(error.param or "", error.param)
            raise
        names = {key: _NAMES.get(field, field) for key, field in parsed.names.items()}
        return replace(parsed, names=names, repeated=_repeated(given, fields))

    def answer(self, parsed: ParsedRequest) -> ResponseAnswer:
        """Return the writer of one answer."""
        return ResponseAnswer(
            self._model,
            self._settings.model_name,
            parsed,
            logprobs_writer(self._model, parsed),
        )


def _check_unused(name: str, value: object, names: Collection[str]) -> None:
    """Check a field without an effect; some have other rules than in chats.

    Raises:
        ApiError: The field is unknown, has a wrong type or is not supported.
    """
    if name in REFUSED:
        REFUSED[name].check(name, value)
    else:
        check_unused(name, value, names)


def _as_chat(given: Mapping[str, object]) -> dict[str, object]:
    """Return the request in the format of `/v1/chat/completions`."""
    chat = {name: value for name, value in given.items() if name not in _OWN}
    chat["messages"] = messages_of(given)
    chat["stream"] = given.get("stream", False)
    _check_stream_options(given)
    if "max_output_tokens" in given:
        chat["max_completion_tokens"] = given["max_output_tokens"]
    chat |= _text_settings(given.get("text", {}))
    chat |= _reasoning(given.get("reasoning", {}))
    chat |= _logprobs(given)
    if "tools" in given:
        chat["tools"] = _tools(given["tools"])
    if "tool_choice" in given:
        chat["tool_choice"] = _tool_choice(given["tool_choice"])
    if "parallel_tool_calls" in given:
        chat["parallel_tool_calls"] = given["parallel_tool_calls"]
    return chat


def _check_stream_options(given: Mapping[str, object]) -> None:
    options = _object("stream_options", given.get("stream_options", {}))
    for name, value in options.items():
        if name != "include_obfuscation":
            raise unknown_field(f"stream_options.{name}")
        OBFUSCATION.check(f"stream_options.{name}", value)


def _text_settings(value: object) -> dict[str, object]:
    """Return the format of the answer as `response_format` of chats."""
    text = _object("text", value)
    for name, each in text.items():
        if name == "verbosity":  # without an effect
            if each is not None:
                checks.choice(Argument("text", (Field(name),)), each, VERBOSITY)
        elif name != "format":
            raise unknown_field(f"text.{name}", ["text.format"])
    if text.get("format") is None:
        return {}
    form = _object("text.format", text["format"])
    where = Argument("text", (Field("format"), Field("type")))
    kind = checks.choice(where, form.get("type"), answer_form.KINDS)
    if kind != "json_schema":
        return {"response_format": form}
    own = {name: each for name, each in form.items() if name != "type"}
    if not isinstance(own.get("schema"), (dict, bool)):
        raise bad_field("text.format.schema", "text.format.schema must be an object")
    for name in own.keys() - {"name", "description", "strict", "schema"}:
        raise unknown_field(f"text.format.{name}")
    return {"response_format": {"type": kind, "json_schema": own}}


def _reasoning(value: object) -> dict[str, object]:
    """Return the settings of a thought. A thought is never shortened to a summary."""
    own = _object("reasoning", value)
    for name in own.keys() - {"effort", "summary", "generate_summary"}:
        raise unknown_field(f"reasoning.{name}", ["reasoning.effort"])
    summary = own.get("summary") or own.get("generate_summary")
    if summary is not None:
        where = Argument("reasoning", (Field("summary"),))
        checks.choice(where, summary, _SUMMARIES)
    effort = own.get("effort")
    if effort is None:
        return {}
    where = Argument("reasoning", (Field("effort"),))
    return {"reasoning_effort": checks.text(where, effort)}


def _logprobs(given: Mapping[str, object]) -> dict[str, object]:
    includes = given.get("include", [])
    if not isinstance(includes, list):
        raise bad_field("include", f"include must be a list, not {_shown(includes)}")
    for each in includes:
        if each not in _INCLUDES:
            known = " and ".join(_INCLUDES)
            raise bad_field("include", f"include may have {known}, not {_shown(each)}")
    n_top = given.get("top_logprobs", 0)
    if n_top == 0 and _LOGPROBS not in includes:
        return {}
    return {"logprobs": True, "top_logprobs": n_top}


def _tools(value: object) -> object:
    """Return the functions in the format of chats; the functions are checked later."""
    if not isinstance(value, list):
        return value
    found = []
    for i, tool in enumerate(value):
        own = _object(f"tools[{i}]", tool)
        if own.get("type") != "function":
            kind = _shown(own.get("type"))
            text = f'tools[{i}].type must be "function", not {kind}: this server has none'
            raise bad_field("tools", text)
        function = {k: v for k, v in own.items() if k != "type" and v is not None}
        found.append({"type": "function", "function": function})
    return found


def _tool_choice(value: object) -> object:
    if not isinstance(value, dict) or value.get("type") != "function":
        return value
    return {"type": "function", "function": {"name": value.get("name")}}


def _repeated(
    given: Mapping[str, object], fields: Mapping[str, object]
) -> dict[str, object]:
    """Return the settings that a response repeats from its request."""
    defaults: dict[str, object] = {
        "instructions": None,
        "max_output_tokens": None,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_logprobs": 0,
        "top_p": 1.0,
    }
    text = _object("text", given.get("text", {}))
    verbosity = {name: each for name, each in text.items() if name == "verbosity"}
    form = text.get("format") or {"type": "text"}
    reasoning = {"effort": None, "summary": None}
    return {
        **{name: given.get(name, value) for name, value in defaults.items()},
        "text": {"format": form, **verbosity},
        "reasoning": {**reasoning, **_object("reasoning", given.get("reasoning", {}))},
        "metadata": fields.get("metadata") or {},
    }


def _object(name: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        text = f"{name} must be an object, not {_shown(value)}"
        raise bad_field(name.partition(".")[0].partition("[")[0], text)
    return value


def _shown(value: object) -> str:
    return JSON.value(value, checks.shown(value))
