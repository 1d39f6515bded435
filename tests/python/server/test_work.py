"""Requests without a stream end after a disconnect, a timeout or a stop."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from llamaherd.engine.core.words import words
from llamaherd.server.scores import ScoreApi
from llamaherd.server.shapes import Prepared
from served import served

if TYPE_CHECKING:
    from fake_context import FakeContext

PATH = "/v1/score"
LIMIT_S = 120


class _Work:
    """Work that runs until the test cancels or releases it."""

    progress = None
    problem = ""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.is_cancelled = threading.Event()
        self.may_end = threading.Event()

    def cancel(self) -> None:
        self.is_cancelled.set()
        self.may_end.set()

    def run(self) -> SimpleNamespace:
        self.has_begun.set()
        assert self.may_end.wait(LIMIT_S)
        return SimpleNamespace(text="done", stats=None)


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> _Work:
    made = _Work()

    def prepare(_self: ScoreApi, _fields: dict[str, object]) -> Prepared[Any]:
        return Prepared(made, lambda results: {"results": results.text})

    monkeypatch.setattr(ScoreApi, "prepare", prepare)
    return made


def test_an_answer_comes_when_its_work_is_done(fake: FakeContext, work: _Work) -> None:
    with served(fake) as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.post, PATH, {})
        assert work.has_begun.wait(LIMIT_S)
        assert not asked.done()
        assert client.ask("GET", "/health")[0] == 200
        work.may_end.set()
        assert asked.result(LIMIT_S) == (200, {"results": "done"})
        assert not work.is_cancelled.is_set() or work.may_end.is_set()


class _Speaking(_Work):
    """Work whose result is the language of its messages."""

    def run(self) -> SimpleNamespace:
        return SimpleNamespace(language=words().language, stats=None)


def test_work_and_answer_use_the_words_of_json(
    fake: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(_self: ScoreApi, _fields: dict[str, object]) -> Prepared[Any]:
        return Prepared(_Speaking(), lambda found: [found.language, words().language])

    monkeypatch.setattr(ScoreApi, "prepare", prepare)
    with served(fake) as client:
        assert client.post(PATH, {}) == (200, ["JSON", "JSON"])


def test_a_client_that_goes_away_ends_its_work(fake: FakeContext, work: _Work) -> None:
    with served(fake) as client:
        connection = client.connect(PATH, {})
        assert work.has_begun.wait(LIMIT_S)
        connection.close()
        assert work.is_cancelled.wait(LIMIT_S)


def test_work_that_takes_too_long_ends(fake: FakeContext, work: _Work) -> None:
    with served(fake, timeout_s=0.1) as client:
        status, got = client.post(PATH, {})
        assert (status, got["error"]["code"]) == (504, "timeout")
        assert work.is_cancelled.is_set()


def test_a_server_that_stops_ends_work(fake: FakeContext, work: _Work) -> None:
    with served(fake, grace_s=0.1) as client, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.post, PATH, {})
        assert work.has_begun.wait(LIMIT_S)
        assert client.server is not None
        client.server.should_exit = True
        status, got = asked.result(LIMIT_S)
        assert (status, got["error"]["code"]) == (503, "stopping")


def test_a_full_queue_refuses_them_too(fake: FakeContext, work: _Work) -> None:
    with served(fake, queue=0) as client, ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(client.post, PATH, {}) for _ in range(2)]
        statuses = set()
        while 429 not in statuses and len(asked) < 200:
            asked.append(pool.submit(client.post, PATH, {}))
            done = [each for each in asked if each.done()]
            statuses = {each.result()[0] for each in done}
        work.may_end.set()
        assert 429 in {each.result(LIMIT_S)[0] for each in asked}
