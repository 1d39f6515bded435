"""The OpenAPI document of a server: `GET /openapi.json`.

Paths come from the application, fields from the formats, and types, ranges and defaults
from the declared options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd
from llamaherd.server.openapi_answers import ANSWERS, COMPONENTS, Schema
from llamaherd.server.openapi_batches import SUMMARIES, request_content

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.routing import Route

_JSON = "application/json"
_STREAMS = ("/generate", "/v1/responses", "/v1/completions", "/v1/chat/completions")
_OPEN = ("/health",)  # needs no key
_SUMMARIES = {
    "/generate": "Answer a prompt with the options of generate_parallel().",
    "/v1/completions": "Continue a text, as OpenAI's API does.",
    "/v1/chat/completions": "Answer a conversation, as OpenAI's API does.",
    "/v1/chat/completions/input_tokens": "Count the tokens of a chat.",
    "/v1/embeddings": "Compute vectors of texts, as OpenAI's API does.",
    "/v1/score": "Compute the log-probabilities of given continuations.",
    "/v1/classify": "Compute the probabilities of labels.",
    "/v1/annotate": "Code texts with a codebook.",
    "/v1/rerank": "Order documents by their relevance to a query.",
    "/v1/models": "List the models.",
    "/v1/models/{name}": "Describe a model.",
    "/tokenize": "Convert a text or a conversation to tokens.",
    "/detokenize": "Convert tokens to a text.",
    "/apply-template": "Return the prompt of a conversation.",
    "/tokenizer_info": "Return the special tokens and the chat template.",
    "/api/tags": "List the models in the format of Ollama.",
    "/api/show": "Describe a model in the format of Ollama.",
    "/version": "Return the version of llamaherd.",
    "/health": "Report whether prompts can run.",
    "/metrics": "Return figures for Prometheus.",
    "/openapi.json": "Return this document.",
    **SUMMARIES,
}
_ERRORS = {
    "400": "The request is invalid; `param` is the field.",
    "401": "The API key is missing or wrong.",
    "403": "The Host or Origin header names another site.",
    "404": "The model does not exist.",
    "413": "The body is too large.",
    "415": "The body is compressed.",
    "422": "The answer does not follow its schema.",
    "429": "Too many requests are waiting.",
    "500": "The prompt failed, or the model cannot be loaded.",
    "503": "The server is stopping, or lacks connections or memory for the model.",
    "504": "The request took too long.",
}
_OF_GET = ("400", "401", "403", "404", "503")
_BY_MODEL = "/tokenizer_info"  # has the name of a model in its query


def openapi(routes: Iterable[Route]) -> Schema:
    """Return the document.

    Args:
        routes: Routes of the application; HTML pages are left out.
    """
    paths: dict[str, Any] = {}
    for route in routes:
        if not route.include_in_schema:
            continue
        shown = route.path.replace("{name:path}", "{name}")
        methods = sorted((route.methods or set()) - {"HEAD"})
        paths[shown] = {method.lower(): _operation(shown, method) for method in methods}
    return {
        "openapi": "3.1.0",
        "info": {"title": "llamaherd", "version": llamaherd.__version__},
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _operation(path: str, method: str) -> Schema:
    known = path if path in _SUMMARIES else f"/v1{path}"
    content: Schema = {_JSON: {"schema": ANSWERS.get(known, {})}}
    if known == "/metrics":
        content = {"text/plain": {"schema": {"type": "string"}}}
    if known in _STREAMS:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    errors = {code: _ERRORS[code] for code in _OF_GET}
    if method == "POST" or known == _BY_MODEL:
        errors = _ERRORS
    found: Schema = {
        "summary": _SUMMARIES[known],
        "operationId": f"{method.lower()} {path}",
        "responses": {
            "200": {"description": "The answer.", "content": content},
            **{code: _error(text) for code, text in errors.items()},
        },
    }
    if known in _OPEN:
        found["security"] = []
    for name in ("name", "id"):
        if f"{{{name}}}" in path:
            given = {"name": name, "in": "path", "required": True}
            found["parameters"] = [{**given, "schema": {"type": "string"}}]
    if known == _BY_MODEL:
        query = {"name": "model", "in": "query", "required": False}
        found["parameters"] = [{**query, "schema": {"type": "string"}}]
    if method == "POST":
        body = request_content(known)
        if body is not None:
            found["requestBody"] = {"required": True, "content": body}
    return found


def _error(text: str) -> Schema:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": text, "content": {_JSON: {"schema": schema}}}
