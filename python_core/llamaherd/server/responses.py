"""Requests of `/v1/responses`; the server stores none of them.

A request is rewritten as a request of `/v1/chat/completions`, so both give the same
answer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.server import schemas, tools
from llamaherd.server.chats import content_text
from llamaherd.server.errors import bad_field
from llamaherd.server.logprobs import MOST_LOGPROBS
from llamaherd.server.openai import RewrittenChat, chat_properties
from llamaherd.server.responses_answer import ResponseWriter
from llamaherd.server.sampling import (
    ANSWER_SCHEMA,
    FORM_FIELDS,
    FORM_KINDS,
    NAMES_OF_SCHEMA,
    STOP_FIELD,
)
from llamaherd.server.schemas import (
    FLAG,
    LIST,
    OBJECT,
    TEXT,
    Schema,
    checked_fields,
    either,
    list_schema,
    part,
    record,
    shown_value,
    unfit,
    whole,
)
from llamaherd.server.unused_fields import FIELDS, PADDING, VERBOSITY, UnusedField

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llamaherd.server.running import ParsedRequest

_FORMAT = part(
    {"type": {"enum": list(FORM_KINDS)}}, schema=ANSWER_SCHEMA, **NAMES_OF_SCHEMA
)
_TOOL = part(
    {"name": schemas.TEXT},
    type={"enum": ["function"], "$comment": tools.NO_OTHERS},
    description=schemas.TEXT,
    parameters=schemas.OBJECT,
    strict=schemas.FLAG,
)
_CHOICE = part({"type": {"enum": ["function"]}, "name": schemas.TEXT})
_SUMMARY = {"enum": ["auto", "concise", "detailed"]}
_LOGPROBS = "message.output_text.logprobs"
_INCLUDES = (_LOGPROBS, "reasoning.encrypted_content")  # the second has no effect
_OWN: dict[str, Schema] = {
    "input": {"type": ["string", "array"], "minLength": 1, "minItems": 1},
    "instructions": schemas.TEXT,
    # `verbosity` and `include` of encrypted thoughts have no effect, and a thought is
    # never shortened to a summary.
    "text": part(verbosity={"enum": list(VERBOSITY)}, format=_FORMAT),
    "reasoning": part(effort=schemas.TEXT, summary=_SUMMARY, generate_summary=_SUMMARY),
    "include": list_schema({"enum": list(_INCLUDES)}),
    "max_output_tokens": whole(1),
    "top_logprobs": whole(0, MOST_LOGPROBS),
    "stream_options": part(**{PADDING: schemas.FLAG}),
    **tools.TOOL_FIELDS,
    "tools": list_schema(_TOOL),
    "tool_choice": either({**schemas.TEXT, "enum": list(tools.CHOICES)}, _CHOICE),
}
# Fields of chats that have another name in this API.
_OF_CHATS = frozenset(
    {
        *("messages", "max_tokens", "max_completion_tokens", "n", "logprobs"),
        *("prompt_logprobs", "add_special_tokens", STOP_FIELD),
        *("reasoning_effort", "continue_final_message", "add_generation_prompt"),
        *(FORM_FIELDS.keys() - {"structured_outputs"}),
    }
)
_KEEPS_NOTHING = "this server stores no responses: send the whole conversation in input"
_NOT_SHORTENED = "a conversation is never shortened"
# Fields that request unsupported features.
REFUSED: dict[str, UnusedField] = {
    "previous_response_id": UnusedField(TEXT, (), _KEEPS_NOTHING),
    "conversation": UnusedField(either(TEXT, OBJECT), (), _KEEPS_NOTHING),
    "background": UnusedField(
        FLAG, (False,), "responses do not run in the background: see /v1/batches"
    ),
    "prompt": UnusedField(OBJECT, (), "this server stores no prompts: send it in input"),
    "truncation": UnusedField(TEXT, ("disabled",), _NOT_SHORTENED),
    "max_tool_calls": UnusedField(
        schemas.WHOLE, (), "this server calls no functions itself"
    ),
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
# Name of a field in this API by its name in chats, for errors.
_NAMES = {
    "messages": "input",
    "response_format": "text",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning",
}


class Responses(RewrittenChat):
    """Format of `/v1/responses`."""

    path = "/responses"
    summary = "Answer a conversation, as OpenAI's Responses API does."
    field_schemas: ClassVar = {**chat_properties(_OF_CHATS), **_OWN}
    needed = ("input",)
    names = _NAMES
    length = "max_output_tokens"
    writer = ResponseWriter
    unused: ClassVar = {**FIELDS, **REFUSED}
    answers = record(
        id=schemas.TEXT,
        object={"const": "response"},
        output=list_schema(schemas.OBJECT),
        usage=schemas.OBJECT,
    )
    in_batches = True

    def understand(self, fields: dict[str, object]) -> ParsedRequest:
        return replace(super().understand(fields), repeated=_repeated_settings(fields))

    def as_chat(self, request: Mapping[str, Any]) -> dict[str, object]:
        chat = {name: value for name, value in request.items() if name not in _OWN}
        chat["messages"] = messages_of(request)
        chat["stream"] = request.get("stream", False)
        if "max_output_tokens" in request:
            chat["max_completion_tokens"] = request["max_output_tokens"]
        chat |= _response_format(request.get("text", {}).get("format"))
        effort = request.get("reasoning", {}).get("effort")
        if effort is not None:
            chat["reasoning_effort"] = effort
        n_top = request.get("top_logprobs", 0)
        if n_top or _LOGPROBS in request.get("include", ()):
            chat |= {"logprobs": True, "top_logprobs": n_top}
        if "tools" in request:
            chat["tools"] = tools.as_functions(request["tools"], "parameters")
        choice = request.get("tool_choice")
        if isinstance(choice, dict):
            function = {"name": choice["name"]}
            chat["tool_choice"] = {"type": "function", "function": function}
        elif choice is not None:
            chat["tool_choice"] = choice
        if "parallel_tool_calls" in request:
            chat["parallel_tool_calls"] = request["parallel_tool_calls"]
        return chat


def _response_format(form: Mapping[str, Any] | None) -> dict[str, object]:
    """Return the format of the answer as `response_format` of chats."""
    if form is None:
        return {}
    schema = form.get("schema")
    if form["type"] == "json_schema" and schema is None:
        raise unfit("text.format.schema", "an object", schema)
    return {"response_format": {"type": form["type"], "schema": schema}}


def _repeated_settings(fields: Mapping[str, object]) -> dict[str, object]:
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
    request: Any = {name: value for name, value in fields.items() if value is not None}
    text: Any = request.get("text", {})
    verbosity = {name: setting for name, setting in text.items() if name == "verbosity"}
    form = text.get("format") or {"type": "text"}
    reasoning = {"effort": None, "summary": None}
    return {
        **{name: request.get(name, value) for name, value in defaults.items()},
        "text": {"format": form, **verbosity},
        "reasoning": {**reasoning, **request.get("reasoning", {})},
        "metadata": fields.get("metadata") or {},
    }


_ROLES_OF_ITEMS = ("user", "assistant", "system", "developer")
# Fields of items in responses, which clients send back.
_IDENTITY = dict.fromkeys(("type", "id", "status", "created_by"), schemas.TEXT)
_CONTENT = either(schemas.TEXT, schemas.LIST)
_PIECES = list_schema(schemas.with_more(part({"text": schemas.TEXT}, type=schemas.TEXT)))
_ITEMS = {
    "message": part(
        {"role": schemas.TEXT, "content": _CONTENT}, phase=schemas.TEXT, **_IDENTITY
    ),
    "function_call": part(
        {"call_id": schemas.TEXT, "name": schemas.TEXT},
        arguments=schemas.TEXT,
        namespace=schemas.TEXT,
        **_IDENTITY,
    ),
    "function_call_output": part(
        {"call_id": schemas.TEXT, "output": _CONTENT}, **_IDENTITY
    ),
    "reasoning": part(
        summary=_PIECES, content=_PIECES, encrypted_content=schemas.TEXT, **_IDENTITY
    ),
}


def messages_of(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the conversation as messages of chats, after a system message."""
    conversation = _Conversation()
    request_input = request["input"]
    if isinstance(request_input, str):
        conversation.messages.append({"role": "user", "content": request_input})
    else:
        for i, item in enumerate(request_input):
            conversation.add(f"input[{i}]", item)
    messages = conversation.messages
    if "instructions" in request:
        _prepend(messages, request["instructions"])
    if not messages:
        raise bad_field("input", "input has no message")
    return messages


def _prepend(messages: list[dict[str, Any]], text: str) -> None:
    """Put a text before the conversation, into its system message if it has one."""
    if messages and messages[0]["role"] in ("system", "developer"):
        messages[0] = {**messages[0], "content": f"{text}\n\n{messages[0]['content']}"}
    else:
        messages.insert(0, {"role": "system", "content": text})


class _Conversation:
    """Messages of a conversation, built from its items in order.

    Thought, text and calls of one answer are separate items, but one message.
    """

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._thought = ""
        self._readers: dict[str, Callable[[str, dict[str, Any]], None]] = {
            "message": self._message,
            "function_call": self._call,
            "function_call_output": self._result,
            "reasoning": self._reasoning,
        }

    def add(self, where: str, item: object) -> None:
        """Add an item."""
        if not isinstance(item, dict):
            raise unfit(where, "an object", item)
        kind = item.get("type")
        kind = "message" if kind is None else kind
        if not isinstance(kind, str) or kind not in self._readers:
            kinds = ", ".join(self._readers)
            text = f"{where}.type must be one of {kinds}, not {shown_value(kind)}"
            if kind == "item_reference":
                text = f"{where} refers to an item, but no items are stored: send it"
            raise bad_field(f"{where}.type", text)
        role = item.get("role")
        if kind == "message" and role not in _ROLES_OF_ITEMS:
            raise unfit(f"{where}.role", f"one of {', '.join(_ROLES_OF_ITEMS)}", role)
        self._readers[kind](where, checked_fields(where, item, _ITEMS[kind]))

    def _message(self, where: str, item: dict[str, Any]) -> None:
        role, content = item["role"], content_text(f"{where}.content", item["content"])
        if role == "assistant":
            self._add_answer(content)
        else:
            self._thought = ""
            self.messages.append({"role": role, "content": content})

    def _call(self, _where: str, item: dict[str, Any]) -> None:
        # A call of a function without arguments may have null or an empty text.
        function = {"name": item["name"], "arguments": item.get("arguments") or "{}"}
        call = {"id": item["call_id"], "type": "function", "function": function}
        last_turn = self.messages[-1] if self.messages else {}
        if last_turn.get("role") != "assistant" or self._thought:
            last_turn = self._add_answer("")
        last_turn.setdefault("tool_calls", []).append(call)

    def _result(self, where: str, item: dict[str, Any]) -> None:
        output = content_text(f"{where}.output", item["output"])
        result = {"role": "tool", "tool_call_id": item["call_id"], "content": output}
        self._thought = ""
        self.messages.append(result)

    def _reasoning(self, _where: str, item: dict[str, Any]) -> None:
        pieces = item.get("content") or item.get("summary") or ()
        self._thought += "".join(piece["text"] for piece in pieces)

    def _add_answer(self, content: str) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if self._thought:
            message["reasoning_content"] = self._thought
            self._thought = ""
        self.messages.append(message)
        return message
