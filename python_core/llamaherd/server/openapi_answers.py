"""JSON Schemas of answers."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": ["number", "null"]}


def _object(**properties: Schema) -> Schema:
    """Return the schema of an object with at least these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def _with_optional(schema: Schema, **properties: Schema) -> Schema:
    """Return the schema of an object with further properties that it may have."""
    return {**schema, "properties": {**schema["properties"], **properties}}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_USAGE = _object(prompt_tokens=_COUNT, total_tokens=_COUNT)
_FAILURE: Schema = {
    "anyOf": [{"type": "null"}, _object(message=_TEXT, code=_TEXT)],
}
_HEAD = {"id": _TEXT, "object": _TEXT, "created": _COUNT, "model": _TEXT}
_CHOICE = {"index": _COUNT, "finish_reason": _TEXT}


def _rows(**properties: Schema) -> Schema:
    row = _object(index=_COUNT, **properties, error=_FAILURE)
    return _object(
        object={"const": "list"}, model=_TEXT, data=_list(row), usage=_ref("Usage")
    )


COMPONENTS: dict[str, Schema] = {
    "Usage": _USAGE,
    "Error": _object(
        error=_object(
            message=_TEXT,
            type=_TEXT,
            param={"type": ["string", "null"]},
            code={"type": ["string", "null"]},
        )
    ),
    "Message": {
        "type": "object",
        "properties": {
            "role": {"enum": ["system", "developer", "user", "assistant", "tool"]},
            "content": {"type": ["string", "array", "null"]},
        },
        "required": ["role"],
    },
    "Model": {
        "type": "object",
        "properties": {
            "id": _TEXT,
            "object": {"const": "model"},
            "created": _COUNT,
            "owned_by": _TEXT,
            "parent": _TEXT,  # of a LoRA adapter
        },
        "required": ["id", "object", "created", "owned_by"],
    },
}
ANSWERS: dict[str, Schema] = {
    "/generate": _with_optional(
        _object(
            text=_TEXT,
            tokens=_list(_COUNT),
            finish_reason=_TEXT,
            usage=_ref("Usage"),
        ),
        error=_FAILURE,
    ),
    "/v1/completions": _object(
        **_HEAD,
        choices=_list(_object(**_CHOICE, text=_TEXT)),
        usage=_ref("Usage"),
    ),
    "/v1/chat/completions": _object(
        **_HEAD,
        choices=_list(
            _object(
                **_CHOICE,
                message=_object(role=_TEXT, content={"type": ["string", "null"]}),
            )
        ),
        usage=_ref("Usage"),
    ),
    "/v1/embeddings": _object(
        object={"const": "list"},
        model=_TEXT,
        data=_list(
            _object(
                object={"const": "embedding"},
                index=_COUNT,
                embedding={"anyOf": [_list({"type": "number"}), _TEXT]},
            )
        ),
        usage=_ref("Usage"),
    ),
    "/v1/score": _rows(
        continuations=_list(
            _object(
                text=_TEXT,
                logprob={"type": "number"},
                tokens=_list(_COUNT),
                token_logprobs=_list({"type": "number"}),
            )
        )
    ),
    "/v1/classify": _rows(
        label={"type": ["string", "null"]},
        **dict.fromkeys(("prob", "margin", "entropy", "coverage"), _NUMBER),
        probs={"type": "object", "additionalProperties": _NUMBER},
        logprobs={"type": "object", "additionalProperties": _NUMBER},
    ),
    "/v1/annotate": _rows(),
    "/v1/rerank": {
        "anyOf": [
            _object(
                id=_TEXT,
                object={"const": "list"},
                model=_TEXT,
                results=_list(_object(index=_COUNT, relevance_score={"type": "number"})),
                usage=_ref("Usage"),
            ),
            _list(_object(index=_COUNT, score={"type": "number"})),
        ]
    },
    "/v1/models": _object(object={"const": "list"}, data=_list(_ref("Model"))),
    "/v1/models/{name}": _ref("Model"),
    "/tokenize": _object(
        count=_COUNT,
        max_model_len=_COUNT,
        tokens=_list(
            {"anyOf": [_COUNT, _object(id=_COUNT, piece={"type": ["string", "array"]})]}
        ),
        token_strs={"anyOf": [{"type": "null"}, _list(_TEXT)]},
    ),
    "/detokenize": _object(prompt=_TEXT, content=_TEXT),
    **dict.fromkeys(
        ("/v1/chat/completions/input_tokens", "/v1/responses/input_tokens"),
        _object(object={"const": "response.input_tokens"}, input_tokens=_COUNT),
    ),
    "/apply-template": _object(prompt=_TEXT),
    "/tokenizer_info": _object(
        bos_token=_TEXT_OR_NULL,
        eos_token=_TEXT_OR_NULL,
        pad_token=_TEXT_OR_NULL,
        chat_template=_TEXT_OR_NULL,
    ),
    "/api/tags": _object(models=_list(_object(name=_TEXT, model=_TEXT))),
    "/api/show": _object(details={"type": "object"}, capabilities=_list(_TEXT)),
    "/version": _object(version=_TEXT),
    "/health": _object(status=_TEXT),
    "/openapi.json": _object(openapi=_TEXT, paths={"type": "object"}),
}
