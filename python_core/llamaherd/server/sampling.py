"""Sampling settings and constraints in requests of OpenAI's API.

Fields of vLLM and llama-server are accepted, too. Each field that constrains the answer
is converted to a constraint of the library: schema, regex, grammar or choices.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.engine.core import checks
from llamaherd.engine.core.declaration import options_of
from llamaherd.engine.core.sampling import MAX_TOKENS_OF_CHAT, SamplingParams
from llamaherd.engine.model.tokens import token_bytes
from llamaherd.server.errors import bad_field, renaming_fields
from llamaherd.server.schemas import (
    FLAG,
    OBJECT,
    TEXT,
    Schema,
    list_schema,
    part,
    real,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.engine.core.results import Result
    from llamaherd.engine.model.model import Model

# Constraint of the library for each field of vLLM and llama-server.
_DIRECT = {
    "guided_json": "schema",
    "guided_regex": "regex",
    "guided_choice": "choices",
    "guided_grammar": "grammar",
    "json_schema": "schema",
    "grammar": "grammar",
}
_STRUCTURED = {
    "json": "schema",
    "regex": "regex",
    "choice": "choices",
    "grammar": "grammar",
}
FORM_KINDS = ("text", "json_object", "json_schema")
_SCHEMA_FIELD: Schema = {"type": ["object", "boolean", "string"]}
ANSWER_SCHEMA: Schema = {"type": ["object", "boolean"]}
# Fields of a named schema besides the schema. Schemas are always enforced.
NAMES_OF_SCHEMA: dict[str, Schema] = {"name": TEXT, "description": TEXT, "strict": FLAG}
_RESPONSE_FORMAT = part(
    {"type": {**TEXT, "enum": list(FORM_KINDS)}},
    json_schema=part(schema=ANSWER_SCHEMA, **NAMES_OF_SCHEMA),
    schema=ANSWER_SCHEMA,  # of llama-server
)
_STRUCTURED_OUTPUTS = part(
    json=_SCHEMA_FIELD,
    regex=TEXT,
    choice=list_schema(TEXT, minItems=1),
    grammar=TEXT,
    json_object=FLAG,
)
FORM_FIELDS: dict[str, Schema] = {
    "response_format": _RESPONSE_FORMAT,
    "structured_outputs": _STRUCTURED_OUTPUTS,
    "guided_json": _SCHEMA_FIELD,
    "guided_regex": TEXT,
    "guided_choice": list_schema(TEXT, minItems=1),
    "guided_grammar": TEXT,
    "json_schema": _SCHEMA_FIELD,
    "grammar": TEXT,
}


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """Constraint of an answer."""

    # Name of the constraint in `SamplingParams`; "" without a constraint.
    constraint: str = ""
    value: Any = None  # value of the constraint
    field: str = ""  # field of the request that contains the constraint

    @property
    def settings(self) -> dict[str, Any]:
        """Constraint as a setting of `SamplingParams`."""
        return {self.constraint: self.value} if self.constraint else {}

    @property
    def names(self) -> dict[str, str]:
        """Field of the request by constraint, for errors."""
        return {self.constraint: self.field} if self.constraint else {}


def form_of(request: Mapping[str, Any]) -> AnswerForm:
    """Return the constraint that the fields of a request define."""
    all_forms = [
        _read_form(name, request[name])
        for name in sorted(FORM_FIELDS.keys() & request.keys())
    ]
    forms = [form for form in all_forms if form.constraint]
    if len(forms) > 1:
        names = " and ".join(form.field for form in forms)
        raise bad_field(forms[0].field, f"{names} cannot be given together")
    return forms[0] if forms else AnswerForm()


def _read_form(name: str, value: Any) -> AnswerForm:  # JSON
    if name == "response_format":
        return _response_format(value)
    if name == "structured_outputs":
        return _structured_form(value)
    if name == "grammar" and value == "":  # sent by clients of llama-server
        return AnswerForm()
    return AnswerForm(_DIRECT[name], value, name)


def _response_format(fields: Mapping[str, Any]) -> AnswerForm:
    name, kind = "response_format", fields["type"]
    if kind == "text":
        return AnswerForm()
    schema = fields.get("schema")
    if fields.get("json_schema") is not None and kind == "json_schema":
        schema = fields["json_schema"].get("schema")
    if schema is None and kind == "json_object":
        schema = OBJECT
    if schema is None:
        raise bad_field(name, f"{name}.json_schema.schema is missing")
    return AnswerForm("schema", schema, name)


def _structured_form(fields: Mapping[str, Any]) -> AnswerForm:
    name = "structured_outputs"
    values = {k: v for k, v in fields.items() if v is not None}
    constraints = {_STRUCTURED[k]: v for k, v in values.items() if k in _STRUCTURED}
    if fields.get("json_object") is True:
        constraints.setdefault("schema", OBJECT)
    if len(constraints) > 1:
        raise bad_field(name, f"{name} must have one of {', '.join(_STRUCTURED)}")
    return next((AnswerForm(k, v, name) for k, v in constraints.items()), AnswerForm())


MAX_TOKENS_OF_COMPLETION = 16  # OpenAI's API has these defaults
_DEFAULTS: dict[str, object] = {"temperature": 1.0, "seed": -1}  # draws anew each time
DEFAULTS: dict[str, dict[str, object]] = {
    "completions": {**_DEFAULTS, "max_tokens": MAX_TOKENS_OF_COMPLETION},
    "chats": {**_DEFAULTS, "max_tokens": MAX_TOKENS_OF_CHAT},
}
# Settings under the names that OpenAI's API and vLLM give them.
OPENAI_NAMES = {
    name: setting.openai
    for name, setting in SamplingParams.declared.items()
    if setting.openai != name
}
# Names of llama-server for fields that have another name here.
ALIASES = {
    "repeat_penalty": "repetition_penalty",
    "dry_sequence_breakers": "dry_breakers",
}
STOP_FIELD = "include_stop_str_in_output"  # of vLLM
# Settings whose fields are handled separately below.
_OWN = frozenset({"temperature", "top_p", "max_tokens", "stop", "seed", "logit_bias"})
# Library settings of the request fields that are passed on unchanged.
_SETTINGS = {
    field: option.name
    for field, option in options_of(SamplingParams, "completions").items()
    if field not in _OWN
}


# JSON Schemas of fields whose range in OpenAI's API differs from the library's.
SAMPLING_FIELDS: dict[str, Schema] = {
    "temperature": real(0, 2),
    "top_p": real(0, 1),
    **dict.fromkeys(("presence_penalty", "frequency_penalty"), real(-2, 2)),
    "seed": whole(-(1 << 63), (1 << 63) - 1),
    "logit_bias": {
        **OBJECT,
        "propertyNames": {"pattern": "^[0-9]{1,10}$"},
        "additionalProperties": real(-100, 100),
    },
    STOP_FIELD: FLAG,
    **{
        alias: dict(options_of(GenerateOptions, "completions")[name].kind.schema)
        for alias, name in ALIASES.items()
    },
    **FORM_FIELDS,
}


def alias_names(request: Mapping[str, object]) -> dict[str, str]:
    """Map settings of the library to the alias under which a request has them."""
    return {
        _SETTINGS[name]: alias
        for alias, name in ALIASES.items()
        if alias in request and name not in request
    }


def sampling_of(
    request: Mapping[str, Any], max_tokens: int, form: AnswerForm
) -> SamplingParams:
    """Return sampling settings, with OpenAI's defaults or else the library's defaults."""
    # A seed is mapped to the supported range; equal seeds remain equal. -1: random.
    seed = request["seed"] & 0xFFFFFFFF if "seed" in request else -1
    with renaming_fields({**OPENAI_NAMES, **form.names, **alias_names(request)}):
        return SamplingParams(
            temperature=request.get("temperature", 1.0),
            top_p=request.get("top_p", 1.0),
            max_tokens=max_tokens,
            stop=checks.some_texts("stop", request.get("stop")),
            seed=seed,
            logit_bias=token_bias(request.get("logit_bias", {})),
            **form.settings,
            **_further(request),
        )


def _further(request: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings that OpenAI's API lacks, or that have another name there."""
    fields = dict(request)
    for alias, name in ALIASES.items():
        if alias in fields and fields.setdefault(name, fields[alias]) != fields[alias]:
            raise bad_field(alias, f"{alias} and {name} differ")
    return {name: fields[field] for field, name in _SETTINGS.items() if field in fields}


def token_bias(value: Mapping[str, Any]) -> dict[int, Any]:
    """Return the logit bias by token id; the JSON object has token ids as text."""
    bias = {}
    for name, number in value.items():
        if not (name.isascii() and name.isdigit() and len(name) <= 10):
            raise bad_field("logit_bias", f"logit_bias has {name[:60]!r} for a token id")
        bias[int(name)] = number
    return bias


_MOST_PENDING = 3  # most bytes of a character from earlier tokens


def includes_stop(request: Mapping[str, Any]) -> bool:
    """Return whether answers have to include the stop text that ended the answer."""
    is_requested: bool = request.get(STOP_FIELD, False)
    if is_requested and request.get("stop_token_ids"):
        text = f"{STOP_FIELD} cannot be combined with stop_token_ids, only with stop"
        raise bad_field(STOP_FIELD, text)
    return is_requested


def stop_of(model: Model, result: Result, stops: Sequence[str]) -> str:
    """Return the stop text that ended an answer; "" if something else ended it.

    The last token of the answer completes a stop text, and the text of the answer ends
    where this stop text begins. If several stop texts begin at this position, the
    shortest was completed first and ended the answer.
    """
    if result.finish_reason != "stop" or not result.tokens or not stops:
        return ""
    pieces = token_bytes(model, result.tokens)
    written = b"".join(pieces)
    if len(_valid(result.text or "")) >= len(_valid(written.decode(errors="ignore"))):
        return ""  # an end-of-generation token ended it
    n_before = max(0, len(written) - len(pieces[-1]) - _MOST_PENDING)
    matches = []
    for stop in stops:
        encoded_stop = stop.encode()
        at = written.find(encoded_stop, max(0, n_before - len(encoded_stop) + 1))
        if at >= 0:
            matches.append((at, len(encoded_stop), stop))
    return min(matches)[2] if matches else ""


def _valid(text: str) -> str:
    """Return a text without replacement characters, which stand for invalid bytes."""
    return text.replace("\ufffd", "")


def with_stop(model: Model, result: Result, stops: Sequence[str]) -> Result:
    """Return an answer whose text includes the stop text that ended it."""
    stop = stop_of(model, result, stops)
    return replace(result, text=f"{result.text or ''}{stop}") if stop else result
