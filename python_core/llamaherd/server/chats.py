"""Messages and options of chats.

Clients turn thinking on and off with fields of OpenAI's API, vLLM, llama-server and
DeepSeek's API. Each of these fields is converted to the options `thinking` and
`variables` of the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.calls.asks.options import checked_variables
from llamaherd.calls.chat.messages import check_texts
from llamaherd.engine.core.thinking import MOST_TOKENS, checked_thinking
from llamaherd.server.errors import JSON, bad_field
from llamaherd.server.schemas import (
    FLAG,
    LIST,
    OBJECT,
    TEXT,
    WHOLE,
    Schema,
    check_value,
    checked_fields,
    either,
    list_schema,
    part,
    ref,
    unfit,
    whole,
    with_more,
)
from llamaherd.server.unused_fields import check_of_message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.server.settings import ServerSettings

KWARGS = "chat_template_kwargs"
# Fields of several APIs that limit the tokens of a thought. If a request has several of
# these fields, the last in this order applies.
BUDGETS = (
    *("thinking_token_budget", "reasoning_budget_tokens"),
    *("thinking_budget", "thinking_budget_tokens"),
)
# Fields that chats have in addition to declared options.
CHAT_FIELDS: dict[str, Schema] = {
    "messages": list_schema(ref("Message"), minItems=1),
    "reasoning_effort": TEXT,
    "enable_thinking": FLAG,
    **dict.fromkeys(BUDGETS, whole(-1, MOST_TOKENS)),
    "continue_final_message": FLAG,
    "add_generation_prompt": FLAG,
}
_THINKING = part(
    {"type": {"enum": ["enabled", "disabled"]}}, budget_tokens=whole(0, MOST_TOKENS)
)
_SWITCHES = ("enable_thinking", "thinking")  # variables of templates
_NO_EFFORT = "none"


def with_defaults(options: Mapping[str, Any], settings: ServerSettings) -> dict[str, Any]:
    """Return the options of a chat, with the server's options as defaults."""
    defaults = {
        "thinking": settings.thinking,
        "template": settings.template,
        "merge_system": settings.merge_system or None,
    }
    merged = {name: value for name, value in defaults.items() if value is not None}
    merged |= options
    if settings.variables or options.get("variables"):
        variables = options.get("variables") or {}
        variables = checked_variables("variables", variables)
        merged["variables"] = {**settings.variables, **variables}
    return merged


def chat_options(
    request: Mapping[str, object], settings: ServerSettings
) -> dict[str, Any]:
    """Return the options of a chat from the fields of a request."""
    variables: dict[str, object] = {}
    if KWARGS in request:
        variables = checked_variables(KWARGS, request[KWARGS])
    options: dict[str, Any] = {
        name: request[name] for name in ("show_schema",) if name in request
    }
    effort = request.get("reasoning_effort")
    if effort not in (None, _NO_EFFORT):
        variables = {"reasoning_effort": effort, **variables}
    if "enable_thinking" in request:
        variables = {"enable_thinking": request["enable_thinking"], **variables}
    switch = next((variables[n] for n in _SWITCHES if n in variables), None)
    if effort == _NO_EFFORT or switch is False:
        options["thinking"] = False
    elif (effort is not None or switch is True) and settings.thinking is False:
        options["thinking"] = None  # -1: the template decides
    for name in BUDGETS:
        if name in request:
            n = request[name]  # -1: no limit, 0: no thought
            options["thinking"] = None if n == -1 else n or False
    if "thinking" in request:
        options["thinking"] = _thinking(request["thinking"])
    if variables:
        options["variables"] = variables
    return {"chat": True, **with_defaults(options, settings)}


def thinking_names(request: Mapping[str, object]) -> dict[str, str]:
    """Map the option `thinking` to the field of a request that sets it, for errors."""
    fields = ("reasoning_effort", KWARGS, "enable_thinking", *BUDGETS, "thinking")
    names = [name for name in fields if name in request]
    return {"thinking": names[-1]} if names else {}


def check_last_message(request: Mapping[str, object], *, is_assistants: bool) -> None:
    """Check that the fields about the last message request the supported behaviour."""
    for name, usual in (
        ("continue_final_message", is_assistants),
        ("add_generation_prompt", not is_assistants),
    ):
        if request.get(name, usual) is not usual:
            raise bad_field(
                name,
                f"{name} must be {JSON.literal(usual)} here, not "
                f"{JSON.literal(not usual)}: the answer continues the last message if "
                "it is the assistant's, or else begins a new one",
            )


def _thinking(value: object) -> Any:  # checked by the library
    """Convert `thinking` for the library; in some APIs it is an object with a type."""
    if not isinstance(value, dict) or "type" not in value:
        return checked_thinking("thinking", value)
    fields = checked_fields("thinking", value, _THINKING, param="thinking")
    is_on = fields["type"] == "enabled"
    return checked_thinking("thinking", is_on and fields.get("budget_tokens", True))


_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
# Fields of messages with calls of functions and their results.
_OF_TOOLS = {"assistant": "tool_calls", "tool": "tool_call_id"}
# Clients send calls back with fields of their own.
_CALL = with_more(
    part(
        {"function": with_more(part({"name": TEXT}, arguments=TEXT))},
        id=TEXT,
        type=TEXT,
        index=WHOLE,
    )
)
_MESSAGE = with_more(
    part(
        role=TEXT,
        content=either(TEXT, LIST),
        refusal=TEXT,
        tool_calls=list_schema(_CALL),
        tool_call_id=TEXT,
    )
)


def chat_messages(messages: Sequence[object]) -> list[dict[str, object]]:
    """Convert the messages of a conversation to the format of the library."""
    talk = [_message(f"messages[{i}]", message) for i, message in enumerate(messages)]
    check_texts("messages", talk)
    return talk


def _message(name: str, message: object) -> dict[str, object]:
    if not isinstance(message, dict):
        raise unfit(name, "an object with role and content", message)
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise unfit(f"{name}.role", f"one of {', '.join(_ROLES)}", role)
    of_tools = _OF_TOOLS.get(role)
    accepted = {"role", "content", of_tools}
    if of_tools == "tool_calls":
        accepted.add("refusal")
    check_value(name, {key: message[key] for key in accepted & message.keys()}, _MESSAGE)
    for key, value in message.items():
        if key not in accepted:
            check_of_message(name, key, value)
    converted: dict[str, object] = {"role": _ROLES[role]}
    if of_tools == "tool_calls" and message.get("tool_calls"):
        converted["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    if of_tools == "tool_call_id" and message.get("tool_call_id") is not None:
        converted["tool_call_id"] = message["tool_call_id"]
    if "tool_calls" in converted and message.get("content") in (None, []):
        converted["content"] = ""  # a call needs no text
    else:
        converted["content"] = _message_text(f"{name}.content", message)
    thought = message.get("reasoning_content") or message.get("reasoning")
    return {**converted, "reasoning_content": thought} if thought else converted


def _call(call: Mapping[str, Any]) -> dict[str, object]:
    """Return a call of a function in a message of the assistant."""
    function, identity = call["function"], {"id": call["id"]} if call.get("id") else {}
    # A call of a function without arguments may have null or an empty text.
    invocation = {
        "name": function["name"],
        "arguments": function.get("arguments") or "{}",
    }
    return {**identity, "type": "function", "function": invocation}


def _message_text(name: str, message: Mapping[str, object]) -> str:
    """Return the text of a message, joined if it has several parts."""
    content = message.get("content")
    if message["role"] == "assistant" and content is None:
        content = message.get("refusal")
    if content == []:
        raise unfit(name, _PARTS, content)
    return content_text(name, content)


_PARTS = "a string or a list of parts with text"
# Field with the text of a part, by its type. `refusal` is the text with which a model
# refused to answer.
TEXT_OF = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
}
# Such a part, by the field with its text; the other fields have no effect.
PARTS = {
    field: part(
        {"type": TEXT, field: TEXT}, annotations=LIST, logprobs=LIST, cache_control=OBJECT
    )
    for field in set(TEXT_OF.values())
}


def content_text(name: str, content: object) -> str:
    """Return the text of a content: a text, or the joined texts of its parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise unfit(name, _PARTS, content)
    return joined_text(name, content)


def joined_text(name: str, parts: Sequence[object], first: int = 0) -> str:
    """Return the text of the content of a message that has several parts."""
    return "".join(_text_of(f"{name}[{i}]", item) for i, item in enumerate(parts, first))


def _text_of(name: str, item: object) -> str:
    kind = item.get("type") if isinstance(item, dict) else None
    if kind is not None and not isinstance(kind, str):
        raise unfit(f"{name}.type", "a string", kind)
    if kind is None:
        raise unfit(name, '{"type": "text", "text": "..."}', item)
    if kind not in TEXT_OF:
        text = f"{name} is of type {JSON.literal(kind[:60])}: this model reads text only"
        raise bad_field(name, text)
    field = TEXT_OF[kind]
    return str(checked_fields(name, item, PARTS[field])[field])
