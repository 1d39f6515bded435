"""Fields of requests that change nothing in an answer.

Clients send many fields by default. One that asks for what happens anyway, or that only
says who asks, must not keep a client out; one that asks for what there is not is refused
by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Fields of OpenAI's API and of servers like it, with the values that ask for nothing. A
# null does so as well.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "add_generation_prompt": (True,),
    "audio": (),
    "best_of": (1,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "continue_final_message": (False,),
    "documents": ([],),
    "dynatemp_range": (0,),
    "echo": (False,),
    "frequency_penalty": (0,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "grammar": ("",),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_json": (),
    "guided_regex": (),
    "include_reasoning": (),
    "include_stop_str_in_output": (False,),
    "json_schema": (),
    "length_penalty": (1,),
    "logprobs": (False,),
    "min_p": (),
    "min_tokens": (0,),
    "mirostat": (0,),
    "modalities": (["text"],),
    "n": (1,),
    "prediction": (),
    "presence_penalty": (0,),
    "prompt_logprobs": (),
    "reasoning": (),
    "reasoning_effort": (),
    "repeat_penalty": (1,),
    "repetition_penalty": (1,),
    "response_format": ({"type": "text"},),
    "return_token_ids": (False,),
    "samplers": (),
    "skip_special_tokens": (True,),
    "stop_token_ids": ([],),
    "structured_outputs": (),
    "suffix": ("",),
    "thinking": (),
    "tool_choice": ("none", "auto"),  # of no tools
    "tools": ([],),
    "top_k": (),
    "top_logprobs": (0,),
    "truncate_prompt_tokens": (),
    "typical_p": (1,),
    "use_beam_search": (False,),
    "verbosity": (),
    "web_search_options": (),
}
# Fields that tell who asks, or how others than this server should treat the request, with
# the types of their values: nothing in an answer depends on them.
_OF_CLIENTS: dict[str, tuple[type, ...]] = {
    "cache_prompt": (bool,),
    "chat_id": (str,),
    "id": (str,),
    "metadata": (dict,),
    "parallel_tool_calls": (bool,),  # there are no tools
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
# Of messages: what servers tell in an answer, which clients send back, and names.
_OF_MESSAGES: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "reasoning": (str,),
    "reasoning_content": (str,),
    "type": (str,),
}


def is_known(name: str) -> bool:
    """Test for a field of other servers that is not to be had here."""
    return name in _NEUTRAL or name in _OF_CLIENTS


def asks_nothing(name: str, value: object) -> bool:
    """Test for a field that with this value changes nothing in an answer."""
    if value is None:
        return is_known(name)
    values = _NEUTRAL.get(name, ())
    return any(_is_same(value, each) for each in values) or _is_one(
        _OF_CLIENTS, name, value
    )


def is_of_messages(name: str, value: object) -> bool:
    """Test for a message's field that changes nothing in an answer.

    Clients send an answer's message back, with nulls for all that it has not.
    """
    return value is None or value == [] or _is_one(_OF_MESSAGES, name, value)


def _is_one(types: Mapping[str, tuple[type, ...]], name: str, value: object) -> bool:
    return isinstance(value, types.get(name, ()))


def _is_same(value: object, other: object) -> bool:
    """Test for two values that are equal in JSON: true is not 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other
