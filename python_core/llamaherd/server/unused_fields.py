"""Fields of requests that have no effect on the answer.

Clients send many fields by default. A field is accepted if its value requests the default
behaviour or only describes the client. A field that requests an unsupported feature is
refused by name. A value of a wrong type is an error of the type, also in a field that is
not supported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.server.errors import JSON, ApiError, bad_field, unknown_field
from llamaherd.server.schemas import (
    FLAG,
    LIST,
    NUMBER,
    OBJECT,
    TEXT,
    WHOLE,
    Schema,
    check_value,
    either,
    is_same,
    shown_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class UnusedField:
    """Field without an effect on the answer."""

    kind: Schema  # JSON types of the field in the APIs that have it
    # Accepted values, null left out; None accepts every value of these types.
    values: tuple[object, ...] | None
    reason: str = ""  # reason why other values are refused; "" for no reason
    details: Mapping[str, object] | None = None  # of the error, for programs

    @property
    def schema(self) -> dict[str, object]:
        """JSON Schema of the accepted values, null left out."""
        if self.values is None:
            return self.kind
        return {"enum": list(self.values)} if self.values else {"type": "null"}

    def check(self, name: str, value: object) -> None:
        """Check first the type of a value, then whether the value is supported."""
        if value is None:
            return
        try:
            check_value(name, value, self.kind, param=name)
        except ApiError as error:
            more = f"; {self._refusal('it')}" if self.values == () else ""
            raise bad_field(name, f"{error}{more}") from None
        if self.values is None or any(is_same(value, other) for other in self.values):
            return
        text = self._refusal(name, f", not {shown_value(value)}")
        code = "unsupported_parameter"
        raise ApiError(400, text, param=name, code=code, details=self.details)

    def _refusal(self, name: str, but: str = "") -> str:
        values = [JSON.literal(value) for value in self.values or ()]
        text = f"{name} is not supported here"
        if values:
            text = (
                f"{name} must be {'one of ' * (len(values) > 1)}{', '.join(values)} "
                f"here{but}"
            )
        return f"{text}: {self.reason}" if self.reason else text


# Field of `stream_options` that requests padding of the pieces of a stream. The pieces of
# this server have no padding.
PADDING = "include_obfuscation"
# Values of `verbosity` in OpenAI's API. Only models that were trained with verbosity
# levels use this field.
VERBOSITY = ("low", "medium", "high")


def _fields(field: UnusedField, names: str) -> dict[str, UnusedField]:
    """Return the same field for each of several names."""
    return dict.fromkeys(names.split(), field)


# Fields of OpenAI's API and of similar servers. All fields that are not here and have no
# effect are refused.
FIELDS: Mapping[str, UnusedField] = {
    **_fields(
        UnusedField(LIST, ([],)),
        "bad_words documents grammar_triggers lora preserved_tokens response_fields "
        "tools",
    ),
    **_fields(
        UnusedField(FLAG, (False,)),
        "backend_sampling echo enable_response_messages grammar_lazy "
        "include_stop_str_in_output post_sampling_probs reasoning_control "
        "return_progress return_prompt_text return_token_ids return_token_offsets "
        "return_tokens return_tokens_as_token_ids use_beam_search verbose "
        "watermarking",
    ),
    **_fields(
        UnusedField(FLAG, (True,)),
        "add_generation_prompt include_reasoning parse_tool_calls return_mm_kwargs "
        "skip_special_tokens spaces_between_special_tokens",
    ),
    **_fields(
        UnusedField(WHOLE, (-1,)),
        "reasoning_budget_tokens sse_ping_interval t_max_predict_ms t_max_prompt_ms "
        "thinking_token_budget",
    ),
    "n_predict": UnusedField(WHOLE, (-1,), "use max_tokens"),
    "n_probs": UnusedField(WHOLE, (0,), "use logprobs"),
    "n_cmpl": UnusedField(WHOLE, (1,), "use n"),
    **_fields(
        UnusedField(WHOLE, (0,)),
        "min_keep n_cache_reuse n_discard n_indent n_keep priority "
        "routed_experts_prompt_start top_logprobs",
    ),
    **_fields(
        UnusedField(WHOLE, (1,)),
        "best_of stream_interval",
    ),
    **_fields(
        UnusedField(OBJECT, ({},)),
        "access_programs chat_template_kwargs media_io_kwargs mm_processor_kwargs "
        "prompt_cache_options vllm_xargs",
    ),
    **_fields(
        UnusedField(TEXT, ("",)),
        "generation_prompt reasoning_budget_message suffix",
    ),
    "modalities": UnusedField(LIST, (["text"],)),
    "functions": UnusedField(LIST, ([],), "use tools"),
    "continue_final_message": UnusedField(either(FLAG, TEXT), (False,)),
    "adaptive_target": UnusedField(NUMBER, (-1,)),
    "length_penalty": UnusedField(NUMBER, (1,)),
    "reasoning_format": UnusedField(TEXT, ("auto", "deepseek")),
    "verbosity": UnusedField(TEXT, VERBOSITY),
    "function_call": UnusedField(
        either(TEXT, OBJECT), ("none", "auto"), "use tool_choice"
    ),
    "tool_choice": UnusedField(either(TEXT, OBJECT), ("none", "auto")),
    # Fields about the client, or for other servers; without tools also
    # `parallel_tool_calls`.
    **_fields(
        UnusedField(FLAG, None),
        "cache_prompt parallel_tool_calls store timings_per_token",
    ),
    **_fields(
        UnusedField(TEXT, None),
        "chat_id id prompt_cache_key prompt_cache_retention request_id "
        "safety_identifier service_tier session_id user",
    ),
    "id_slot": UnusedField(WHOLE, None),
    "metadata": UnusedField({**OBJECT, "additionalProperties": TEXT}, None),
}
# Fields about the client, which every path accepts.
OF_CLIENTS = {name: field for name, field in FIELDS.items() if field.values is None}
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
