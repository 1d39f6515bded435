"""Requests of every kind while the layout of the cells changes."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import pytest
from fake_calls import assert_all_right, assert_right, long_request
from fake_engine import answer, logprobs_of, thought_of
from llamaherd import ContextClosedError, ContextError, GenerationError
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.errors import NativeError
from llamaherd.engine.core.request import ThoughtStage
from llamaherd.engine.loop.loop import Loop
from llamaherd.engine.loop.sizing import N_LATEST
from stepping import (
    CODEBOOK,
    Planning,
    coding,
    other,
    planned,
    run_all,
    run_forties,
    submit,
)
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.calls.run.handle import Handle
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.core.results import Result

BUDGET = 20
STREAMS, POOL = "per_sequence", "unified"


def thinking(prompt: Request, budget: int = BUDGET) -> Request:
    return replace(prompt, thought=ThoughtStage(budget=budget, is_open=True, seed=3))


def with_logprobs(prompt: Request) -> Request:
    return replace(prompt, logprobs=2)


def assert_whole(prompt: Request, handle: Handle) -> None:
    """Check the result, its thought, its log-probabilities and the pieces."""
    result: Result = handle.result(60)
    assert_right(result, prompt)
    tokens, _ = answer(prompt)
    if prompt.thought is not None:
        assert result.thinking == thought_of(prompt)[0].strip()
    if prompt.logprobs is not None:
        known = logprobs_of(prompt, tokens)
        assert known is not None
        assert (result.logprobs, result.top_logprobs) == known
    pieces = list(handle.pieces())
    for kind, whole in (("answer", result.text), ("thinking", result.thinking or "")):
        assert "".join(piece for piece in pieces if piece.kind == kind) == whole
    if prompt.logprobs is not None:
        entries = [entry for piece in pieces for entry in piece.logprobs]
        assert [entry.token for entry in entries] == tokens
        assert [entry.logprob for entry in entries] == result.logprobs


KINDS: list[tuple[Callable[[Request], Request], dict[str, object]]] = [
    (thinking, {}),
    (with_logprobs, {}),
    (lambda one: one, {"stream": True}),
    (lambda one: with_logprobs(thinking(one)), {"stream": True}),
    (lambda one: one, {"n_again": len(CODEBOOK) + 3}),  # turns of a conversation
]


@pytest.mark.more(reason="random schedules on many layouts", cases=2)
@pytest.mark.parametrize(("of_kind", "options"), KINDS)
def test_each_kind_gets_its_answers_in_all_layouts(
    of_kind: Callable[[Request], Request], options: dict[str, object]
) -> None:
    """The answers equal those of a fixed layout, which do not depend on the layout."""
    loop, sizing = planned()
    waiting = [of_kind(one(i)) for one in (coding, other) for i in range(150)]
    running: list[tuple[Request, Handle]] = []

    def come(_: int) -> None:
        is_few = loop.load.n_running + loop.load.n_waiting < 10
        for _ in range(3 if is_few else 0):
            if waiting:
                prompt = waiting.pop(0)
                running.append((prompt, submit(loop, prompt, **options)))

    sizing.before_run = come
    running.append((waiting[0], submit(loop, waiting.pop(0), **options)))
    assert loop.wait(60)
    assert not waiting
    for prompt, handle in running:
        assert_whole(prompt, handle)
    assert sizing.layouts == [STREAMS, POOL, STREAMS]
    assert not sizing.engine.numbers_of


def test_a_long_thought_counts_as_a_long_answer() -> None:
    """No request waits for the end of a long thought that continues the codebook."""
    loop, sizing = planned()
    run_all(loop, [other(i, 1000) for i in range(40)])  # many long streams
    run_all(loop, [coding(i, 2) for i in (400, 401)])  # they reveal the prefix
    long_one = thinking(coding(7, 20), budget=400)
    later: list[Handle] = []
    at_end: list[int] = []

    def come(_: int) -> None:
        if not later and tuple(long_one.tokens) in sizing.engine.started:
            later.extend(submit(loop, coding(i, 2)) for i in range(80))
        assert loop._runner is None or not loop._runner.is_draining

    sizing.before_run = come
    handle = submit(loop, long_one)
    handle.add_done_callback(lambda _: at_end.append(sum(h.done() for h in later)))
    assert_right(handle.result(60), long_one)
    for i, short in enumerate(later):
        assert_right(short.result(60), coding(i, 2))
    assert at_end[0] > 0


class Draining:
    """A loop in which answers end before the layout changes to a pool.

    Args:
        change: Function that the loop's thread calls while no request may start.
    """

    def __init__(self, change: Callable[[Draining], object]) -> None:
        self.sizing = Planning()
        self.loop = Loop(self.sizing)
        self.handles: list[Handle] = []
        self._n_slices = 0  # in which no request may start
        self._change = change
        self.sizing.before_run = self._come
        self._submit()

    def _submit(self) -> None:
        self.handles.append(submit(self.loop, coding(len(self.handles))))

    def _come(self, _: int) -> None:
        is_few = self.loop.load.n_running + self.loop.load.n_waiting < 10
        for _ in range(3 if is_few and len(self.handles) < 150 else 0):
            self._submit()
        runner = self.loop._runner
        if runner is not None and runner.is_draining:
            self._n_slices += 1
            if self._n_slices == 1:
                self._change(self)

    def check(self, *, may_be_cancelled: bool = False) -> int:
        """Check all answers, and return how many requests were cancelled."""
        assert self.loop.wait(60)
        assert self._n_slices > 0
        n_cancelled = 0
        for i, handle in enumerate(self.handles):
            result = handle.result(60)
            if result.finish_reason == "cancelled" and may_be_cancelled:
                n_cancelled += 1
            else:
                assert_right(result, coding(i))
        assert not self.sizing.engine.numbers_of
        assert self.sizing.engine.is_idle
        return n_cancelled


@pytest.mark.parametrize("of", [coding, other])
def test_a_call_may_arrive_while_answers_end_before_the_change(
    of: Callable[[int], Request],
) -> None:
    requests = [of(300 + i) for i in range(50)]
    with ThreadPoolExecutor(1) as pool:
        calls = []

        def call(draining: Draining) -> None:
            calls.append(pool.submit(Call(requests, seed=1).run, draining.loop))
            arrived = draining.loop._arrived  # single requests of the test may be first
            wait_until(lambda: any(not group.is_alone for group in list(arrived)))

        Draining(call).check()
        assert_all_right(calls[0].result(60), requests)


def test_requests_may_be_cancelled_while_answers_end_before_the_change() -> None:
    """Those that run and those that wait end at once; the others get their answers."""

    def cancel(draining: Draining) -> None:
        for handle in draining.handles[::2]:
            handle.cancel()

    draining = Draining(cancel)
    assert 0 < draining.check(may_be_cancelled=True) <= 75
    assert draining.sizing.layouts == [STREAMS, POOL]


def test_all_requests_may_be_cancelled_while_answers_end_before_the_change() -> None:
    draining = Draining(lambda draining: draining.loop.cancel())
    assert draining.check(may_be_cancelled=True) > 0
    run_all(draining.loop, [coding(i) for i in range(200, 280)])
    assert draining.sizing.layouts == [STREAMS, POOL]


def test_the_context_may_be_closed_while_answers_end_before_the_change() -> None:
    draining = Draining(lambda draining: draining.loop.close())
    assert draining.loop.wait(60)
    assert draining.sizing.engine.closed
    with pytest.raises(ContextClosedError):
        draining.handles[-1].result(60)
    assert all(handle.done() for handle in draining.handles)


def test_a_more_urgent_request_waits_only_for_these_answers() -> None:
    urgent = coding(390, priority=9)
    handles = []
    draining = Draining(lambda case: handles.append(submit(case.loop, urgent)))
    draining.check()
    assert_right(handles[0].result(60), urgent)
    assert draining.sizing.layouts == [STREAMS, POOL]


class Failing(Planning):
    """Sizing whose engine fails to change its layout.

    Args:
        where: Name of the method that fails, "resize" or "pause".
        error: Error of the method.
        n_times: Number of failures.
    """

    def __init__(self, where: str, error: type[Exception], n_times: int = 1) -> None:
        super().__init__()
        self.n_left = n_times
        self.n_failed = 0
        self._where = where
        self._error = error

    def make(self, plan: object) -> object:
        engine = super().make(plan)
        resize, pause = engine.resize, engine.pause

        def fail() -> None:
            if self.n_left > 0:
                self.n_left -= 1
                self.n_failed += 1
                raise self._error("too little memory")

        def resized(n_ctx: int, n_seq_max: int, kv_layout: str) -> None:
            if self._where == "resize" and kv_layout != self.layouts[-1]:
                fail()
            resize(n_ctx, n_seq_max, kv_layout)

        def paused(id_: int) -> int:
            if self._where == "pause" and len(engine.paused) % 2:
                fail()
            return pause(id_)

        engine.resize, engine.pause = resized, paused
        return engine


@pytest.mark.parametrize(
    ("where", "error"),
    [("resize", ContextError), ("resize", MemoryError), ("pause", MemoryError)],
)
def test_a_change_that_fails_loses_nothing(where: str, error: type[Exception]) -> None:
    """The layout stays, and requests that were paused for the change continue."""
    sizing = Failing(where, error)
    loop = Loop(sizing)
    others = [thinking(long_request(n)) for n in (7, 8, 9)]  # without a prefix: paused
    running: list[tuple[Request, Handle]] = []
    waiting = [coding(i) for i in range(300)]

    def come(_: int) -> None:
        is_few = loop.load.n_running + loop.load.n_waiting < 10
        for _ in range(3 if is_few else 0):
            if waiting:
                running.append((waiting[0], submit(loop, waiting.pop(0))))

    sizing.before_run = come
    with loop._lock:
        running += [(one, submit(loop, one)) for one in others]
    assert loop.wait(60)
    assert sizing.n_failed == 1
    for prompt, handle in running:
        assert_right(handle.result(60), prompt)
    assert sizing.layouts == [STREAMS, POOL]  # a later change
    assert not sizing.engine.numbers_of


class Losing(Planning):
    """Sizing whose first engine is lost when its pool should become streams."""

    def make(self, plan: object) -> object:
        engine = super().make(plan)
        if len(self.layouts) > 1:
            return engine

        def fail(*_: object, **__: object) -> NoReturn:
            raise NativeError("the engine has no llama_context", 1)

        def lost(_n_ctx: int, _n_seq_max: int, kv_layout: str) -> None:
            if kv_layout == STREAMS:
                engine.run = engine.reset = fail
                raise ContextError("too little memory")
            resize(_n_ctx, _n_seq_max, kv_layout)

        resize, engine.resize = engine.resize, lost
        return engine


def test_requests_end_if_the_engine_is_lost_and_later_ones_get_a_new_engine() -> None:
    sizing = Losing()
    loop = Loop(sizing)
    run_forties(loop, coding, 0, 40)
    with loop._lock:
        handles = [submit(loop, other(i)) for i in range(40)]
    for handle in handles:
        with pytest.raises(GenerationError, match="the engine failed"):
            handle.result(60)
    assert sizing.engine.closed
    # The new engine has the layout of a call, which stays while the call runs.
    singles: list[Handle] = []
    at_end: list[str] = []

    def come(n_runs: int) -> None:
        if n_runs == 2:
            singles.extend(submit(loop, coding(i)) for i in range(80))
        if any(not group.is_alone for group in loop._groups):
            at_end.append(loop.plan.kv_layout)

    sizing.before_run = come
    requests = [long_request(n) for n in range(40)]
    for one, result in zip(requests, Call(requests, seed=1).run(loop), strict=True):
        assert_right(result, one)
    assert_all_right(singles, coding)
    assert set(at_end) == {STREAMS}


@pytest.mark.more(reason="random schedules on many layouts", cases=1)
@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost_if_some_changes_fail(seed: int) -> None:
    rng = random.Random(seed)
    sizing = Failing("resize", ContextError, n_times=0)
    loop = Loop(sizing)
    running: list[tuple[Request, Handle]] = []
    n_left = 600

    def come(_: int) -> None:
        nonlocal n_left
        sizing.n_left = rng.random() < 0.3  # the next change fails
        is_few = loop.load.n_running + loop.load.n_waiting < 12
        while is_few and n_left > 0 and rng.random() < 0.8:
            n_left -= 1
            one = coding if n_left // N_LATEST % 4 < 2 else other
            of_kind, options = rng.choice(KINDS)
            prompt = of_kind(one(n_left)) if rng.random() < 0.95 else long_request(n_left)
            running.append((prompt, submit(loop, prompt, **options)))
            if rng.random() < 0.05:
                running.pop()[1].cancel()

    sizing.before_run = come
    prompt = thinking(coding(0))
    running.append((prompt, submit(loop, prompt)))
    assert loop.wait(60)
    while n_left > 0:  # all requests had ended before the next one came
        come(0)
        assert loop.wait(60)
    for prompt, handle in running:
        assert_whole(prompt, handle)
    assert len(sizing.layouts) >= 2
    assert not sizing.engine.numbers_of
    assert sizing.engine.is_idle
