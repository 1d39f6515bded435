"""Handles of single prompts: threads, asyncio, streams, ends."""

from __future__ import annotations

import asyncio
import gc
import pickle
import threading
import time
import weakref
from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from fake_calls import assert_right, long_request, request
from fake_engine import BAD_GRAMMAR, FakeEngine, answer, make_loop, text_of
from llamaherd import GenerationError, PromptError, SamplingParams
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.handle import Handle
from llamaherd.calls.run.job import Job
from llamaherd.engine.core.outcome import Piece
from llamaherd.engine.core.request import Request, ThoughtStage
from llamaherd.engine.loop import threads
from llamaherd.engine.loop.loop import Loop
from stepping import plan, stepping
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.core.outcome import RunOutcome
    from llamaherd.engine.core.results import Result
    from llamaherd.engine.loop.group import Group


class InLoop:
    """Work of a job: a call in a loop."""

    progress = 1
    problem = ""

    def __init__(self, loop: Loop, call: Call) -> None:
        self._loop, self._call = loop, call

    def run(self) -> object:
        return self._call.run(self._loop)

    def cancel(self) -> None:
        self._call.cancel()


class SlowEngine(FakeEngine):
    def run(self, *args: object, **options: object) -> RunOutcome:
        time.sleep(0.002)
        return super().run(*args, **options)


@pytest.fixture
def loop() -> object:
    return make_loop(engine=SlowEngine(4096, 20))


def test_a_result_is_waited_for(loop: object) -> None:
    handle = Handle(loop, request([1, 2]), None)
    assert handle.n_prompt_tokens == 2
    assert_right(handle.result(60), request([1, 2]))
    assert handle.done()
    assert handle.result() is handle.result(0)
    assert "stop" in repr(handle) or "length" in repr(handle)


def test_waiting_has_an_end() -> None:
    loop, engine = stepping(plan())
    may_run = threading.Event()
    engine.before_run = lambda _: may_run.wait(60)
    handle = Handle(loop, long_request(), None)
    assert not handle.done()
    with pytest.raises(TimeoutError, match=r"within 0.01 s"):
        handle.result(0.01)
    may_run.set()
    assert_right(handle.result(60), long_request())


def test_a_cancelled_one_has_what_there_was() -> None:
    loop, engine = stepping(plan())
    is_cancelled = threading.Event()

    def hold(n_runs: int) -> None:
        if n_runs == 3:
            wait_until(lambda: handle._group.is_watched)
        if handle._pieces:
            is_cancelled.wait(60)

    engine.before_run = hold
    with loop._lock:  # nothing runs before `handle` exists
        handle = Handle(loop, long_request(), None)
    while not (piece := next(iter(handle))):
        pass
    handle.cancel()
    is_cancelled.set()
    result = handle.result(60)
    assert result.finish_reason == "cancelled"
    assert result.text is None
    assert result.partial.startswith(piece)
    assert result.tokens == answer(long_request())[0][: len(result.tokens)]
    handle.cancel()  # does nothing
    assert "".join(handle) == result.partial


def test_pieces_are_the_text_for_each_who_reads(loop: object) -> None:
    handle = Handle(loop, long_request(), None, stream=True)
    texts: dict[int, str] = {}

    def read(k: int) -> None:
        texts[k] = "".join(handle)

    readers = [threading.Thread(target=read, args=(k,)) for k in range(4)]
    for reader in readers:
        reader.start()
    pieces = list(handle)
    for reader in readers:
        reader.join()
    whole = text_of(answer(long_request())[0])
    assert "".join(pieces) == whole
    assert len(pieces) > 3
    assert set(texts.values()) == {whole}
    assert list(handle) == pieces  # also afterwards


def thinking(tokens: list[int] = [1, 2], **fields: object) -> Request:  # noqa: B006 - not changed
    stage = ThoughtStage(**{"budget": 50, "is_open": True, **fields})
    return replace(long_request(), tokens=array("i", tokens), thought=stage)


def test_pieces_have_kinds_and_iteration_yields_the_answer(loop: object) -> None:
    handle = Handle(loop, thinking(), None, stream=True)
    pieces = list(handle.pieces())
    result = handle.result(60)
    kinds = [piece.kind for piece in pieces]
    n = kinds.count("thinking")
    assert n >= 1
    assert kinds[:n] == ["thinking"] * n
    assert "".join(pieces[:n]) == result.thinking == "Let me see 2, é 0."
    assert "".join(pieces[n:]) == result.text
    assert len(pieces) > n + 1
    assert list(handle) == pieces[n:]
    assert pickle.loads(pickle.dumps(pieces[0])).kind == "thinking"
    assert (result.n_thinking_tokens, result.thinking_complete) == (6, True)

    async def read() -> tuple[list[str], list[str]]:
        both = [piece async for piece in handle.pieces()]
        return both, [piece async for piece in handle]

    assert asyncio.run(read()) == (pieces, pieces[n:])


def test_pieces_have_the_log_probabilities_of_new_tokens(loop: object) -> None:
    prompt = replace(long_request(), logprobs=1)
    handle = Handle(loop, prompt, None, stream=True)
    pieces = list(handle)
    assert len(pieces) > 3
    result = handle.result(60)
    rows = [row for piece in pieces for row in piece.logprobs]
    n_seen = 0
    for piece in pieces:
        n_seen += len(piece.logprobs)
        assert piece.n_tokens == n_seen
    assert [row.token for row in rows] == result.tokens
    assert [row.logprob for row in rows] == result.logprobs
    assert [row.top for row in rows] == result.top_logprobs
    assert pickle.loads(pickle.dumps(pieces[1])).logprobs == pieces[1].logprobs
    plain = Handle(loop, long_request(), None, stream=True)
    assert all(piece.logprobs == () for piece in plain)


def test_a_thought_that_nobody_watched_is_read_at_the_end(loop: object) -> None:
    handle = Handle(loop, thinking(budget=2), None)
    result = handle.result(60)
    both = list(handle.pieces())
    assert [piece.kind for piece in both] == ["thinking", "answer"]
    assert both == [result.thinking, result.text]
    assert result.thinking_complete is False


def test_failures_are_raised(loop: object) -> None:
    bad = Request(
        tokens=request([1]).tokens,
        max_tokens=5,
        sampling=SamplingParams(grammar=BAD_GRAMMAR),
    )
    handle = Handle(loop, bad, None)
    with pytest.raises(GenerationError, match="grammar cannot be parsed") as caught:
        handle.result(60)
    assert not isinstance(caught.value, PromptError)
    assert caught.value.results[0].error
    with pytest.raises(GenerationError):
        list(handle)
    with pytest.raises(PromptError, match="it has no tokens"):
        Handle(loop, request([]), None).result(60)
    assert "failed" in repr(handle)


class NoAnswer:
    """Shape of a schema that no answer follows."""

    enforced = ""

    def read(self, answer: str) -> object:
        raise ValueError(f"{answer} does not follow the schema")


@pytest.mark.parametrize(
    ("max_tokens", "reason"), [(256, "does not follow the schema"), (2, "was cut off")]
)
def test_an_answer_that_does_not_follow_its_schema_is_raised(
    loop: object, max_tokens: int, reason: str
) -> None:
    prompt = replace(request([1, 2], max_tokens), shape=NoAnswer())
    handle = Handle(loop, prompt, None, stream=True)
    with pytest.raises(GenerationError, match=reason) as caught:
        handle.result(60)
    assert not isinstance(caught.value, PromptError)
    assert caught.value.results[0].partial == text_of(answer(prompt)[0])
    read: list[str] = []
    with pytest.raises(GenerationError, match=reason):
        read.extend(handle)
    assert "".join(read) == caught.value.results[0].partial


@pytest.mark.parametrize("how", ["handle", "stream", "job", "call"])
def test_a_callback_that_would_wait_for_its_own_thread_is_refused(
    loop: Loop, how: str
) -> None:
    ends: list[object] = []
    other = request([3, 4], 30)

    def wait(_: Handle) -> None:
        waits = {
            "handle": lambda: Handle(loop, other, None).result(),
            "stream": lambda: list(Handle(loop, other, None, stream=True)),
            "job": lambda: Job(InLoop(loop, Call([other], seed=0))).results(),
            "call": lambda: Call([other], seed=0).run(loop),
        }
        try:
            ends.append(waits[how]())
        except RuntimeError as error:
            ends.append(error)

    handle = Handle(loop, request([1, 2]), None)
    handle.add_done_callback(wait)
    wait_until(lambda: bool(ends))
    assert "cannot wait for results" in str(ends[0])
    assert_right(Handle(loop, other, None).result(60), other)
    loop.wait(60)


def test_the_result_of_its_own_request_is_there_in_a_callback(loop: Loop) -> None:
    seen: list[Result] = []
    handle = Handle(loop, request([1, 2]), None)
    handle.add_done_callback(lambda ended: seen.append(ended.result()))
    loop.wait(60)
    assert seen == [handle.result()]


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_an_error_of_a_callback_is_logged_and_harms_no_other_request(
    loop: Loop, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Handle) -> None:
        raise error

    first = Handle(loop, request([1, 2]), None)
    first.add_done_callback(fail)
    later = Handle(loop, long_request(), None)
    assert_right(later.result(60), long_request())
    loop.wait(60)
    assert [record.exc_info[0] for record in caplog.records] == [error]


def test_ctrl_c_in_a_late_callback_reaches_the_caller(loop: Loop) -> None:
    """It runs in the caller's thread."""

    def fail(_: Handle) -> None:
        raise KeyboardInterrupt

    handle = Handle(loop, request([1, 2]), None)
    handle.result(60)
    with pytest.raises(KeyboardInterrupt):
        handle.add_done_callback(fail)


def test_callbacks_are_called_once_whenever_they_come(loop: object) -> None:
    seen: list[object] = []
    handle = Handle(loop, request([1, 2]), None)
    handle.add_done_callback(lambda _: 1 / 0)  # does no harm
    handle.add_done_callback(seen.append)
    handle.result(60)
    loop.wait(60)
    handle.add_done_callback(seen.append)
    assert seen == [handle, handle]
    assert_right(Handle(loop, request([3]), None).result(60), request([3]))


def test_asyncio_waits_without_threads(loop: object) -> None:
    requests = [request([i, 3], 30) for i in range(40)]

    async def main() -> None:
        n_threads = threading.active_count()
        handles = [Handle(loop, asked_request, None) for asked_request in requests]
        results = await asyncio.gather(*handles)
        assert threading.active_count() <= n_threads + 1
        for asked_request, result in zip(requests, results, strict=True):
            assert_right(result, asked_request)

    asyncio.run(main())


def test_asyncio_reads_as_it_grows(loop: object) -> None:
    async def read(handle: Handle) -> list[str]:
        return [piece async for piece in handle]

    async def main() -> list[list[str]]:
        handles = [Handle(loop, long_request(i), None, stream=True) for i in range(6)]
        return await asyncio.gather(*map(read, handles))

    for i, pieces in enumerate(asyncio.run(main())):
        assert len(pieces) > 3
        assert "".join(pieces) == text_of(answer(long_request(i))[0])


def test_waits_end_if_the_thread_of_the_loop_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As with too little memory, when not even the error can be reported.
    monkeypatch.setattr(Loop, "_has_turned", lambda _: False)
    monkeypatch.setattr(threads, "_LOOK_S", 0.01)

    async def waits() -> Result:
        return await Handle(make_loop(), request([1]), None)

    async def reads() -> list[str]:
        return [piece async for piece in Handle(make_loop(), request([1]), None)]

    for wait in (waits, reads):
        with pytest.raises(MemoryError, match="the context's thread ended"):
            asyncio.run(asyncio.wait_for(wait(), 20))
    with pytest.raises(MemoryError, match="the context's thread ended"):
        Handle(make_loop(), request([1]), None).result(60)


def test_cancelling_a_wait_in_asyncio_cancels_the_request() -> None:
    loop, engine = stepping(plan())
    is_cancelled = threading.Event()
    engine.before_run = lambda _: is_cancelled.wait(60)

    async def read(handle: Handle) -> list[str]:
        return [piece async for piece in handle]

    async def read_all(handle: Handle) -> list[str]:
        return [piece async for piece in handle.pieces()]

    async def main() -> list[Handle]:
        handles = []
        for wait in (Handle._await_result, read, read_all):
            handles.append(Handle(loop, long_request(), None))
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(wait(handles[-1]), 0.03)
        is_cancelled.set()
        return handles

    ended = [handle.result(60).finish_reason for handle in asyncio.run(main())]
    assert ended == ["cancelled"] * 3


def test_an_event_loop_that_is_gone_does_no_harm(loop: object) -> None:
    handles: list[Handle] = []

    async def main() -> None:
        handles.append(Handle(loop, long_request(), None, stream=True))
        async for _ in handles[0]:
            break

    asyncio.run(main())
    assert_right(handles[0].result(60), long_request())


def test_what_has_ended_keeps_nothing_alive() -> None:
    loop = make_loop()
    handle = Handle(loop, request([1, 2]), None)
    call = Call([request([3, 4])], seed=1)
    results = call.run(loop)
    assert_right(handle.result(60), request([1, 2]))
    loop.settle()
    is_there = weakref.ref(loop)
    gc.disable()
    try:
        del loop
        assert is_there() is None  # without the garbage collector
    finally:
        gc.enable()
    handle.cancel()
    assert "".join(handle) == text_of(answer(request([1, 2]))[0])
    assert_right(results[0], request([3, 4]))


class NotingLoop:
    """Loop that runs nothing and notes which groups were given up."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.given_up: list[Group] = []

    def hand_in(self, group: Group) -> None:
        self.groups.append(group)

    def give_up(self, group: Group) -> None:
        self.given_up.append(group)

    def watch(self, group: Group) -> None:
        listener = group.listener
        for kind in ("thinking", "answer"):
            piece = Piece(kind=kind, text="a", tokens=[1], n_bytes=1, n_tokens=1)
            listener.on_piece(piece)

    def why_lost(self, _: Group) -> None:
        return None


def leave_a_loop(loop: NotingLoop) -> None:
    for _ in Handle(loop, request([1]), None, stream=True):
        break


def leave_a_loop_over_pieces(loop: NotingLoop) -> None:
    for _ in Handle(loop, request([1]), None, stream=True).pieces():
        break


def close_an_iterator(loop: NotingLoop) -> None:
    pieces = iter(Handle(loop, request([1]), None, stream=True))
    next(pieces)
    pieces.close()


def leave_a_loop_in_asyncio(loop: NotingLoop) -> None:
    async def read() -> None:
        async for _ in Handle(loop, request([1]), None, stream=True):
            break

    asyncio.run(read())
    gc.collect()  # from Python 3.12 on, asyncio's frames hold each other


def drop_a_handle(loop: NotingLoop) -> None:
    Handle(loop, request([1]), None)


@pytest.mark.parametrize(
    "leave",
    [
        leave_a_loop,
        leave_a_loop_over_pieces,
        close_an_iterator,
        leave_a_loop_in_asyncio,
        drop_a_handle,
    ],
)
def test_a_request_that_nobody_can_read_is_cancelled(
    leave: Callable[[NotingLoop], None],
) -> None:
    loop = NotingLoop()
    leave(loop)
    assert loop.given_up == loop.groups


def test_a_request_that_somebody_can_read_goes_on() -> None:
    loop, called = NotingLoop(), []
    handle = Handle(loop, request([1]), None, stream=True)
    for _ in handle:
        break
    Handle(loop, request([1]), None).add_done_callback(called.append)
    gc.collect()
    assert loop.given_up == []
    for group in loop.groups:
        group.end(MemoryError("ended"))
    assert len(called) == 1
    assert handle.done()
