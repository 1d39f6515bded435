"""Routes of GET requests: models, state, metrics, and the page of the server."""

from __future__ import annotations

import time
from dataclasses import asdict
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING

import psutil
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

import llamaherd
from llamaherd.engine.memory.hardware import available_memory
from llamaherd.server.metrics import CONTENT_TYPE
from llamaherd.server.ollama import tags
from llamaherd.server.protocol import (
    dumps,
    json_response,
)
from llamaherd.server.shapes import other_model
from llamaherd.server.tokenizing import tokenizer_info

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.requests import Request

    from llamaherd.engine.loop.slot_times import SlotTime, SlotTimes
    from llamaherd.server.batches.batch import BatchProgress
    from llamaherd.server.errors import ApiError
    from llamaherd.server.metrics import Metrics
    from llamaherd.server.model_view import ModelView, ShownModel
    from llamaherd.server.state import SharedState


class ModelPages:
    """Routes of GET requests.

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
        raise self._unknown(asked)

    def _unknown(self, asked: str) -> ApiError:
        return other_model(asked, [each.name for each in self._models.shown()])

    async def tokenizer_info(self, request: Request) -> Response:
        """Return the special tokens and the chat template of a model (`?model=NAME`)."""
        asked = request.query_params.get("model")
        name = self._models.name_of(asked)
        if name is None:
            raise self._unknown(str(asked))
        async with self._models.lease(name, request.receive) as loaded:
            return json_response(tokenizer_info(loaded.model))

    async def tags(self, _request: Request) -> Response:
        """Return the names of all models, in the format of Ollama."""
        return json_response(tags(self._models.shown(), self._created))

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
        text = self._metrics.text()
        return Response(text, headers={"content-type": CONTENT_TYPE.decode()})


DATA = "/dashboard.json"
PAGES = {  # paths of files that contain no data and need no key
    "/": "dashboard.html",
    "/dashboard.js": "dashboard.js",
    "/charts.js": "charts.js",
    "/strips.js": "strips.js",
    "/updating.js": "updating.js",
    "/try.js": "try.js",
    "/dashboard.css": "dashboard.css",
    "/icon.svg": "icon.svg",
}
_NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_COUNTS = (
    *("n_prefill", "n_reused", "n_decode", "n_generated", "n_thinking"),
    *("n_batches", "n_clients", "n_pauses"),
)


class Dashboard:
    """Data of the page."""

    def __init__(
        self,
        shared: SharedState,
        models: ModelView,
        batches: Callable[[], Awaitable[Sequence[BatchProgress]]],
    ) -> None:
        self._shared = shared
        self._models = models
        self._batches = batches
        self._start_s = time.monotonic()
        self._process = psutil.Process()

    def routes(self) -> list[Route]:
        """Return the routes of the page and its data."""
        data = Route(DATA, self.data, include_in_schema=False)
        return [*page_routes("llamaherd.server", PAGES), data]

    async def data(self, _request: Request) -> Response:
        """Return the current load, counts of the engine and memory."""
        found = await run_in_threadpool(self._found)
        found["batches"] = [asdict(progress) for progress in await self._batches()]
        return Response(dumps(found), 200, _NO_STORE, "application/json")

    def _found(self) -> dict[str, object]:
        counts, shown = self._models.counts, self._models.shown()
        return {
            "version": version("llamaherd"),
            "models": [each.name for each in shown],
            "states": [_state(each) for each in shown],
            "slots": [
                {"model": name, **_slots(times)}
                for name, times in self._models.slots().items()
            ],
            "uptime_s": time.monotonic() - self._start_s,
            "load": asdict(self._models.load),
            "n_requests": self._shared.queue.n_inside,
            "counts": {name: getattr(counts, name) for name in _COUNTS},
            "memory": {
                "process": self._process.memory_info().rss,
                "available": available_memory(),
            },
        }


def _slots(times: SlotTimes) -> dict[str, object]:
    """Return the seconds that each slot spent on prefill, on decoding and waiting."""
    return {
        "began": times.began_s,
        "at": times.at_s,
        "prompts": [_seconds(prompt) for prompt in times.prompts],
        "prefixes": [_seconds(prefix) for prefix in times.prefixes],
    }


def _seconds(time_of_slot: SlotTime) -> tuple[float, float, float]:
    return time_of_slot.prefill_s, time_of_slot.decode_s, time_of_slot.waiting_s


def _state(model: ShownModel) -> dict[str, object]:
    load = model.load
    return {
        "name": model.name,
        "parent": model.parent,
        "state": model.state,
        "memory": model.n_bytes,
        "n_running": 0 if load is None else load.n_running,
        "n_waiting": 0 if load is None else load.n_waiting,
    }


_MEDIA = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# Scripts, styles and data of this server only; no inline script, no frame around a page.
_STRICT = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}


def page_routes(package: str, names: Mapping[str, str]) -> list[Route]:
    """Return routes of files that need no key, because they contain no data."""
    folder = files(package) / "static"
    return [
        Route(
            path,
            _endpoint((folder / name).read_bytes(), name.rpartition(".")[2]),
            include_in_schema=False,
        )
        for path, name in names.items()
    ]


def _endpoint(content: bytes, ending: str) -> Callable[[Request], Awaitable[Response]]:
    response = Response(content, headers={**_STRICT, "content-type": _MEDIA[ending]})

    async def endpoint(_request: Request) -> Response:
        return response

    return endpoint
