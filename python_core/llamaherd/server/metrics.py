"""Metrics for Prometheus."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from llamaherd.core.embeddings import EmbedStats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.core.results import Result
    from llamaherd.core.stats import Stats
    from llamaherd.run.context import Context
    from llamaherd.server.record import RequestRecord

CONTENT_TYPE = CONTENT_TYPE_LATEST.encode()
OF_LOAD = {  # by field of `Load`
    "n_running": "Prompts that are being computed now.",
    "n_waiting": "Prompts that wait for a slot now.",
    "n_slots": "Prompts that can be computed at the same time; 0 before the first.",
    "n_prefixes": "Beginnings of prompts that are kept, so that they are computed once.",
    "n_ctx": "Tokens that the KV cache has room for, those of all prompts together.",
}
_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)


class Metrics:
    """Counters of answered requests, in a registry of their own.

    Args:
        ctx: Context, whose load is read for each request of the metrics.
    """

    def __init__(self, ctx: Context) -> None:
        self._registry = registry = CollectorRegistry()
        registry.register(_Load(ctx))

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
            "Requests that were answered, by path and status; 499: the client went away.",
            ("path", "status"),
        )
        self._prompt = counter("prompt_tokens", "Tokens of the prompts answered.")
        self._reused = counter(
            "reused_tokens",
            "Tokens of prompts that the prefix cache had, and were not computed.",
        )
        self._work = counter(
            "work_tokens",
            "Tokens of embeddings, scores, labels and codes: read, read without being "
            "computed, and written.",
            ("kind", "part"),
        )
        self._generated = counter("generated_tokens", "Tokens of answers.")
        self._thinking = counter("thinking_tokens", "Tokens of thoughts before answers.")
        self._seconds = seconds(
            "request",
            "Seconds from a request's arrival to the end of its answer.",
            ("path",),
        )
        self._queued = seconds("queue", "Seconds that a request waited for a slot.")
        self._first = seconds(
            "first_token", "Seconds from a request's start to its answer's first token."
        )

    def count(self, path: str, record: RequestRecord, seconds: float) -> None:
        """Count a request that ended."""
        self._requests.labels(path, record.outcome).inc()
        self._seconds.labels(path).observe(seconds)
        for result in record.results:
            self._count(result)
        if record.stats is not None:
            kind = path.rpartition("/")[2]
            for part, n in _tokens_of(record.stats).items():
                self._work.labels(kind, part).inc(n)

    def _count(self, result: Result) -> None:
        if result.sample == 0:  # all samples have the same prompt
            self._prompt.inc(result.n_prompt_tokens)
            self._reused.inc(result.n_reused_tokens)
        self._generated.inc(result.n_generated_tokens)
        self._thinking.inc(result.n_thinking_tokens)
        if result.stats is not None:
            self._queued.observe(result.stats.queue_s)
            if result.stats.first_token_s is not None:
                self._first.observe(result.stats.first_token_s)

    def text(self) -> bytes:
        """Return all metrics in the format of Prometheus."""
        return generate_latest(self._registry)


def _tokens_of(stats: Stats | EmbedStats) -> dict[str, int]:
    """Return the numbers of tokens by the part of the work that they belong to."""
    if isinstance(stats, EmbedStats):
        return {"prompt": stats.n_tokens}
    return {
        "prompt": stats.n_prompt_tokens,
        "reused": stats.n_reused_tokens,
        "generated": stats.n_generated_tokens + stats.n_thinking_tokens,
    }


class _Load(Collector):
    """Collector of the load of the context."""

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield one gauge per number."""
        for name, value in asdict(self._ctx.load).items():
            yield GaugeMetricFamily(f"llamaherd_{name}", OF_LOAD[name], value=value)
