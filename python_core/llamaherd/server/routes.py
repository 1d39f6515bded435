"""Table of the paths whose answers a model computes, and the OpenAPI document."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, cast

import llamaherd
from llamaherd.server import schemas
from llamaherd.server.answering import Answering, Computing, Working
from llamaherd.server.anthropic import Messages
from llamaherd.server.embeddings import EmbeddingsApi, RerankApi
from llamaherd.server.formats import AnswerFormat, PathFormat, Served, WorkFormat
from llamaherd.server.generate import GenerateApi
from llamaherd.server.ollama import OllamaChat, OllamaEmbed, ShowApi
from llamaherd.server.openai import ChatCompletions, Completions
from llamaherd.server.pages import Page
from llamaherd.server.responses import Responses
from llamaherd.server.schemas import Schema, ref
from llamaherd.server.scores import AnnotateApi, ClassifyApi, ScoreApi
from llamaherd.server.tokenizing import (
    ChatTokensApi,
    CountTokensApi,
    DetokenizeApi,
    InputTokensApi,
    TemplateApi,
    TokenizeApi,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from starlette.routing import Route

    from llamaherd.server.state import SharedState

_CLASSES: tuple[type[PathFormat], ...] = (
    *(GenerateApi, Completions, ChatCompletions, ChatTokensApi),
    *(Responses, InputTokensApi, Messages, CountTokensApi),
    *(EmbeddingsApi, ScoreApi, ClassifyApi, AnnotateApi, RerankApi),
    *(TokenizeApi, DetokenizeApi, TemplateApi),
    *(OllamaChat, OllamaEmbed, ShowApi),
)
FORMATS = {form.path: form for form in _CLASSES}  # by path without /v1
# Other names of paths, which clients of llama-server use.
ALIASES = {"/reranking": "/rerank"}


def computing_of(shared: SharedState, served: Served, path: str) -> Computing:
    """Return the object that answers requests of a path with a model."""
    form = FORMATS[path](served)
    if isinstance(form, AnswerFormat):
        return Answering(shared, form)
    return Working(shared, cast("WorkFormat", form))


_JSON = "application/json"
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


def openapi(
    routes: Iterable[Route],
    bodies: Mapping[str, Schema],
    queries: Mapping[str, Schema],
) -> Schema:
    """Return the document; `bodies` and `queries` are those of other pages, by path."""
    paths: dict[str, Schema] = {}
    for route in routes:
        if not route.include_in_schema:
            continue
        path = route.path.replace("{name:path}", "{name}")
        methods = sorted((route.methods or set()) - {"HEAD"})
        paths[path] = {
            method.lower(): _operation(path, method, route, bodies, queries)
            for method in methods
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "llamaherd", "version": llamaherd.__version__},
        "paths": paths,
        "components": {
            "schemas": schemas.COMPONENTS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _operation(
    path: str,
    method: str,
    route: Route,
    bodies: Mapping[str, Schema],
    queries: Mapping[str, Schema],
) -> Schema:
    plain = path.removeprefix("/v1")
    form = FORMATS.get(plain)
    page = route if isinstance(route, Page) else None
    answers = page.answer if page is not None else {} if form is None else form.answers
    media = "text/plain" if answers is schemas.TEXT else _JSON
    content: Schema = {media: {"schema": answers}}
    if form is not None and "stream" in form.fields:
        content[form.media_type.partition(";")[0]] = {"schema": schemas.TEXT}
    query = queries.get(plain, {}) if page is None else page.query
    is_small = method != "POST" and (page is None or not query)
    errors = {c: _ERRORS[c] for c in _OF_GET} if is_small else _ERRORS
    body = bodies.get(plain) if method == "POST" else None
    if form is not None:
        body = {_JSON: {"schema": form.request_schema()}}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schemas.TEXT}
        for name in ("name", "id")
        if f"{{{name}}}" in path
    ] + [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in (query if method == "GET" else {}).items()
    ]
    return {
        "summary": _summary(route, method) if form is None else form.summary,
        "operationId": f"{method.lower()} {path}",
        "responses": {
            "200": {"description": "The answer.", "content": content},
            **{code: _error(text) for code, text in errors.items()},
        },
        **({"security": []} if plain == "/health" else {}),
        **({"parameters": parameters} if parameters else {}),
        **({} if body is None else {"requestBody": {"required": True, "content": body}}),
    }


def _summary(route: Route, method: str) -> str:
    """Return the first line of the docstring of a page."""
    pages = getattr(route.endpoint, "pages", {method: route.endpoint})
    return (inspect.getdoc(pages[method]) or "").partition("\n")[0]


def _error(text: str) -> Schema:
    return {"description": text, "content": {_JSON: {"schema": ref("Error")}}}
