"""Routes of GET requests: models, state and metrics of a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

import llamaherd
from llamaherd.core.errors import LlamaHerdError
from llamaherd.server.errors import ApiError
from llamaherd.server.messages import ClientGoneError, dumps
from llamaherd.server.metrics import CONTENT_TYPE
from llamaherd.server.ollama import tags
from llamaherd.server.record import CLIENT_GONE
from llamaherd.server.tokenizing import tokenizer_info
from llamaherd.server.work_api import other_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from llamaherd.server.metrics import Metrics
    from llamaherd.server.model_view import ModelView, ShownModel


class ModelPages:
    """Routes of GET requests.

    Args:
        models: Models of the server.
        metrics: Metrics of the server.

    Attributes:
        document: OpenAPI document of all routes.
    """

    def __init__(self, models: ModelView, metrics: Metrics) -> None:
        self._models = models
        self._metrics = metrics
        self._created = int(time.time())
        self.document: dict[str, object] = {}

    def routes_of_openai(self) -> list[Route]:
        """Return the routes that the server offers with and without `/v1`."""
        return [
            Route("/models", self.models),
            Route("/models/{name:path}", self.model),
        ]

    def routes(self) -> list[Route]:
        """Return the other routes."""
        return [
            Route("/tokenizer_info", self.tokenizer_info),
            Route("/api/tags", self.tags),
            Route("/version", self.version),
            Route("/openapi.json", self.openapi),
            Route("/health", self.health),
            Route("/metrics", self.metrics),
        ]

    def _described(self, model: ShownModel) -> dict[str, object]:
        adapter = {} if model.parent is None else {"parent": model.parent}
        return {
            "id": model.name,
            "object": "model",
            "created": self._created,
            "owned_by": "llamaherd",
            **adapter,
        }

    async def models(self, _request: Request) -> Response:
        """Return the names of all models."""
        data = [self._described(each) for each in self._models.shown()]
        return json_response({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        """Return a model by its name."""
        asked = request.path_params["name"]
        name = self._models.name_of(asked)
        for each in self._models.shown():
            if each.name == name:
                return json_response(self._described(each))
        return error_response(self._unknown(asked))

    def _unknown(self, asked: str) -> ApiError:
        return other_model(asked, [each.name for each in self._models.shown()])

    async def tokenizer_info(self, request: Request) -> Response:
        """Return the special tokens and the chat template of a model (`?model=NAME`)."""
        asked = request.query_params.get("model")
        name = self._models.name_of(asked)
        if name is None:
            return error_response(self._unknown(str(asked)))
        try:
            async with self._models.lease(name, request.receive) as loaded:
                return json_response(tokenizer_info(loaded.model))
        except ClientGoneError:
            request.scope["llamaherd.record"].is_gone = True
            return Response(status_code=CLIENT_GONE)
        except ApiError as error:
            return error_response(error)
        except LlamaHerdError as error:
            return error_response(ApiError(503, str(error), code="stopping"))

    async def tags(self, _request: Request) -> Response:
        """Return the names of all models, in the format of Ollama."""
        try:
            return json_response(tags(self._models.shown(), self._created))
        except LlamaHerdError as error:
            return error_response(ApiError(503, str(error), code="stopping"))

    async def version(self, _request: Request) -> Response:
        """Return the version of llamaherd."""
        return json_response({"version": llamaherd.__version__})

    async def openapi(self, _request: Request) -> Response:
        """Return the OpenAPI document."""
        return json_response(self.document)

    async def health(self, _request: Request) -> Response:
        """Return whether prompts can run."""
        if self._models.is_closed:
            return json_response({"status": "closed"}, 503)
        return json_response({"status": "ok"})

    async def metrics(self, _request: Request) -> Response:
        """Return the metrics."""
        try:
            text = self._metrics.text()
        except LlamaHerdError as error:
            return error_response(ApiError(503, str(error), code="stopping"))
        return Response(text, headers={"content-type": CONTENT_TYPE.decode()})


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with JSON."""
    return Response(dumps(value), status, headers, "application/json")


def error_response(error: ApiError) -> Response:
    """Return the response of an error."""
    return json_response(error.body, error.status, dict(error.headers))
