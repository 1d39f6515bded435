"""`POST /v1/messages` of Anthropic's API.

A request is rewritten as a request of `/v1/chat/completions`, so both give the same
answer.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.calls.chat.chat import chat_renderer
from llamaherd.calls.chat.thinking_format import format_of
from llamaherd.server import schemas
from llamaherd.server.answers import FormWriter, ServedAnswer
from llamaherd.server.chats import content_text, joined_text
from llamaherd.server.openai import RewrittenChat, chat_properties
from llamaherd.server.protocol import dumps
from llamaherd.server.running import ParsedRequest, counts
from llamaherd.server.sampling import ANSWER_SCHEMA, FORM_FIELDS, STOP_FIELD, stop_of
from llamaherd.server.schemas import (
    COUNT,
    LIST,
    OBJECT,
    TEXT,
    Schema,
    checked_fields,
    either,
    list_schema,
    part,
    record,
    unfit,
    whole,
)
from llamaherd.server.tools import NO_OTHERS, FunctionCall, as_functions
from llamaherd.server.unused_fields import FIELDS, UnusedField

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.engine.core.results import Result
    from llamaherd.engine.model.model import Model
    from llamaherd.server.errors import ApiError

_BLOCKS: Schema = either(schemas.TEXT, list_schema(schemas.OBJECT))
_OF_BLOCKS = {"type": schemas.TEXT, "cache_control": schemas.OBJECT}
_BLOCK_KINDS = {
    "tool_result": part(
        tool_use_id=schemas.TEXT,
        content=either(schemas.TEXT, schemas.LIST),
        is_error=schemas.FLAG,
        **_OF_BLOCKS,
    ),
    "thinking": part({"thinking": schemas.TEXT}, signature=schemas.TEXT, **_OF_BLOCKS),
    "redacted_thinking": part(data=schemas.TEXT, **_OF_BLOCKS),
    "tool_use": part(
        {"name": schemas.TEXT, "input": schemas.OBJECT},
        id=schemas.TEXT,
        caller=schemas.OBJECT,
        **_OF_BLOCKS,
    ),
}
_TOOL = part(
    {"name": schemas.TEXT},
    type={"enum": ["custom"], "$comment": NO_OTHERS},
    description=schemas.TEXT,
    input_schema=schemas.OBJECT,
    strict=schemas.FLAG,
    cache_control=schemas.OBJECT,
)
_FORMAT = part({"type": {"enum": ["json_schema"]}}, schema=ANSWER_SCHEMA)
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_THINKING = {"enabled": "enabled", "adaptive": "enabled", "disabled": "disabled"}
_OWN: dict[str, Schema] = {
    "messages": list_schema(
        part({"role": {"enum": ["user", "assistant"]}, "content": _BLOCKS}), minItems=1
    ),
    "max_tokens": whole(1),
    "system": _BLOCKS,
    "stop_sequences": list_schema(schemas.TEXT),
    "tools": list_schema(_TOOL),
    "tool_choice": part(
        {"type": {"enum": [*_CHOICES, "tool"]}},
        name=schemas.TEXT,
        disable_parallel_tool_use=schemas.FLAG,
    ),
    "thinking": part(
        {"type": {"enum": list(_THINKING)}},
        budget_tokens=schemas.WHOLE,
        display=schemas.TEXT,
    ),
    "output_config": part(effort=schemas.TEXT, format=_FORMAT),
}
# Fields of chats that have another name in this API.
_OF_CHATS = frozenset(
    {
        *("max_completion_tokens", "stop", "stream_options", "n", "logprobs"),
        *("top_logprobs", "prompt_logprobs", "add_special_tokens", STOP_FIELD),
        *("reasoning_effort", "parallel_tool_calls", "continue_final_message"),
        *("add_generation_prompt", *FORM_FIELDS),
    }
)
_UNUSED = {
    "cache_control": UnusedField(OBJECT, None),
    "container": UnusedField(TEXT, (), "this server has no containers"),
    "context_management": UnusedField(OBJECT, (), "a conversation is never shortened"),
    "diagnostics": UnusedField(OBJECT, None),
    "inference_geo": UnusedField(TEXT, None),
    "mcp_servers": UnusedField(LIST, ([],), "this server calls no functions itself"),
    "speed": UnusedField(TEXT, ("standard",)),
    # By these details Anthropic's clients send the whole conversation instead.
    "thread": UnusedField(
        OBJECT,
        (),
        "this server stores no conversations: send all messages",
        {"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
    ),
    "user_profile_id": UnusedField(TEXT, None),
    "workspace_id": UnusedField(TEXT, None),
}
# Name of a field in this API by its name in chats, for errors.
_NAMES = {
    "stop": "stop_sequences",
    "response_format": "output_config",
    "reasoning_effort": "output_config",
    "max_completion_tokens": "max_tokens",
}
_STOP_REASONS = {"length": "max_tokens", "tool_calls": "tool_use"}


def _messages(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the conversation in the format of chats."""
    conversation: list[dict[str, Any]] = []
    if "system" in request:
        conversation.append(
            {"role": "system", "content": content_text("system", request["system"])}
        )
    for i, message in enumerate(request["messages"]):
        where, content = f"messages[{i}]", message["content"]
        blocks = [{"type": "text", "text": content}]
        if isinstance(content, list):
            blocks = [
                _block_of(f"{where}.content[{j}]", block)
                for j, block in enumerate(content)
            ]
        if message["role"] == "user":
            conversation += _of_user(f"{where}.content", blocks)
        else:
            conversation.append(_of_assistant(f"{where}.content", blocks))
    return conversation


def _block_of(where: str, block: dict[str, Any]) -> dict[str, Any]:
    """Return a checked block; those with text are checked by `joined_text`."""
    kind = block.get("type")
    schema = _BLOCK_KINDS.get(kind) if isinstance(kind, str) else None
    return block if schema is None else checked_fields(where, block, schema)


def _of_user(where: str, blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages of a user: results of functions, and texts between them."""
    if not blocks:
        return [{"role": "user", "content": ""}]
    messages: list[dict[str, Any]] = []
    for i, block in enumerate(blocks):
        name = f"{where}[{i}]"
        if block.get("type") == "tool_result":
            content = content_text(f"{name}.content", block.get("content", ""))
            call_id = block.get("tool_use_id")
            messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
            continue
        text = joined_text(where, [block], first=i)
        if messages and messages[-1]["role"] == "user":
            messages[-1]["content"] += text
        else:
            messages.append({"role": "user", "content": text})
    return messages


def _of_assistant(where: str, blocks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return a message of the assistant: its thought, text and calls."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    for i, block in enumerate(blocks):
        kind = block.get("type")
        if kind == "thinking":
            thought = message.get("reasoning_content", "") + block["thinking"]
            message["reasoning_content"] = thought
        elif kind == "redacted_thinking":
            continue
        elif kind == "tool_use":
            arguments = json.dumps(block["input"], ensure_ascii=False)
            function = {"name": block["name"], "arguments": arguments}
            call = {"id": block.get("id"), "type": "function", "function": function}
            message.setdefault("tool_calls", []).append(call)
        else:
            message["content"] += joined_text(where, [block], first=i)
    return message


class MessageWriter(FormWriter):
    """Writer of one message."""

    streams_calls = True

    def __init__(self, model: Model, model_name: str, parsed: ParsedRequest) -> None:
        super().__init__(model, model_name, parsed)
        self._head = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": model_name,
        }
        self._index = -1  # of the last block of a stream
        self._open = ""  # type of a block that has begun and not ended

    def body(self, replies: Sequence[ServedAnswer]) -> dict[str, object]:
        (reply,) = replies
        content: list[dict[str, object]] = []
        if reply.result.thinking is not None:
            thought = {"thinking": reply.result.thinking, "signature": ""}
            content.append(_block("thinking", **thought))
        if reply.text or not reply.calls:
            content.append(_block("text", text=reply.text or ""))
        content += [
            _block("tool_use", id=call.id, name=call.name, input=_input(call))
            for call in reply.calls
        ]
        used = {"usage": _usage(reply.result)}
        return {**self._head, "content": content, **self._ending(reply), **used}

    def start(self) -> str:
        usage = {"input_tokens": self._parsed.n_prompt_tokens, "output_tokens": 0}
        ending = {"stop_reason": None, "stop_sequence": None}
        message: dict[str, object] = {**self._head, "content": [], **ending}
        return _event("message_start", message={**message, "usage": usage})

    def thought(self, text: str) -> str:
        new = _block("thinking", thinking="", signature="")
        return self._grow(new, "thinking_delta", thinking=text)

    def text(self, text: str, _n_tokens: int) -> str:
        return self._grow(_block("text", text=""), "text_delta", text=text)

    def call(self, parts: Sequence[Mapping[str, Any]], _n_tokens: int) -> str:
        return "".join(
            self._begin_call(part["id"], part["function"]["name"])
            if "id" in part
            else self._arguments(part["function"]["arguments"])
            for part in parts
        )

    def late(self, reply: ServedAnswer) -> str:
        calls = (
            self._begin_call(call.id, call.name) + self._arguments(call.arguments)
            for call in reply.calls
        )
        return "".join((super().late(reply), *calls))

    def finish(self, reply: ServedAnswer) -> str:
        events = []
        if self._index < 0 or (self._open == "thinking" and not reply.calls):
            events.append(self._begin(_block("text", text="")))
        events.append(self._close())
        used = _usage(reply.result)
        events.append(_event("message_delta", delta=self._ending(reply), usage=used))
        return "".join((*events, _event("message_stop")))

    def _begin_call(self, call_id: str, name: str) -> str:
        return self._begin(_block("tool_use", id=call_id, name=name, input={}))

    def _arguments(self, arguments: str) -> str:
        delta = {"type": "input_json_delta", "partial_json": arguments}
        return _event("content_block_delta", index=self._index, delta=delta)

    def _grow(self, new: dict[str, object], kind: str, **piece: str) -> str:
        """Return the events of a piece; before them, the events that begin a block."""
        begin = "" if self._open == new["type"] else self._begin(new)
        delta = {"type": kind, **piece}
        return begin + _event("content_block_delta", index=self._index, delta=delta)

    def _begin(self, block: dict[str, object]) -> str:
        events = self._close()
        self._index += 1
        self._open = str(block["type"])
        return events + _event(
            "content_block_start", index=self._index, content_block=block
        )

    def _close(self) -> str:
        if not self._open:
            return ""
        self._open = ""
        return _event("content_block_stop", index=self._index)

    def _ending(self, reply: ServedAnswer) -> dict[str, object]:
        """Return why the message ended, with the stop text that ended it."""
        stop = stop_of(self._model, reply.result, self._parsed.params.stop or ())
        usual = "stop_sequence" if stop else "end_turn"
        # The reason of a call of a named function is "stop" in OpenAI's API.
        reason = "tool_calls" if reply.calls and reply.reason == "stop" else reply.reason
        return {
            "stop_reason": _STOP_REASONS.get(reason, usual),
            "stop_sequence": stop or None,
        }


def _block(kind: str, /, **fields: object) -> dict[str, object]:
    return {"type": kind, **fields}


def _event(name: str, /, **fields: object) -> str:
    return f"event: {name}\ndata: {dumps({'type': name, **fields})}\n\n"


def _input(call: FunctionCall) -> object:
    """Return the arguments of a call; {} if max_tokens cut them off."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return {}


def _usage(result: Result) -> dict[str, object]:
    """Return the counts of tokens; the input does not include reused tokens."""
    n_prompt, n_new = counts([result])
    return {
        "input_tokens": n_prompt - result.n_reused_tokens,
        "cache_creation_input_tokens": 0,  # no cost in this server
        "cache_read_input_tokens": result.n_reused_tokens,
        "output_tokens": n_new,
    }


class Messages(RewrittenChat):
    """Format of `/v1/messages`."""

    path = "/messages"
    summary = "Answer a conversation, as Anthropic's API does."
    field_schemas: ClassVar = {**chat_properties(_OF_CHATS), **_OWN}
    needed = ("messages", "max_tokens")
    names = _NAMES
    length = "max_tokens"
    writer = MessageWriter
    unused: ClassVar = {**FIELDS, **_UNUSED}
    answers = record(
        id=schemas.TEXT,
        type={"const": "message"},
        role={"const": "assistant"},
        content=list_schema(record(type=schemas.TEXT)),
        stop_reason=schemas.TEXT,
        usage=record(input_tokens=COUNT, output_tokens=COUNT),
    )
    in_batches = True

    @classmethod
    def error_event(cls, error: ApiError) -> str:
        """Return an error within a stream of events, which is its last event."""
        return f"event: error\n{super().error_event(error)}"

    def understand(self, fields: dict[str, object]) -> ParsedRequest:
        parsed = super().understand(fields)
        # The first event of a stream has the number of tokens of the prompt.
        return replace(parsed, with_running_usage=parsed.stream)

    def as_chat(self, request: Mapping[str, Any]) -> dict[str, object]:
        chat = {name: value for name, value in request.items() if name not in _OWN}
        chat["messages"] = _messages(request)
        chat["max_completion_tokens"] = request["max_tokens"]
        if "stop_sequences" in request:
            chat["stop"] = request["stop_sequences"]
        if "tools" in request:
            chat["tools"] = as_functions(request["tools"], "input_schema")
        if "tool_choice" in request:
            choice = request["tool_choice"]
            is_named, name = choice["type"] == "tool", choice.get("name")
            if is_named and name is None:
                raise unfit("tool_choice.name", "a string", None, param="tool_choice")
            named = {"type": "function", "function": {"name": name}}
            chat["tool_choice"] = named if is_named else _CHOICES[choice["type"]]
        if "thinking" in request:
            thinking = request["thinking"]
            settings = {k: v for k, v in thinking.items() if k != "display"}
            if thinking["type"] != "adaptive" or self._has_thoughts():
                chat["thinking"] = {**settings, "type": _THINKING[thinking["type"]]}
        config = request.get("output_config", {})
        if config.get("effort") is not None:
            chat["reasoning_effort"] = config["effort"]
        if config.get("format") is not None:
            schema = config["format"].get("schema")
            chat["response_format"] = {"type": "json_schema", "schema": schema}
        return chat

    def _has_thoughts(self) -> bool:
        """Whether the chat template has markers of thoughts."""
        renderer = chat_renderer(self._model, template=self._settings.template)
        return format_of(renderer) is not None
