"""The ASGI application and its routes."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

import llamaherd
from llamaherd.asks.options import GenerateOptions
from llamaherd.asks.requests import make_requests
from llamaherd.core import checks
from llamaherd.core.errors import ChatTemplateError, LlamaHerdError
from llamaherd.server.access import AccessMiddleware
from llamaherd.server.annotations import AnnotateApi
from llamaherd.server.answering import Answering
from llamaherd.server.batches.pages import BatchPages
from llamaherd.server.batches.service import BatchService, batch_endpoints
from llamaherd.server.chats import with_defaults
from llamaherd.server.dashboard import Dashboard
from llamaherd.server.embeddings import EmbeddingsApi
from llamaherd.server.errors import ApiError
from llamaherd.server.generate import GenerateApi
from llamaherd.server.limits import Guard
from llamaherd.server.messages import dumps
from llamaherd.server.metrics import CONTENT_TYPE, Metrics
from llamaherd.server.ollama import ShowApi, tags
from llamaherd.server.openai import ChatCompletions, Completions
from llamaherd.server.openapi import openapi
from llamaherd.server.responses import Responses
from llamaherd.server.scores import ClassifyApi, ScoreApi
from llamaherd.server.shared_state import SharedState
from llamaherd.server.tokenizing import (
    DetokenizeApi,
    InputTokensApi,
    TemplateApi,
    TokenizeApi,
    tokenizer_info,
)
from llamaherd.server.work_api import Working

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping

    from starlette.requests import Request
    from starlette.types import ExceptionHandler

    from llamaherd.model.model import Model
    from llamaherd.run.context import Context
    from llamaherd.server.settings import ServerSettings
    from llamaherd.server.work_api import WorkShape

_POST = ["POST"]


def create_app(
    ctx: Context, settings: ServerSettings, embedding_model: Model | None = None
) -> Starlette:
    """Create an ASGI application for a context.

    Args:
        ctx: Context, which the caller closes after the application has ended.
        settings: Settings of the application.
        embedding_model: Model for embeddings; None to take that of the context.
    """
    _warm_up(ctx.model, settings)
    shared = SharedState(ctx, settings)
    metrics = Metrics(ctx)
    pages = _Pages(ctx, settings, metrics)
    routes = [
        Route("/generate", Answering(shared, GenerateApi(settings)), methods=_POST),
        *_with_and_without_v1(
            Route(
                "/completions",
                Answering(shared, Completions(ctx.model, settings)),
                methods=_POST,
            ),
            Route(
                "/chat/completions",
                Answering(shared, ChatCompletions(ctx.model, settings)),
                methods=_POST,
            ),
            Route(
                "/responses",
                Answering(shared, Responses(ctx.model, settings)),
                methods=_POST,
            ),
            *(
                Route(path, Working(shared, shape), methods=_POST)
                for path, shape in _work_shapes(ctx, settings, embedding_model).items()
            ),
            Route("/models", pages.models),
            Route("/models/{name:path}", pages.model),
        ),
        *(
            Route(path, Working(shared, shape), methods=_POST)
            for path, shape in _shapes_of_tokens(ctx.model, settings).items()
        ),
        Route("/tokenizer_info", pages.tokenizer_info),
        Route("/api/tags", pages.tags),
        Route("/version", pages.version),
        Route("/openapi.json", pages.openapi),
        Route("/health", pages.health),
        Route("/metrics", pages.metrics),
        *Dashboard(shared, settings).routes(),
    ]
    batches = BatchService(shared, settings.data, batch_endpoints(routes))
    batch_pages = BatchPages(batches, shared, settings.max_file)
    routes += _with_and_without_v1(*batch_pages.routes())
    pages.document = openapi(routes)
    paths = [route.path for route in routes]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        await batches.resume()
        yield
        await batches.close()
        shared.close()

    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(AccessMiddleware, Guard(settings), shared, metrics, paths)
        ],
        exception_handlers={HTTPException: _http_errors(paths)},
        lifespan=lifespan,
    )
    app.state.shared = shared
    return app


def _work_shapes(
    ctx: Context, settings: ServerSettings, embedding_model: Model | None
) -> dict[str, WorkShape]:
    """Return the formats of paths whose answers are whole, with and without `/v1`."""
    return {
        "/embeddings": EmbeddingsApi(ctx, settings, embedding_model),
        "/score": ScoreApi(ctx, settings),
        "/classify": ClassifyApi(ctx, settings),
        "/annotate": AnnotateApi(ctx, settings),
        "/responses/input_tokens": InputTokensApi(ctx.model, settings),
    }


def _shapes_of_tokens(model: Model, settings: ServerSettings) -> dict[str, WorkShape]:
    """Return the formats of paths about tokens and models."""
    return {
        "/tokenize": TokenizeApi(model, settings),
        "/detokenize": DetokenizeApi(model, settings),
        "/apply-template": TemplateApi(model, settings),
        "/api/show": ShowApi(model, settings),
    }


def _with_and_without_v1(*routes: Route) -> list[Route]:
    """Return the routes of OpenAI clients, with and without `/v1`."""
    return [
        Route(f"{start}{route.path}", route.endpoint, methods=route.methods)
        for start in ("/v1", "")
        for route in routes
    ]


def _warm_up(model: Model, settings: ServerSettings) -> None:
    """Compile the chat template, so that no request waits for it; check the settings.

    Raises:
        ValueError: The model cannot think as the settings say.
        ChatTemplateError: The template of the settings cannot be used.
    """
    options = GenerateOptions(chat=True, **with_defaults({}, settings))
    try:
        make_requests(model, ["Hello"], options)
    except ChatTemplateError:
        if settings.template is not None:
            raise


class _Pages:
    """Routes of GET requests.

    Attributes:
        document: OpenAPI document of all routes.
    """

    def __init__(self, ctx: Context, settings: ServerSettings, metrics: Metrics) -> None:
        self._ctx = ctx
        self._metrics = metrics
        self._settings = settings
        self._created = int(time.time())
        self.document: dict[str, object] = {}

    def _of_name(self, name: str) -> dict[str, object]:
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "llamaherd",
        }

    async def models(self, _request: Request) -> Response:
        """Return the names of the model."""
        own = self._settings.embedding_name
        names = (*self._settings.names, *([] if own is None else [own]))
        data = [self._of_name(name) for name in names]
        return _json({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        """Return the model, if it has this name."""
        asked = request.path_params["name"]
        name = self._settings.name_of(asked)
        if asked == self._settings.embedding_name:
            name = asked
        if name is None:
            return _error(ApiError(404, "no such model", code="model_not_found"))
        return _json(self._of_name(name))

    async def tokenizer_info(self, _request: Request) -> Response:
        """Return the special tokens and the chat template of the model."""
        try:
            return _json(tokenizer_info(self._ctx.model))
        except LlamaHerdError as error:
            return _error(ApiError(503, str(error), code="stopping"))

    async def tags(self, _request: Request) -> Response:
        """Return the names of the model, in the format of Ollama."""
        try:
            return _json(tags(self._ctx.model, self._settings, self._created))
        except LlamaHerdError as error:
            return _error(ApiError(503, str(error), code="stopping"))

    async def version(self, _request: Request) -> Response:
        """Return the version of llamaherd."""
        return _json({"version": llamaherd.__version__})

    async def openapi(self, _request: Request) -> Response:
        """Return the OpenAPI document."""
        return _json(self.document)

    async def health(self, _request: Request) -> Response:
        """Return whether prompts can run."""
        if self._ctx.closed:
            return _json({"status": "closed"}, 503)
        return _json({"status": "ok"})

    async def metrics(self, _request: Request) -> Response:
        """Return the metrics."""
        try:
            text = self._metrics.text()
        except LlamaHerdError as error:
            return _error(ApiError(503, str(error), code="stopping"))
        return Response(text, headers={"content-type": CONTENT_TYPE.decode()})


def _json(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    return Response(dumps(value), status, headers, "application/json")


def _error(error: ApiError) -> Response:
    return _json(error.body, error.status, dict(error.headers))


def _http_errors(paths: Collection[str]) -> ExceptionHandler:
    """Return the handler of requests with an unknown path or method."""
    shown = ", ".join(path for path in paths if "{" not in path)

    async def http_error(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        headers = dict(error.headers or {})
        texts = {
            404: f"there is no path {checks.quoted(request.url.path)}; paths are {shown}",
            405: f"{request.method} is not for this path, but {headers.get('Allow')}",
        }
        text = texts.get(error.status_code, error.detail)
        return _error(ApiError(error.status_code, text, headers=tuple(headers.items())))

    return http_error
