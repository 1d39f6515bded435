"""Fields of requests without an effect on the answer.

Clients send many fields by default. A field is accepted if its value requests the default
behaviour or only describes the client. A field that requests an unsupported feature is
refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Values of `verbosity` in OpenAI's API. Only models that were trained with verbosity
# levels use this field.
VERBOSITY = ("low", "medium", "high")
# Fields of OpenAI's API and of similar servers, with their neutral values. Null is
# neutral, too.
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "access_programs": (),
    "adaptive_decay": (),
    "adaptive_target": (-1,),
    "add_generation_prompt": (True,),
    "allowed_token_ids": (),
    "audio": (),
    "backend_sampling": (False,),
    "background_options": (),
    "bad_words": ([],),
    "best_of": (1,),
    "cache_salt": (),
    "chat_format": (),
    "chat_parser": (),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "continue_final_message": (False,),
    "documents": ([],),
    "dynatemp_exponent": (1,),
    "dynatemp_range": (0,),
    "ec_transfer_params": (),
    "echo": (False,),  # in chats
    "enable_response_messages": (False,),
    "enable_thinking": (),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "generation_prompt": ("",),
    "grammar_lazy": (False,),
    "grammar_triggers": ([],),
    "image": (),
    "include_reasoning": (True,),
    "include_stop_str_in_output": (False,),
    "kv_transfer_params": (),
    "length_penalty": (1,),
    "logprob_token_ids": (),
    "lora": ([],),
    "media_io_kwargs": ({},),
    "min_keep": (0,),
    "mm_processor_kwargs": ({},),
    "modalities": (["text"],),
    "moderation": (),
    "n_cache_reuse": (0,),
    "n_cmpl": (1,),
    "n_discard": (0,),
    "n_indent": (0,),
    "n_keep": (0,),
    "n_predict": (-1,),
    "n_probs": (0,),
    "parse_tool_calls": (True,),
    "personality": (),
    "post_sampling_probs": (False,),
    "prediction": (),
    "preserved_tokens": ([],),
    "previous_input_messages": (),
    "previous_response": (),
    "priority": (0,),
    "prompt_cache_options": ({},),
    "prompt_embeds": (),
    "prompt_logprobs": (),
    "reasoning": (),
    "reasoning_budget_end_tag": (),
    "reasoning_budget_end_tags": (),
    "reasoning_budget_message": ("",),
    "reasoning_budget_start_tag": (),
    "reasoning_budget_tokens": (-1,),
    "reasoning_control": (False,),
    "reasoning_effort": (),
    "reasoning_format": ("auto", "deepseek"),
    "repetition_detection": (),
    "response_fields": ([],),
    "return_mm_kwargs": (True,),
    "return_progress": (False,),
    "return_prompt_text": (False,),
    "return_token_ids": (False,),
    "return_token_offsets": (False,),
    "return_tokens": (False,),
    "return_tokens_as_token_ids": (False,),
    "routed_experts_prompt_start": (0,),
    "samplers": (),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "sse_ping_interval": (-1,),
    "stream_interval": (1,),
    "suffix": ("",),
    "t_max_predict_ms": (-1,),
    "t_max_prompt_ms": (-1,),
    "thinking": (),
    "thinking_budget": (),
    "thinking_budget_tokens": (),
    "thinking_token_budget": (-1,),
    "tool_choice": ("none", "auto"),  # without tools
    "tools": ([],),
    "top_logprobs": (0,),
    "truncate_prompt_tokens": (),
    "truncation_side": (),
    "use_beam_search": (False,),
    "verbose": (False,),
    "verbosity": VERBOSITY,
    "vllm_xargs": ({},),
    "watermarking": (False,),
    "web_search_options": (),
}
# Fields that describe the client or are meant for other servers, with the types of their
# values. Fields in this table do not affect the answer.
_OF_CLIENTS: dict[str, tuple[type, ...]] = {
    "cache_prompt": (bool,),
    "chat_id": (str,),
    "id": (str,),
    "metadata": (dict,),
    "parallel_tool_calls": (bool,),  # without an effect, as no tools are offered
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


def values_of(name: str) -> tuple[object, ...] | None:
    """Return the values of a field that have no effect, except null; None if unknown."""
    return _NEUTRAL.get(name)


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
    """Return the JSON Schema of each field without an effect; null is left out.

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
