"""Schemas of requests to /v1/responses, /v1/files and /v1/batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.server.openapi_fields import request_schema
from llamaherd.server.responses import Responses

if TYPE_CHECKING:
    from llamaherd.server.openapi_answers import Schema

_TEXT: Schema = {"type": "string"}
_OBJECT: Schema = {"type": ["object", "null"]}
SUMMARIES = {
    "/v1/responses": "Answer a conversation, as OpenAI's Responses API does.",
    "/v1/responses/input_tokens": "Count the tokens of a conversation.",
    "/v1/files": "Store or list files of batches.",
    "/v1/files/{id}": "Describe or remove a file.",
    "/v1/files/{id}/content": "Return the content of a file.",
    "/v1/batches": "Start or list batches of requests.",
    "/v1/batches/{id}": "Describe a batch.",
    "/v1/batches/{id}/cancel": "Cancel a batch.",
}
_CHATS = "/v1/chat/completions"
_RESPONSES = ("/v1/responses", "/v1/responses/input_tokens")
_OF_RESPONSES: dict[str, Schema] = {
    "input": {"type": ["string", "array"], "minLength": 1, "minItems": 1},
    "instructions": {"type": ["string", "null"]},
    "text": _OBJECT,
    "reasoning": _OBJECT,
    "include": {"type": ["array", "null"], "items": _TEXT},
    "max_output_tokens": {"type": ["integer", "null"], "minimum": 1},
    "tools": {"type": ["array", "null"], "items": {"type": "object"}},
    "tool_choice": {"type": ["string", "object", "null"]},
    "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20},
    "stream_options": _OBJECT,
}
_UPLOAD: Schema = {
    "type": "object",
    "properties": {
        "purpose": {"const": "batch"},
        "file": {"type": "string", "format": "binary"},
        "expires_after[anchor]": {"const": "created_at"},
        "expires_after[seconds]": {"type": "integer"},
    },
    "required": ["purpose", "file"],
    "additionalProperties": False,
}
_BATCH: Schema = {
    "type": "object",
    "properties": {
        "input_file_id": _TEXT,
        "endpoint": _TEXT,
        "completion_window": _TEXT,
        "metadata": _OBJECT,
        "output_expires_after": _OBJECT,
    },
    "required": ["input_file_id", "endpoint", "completion_window"],
    "additionalProperties": False,
}


def request_content(path: str) -> Schema | None:
    """Return the content types of the body of a POST request; None without a body.

    Args:
        path: Path; for OpenAI's API with `/v1`.
    """
    if path == "/v1/files":
        return {"multipart/form-data": {"schema": _UPLOAD}}
    if path == "/v1/batches/{id}/cancel":
        return None
    if path == "/v1/batches":
        return {"application/json": {"schema": _BATCH}}
    schema = _responses() if path in _RESPONSES else request_schema(path)
    return {"application/json": {"schema": schema}}


def _responses() -> Schema:
    chats = request_schema(_CHATS)["properties"]
    known = {name: each for name, each in chats.items() if name in Responses.fields}
    properties = {**known, **_OF_RESPONSES}
    return {
        "type": "object",
        "properties": dict(sorted(properties.items())),
        "required": ["input"],
        # Fields with a neutral value are accepted as well.
        "additionalProperties": True,
    }
