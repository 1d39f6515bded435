"""Requests for a fake engine, and their expected answers."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from fake_engine import N_VOCAB, answer, text_of
from llamaherd import SamplingParams
from llamaherd.engine.core.outcome import Finish
from llamaherd.engine.core.request import Request
from llamaherd.engine.core.results import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from llamaherd.calls.run.handle import Handle


def request(
    tokens: Sequence[int], max_tokens: int = 10, priority: int = 0, **settings: object
) -> Request:
    return Request(
        tokens=array("i", tokens),
        max_tokens=max_tokens,
        sampling=SamplingParams(**settings),
        seed=len(tokens),
        priority=priority,
    )


def long_request(n: int = 0, priority: int = 0) -> Request:
    """Return a request with an answer of 100 tokens or more, distinct for each n < 50."""
    while True:
        candidate = request([n, 7], 200, priority)
        if len(answer(candidate)[0]) >= 100:
            return candidate
        n = (n + 50) % N_VOCAB


def assert_right(result: Result, request: Request) -> None:
    tokens, finish = answer(request)
    assert result.error is None
    assert result.tokens == tokens
    assert result.text == text_of(tokens)
    assert result.finish_reason == ("length" if finish is Finish.LENGTH else "stop")


def assert_all_right(
    results: Iterable[Result | Handle],
    expected: Iterable[Request] | Callable[[int], Request],
) -> None:
    """Check the results of requests, or of requests that a function makes by index."""
    results = list(results)
    requests = map(expected, range(len(results))) if callable(expected) else expected
    for result, one in zip(results, requests, strict=True):
        assert_right(result if isinstance(result, Result) else result.result(60), one)
