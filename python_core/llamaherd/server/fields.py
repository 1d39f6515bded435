"""Fields of requests without an effect on the answer.

Clients send many fields by default. A field is accepted if its value requests the default
behaviour or only describes the client. A field that requests an unsupported feature is
refused by name. A value of a wrong type is an error of the type, also in a field that is
not supported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core import checks
from llamaherd.server.errors import JSON, ApiError, bad_field, unknown_field

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

FLAG, INTEGER, NUMBER = ("boolean",), ("integer",), ("number",)
TEXT, LIST, OBJECT = ("string",), ("array",), ("object",)
_IN_WORDS = {
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "a list",
    "object": "an object",
}
_CLASSES = {"boolean": bool, "string": str, "array": list, "object": dict}


@dataclass(frozen=True, slots=True)
class UnusedField:
    """Field without an effect on the answer."""

    types: tuple[str, ...]  # JSON types of the field in the APIs that have it
    # Accepted values, null left out; None accepts every value of these types.
    values: tuple[object, ...] | None = ()
    reason: str = ""  # reason why other values are refused; "" for no reason

    @property
    def schema(self) -> dict[str, object]:
        """JSON Schema of the accepted values, null left out."""
        if self.values is None:
            return {"type": list(self.types)}
        return {"enum": list(self.values)} if self.values else {"type": "null"}

    def check(self, name: str, value: object) -> None:
        """Check first the type of a value, then whether the value is supported."""
        if value is None:
            return
        if not any(_has_type(value, kind) for kind in self.types):
            expected = " or ".join(_IN_WORDS[each] for each in self.types)
            text = f"{name} must be {expected}, not {shown(value)}"
            if self.values == ():
                text = f"{text}; {self._refusal('it')}"
            raise bad_field(name, text)
        if self.values is None or any(_is_same(value, each) for each in self.values):
            return
        text = self._refusal(name if self.values or self.reason else repr(name))
        raise ApiError(400, text, param=name, code="unsupported_parameter")

    def _refusal(self, name: str) -> str:
        """Return the message of a value that is not supported."""
        known = [JSON.literal(value) for value in self.values or ()]
        text = f"{name} is not supported here"
        if known:
            text = f"{name} must be {'one of ' * (len(known) > 1)}{', '.join(known)} here"
        return f"{text}: {self.reason}" if self.reason else text


# `stream_options.include_obfuscation` requests padding of the pieces of a stream. The
# pieces of this server have no padding.
OBFUSCATION = UnusedField(FLAG, None)
# Values of `verbosity` in OpenAI's API. Only models that were trained with verbosity
# levels use this field.
VERBOSITY = ("low", "medium", "high")
# Fields of OpenAI's API and of similar servers.
FIELDS: Mapping[str, UnusedField] = {
    "access_programs": UnusedField(OBJECT, ({},)),
    "adaptive_decay": UnusedField(NUMBER),
    "adaptive_target": UnusedField(NUMBER, (-1,)),
    "add_generation_prompt": UnusedField(FLAG, (True,)),
    "allowed_token_ids": UnusedField(LIST),
    "audio": UnusedField(OBJECT),
    "backend_sampling": UnusedField(FLAG, (False,)),
    "background_options": UnusedField(OBJECT),
    "bad_words": UnusedField(LIST, ([],)),
    "best_of": UnusedField(INTEGER, (1,)),
    "cache_salt": UnusedField(TEXT),
    "chat_format": UnusedField(INTEGER),
    "chat_parser": UnusedField(TEXT),
    "chat_template": UnusedField(TEXT),
    "chat_template_kwargs": UnusedField(OBJECT, ({},)),
    "continue_final_message": UnusedField(FLAG + TEXT, (False,)),
    "documents": UnusedField(LIST, ([],)),
    "dynatemp_exponent": UnusedField(NUMBER, (1,)),
    "dynatemp_range": UnusedField(NUMBER, (0,)),
    "ec_transfer_params": UnusedField(OBJECT),
    "echo": UnusedField(FLAG, (False,)),  # in chats
    "enable_response_messages": UnusedField(FLAG, (False,)),
    "enable_thinking": UnusedField(FLAG),
    "function_call": UnusedField(TEXT + OBJECT, ("none", "auto"), "use tool_choice"),
    "functions": UnusedField(LIST, ([],), "use tools"),
    "generation_prompt": UnusedField(TEXT, ("",)),
    "grammar_lazy": UnusedField(FLAG, (False,)),
    "grammar_triggers": UnusedField(LIST, ([],)),
    "image": UnusedField(OBJECT),
    "include_reasoning": UnusedField(FLAG, (True,)),
    "include_stop_str_in_output": UnusedField(FLAG, (False,)),
    "kv_transfer_params": UnusedField(OBJECT),
    "length_penalty": UnusedField(NUMBER, (1,)),
    "logprob_token_ids": UnusedField(LIST),
    "lora": UnusedField(LIST, ([],)),
    "media_io_kwargs": UnusedField(OBJECT, ({},)),
    "min_keep": UnusedField(INTEGER, (0,)),
    "mm_processor_kwargs": UnusedField(OBJECT, ({},)),
    "modalities": UnusedField(LIST, (["text"],)),
    "moderation": UnusedField(OBJECT),
    "n_cache_reuse": UnusedField(INTEGER, (0,)),
    "n_cmpl": UnusedField(INTEGER, (1,)),
    "n_discard": UnusedField(INTEGER, (0,)),
    "n_indent": UnusedField(INTEGER, (0,)),
    "n_keep": UnusedField(INTEGER, (0,)),
    "n_predict": UnusedField(INTEGER, (-1,)),
    "n_probs": UnusedField(INTEGER, (0,)),
    "parse_tool_calls": UnusedField(FLAG, (True,)),
    "personality": UnusedField(TEXT),
    "post_sampling_probs": UnusedField(FLAG, (False,)),
    "prediction": UnusedField(OBJECT),
    "preserved_tokens": UnusedField(LIST, ([],)),
    "previous_input_messages": UnusedField(LIST),
    "previous_response": UnusedField(OBJECT),
    "priority": UnusedField(INTEGER, (0,)),
    "prompt_cache_options": UnusedField(OBJECT, ({},)),
    "prompt_embeds": UnusedField(TEXT + LIST),
    "prompt_logprobs": UnusedField(INTEGER),
    "reasoning": UnusedField(OBJECT),
    "reasoning_budget_end_tag": UnusedField(TEXT),
    "reasoning_budget_end_tags": UnusedField(LIST),
    "reasoning_budget_message": UnusedField(TEXT, ("",)),
    "reasoning_budget_start_tag": UnusedField(TEXT),
    "reasoning_budget_tokens": UnusedField(INTEGER, (-1,)),
    "reasoning_control": UnusedField(FLAG, (False,)),
    "reasoning_effort": UnusedField(TEXT),
    "reasoning_format": UnusedField(TEXT, ("auto", "deepseek")),
    "repetition_detection": UnusedField(OBJECT),
    "response_fields": UnusedField(LIST, ([],)),
    "return_mm_kwargs": UnusedField(FLAG, (True,)),
    "return_progress": UnusedField(FLAG, (False,)),
    "return_prompt_text": UnusedField(FLAG, (False,)),
    "return_token_ids": UnusedField(FLAG, (False,)),
    "return_token_offsets": UnusedField(FLAG, (False,)),
    "return_tokens": UnusedField(FLAG, (False,)),
    "return_tokens_as_token_ids": UnusedField(FLAG, (False,)),
    "routed_experts_prompt_start": UnusedField(INTEGER, (0,)),
    "samplers": UnusedField(LIST + TEXT),
    "skip_special_tokens": UnusedField(FLAG, (True,)),
    "spaces_between_special_tokens": UnusedField(FLAG, (True,)),
    "sse_ping_interval": UnusedField(INTEGER, (-1,)),
    "stream_interval": UnusedField(INTEGER, (1,)),
    "suffix": UnusedField(TEXT, ("",)),
    "t_max_predict_ms": UnusedField(INTEGER, (-1,)),
    "t_max_prompt_ms": UnusedField(INTEGER, (-1,)),
    "thinking": UnusedField(FLAG + INTEGER + OBJECT),
    "thinking_budget": UnusedField(INTEGER),
    "thinking_budget_tokens": UnusedField(INTEGER),
    "thinking_token_budget": UnusedField(INTEGER, (-1,)),
    "tool_choice": UnusedField(TEXT + OBJECT, ("none", "auto")),  # without tools
    "tools": UnusedField(LIST, ([],)),
    "top_logprobs": UnusedField(INTEGER, (0,)),
    "truncate_prompt_tokens": UnusedField(INTEGER),
    "truncation_side": UnusedField(TEXT),
    "use_beam_search": UnusedField(FLAG, (False,)),
    "verbose": UnusedField(FLAG, (False,)),
    "verbosity": UnusedField(TEXT, VERBOSITY),
    "vllm_xargs": UnusedField(OBJECT, ({},)),
    "watermarking": UnusedField(FLAG, (False,)),
    "web_search_options": UnusedField(OBJECT),
    # Fields about the client, or for other servers.
    "cache_prompt": UnusedField(FLAG, None),
    "chat_id": UnusedField(TEXT, None),
    "id": UnusedField(TEXT, None),
    "id_slot": UnusedField(INTEGER, None),
    "metadata": UnusedField(OBJECT, None),
    "parallel_tool_calls": UnusedField(FLAG, None),  # without tools
    "prompt_cache_key": UnusedField(TEXT, None),
    "prompt_cache_retention": UnusedField(TEXT, None),
    "request_id": UnusedField(TEXT, None),
    "safety_identifier": UnusedField(TEXT, None),
    "service_tier": UnusedField(TEXT, None),
    "session_id": UnusedField(TEXT, None),
    "store": UnusedField(FLAG, None),
    "timings_per_token": UnusedField(FLAG, None),
    "user": UnusedField(TEXT, None),
}
# Fields about the client, which every path accepts.
OF_CLIENTS = {name: each for name, each in FIELDS.items() if each.values is None}
# Fields of messages: names, and fields of answers that clients send back.
_OF_MESSAGES = dict.fromkeys(
    ("name", "reasoning", "reasoning_content", "type"), UnusedField(TEXT, None)
)


def check_of_message(where: str, name: str, value: object) -> None:
    """Check a field of a message that has no effect on the answer.

    Clients send messages of answers back, with null or [] for missing fields.
    """
    if value is None or value == []:
        return
    if name not in _OF_MESSAGES:
        raise unknown_field(f"{where}.{name}")
    _OF_MESSAGES[name].check(f"{where}.{name}", value)


def _has_type(value: object, kind: str) -> bool:
    """Whether a value has a JSON type; 1.0 is an integer, as in JSON Schema."""
    if kind in _CLASSES:
        return isinstance(value, _CLASSES[kind])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return kind == "number" or value == int(value)


def _is_same(value: object, other: object) -> bool:
    """Whether two values are equal in JSON; true does not equal 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def shown(value: object) -> str:
    """Return a value of a request for a message."""
    return JSON.value(value, checks.shown(value))


def checked_object(name: str, value: object) -> dict[str, Any]:
    """Return an object within a request."""
    if not isinstance(value, dict):
        field = name.partition(".")[0].partition("[")[0]
        raise bad_field(field, f"{name} must be an object, not {shown(value)}")
    return value


def checked_string(name: str, value: object) -> str:
    """Return a string within a request."""
    if not isinstance(value, str):
        raise bad_field(name, f"{name} must be a string, not {shown(value)}")
    return value


def check_names(where: str, item: Mapping[str, object], names: Collection[str]) -> None:
    """Check that an object within a request has no unknown field; null is accepted."""
    for key, value in item.items():
        if key not in names and value is not None:
            raise unknown_field(f"{where}.{key}", [f"{where}.{n}" for n in sorted(names)])
