"""Routes of GET requests: models, state, metrics, and the page of the server."""

from __future__ import annotations

import time
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, TypeVar

import psutil
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.routing import Route

import llamaherd
from llamaherd.calls.run.embedding import EmbedStats
from llamaherd.engine.memory.hardware import available_memory
from llamaherd.server.formats import other_model
from llamaherd.server.ollama import tags
from llamaherd.server.protocol import RequestRecord, dumps, json_response
from llamaherd.server.running import counts
from llamaherd.server.schemas import (
    OBJECT,
    TEXT,
    TEXT_OR_NULL,
    Schema,
    list_schema,
    record,
    ref,
)
from llamaherd.server.tokenizing import tokenizer_info

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from starlette.requests import Request

    from llamaherd.engine.core.results import Result
    from llamaherd.engine.core.stats import Stats
    from llamaherd.engine.loop.slot_times import SlotTime, SlotTimes
    from llamaherd.server.batches.batch import BatchProgress
    from llamaherd.server.models.store import ModelStore
    from llamaherd.server.state import ModelStatus, SharedState

_Metric = TypeVar("_Metric", Counter, Histogram)
CONTENT_TYPE = CONTENT_TYPE_LATEST.encode()
OF_LOAD = {  # by field of `Load`
    "n_running": "Prompts that are being computed.",
    "n_waiting": "Prompts that are waiting for a slot.",
    "n_slots": "Prompts that can be computed at the same time; 0 before the first call.",
    "n_prefixes": "Prefixes of prompts that are cached, so that they are computed once.",
    "n_ctx": "Maximum number of tokens in the KV cache, for all prompts together.",
}
_OF_REQUESTS = {  # by name of the metric
    "requests": "Answered requests, by path and status; 499: the client disconnected.",
    "prompt_tokens": "Tokens of answered prompts.",
    "reused_tokens": "Prompt tokens from the prefix cache, which were not computed "
    "again.",
    "generated_tokens": "Tokens of answers.",
    "thinking_tokens": "Tokens of thoughts before answers.",
    "work_tokens": "Tokens of embeddings, scores, labels and codes: read, reused without "
    "computation, and written.",
    "user_tokens": "Tokens by the person whose key a request has: of prompts, and of "
    "answers.",
    "request_seconds": "Seconds from a request's arrival to the end of its answer.",
    "queue_seconds": "Seconds that a request waited for a slot.",
    "first_token_seconds": "Seconds from a request's start to its answer's first token.",
}
_OF_MODELS = {  # by field of `ModelStatus`, with several models
    "n_loads": "Times that the loading of a model began.",
    "n_unloads": "Times that a model was unloaded.",
    "n_failures": "Times that a model could not be loaded.",
    "n_bytes": "Bytes that a model uses of the memory for all models.",
}
_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


class Metrics:
    """Counters of answered requests, labelled with `model` if models are files."""

    def __init__(self, models: ModelStore) -> None:
        self._registry = registry = CollectorRegistry()
        self._by_model = models.has_files
        registry.register(_Load(models))
        of_model = ("model",) if self._by_model else ()

        def counter(name: str, *labels: str) -> Counter:
            text = _OF_REQUESTS[name]
            return Counter(f"llamaherd_{name}", text, labels, registry=registry)

        def seconds(name: str, *labels: str) -> Histogram:
            text, name = _OF_REQUESTS[name], f"llamaherd_{name}"
            return Histogram(name, text, labels, registry=registry, buckets=_SECONDS)

        self._requests = counter("requests", "path", "status", *of_model)
        self._prompt = counter("prompt_tokens", *of_model)
        self._reused = counter("reused_tokens", *of_model)
        self._generated = counter("generated_tokens", *of_model)
        self._thinking = counter("thinking_tokens", *of_model)
        self._work = counter("work_tokens", "kind", "part", *of_model)
        self._users = counter("user_tokens", "user", "part")
        self._seconds = seconds("request_seconds", "path", *of_model)
        self._queued = seconds("queue_seconds", *of_model)
        self._first = seconds("first_token_seconds", *of_model)

    def count(self, path: str, record: RequestRecord, seconds: float) -> None:
        """Count a request that ended."""
        model = (record.model,) if self._by_model else ()
        self._requests.labels(path, record.outcome, *model).inc()
        self._seconds.labels(path, *model).observe(seconds)
        for result in record.results:
            self._count(result, model)
        if record.stats is not None:
            kind = path.rpartition("/")[2]
            for part, n in _tokens_of(record.stats).items():
                self._work.labels(kind, part, *model).inc(n)
        if record.user:
            self._count_user(record)

    def _count_user(self, record: RequestRecord) -> None:
        n_prompt, n_new = counts(record.results)
        work = {} if record.stats is None else _tokens_of(record.stats)
        for part, n in (("prompt", n_prompt), ("generated", n_new)):
            self._users.labels(record.user, part).inc(n + work.get(part, 0))

    def _count(self, result: Result, model: tuple[str, ...]) -> None:
        def of(metric: _Metric) -> _Metric:
            return metric.labels(*model) if model else metric

        if result.sample == 0:  # all samples have the same prompt
            of(self._prompt).inc(result.n_prompt_tokens)
            of(self._reused).inc(result.n_reused_tokens)
        of(self._generated).inc(result.n_generated_tokens)
        of(self._thinking).inc(result.n_thinking_tokens)
        if result.stats is not None:
            of(self._queued).observe(result.stats.queue_s)
            if result.stats.first_token_s is not None:
                of(self._first).observe(result.stats.first_token_s)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self._registry)


def _tokens_of(stats: Stats | EmbedStats) -> dict[str, int]:
    """Return the numbers of prompt, reused and generated tokens."""
    if isinstance(stats, EmbedStats):
        return {
            "prompt": stats.n_text_tokens,
            # Texts whose vectors failed were computed, but are not counted as texts.
            "reused": max(0, stats.n_text_tokens - stats.n_tokens),
        }
    return {
        "prompt": stats.n_prompt_tokens,
        "reused": stats.n_reused_tokens,
        "generated": stats.n_generated_tokens + stats.n_thinking_tokens,
    }


class _Load(Collector):
    """Collector of the load of the models."""

    def __init__(self, models: ModelStore) -> None:
        self._models = models

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield a gauge for each number."""
        if self._models.has_files:
            yield from _of_models(self._models.statuses())
            return
        for name, value in asdict(self._models.load).items():
            yield GaugeMetricFamily(f"llamaherd_{name}", OF_LOAD[name], value=value)


def _of_models(models: Sequence[ModelStatus]) -> Iterator[GaugeMetricFamily]:
    """Yield gauges with a label for each model; without load for unloaded models."""
    for name, text in OF_LOAD.items():
        gauge = GaugeMetricFamily(f"llamaherd_{name}", text, labels=("model",))
        for model in models:
            if model.load is not None:
                gauge.add_metric([model.name], getattr(model.load, name))
        yield gauge
    for name, text in _OF_MODELS.items():
        gauge = GaugeMetricFamily(f"llamaherd_model_{name}", text, labels=("model",))
        for model in models:
            if model.parent is None:  # adapters are loaded with their model
                gauge.add_metric([model.name], getattr(model, name))
        yield gauge


def known_name(models: ModelStore, requested: str | None) -> str:
    """Return the name of the model for a request."""
    name = models.name_of(requested)
    if name is None:
        raise other_model(str(requested), [model.name for model in models.statuses()])
    return name


class Page(Route):
    """Route of a GET request, with the JSON Schemas of its answer and its query."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        answer: Schema,
        query: Mapping[str, Schema] | None = None,
    ) -> None:
        super().__init__(path, endpoint)
        self.answer = answer
        self.query = query or {}  # a page with a query loads the model that it names


class ModelPages:
    """Routes of GET requests."""

    def __init__(self, models: ModelStore, metrics: Metrics) -> None:
        self._models = models
        self._metrics = metrics
        self._created = int(time.time())
        self.document: dict[str, object] = {}

    def routes(self) -> list[Page]:
        """Return all routes; those of OpenAI's API with and without `/v1`."""
        models = record(object={"const": "list"}, data=list_schema(ref("Model")))
        tokenizer = ("bos_token", "eos_token", "pad_token", "chat_template")
        return [
            *(
                page
                for start in ("/v1", "")
                for page in (
                    Page(f"{start}/models", self.models, models),
                    Page(f"{start}/models/{{name:path}}", self.model, ref("Model")),
                )
            ),
            Page(
                "/tokenizer_info",
                self.tokenizer_info,
                record(**dict.fromkeys(tokenizer, TEXT_OR_NULL)),
                query={"model": TEXT},
            ),
            Page(
                "/api/tags",
                self.tags,
                record(models=list_schema(record(name=TEXT, model=TEXT))),
            ),
            Page("/version", self.version, record(version=TEXT)),
            Page("/openapi.json", self.openapi, record(openapi=TEXT, paths=OBJECT)),
            Page("/health", self.health, record(status=TEXT)),
            Page("/metrics", self.metrics, TEXT),
        ]

    def _describe_model(self, model: ModelStatus) -> dict[str, object]:
        adapter = {} if model.parent is None else {"parent": model.parent}
        return {
            "id": model.name,
            "object": "model",
            "created": self._created,
            "owned_by": "llamaherd",
            # Fields of Anthropic's API
            "type": "model",
            "display_name": model.name,
            "created_at": datetime.fromtimestamp(self._created, UTC).isoformat(),
            **adapter,
        }

    async def models(self, _request: Request) -> Response:
        """Return the names of all models."""
        data = [self._describe_model(model) for model in self._models.statuses()]
        return json_response({"object": "list", "data": data})

    async def model(self, request: Request) -> Response:
        """Return a model by its name."""
        name = known_name(self._models, request.path_params["name"])
        model = next(model for model in self._models.statuses() if model.name == name)
        return json_response(self._describe_model(model))

    async def tokenizer_info(self, request: Request) -> Response:
        """Return the special tokens and the chat template of a model (`?model=NAME`)."""
        name = known_name(self._models, request.query_params.get("model"))
        async with self._models.lease(name, request.receive) as loaded:
            return json_response(tokenizer_info(loaded.model))

    async def tags(self, _request: Request) -> Response:
        """Return the names of all models, in the format of Ollama."""
        return json_response(tags(self._models.statuses(), self._created))

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
SHARED_FILES = {f"/{name}": name for name in ("base.css", "elements.js", "icon.svg")}
STATIC_FILES = {  # paths of files that contain no data and need no key
    "/": "dashboard.html",
    "/dashboard.js": "dashboard.js",
    "/charts.js": "charts.js",
    "/strips.js": "strips.js",
    "/try.js": "try.js",
    "/dashboard.css": "dashboard.css",
    **SHARED_FILES,
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
        models: ModelStore,
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
        return [*static_routes("llamaherd.server", STATIC_FILES), data]

    async def data(self, _request: Request) -> Response:
        """Return the current load, counts of the engine and memory."""
        activity = await run_in_threadpool(self._activity)
        activity["batches"] = [asdict(progress) for progress in await self._batches()]
        return Response(dumps(activity), 200, _NO_STORE, "application/json")

    def _activity(self) -> dict[str, object]:
        counts, models = self._models.counts, self._models.statuses()
        return {
            "version": version("llamaherd"),
            "models": [model.name for model in models],
            "states": [_state(model) for model in models],
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


def _state(model: ModelStatus) -> dict[str, object]:
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


def static_routes(package: str, names: Mapping[str, str]) -> list[Route]:
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
