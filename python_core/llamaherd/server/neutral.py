"""Fields of requests without an effect on the answer.

Clients send many fields by default. A field with the default behaviour, or with only
information about the client, is accepted. A field that requests an unsupported feature is
refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Values of `verbosity` in OpenAI's API. Only models that are trained for them read them.
VERBOSITY = ("low", "medium", "high")
# Fields of OpenAI's API and of similar servers, with their neutral values. Null is
# neutral, too.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "add_generation_prompt": (True,),
    "audio": (),
    "best_of": (1,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "continue_final_message": (False,),
    "documents": ([],),
    "dynatemp_range": (0,),
    "echo": (False,),  # in chats
    "function_call": ("none", "auto"),
    "functions": ([],),
    "enable_thinking": (),
    "include_reasoning": (True,),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1,),
    "modalities": (["text"],),
    "prediction": (),
    "prompt_logprobs": (),
    "reasoning": (),
    "reasoning_format": ("auto", "deepseek"),
    "reasoning_effort": (),
    "return_token_ids": (False,),
    "samplers": (),
    "skip_special_tokens": (True,),
    "suffix": ("",),
    "thinking": (),
    "thinking_budget": (),
    "thinking_budget_tokens": (),
    "thinking_token_budget": (),
    "tool_choice": ("none", "auto"),  # without tools
    "tools": ([],),
    "top_logprobs": (0,),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
    "verbosity": VERBOSITY,
    "web_search_options": (),
}
# Fields about the client, or for other servers, with the types of their values. They do
# not affect the answer.
_OF_CLIENTS: dict[str, tuple[type, ...]] = {
    "cache_prompt": (bool,),
    "chat_id": (str,),
    "id": (str,),
    "metadata": (dict,),
    "parallel_tool_calls": (bool,),  # no tools are supported
    "prompt_cache_key": (str,),
    "prompt_cache_retention": (str,),
    "request_id": (str,),
    "safety_identifier": (str,),
    "service_tier": (str,),
    "session_id": (str,),
    "store": (bool,),
    "timings_per_token": (bool,),
    "user": (str,),
}
_JSON_TYPES = {bool: "boolean", str: "string", dict: "object"}
# Fields of messages: names, and fields of answers that clients send back.
_OF_MESSAGES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "reasoning": (str,),
    "reasoning_content": (str,),
    "type": (str,),
}


def is_known(name: str) -> bool:
    """Whether a field exists on other servers but is not supported here."""
    return name in _NEUTRAL or name in _OF_CLIENTS


def asks_nothing(name: str, value: object) -> bool:
    """Whether a field with this value has no effect on the answer."""
    if value is None:
        return is_known(name)
    values = _NEUTRAL.get(name, ())
    return any(_is_same(value, each) for each in values) or _is_one(
        _OF_CLIENTS, name, value
    )


def is_of_messages(name: str, value: object) -> bool:
    """Whether a field of a message has no effect on the answer.

    Clients send messages of answers back, with null for missing fields.
    """
    return value is None or value == [] or _is_one(_OF_MESSAGES, name, value)


def is_of_client(name: str, value: object) -> bool:
    """Whether a field only describes the client."""
    return name in _OF_CLIENTS and (value is None or _is_one(_OF_CLIENTS, name, value))


def schemas(*, of_clients_only: bool = False) -> dict[str, dict[str, object]]:
    """Return the JSON Schemas of these fields in requests, null left out.

    Args:
        of_clients_only: Whether to return only the fields about clients.
    """
    found: dict[str, dict[str, object]] = {}
    if not of_clients_only:
        found = {
            name: {"enum": list(values)} if values else {"type": "null"}
            for name, values in _NEUTRAL.items()
        }
    for name, kinds in _OF_CLIENTS.items():
        found[name] = {"type": [_JSON_TYPES[kind] for kind in kinds]}
    return found


def _is_one(types: Mapping[str, tuple[type, ...]], name: str, value: object) -> bool:
    return isinstance(value, types.get(name, ()))


def _is_same(value: object, other: object) -> bool:
    """Whether two values are equal in JSON; true does not equal 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other
