"""Callers whose loop loses its thread: every wait ends, even if another thread starts."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import llamaherd as lh
import pytest
from fake_calls import assert_right, request
from fake_engine import make_loop
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.handle import Handle
from llamaherd.calls.run.hosted import run_steps
from llamaherd.engine.loop import threads
from llamaherd.engine.loop.loop import Loop
from llamaherd.ray.loop import ClusterLoop
from llamaherd.server.threads import AwaitedJob
from local_ray import LocalActor, local_cluster
from waiting import HANGS_S, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from llamaherd.calls.run.hosted import Steps
    from llamaherd.engine.loop.threaded import ThreadedLoop

    Wait = Callable[[], object]

LOST = request([1, 2])
OTHER = request([3, 4])
SAID: ContextVar[str] = ContextVar("SAID", default="")


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_LOOK_S", 0.01)


@pytest.fixture
def context_loop() -> Loop:
    return make_loop()


@pytest.fixture
def cluster_loop() -> Iterator[ClusterLoop]:
    with local_cluster(LocalActor()) as loop:
        yield loop


@pytest.fixture(params=["context_loop", "cluster_loop"])
def loop(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def lose_thread(loop: ThreadedLoop, begin: Callable[[], object]) -> None:
    """Let the thread of a loop die with the requests that it received from `begin`."""

    def die(*_: object) -> NoReturn:
        if not isinstance(loop, ClusterLoop):
            wait_until(lambda: bool(loop._arrived))
            loop._arrived.clear()
        raise SystemExit  # as if not even the error could be reported

    is_cluster = isinstance(loop, ClusterLoop)
    steps = ("_turn", "_end") if is_cluster else ("_has_turned",)
    for step in steps:
        setattr(loop, step, die)
    begin()
    wait_until(lambda: loop._worker is not None and loop._worker.is_over)
    for step in steps:
        delattr(loop, step)


def die_when_it_runs(loop: Loop) -> None:
    """Let the thread of a loop die after a turn in which a request runs or waits."""
    turn = loop._has_turned

    def die() -> bool:
        assert turn()
        if loop._groups:
            raise SystemExit
        return True

    loop._has_turned = die  # type: ignore[method-assign]


def answer_other(loop: ThreadedLoop) -> None:
    """Let another thread of a loop answer a request."""
    assert_right(Handle(loop, OTHER, None).result(60), OTHER)


class _Work:
    """A call whose steps record that they were closed."""

    def __init__(self, loop: ThreadedLoop) -> None:
        self._loop = loop
        self._call = Call([LOST], seed=1)
        self.closed_in = ""

    def cancel(self) -> None:
        self._call.cancel()

    def steps(self) -> Steps[object]:
        SAID.set("the context of the job")
        try:
            return (yield from self._call.steps(self._loop))
        finally:
            self.closed_in = SAID.get()


def of_result(loop: ThreadedLoop) -> Wait:
    handle = Handle(loop, LOST, None)
    return lambda: handle.result(60)


def of_await(loop: ThreadedLoop) -> Wait:
    handle = Handle(loop, LOST, None)

    async def main() -> object:
        return await asyncio.wait_for(handle, HANGS_S)

    return lambda: asyncio.run(main())


def of_pieces(loop: ThreadedLoop) -> Wait:
    handle = Handle(loop, LOST, None)

    async def main() -> object:
        return [piece async for piece in handle]

    return lambda: asyncio.run(asyncio.wait_for(main(), HANGS_S))


def of_call(loop: ThreadedLoop) -> Wait:
    steps = Call([LOST], seed=1).steps(loop)
    return next(steps).wait


def of_job(loop: ThreadedLoop) -> Wait:
    work = _Work(loop)
    threads = ThreadPoolExecutor(1)
    job = AwaitedJob(work, threads.submit)

    def wait() -> None:
        try:
            asyncio.run(asyncio.wait_for(job.outcome(), HANGS_S))
        finally:
            assert job.done()
            assert work.closed_in == "the context of the job"
            threads.shutdown()

    return wait


WAITS = [of_result, of_await, of_pieces, of_call, of_job]


@pytest.mark.parametrize("is_another_started", [False, True])
@pytest.mark.parametrize("of", WAITS)
def test_each_wait_ends_with_the_thread_that_received_its_requests(
    loop: ThreadedLoop, of: Callable[[ThreadedLoop], Wait], *, is_another_started: bool
) -> None:
    waits: list[Wait] = []
    lose_thread(loop, lambda: waits.append(of(loop)))
    if is_another_started:
        answer_other(loop)
    with pytest.raises(MemoryError, match="thread ended because memory ran out"):
        waits[0]()
    answer_other(loop)


def test_another_thread_answers_what_the_lost_one_did_not_receive(
    context_loop: Loop,
) -> None:
    loop = context_loop
    handles: list[Handle] = []

    def begin() -> None:
        with loop._lock:
            handles.append(Handle(loop, LOST, None))

    def die() -> NoReturn:
        raise SystemExit

    loop._has_turned = die  # type: ignore[method-assign, assignment]
    begin()
    wait_until(lambda: loop._worker is not None and loop._worker.is_over)
    del loop._has_turned
    with loop._lock:  # no wait begins before the other thread has started
        other = Handle(loop, OTHER, None)
        assert loop.why_lost(handles[0]._group) is None
    assert_right(handles[0].result(60), LOST)
    assert_right(other.result(60), OTHER)


def test_another_thread_ends_what_the_lost_one_ran(context_loop: Loop) -> None:
    """Callbacks learn the end, too, although they never look."""
    loop = context_loop
    ended: list[BaseException | None] = []
    die_when_it_runs(loop)
    handle = Handle(loop, request([5, 6], 200), None)
    handle.add_done_callback(lambda ended_handle: ended.append(ended_handle._error))
    wait_until(lambda: loop._worker is not None and loop._worker.is_over)
    del loop._has_turned
    answer_other(loop)
    (error,) = ended
    assert isinstance(error, MemoryError)


def test_an_actor_reports_requests_whose_thread_died() -> None:
    """The cluster runs them elsewhere, or fails the call with the reason."""
    actor = LocalActor()
    with local_cluster(actor) as loop:
        calls: list[Handle] = []
        lose_thread(actor.inner._loop, lambda: calls.append(Handle(loop, LOST, None)))
        wait_until(lambda: loop._worker is not None and loop._worker.is_over)
        with pytest.raises(MemoryError, match="the context's thread ended"):
            calls[0].result(60)


@pytest.mark.parametrize("fails", ["counts", "output"])
def test_one_group_that_cannot_be_ended_leaves_no_other_behind(
    context_loop: Loop, fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine is lost; counts or an output of one of the groups cannot be read."""
    loop = context_loop
    handles: list[Handle] = []
    with loop._lock:
        handles += [Handle(loop, request([n, 9], 200), None) for n in range(3)]
        if fails == "output":
            monkeypatch.setattr(handles[0], "on_output", _no_memory)
        loop._has_turned = partial(_fails_once, loop, fails)  # type: ignore[method-assign]
    for handle in handles:
        with pytest.raises((MemoryError, RuntimeError)):
            handle.result(60)
        assert handle.done()
    answer_other(loop)


def _no_memory(*_: object) -> NoReturn:
    raise MemoryError


def _fails_once(loop: Loop, fails: str) -> bool:
    del loop._has_turned
    runner = loop._take_in()
    assert runner is not None
    counts = runner.engine.counts

    def fail(number: int | None = None) -> object:
        if number == 0:
            raise MemoryError
        return counts(number)

    if fails == "counts":
        runner.engine.counts = fail  # type: ignore[method-assign, assignment]
        loop._fail_all("", RuntimeError("the engine failed"))
    else:
        loop._fail_all("the engine failed")
    return True


def test_steps_run_to_their_end_on_one_thread(context_loop: Loop) -> None:
    work = _Work(context_loop)
    run_steps(work.steps())
    assert work.closed_in == "the context of the job"


def test_a_chat_whose_answer_lost_its_thread_asks_again(
    tiny_path: Callable[[str], Path],
) -> None:
    path = tiny_path("chat")
    with lh.Model(path) as model, lh.Context(model, n_threads=1) as context:
        loop = context.loop
        assert isinstance(loop, Loop)
        chat = lh.chat(context, max_tokens=200, ignore_eos=True)
        die_when_it_runs(loop)
        reply = chat.stream("a")
        wait_until(lambda: loop._worker is not None and loop._worker.is_over)
        del loop._has_turned
        for use in (lambda: chat.ask("b"), lambda: chat.turns, reply.result):
            with pytest.raises(MemoryError, match="thread ended"):
                use()
        lh.generate(context, "c", max_tokens=1)  # starts another thread
        wait_until(reply.done)
        assert chat.ask("b", max_tokens=2).finish_reason == "length"
        assert chat.turns[0]["content"] == "b"
