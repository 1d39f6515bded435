"""Metrics for Prometheus."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from llamaherd.calls.run.embedding import EmbedStats
from llamaherd.server.shapes import counts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.engine.core.results import Result
    from llamaherd.engine.core.stats import Stats
    from llamaherd.server.model_view import ModelView, ShownModel
    from llamaherd.server.protocol import RequestRecord

_Metric = TypeVar("_Metric", Counter, Histogram)
CONTENT_TYPE = CONTENT_TYPE_LATEST.encode()
OF_LOAD = {  # by field of `Load`
    "n_running": "Prompts that are being computed.",
    "n_waiting": "Prompts that are waiting for a slot.",
    "n_slots": "Prompts that can be computed at the same time; 0 before the first call.",
    "n_prefixes": "Prefixes of prompts that are cached, so that they are computed once.",
    "n_ctx": "Maximum number of tokens in the KV cache, for all prompts together.",
}
_OF_MODELS = {  # by field of `ShownModel`, with several models
    "n_loads": "Times that the loading of a model began.",
    "n_unloads": "Times that a model was unloaded.",
    "n_failures": "Times that a model could not be loaded.",
    "n_bytes": "Bytes that a model uses of the memory for all models.",
}
_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


class Metrics:
    """Counters of answered requests, in a separate registry.

    With several models all metrics have the label `model`.
    """

    def __init__(self, models: ModelView) -> None:
        self._registry = registry = CollectorRegistry()
        self._by_model = models.has_several
        registry.register(_Load(models))
        of_model = ("model",) if self._by_model else ()

        def counter(name: str, text: str, labels: tuple[str, ...] = ()) -> Counter:
            return Counter(f"llamaherd_{name}", text, labels, registry=registry)

        def seconds(name: str, text: str, labels: tuple[str, ...] = ()) -> Histogram:
            return Histogram(
                f"llamaherd_{name}_seconds",
                text,
                labels,
                registry=registry,
                buckets=_SECONDS,
            )

        self._requests = counter(
            "requests",
            "Answered requests, by path and status; 499: the client disconnected.",
            ("path", "status", *of_model),
        )
        self._prompt = counter("prompt_tokens", "Tokens of answered prompts.", of_model)
        self._reused = counter(
            "reused_tokens",
            "Prompt tokens from the prefix cache, which were not computed again.",
            of_model,
        )
        self._generated = counter("generated_tokens", "Tokens of answers.", of_model)
        self._thinking = counter(
            "thinking_tokens", "Tokens of thoughts before answers.", of_model
        )
        self._work = counter(
            "work_tokens",
            "Tokens of embeddings, scores, labels and codes: read, reused without "
            "computation, and written.",
            ("kind", "part", *of_model),
        )
        self._users = counter(
            "user_tokens",
            "Tokens by the person whose key a request has: of prompts, and of answers.",
            ("user", "part"),
        )
        self._seconds = seconds(
            "request",
            "Seconds from a request's arrival to the end of its answer.",
            ("path", *of_model),
        )
        self._queued = seconds(
            "queue", "Seconds that a request waited for a slot.", of_model
        )
        self._first = seconds(
            "first_token",
            "Seconds from a request's start to its answer's first token.",
            of_model,
        )

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
            "reused": stats.n_text_tokens - stats.n_tokens,
        }
    return {
        "prompt": stats.n_prompt_tokens,
        "reused": stats.n_reused_tokens,
        "generated": stats.n_generated_tokens + stats.n_thinking_tokens,
    }


class _Load(Collector):
    """Collector of the load of the models."""

    def __init__(self, models: ModelView) -> None:
        self._models = models

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield a gauge for each number."""
        if self._models.has_several:
            yield from _of_models(self._models.shown())
            return
        for name, value in asdict(self._models.load).items():
            yield GaugeMetricFamily(f"llamaherd_{name}", OF_LOAD[name], value=value)


def _of_models(shown: Sequence[ShownModel]) -> Iterator[GaugeMetricFamily]:
    """Yield gauges with a label for each model; without load for unloaded models."""
    for name, text in OF_LOAD.items():
        found = GaugeMetricFamily(f"llamaherd_{name}", text, labels=("model",))
        for each in shown:
            if each.load is not None:
                found.add_metric([each.name], getattr(each.load, name))
        yield found
    for name, text in _OF_MODELS.items():
        found = GaugeMetricFamily(f"llamaherd_model_{name}", text, labels=("model",))
        for each in shown:
            if each.parent is None:  # adapters are loaded with their model
                found.add_metric([each.name], getattr(each, name))
        yield found
