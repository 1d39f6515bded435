"""Preparation and work of requests end after a disconnect, a timeout or a stop."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from fake_calls import assert_right, request
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.request import AbandonedError, Preparing, check_wanted
from llamaherd.engine.core.words import words
from llamaherd.server.errors import ApiError
from llamaherd.server.formats import Prepared
from llamaherd.server.scores import ScoreApi
from llamaherd.server.threads import AwaitedJob
from served import served
from stepping import plan, stepping, submit
from waiting import HANGS_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_context import FakeContext
    from llamaherd.calls.run.hosted import Steps
    from llamaherd.engine.loop.loop import Loop
    from served import Client

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
    fake_work = _Work()

    def prepare(_self: ScoreApi, _fields: dict[str, object]) -> Prepared[Any]:
        return Prepared(fake_work, lambda results: {"results": results.text})

    monkeypatch.setattr(ScoreApi, "prepare", prepare)
    return fake_work


def test_an_answer_comes_when_its_work_is_done(fake: FakeContext, work: _Work) -> None:
    with served(fake) as client, ThreadPoolExecutor(1) as pool:
        future = pool.submit(client.post, PATH, {})
        assert work.has_begun.wait(LIMIT_S)
        assert not future.done()
        assert client.ask("GET", "/health")[0] == 200
        work.may_end.set()
        assert future.result(LIMIT_S) == (200, {"results": "done"})
        assert not work.is_cancelled.is_set() or work.may_end.is_set()


class _Speaking(_Work):
    """Work whose result is the language of its messages."""

    def run(self) -> SimpleNamespace:
        return SimpleNamespace(language=words().language, stats=None)


def test_work_and_answer_use_the_words_of_json(
    fake: FakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare(_self: ScoreApi, _fields: dict[str, object]) -> Prepared[Any]:
        return Prepared(_Speaking(), lambda results: [results.language, words().language])

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
        status, response = client.post(PATH, {})
        assert (status, response["error"]["code"]) == (504, "timeout")
        assert work.is_cancelled.is_set()


def test_a_server_that_stops_ends_work(fake: FakeContext, work: _Work) -> None:
    with served(fake, grace_s=0.1) as client, ThreadPoolExecutor(1) as pool:
        future = pool.submit(client.post, PATH, {})
        assert work.has_begun.wait(LIMIT_S)
        assert client.server is not None
        client.server.should_exit = True
        status, response = future.result(LIMIT_S)
        assert (status, response["error"]["code"]) == (503, "stopping")


def test_a_full_queue_refuses_them_too(fake: FakeContext, work: _Work) -> None:
    with served(fake, queue=0) as client, ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(client.post, PATH, {}) for _ in range(2)]
        statuses = set()
        while 429 not in statuses and len(futures) < 200:
            futures.append(pool.submit(client.post, PATH, {}))
            done = [future for future in futures if future.done()]
            statuses = {future.result()[0] for future in done}
        work.may_end.set()
        assert 429 in {future.result(LIMIT_S)[0] for future in futures}


class _Call:
    """A call of one prompt."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._call = Call([request([1, 2])], seed=1)

    def cancel(self) -> None:
        self._call.cancel()

    def steps(self) -> Steps[object]:
        return self._call.steps(self._loop)


def test_a_server_that_is_gone_does_not_disturb_other_callers() -> None:
    """The call ends after the threads and the event loop of the server."""
    loop, engine = stepping(plan())
    may_run = threading.Event()
    engine.before_run = lambda _: may_run.wait(60)
    threads = ThreadPoolExecutor(1)
    asyncio.run(_leave_a_job(loop, threads))
    threads.shutdown(cancel_futures=True)
    other = submit(loop, request([3, 4]))
    may_run.set()
    assert_right(other.result(60), request([3, 4]))
    assert loop.wait(60)


async def _leave_a_job(loop: Loop, threads: ThreadPoolExecutor) -> None:
    job = AwaitedJob(_Call(loop), threads.submit)
    waiting = asyncio.ensure_future(job.outcome())
    await asyncio.to_thread(wait_until, lambda: bool(loop._groups))
    waiting.cancel()


class _Nothing:
    """Work whose only step returns 1."""

    def cancel(self) -> None:
        pass

    def steps(self) -> Steps[int]:
        return 1
        yield


@contextmanager
def _busy_thread() -> Iterator[ThreadPoolExecutor]:
    """Return a pool whose only thread is busy until the end of the block."""
    may_end = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(may_end.wait, 60)
        try:
            yield threads
        finally:
            may_end.set()


def test_a_job_ends_if_its_threads_end_before_its_step() -> None:
    with _busy_thread() as threads:
        job = AwaitedJob(_Nothing(), threads.submit)
        threads.shutdown(wait=False, cancel_futures=True)
        with pytest.raises(ApiError, match="the server is stopping"):
            asyncio.run(job.outcome())
        assert job.done()


def test_work_that_is_cancelled_before_its_step_has_no_results() -> None:
    with _busy_thread() as threads:
        job = AwaitedJob(_Nothing(), threads.submit)
        job.cancel()
        with pytest.raises(AbandonedError):
            asyncio.run(job.outcome())


N = 12  # items of each request
_TEXTS = [f"text {i}" for i in range(N)]
_CHATS = [[{"role": "user", "content": text}] for text in _TEXTS]
_SCHEMAS = [
    {"type": "object", "properties": {f"p{i}": {"type": "integer", "minimum": i}}}
    for i in range(N)
]
_TOOLS = [
    {"type": "function", "function": {"name": f"f{i}", "parameters": schema}}
    for i, schema in enumerate(_SCHEMAS)
]
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "texts": ("/v1/completions", {"prompt": _TEXTS, "max_tokens": 1}),
    "echo": (
        "/v1/completions",
        {"prompt": _TEXTS, "max_tokens": 1, "echo": True, "logprobs": 1},
    ),
    "messages": (
        "/v1/chat/completions",
        {"max_tokens": 1, "messages": [chat[0] for chat in _CHATS]},
    ),
    "scores": ("/v1/score", {"prompts": _TEXTS, "continuations": [["a", "b"]] * N}),
    "chats": (
        "/v1/score",
        {"prompts": _CHATS, "continuations": ["a"] * N, "chat": True},
    ),
    "labels": ("/v1/classify", {"prompts": ["x"], "labels": _TEXTS}),
    "codes": (
        "/v1/annotate",
        {"texts": _TEXTS, "codebook": {"question": "What?", "labels": ["a", "b"]}},
    ),
    "documents": ("/v1/rerank", {"query": "q", "documents": _TEXTS}),
    "choices": ("/generate", {"prompt": "x", "choices": _TEXTS}),
}
CONTEXT = {"n_threads": 1, "n_seq_max": 4}


class _Held:
    """Stops a preparation at its k-th question, until its request was ended."""

    def __init__(self) -> None:
        self.n_asked = 0
        self.k = 0  # 0: never
        self.is_there = threading.Event()
        self.may_go_on = threading.Event()

    def check(self, preparing: Preparing) -> None:
        self.n_asked += 1
        if self.n_asked == self.k:
            self.is_there.set()
            if not self.may_go_on.is_set():
                wait_until(lambda: not preparing.is_wanted)
        if not preparing.is_wanted:
            raise AbandonedError


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> _Held:
    gate = _Held()

    def check(preparing: Preparing) -> None:
        gate.check(preparing)

    monkeypatch.setattr(Preparing, "check", check)
    return gate


def _n_inside(real: Client) -> int:
    assert real.server is not None
    return real.server.shared.queue.n_inside


@pytest.mark.parametrize("name", REQUESTS)
def test_each_part_of_a_request_asks_whether_somebody_waits(
    real: Client, held: _Held, name: str
) -> None:
    path, body = REQUESTS[name]
    status, answer = real.post(path, body)
    assert status == 200, answer
    assert held.n_asked > N


@pytest.mark.parametrize("name", REQUESTS)
def test_nothing_more_is_prepared_for_a_client_that_is_gone(
    real: Client, held: _Held, name: str
) -> None:
    held.k = N // 2
    link = real.connect(*REQUESTS[name])
    assert held.is_there.wait(HANGS_S)
    link.close()
    wait_until(lambda: _n_inside(real) == 0)
    assert held.n_asked == held.k  # it ended where it asked
    held.k = 0
    assert real.post("/generate", {"prompt": "x", "max_tokens": 1})[0] == 200


def test_a_request_that_waits_for_a_thread_ends_at_once(
    real: Client, held: _Held
) -> None:
    held.k = N // 2
    assert real.server is not None
    threads = real.server.shared.threads.pool("compile")
    may_go_on = threading.Event()
    busy = [threads.submit(may_go_on.wait) for _ in range(2)]
    link = real.connect(*REQUESTS["choices"])
    wait_until(lambda: _n_inside(real) == 1)
    link.close()
    wait_until(lambda: _n_inside(real) == 0)
    may_go_on.set()
    assert all(future.result() for future in busy)
    assert held.n_asked == 0


def test_a_preparation_ends_after_the_timeout(chat_model: lh.Model, held: _Held) -> None:
    held.k = N // 2
    with (
        lh.Context(chat_model, n_threads=1, n_seq_max=4) as ctx,
        served(ctx, timeout_s=0.05) as real,
    ):
        status, answer = real.post(*REQUESTS["labels"])
        assert status == 504
        assert "took more than" in answer["error"]["message"]


def test_a_preparation_ends_with_the_server(chat_model: lh.Model, held: _Held) -> None:
    held.k = N // 2
    with (
        lh.Context(chat_model, n_threads=1, n_seq_max=4) as ctx,
        served(ctx, grace_s=0.0) as real,
    ):
        link = real.connect(*REQUESTS["labels"])
        assert held.is_there.wait(HANGS_S)
        assert real.server is not None
        real.server.should_exit = True
        assert link.recv(12) == b"HTTP/1.1 503"
        link.close()


def test_only_the_work_of_the_request_ends() -> None:
    check_wanted()
    preparing = Preparing()
    with preparing.entered():
        check_wanted()
        preparing.end()
        with pytest.raises(AbandonedError):
            check_wanted()
    check_wanted()
