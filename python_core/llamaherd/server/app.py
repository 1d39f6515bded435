"""The application: its routes, and what they share."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from llamaherd.core.errors import ChatTemplateError, LlamaHerdError
from llamaherd.model.chat import apply_chat_template
from llamaherd.server.answering import Answering
from llamaherd.server.door import Door
from llamaherd.server.errors import ApiError
from llamaherd.server.generate import Generate
from llamaherd.server.house import House
from llamaherd.server.limits import Guard
from llamaherd.server.messages import dumps
from llamaherd.server.metrics import CONTENT_TYPE, Metrics
from llamaherd.server.openai import Chat, Completions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.requests import Request

    from llamaherd.model.model import Model
    from llamaherd.run.context import Context
    from llamaherd.server.settings import Settings


def create_app(ctx: Context, settings: Settings) -> Starlette:
    """An ASGI application that answers with the texts of a context.

    Args:
        ctx: Stays the caller's, who closes it after the application has ended.
        settings: See there.
    """
    _warm_up(ctx.model)
    house = House(ctx, settings)
    metrics = Metrics(ctx)
    pages = _Pages(ctx, settings, metrics)
    routes = [
        Route("/generate", Answering(house, Generate()), methods=["POST"]),
        Route(
            "/v1/completions", Answering(house, Completions(settings)), methods=["POST"]
        ),
        Route(
            "/v1/chat/completions",
            Answering(house, Chat(ctx.model, settings)),
            methods=["POST"],
        ),
        Route("/v1/models", pages.models),
        Route("/v1/models/{name:path}", pages.model),
        Route("/health", pages.health),
        Route("/metrics", pages.metrics),
    ]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        house.close()

    app = Starlette(
        routes=routes,
        middleware=[
            Middleware(
                Door, Guard(settings), house, metrics, [route.path for route in routes]
            )
        ],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.state.house = house
    return app


def _warm_up(model: Model) -> None:
    """Compiles the chat template, for which the event loop should not have to wait."""
    with suppress(ChatTemplateError):
        apply_chat_template(model, [{"role": "user", "content": "Hello"}])


class _Pages:
    """What is asked for with GET."""

    def __init__(self, ctx: Context, settings: Settings, metrics: Metrics) -> None:
        self._ctx = ctx
        self._metrics = metrics
        self._model = {
            "id": settings.model_name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "llamaherd",
        }

    async def models(self, _request: Request) -> Response:
        """The one model that there is."""
        return _json({"object": "list", "data": [self._model]})

    async def model(self, request: Request) -> Response:
        """The model, if that is its name."""
        if request.path_params["name"] != self._model["id"]:
            return _error(ApiError(404, "no such model", code="model_not_found"))
        return _json(self._model)

    async def health(self, _request: Request) -> Response:
        """Whether prompts can run."""
        if self._ctx.closed:
            return _json({"status": "closed"}, 503)
        return _json({"status": "ok"})

    async def metrics(self, _request: Request) -> Response:
        """The figures."""
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


async def _http_error(request: Request, error: Exception) -> Response:
    """A path or a method that there is not."""
    if not isinstance(error, HTTPException):
        raise error
    texts = {404: "there is no such path", 405: f"{request.method} is not for this path"}
    text = texts.get(error.status_code, error.detail)
    known = ApiError(
        error.status_code, text, headers=tuple((error.headers or {}).items())
    )
    return _error(known)
