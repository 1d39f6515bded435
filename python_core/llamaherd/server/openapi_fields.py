"""JSON Schemas of the fields of requests, derived from the declared options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.asks.annotate_options import AnnotateOptions
from llamaherd.asks.options import (
    ClassifyOptions,
    EmbedOptions,
    GenerateOptions,
    ScoreOptions,
)
from llamaherd.core.declaration import options_of
from llamaherd.core.thinking import MOST_TOKENS
from llamaherd.server import neutral, openai_logprobs, stop_texts
from llamaherd.server.chats import BUDGETS
from llamaherd.server.costs import MOST_ITEMS
from llamaherd.server.openai import MOST_SAMPLES
from llamaherd.server.openai_sampling import ALIASES, DEFAULTS
from llamaherd.server.rerank import UNUSED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.core.declaration import Options

Schema = dict[str, Any]

OBJECT: Schema = {"type": "object"}
_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}
_ITEMS = {"minItems": 1, "maxItems": MOST_ITEMS}
_TOKENS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_PROMPT: Schema = {"anyOf": [_TEXT, {**_TOKENS, "minItems": 1}]}
_DOCUMENT: Schema = {
    "anyOf": [
        {**_TEXT, "minLength": 1},
        {
            "type": "object",
            "properties": {"text": {**_TEXT, "minLength": 1}},
            "required": ["text"],
            "additionalProperties": False,
        },
    ]
}
_MESSAGES: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {"$ref": "#/components/schemas/Message"},
}
_SCHEMA: Schema = {"type": ["object", "boolean"]}
_BIAS: Schema = {
    "type": "object",
    "propertyNames": {"pattern": "^[0-9]{1,10}$"},
    "additionalProperties": {"type": "number"},
}
_BUDGET: Schema = {"type": "integer", "minimum": -1, "maximum": MOST_TOKENS}
_BOTH_OF_OPENAI: dict[str, Schema] = {
    "model": _TEXT,
    "temperature": {"type": "number", "minimum": 0, "maximum": 2},
    "top_p": {"type": "number", "minimum": 0, "maximum": 1},
    "presence_penalty": {"type": "number", "minimum": -2, "maximum": 2},
    "frequency_penalty": {"type": "number", "minimum": -2, "maximum": 2},
    "seed": {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1},
    "logit_bias": {
        **_BIAS,
        "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
    },
    "n": {"type": "integer", "minimum": 1, "maximum": MOST_SAMPLES},
    "max_completion_tokens": {"type": "integer", "minimum": 1},
    "stream_options": {
        "type": "object",
        "properties": {
            "include_usage": {"type": ["boolean", "null"]},
            "continuous_usage_stats": {"type": ["boolean", "null"]},
            "include_obfuscation": {"type": ["boolean", "null"]},
        },
        "additionalProperties": False,
    },
    "response_format": {
        "type": "object",
        "properties": {"type": {"enum": ["text", "json_object", "json_schema"]}},
        "required": ["type"],
    },
    "structured_outputs": OBJECT,
    "prompt_logprobs": {
        "type": "integer",
        "minimum": 0,
        "maximum": openai_logprobs.MOST,
    },
    stop_texts.FIELD: _FLAG,
    "add_special_tokens": _FLAG,
    "guided_json": {"type": ["object", "boolean", "string"]},
    "guided_regex": _TEXT,
    "guided_choice": {**_TEXTS, "minItems": 1},
    "guided_grammar": _TEXT,
    "json_schema": {"type": ["object", "boolean", "string"]},
    "grammar": _TEXT,
}
_OWN: dict[str, dict[str, Schema]] = {
    "/generate": {"model": _TEXT, "prompt": {"anyOf": [_TEXT, {"type": "array"}]}},
    "/v1/completions": {
        **_BOTH_OF_OPENAI,
        "prompt": {
            "anyOf": [
                *_PROMPT["anyOf"],
                {**_TEXTS, **_ITEMS},
                {"type": "array", "items": {**_TOKENS, "minItems": 1}, **_ITEMS},
            ]
        },
        "logprobs": {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": openai_logprobs.MOST},
                {"enum": [False]},
            ]
        },
        "max_tokens": {"type": "integer", "minimum": 0},
        "max_completion_tokens": {"type": "integer", "minimum": 0},
        "echo": _FLAG,
    },
    "/v1/chat/completions": {
        **_BOTH_OF_OPENAI,
        "messages": _MESSAGES,
        "logprobs": _FLAG,
        "top_logprobs": {
            "type": "integer",
            "minimum": 0,
            "maximum": openai_logprobs.MOST,
        },
        "tools": {"type": "array", "maxItems": 128, "items": OBJECT},
        "tool_choice": {"anyOf": [{"enum": ["none", "auto", "required"]}, OBJECT]},
        "parallel_tool_calls": _FLAG,
        "reasoning_effort": _TEXT,
        "enable_thinking": _FLAG,
        **dict.fromkeys(BUDGETS, _BUDGET),
        "continue_final_message": _FLAG,
        "add_generation_prompt": _FLAG,
    },
    "/v1/embeddings": {
        "model": _TEXT,
        "input": {
            "anyOf": [
                {**_TEXT, "minLength": 1},
                {**_TOKENS, "minItems": 1},
                {"type": "array", "items": {**_TEXT, "minLength": 1}, **_ITEMS},
                {"type": "array", "items": {**_TOKENS, "minItems": 1}, **_ITEMS},
            ]
        },
        "encoding_format": {"enum": ["float", "base64"]},
        "truncate_prompt_tokens": {"const": -1},
        "dimensions": {"type": "integer", "minimum": 1},
    },
    "/v1/score": {
        "model": _TEXT,
        "prompts": {"type": "array", **_ITEMS},
        "continuations": {"anyOf": [_TEXT, {"type": "array", "minItems": 1}]},
    },
    "/v1/classify": {"model": _TEXT, "prompts": {"type": "array", **_ITEMS}},
    "/v1/annotate": {
        "model": _TEXT,
        "texts": {"type": "array", "items": {"type": ["string", "null"]}, **_ITEMS},
        "codebook": {"type": ["object", "string"]},
    },
    "/v1/rerank": {
        "model": _TEXT,
        "query": _DOCUMENT,
        "documents": {"type": "array", "items": _DOCUMENT, **_ITEMS},
        "texts": {"type": "array", "items": _DOCUMENT, **_ITEMS},
        "top_n": {"type": "integer", "minimum": 0},
        "return_documents": _FLAG,
        "return_text": _FLAG,
        "truncate_prompt_tokens": {"const": -1},
        **{name: each.schema for name, each in UNUSED.items()},
    },
    "/tokenize": {
        "model": _TEXT,
        "prompt": _TEXT,
        "content": _TEXT,
        **dict.fromkeys(
            ("add_special_tokens", "return_token_strs", "add_special", "with_pieces"),
            _FLAG,
        ),
        "parse_special": _FLAG,
    },
    "/detokenize": {"model": _TEXT, "tokens": _TOKENS},
    "/api/show": {
        "model": _TEXT,
        "name": _TEXT,
        "verbose": _FLAG,
        "system": {"enum": [""]},
        "template": {"enum": [""]},
        "options": {"type": "object", "maxProperties": 0},
    },
}
_CHAT = "/v1/chat/completions"
# Declared options that requests accept, and the interface that they belong to.
_OPTIONS: dict[str, tuple[type[Options], str]] = {
    "/generate": (GenerateOptions, "http"),
    "/v1/completions": (GenerateOptions, "completions"),
    "/v1/chat/completions": (GenerateOptions, "chats"),
    "/v1/embeddings": (EmbedOptions, "http"),
    "/v1/score": (ScoreOptions, "http"),
    "/v1/classify": (ClassifyOptions, "http"),
    "/v1/annotate": (AnnotateOptions, "http"),
}
_OPENAIS = ("/v1/completions", _CHAT)
REQUIRED: dict[str, tuple[str, ...]] = {
    "/generate": ("prompt",),
    "/v1/completions": ("prompt",),
    "/v1/chat/completions": ("messages",),
    "/v1/embeddings": ("input",),
    "/v1/score": ("prompts", "continuations"),
    "/v1/classify": ("prompts", "labels"),
    "/v1/annotate": ("texts", "codebook"),
    "/v1/rerank": ("query",),
    "/detokenize": ("tokens",),
}


def request_schema(path: str) -> Schema:
    """Return the schema of the body of a request.

    Args:
        path: Path of the endpoint; for OpenAI's API with `/v1`.
    """
    if path in ("/apply-template", "/v1/chat/completions/input_tokens"):
        return _body(_CHAT)
    if path == "/tokenize":  # a text, or a conversation
        return {"anyOf": [_body(path), _body(_CHAT, {"return_token_strs": _FLAG})]}
    return _body(path)


def _body(path: str, more: Mapping[str, Schema] | None = None) -> Schema:
    found = _declared(path)
    if path in _OPENAIS:
        found |= {alias: found[name] for alias, name in ALIASES.items()}
    found |= {**_OWN[path], **(more or {})}
    if path != "/generate":
        unused = neutral.schemas(of_clients_only=path not in _OPENAIS)
        found |= {name: each for name, each in unused.items() if name not in found}
    needed = REQUIRED.get(path, ())
    return {
        "type": "object",
        "properties": {
            name: each if name in needed else _or_null(each)
            for name, each in sorted(found.items())
        },
        **({"required": list(needed)} if needed else {}),
        "additionalProperties": False,
    }


def _declared(path: str) -> dict[str, Schema]:
    """Return the schemas of declared options, by their names in requests."""
    if path not in _OPTIONS:
        return {}
    options, interface = _OPTIONS[path]
    defaults = DEFAULTS.get(interface, {})
    found = {}
    for field, each in options_of(options, interface).items():
        schema = {**each.kind.schema, "description": each.sentence}
        if each.name == "stream":  # "all" is of the library
            schema["enum"] = [True, False]
        default = defaults.get(each.name, each.default)
        if isinstance(default, (bool, int, float, str)):
            schema["default"] = default
        found[field] = schema
    return found


def _or_null(schema: Mapping[str, Any]) -> Schema:
    """Return a schema that also accepts null, which stands for a missing field."""
    notes = {n: schema[n] for n in ("description", "default") if n in schema}
    rest = {n: v for n, v in schema.items() if n not in notes}
    if rest == {"type": "null"}:
        return {**rest, **notes}
    return {"anyOf": [rest, {"type": "null"}], **notes}
