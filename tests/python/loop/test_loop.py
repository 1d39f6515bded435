"""Many callers on one loop, with a fake engine."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from fake_calls import assert_all_right, assert_right, long_request, request
from fake_engine import FakeEngine, answer, make_loop
from llamaherd.calls.run.call import Call
from llamaherd.engine.loop.group import Group
from llamaherd.engine.loop.runner import Runner
from llamaherd.engine.schedule.client import State
from stepping import Stepping, plan, run_together, stepping, submit
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.run.handle import Handle
    from llamaherd.engine.core.outcome import Output
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.core.stats import RequestStats


def test_a_prompt_that_comes_beside_a_call_has_the_next_free_slot() -> None:
    loop, engine = stepping(plan(n_slots=2))
    prompts = [request([i, 3], 5) for i in range(50)]
    handles = []

    def come(n_runs: int) -> None:
        if n_runs in (4, 12):
            handles.append(submit(loop, request([900 + n_runs], 5)))
            places.append(len(engine.started))

    places: list[int] = []
    engine.before_run = come
    results = Call(prompts, seed=1).run(loop)
    assert_all_right(results, prompts)
    for n_runs, place in zip((4, 12), places, strict=True):
        # One slot may be free at that moment, and it may be this call's turn.
        assert engine.started.index((900 + n_runs,)) <= place + 1
    assert all(handle.result(60).is_finished for handle in handles)


def test_calls_have_slots_in_turn() -> None:
    loop, engine = stepping(plan(n_slots=1))
    calls = [[request([c * 100 + i, 3], 3) for i in range(20)] for c in range(3)]
    run_together(loop, engine, calls)
    order = [tokens[0] // 100 for tokens in engine.started]
    for i in range(4, 54, 3):
        assert sorted(order[i : i + 3]) == [0, 1, 2]


def test_a_priority_takes_a_slot_and_gives_it_back() -> None:
    loop, engine = stepping(plan(n_slots=2))
    prompts = [long_request(i) for i in range(4)]
    urgent = request([999, 5], 5, priority=3)
    handles: list[Handle] = []

    def come(n_runs: int) -> None:
        if n_runs == 3:
            handles.append(submit(loop, urgent))
            ran.append(len(engine.started))

    ran: list[int] = []
    engine.before_run = come
    results = Call(prompts, seed=1).run(loop)
    assert_all_right(results, prompts)
    assert_right(handles[0].result(60), urgent)
    assert engine.started.index((999, 5)) == ran[0]  # before anything else
    assert len(engine.paused) == 1  # the one that came last
    assert results.stats.n_pauses == 1
    assert engine.numbers["n_prefill"] == 4 * 2 + 2  # no token is computed twice


def test_of_two_priorities_the_higher_one_goes_first() -> None:
    loop, engine = stepping(plan(n_slots=1))
    low = [submit(loop, request([i, 1], 3)) for i in range(5)]
    high = [submit(loop, request([100 + i], 3, priority=2)) for i in range(3)]
    middle = [submit(loop, request([200 + i], 3, priority=1)) for i in range(3)]
    for handle in (*low, *high, *middle):
        assert handle.result(60).is_finished
    order = [tokens[0] for tokens in engine.started if tokens[0] >= 100]
    assert order == sorted(order)


class Order:
    """Listener that adds its name to a list when its first request ends."""

    def __init__(self, name: str, ended: list[str]) -> None:
        self._name, self._ended = name, ended

    def on_output(self, _i: int, output: Output, _stats: RequestStats) -> None:
        assert not output.message
        if self._name not in self._ended:
            self._ended.append(self._name)

    def on_end(self, error: BaseException | None) -> None:
        assert error is None


@pytest.mark.parametrize("state", [State.RUNNING, State.PAUSED])
def test_a_prefix_in_the_engine_gets_the_priority_of_an_urgent_prompt(
    state: State,
) -> None:
    """Otherwise the urgent prompt waits behind prompts of a middle priority."""
    sizes = plan(n_slots=8)
    runner = Runner(FakeEngine(sizes.n_ctx, sizes.n_sequences, pooled=False), sizes)
    ended: list[str] = []

    def add(name: str, prompts: list[Request]) -> None:
        runner.add(Group(prompts, Order(name, ended)))
        runner.run_slice()

    stem = [3] * 2000
    add("low", [request([*stem, i], 5, priority=-1) for i in range(3)])
    add("middle", [request([i] * 2500, 5) for i in (5, 6)])
    (prefix,) = (c for c in runner._live.values() if c.is_prefix)
    if state is State.PAUSED:
        runner.resize(plan(n_slots=9))
    assert prefix.state is state
    add("high", [request([*stem, 9], 5, priority=1)])
    assert prefix.priority == 1
    while runner.groups:
        runner.run_slice()
    assert ended == ["high", "middle", "low"]


def test_an_urgent_prompt_that_is_cancelled_leaves_no_trace_of_its_prefix() -> None:
    sizes = plan(n_slots=8)
    runner = Runner(FakeEngine(sizes.n_ctx, sizes.n_sequences, pooled=False), sizes)
    ended: list[str] = []
    prompts = [[request([3] * 2000 + [i], 5) for i in range(3)]]
    prompts.append([request([3] * 2000 + [9], 5, priority=1)])
    groups = [Group(p, Order("", ended)) for p in prompts]
    runner.add(groups[0])
    runner.run_slice()
    (prefix,) = (c for c in runner._live.values() if c.is_prefix)
    runner.add(groups[1])
    assert prefix.priority == 1
    for group in groups:  # the raised prefix leaves the engine, too
        runner.drop(group)
    assert not runner.engine.slots
    runner.run_slice()


def test_cancelling_one_call_leaves_the_other_alone() -> None:
    loop, engine = stepping(plan(n_slots=8))
    first, second = (
        Call([long_request(c * 10 + i) for i in range(6)], seed=1) for c in range(2)
    )
    engine.before_run = lambda n_runs: first.cancel() if n_runs == 8 else None
    with ThreadPoolExecutor(2) as pool:
        ended, whole = list(pool.map(lambda call: call.run(loop), (first, second)))
    assert "cancelled" in ended.finish_reasons
    assert_all_right(whole, second.requests)
    assert loop.wait(60)
    assert not engine.slots


def test_statistics_of_calls_at_once_are_their_own_and_add_up() -> None:
    loop, engine = stepping(plan(n_slots=8))
    prompts = [[request([c] * 40 + [100 + i], 20) for i in range(12)] for c in range(3)]
    calls = [Call(requests, seed=1) for requests in prompts]
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda call: call.run(loop), calls))
    for results in runs:
        stats = results.stats
        parts = [result.stats for result in results]
        assert None not in parts
        assert stats.n_prefill_tokens == sum(s.n_prefill_tokens for s in parts) == 40 + 12
        assert stats.n_generated_tokens == sum(r.n_generated_tokens for r in results)
        assert stats.n_reused_tokens == 12 * 40
        assert 0 < stats.mean_batch_occupancy <= 1
        assert all(0 <= s.queue_s <= s.wall_s for s in parts)
        assert all(s.queue_s <= s.first_token_s <= s.wall_s for s in parts)
    for kind in ("n_prefill", "n_generated"):
        field = f"{kind}_tokens" if kind == "n_prefill" else "n_generated_tokens"
        assert engine.numbers[kind] == sum(getattr(r.stats, field) for r in runs)
    assert not engine.numbers_of


@pytest.mark.parametrize("can_cut", [True, False])
def test_what_came_before_is_not_computed_again(*, can_cut: bool) -> None:
    """Without truncation, a second prompt shows what is held as a prefix."""
    loop, engine = stepping(plan())
    engine.can_cut = can_cut
    chat, longer = [5] * 30, [*[5] * 30, *[6] * 20]

    def n_prefilled(tokens: Sequence[int]) -> int:
        result = submit(loop, request(tokens, 5)).result(60)
        assert_right(result, request(tokens, 5))
        return result.stats.n_prefill_tokens

    n_whole = 1 if can_cut else 2  # prompts that compute all their tokens
    for tokens in ([*chat, 1], [*chat, 2])[:n_whole]:
        assert n_prefilled(tokens) == 31
    assert [n_prefilled([*chat, 10 + i]) for i in range(5)] == [1] * 5
    # A longer shared beginning is held in addition.
    counts = [n_prefilled([*longer, 20 + i]) for i in range(4)]
    assert counts == [*[21] * n_whole, *[1] * (4 - n_whole)]
    counts = [n_prefilled([9] * 25) for _ in range(10)]
    assert counts == [*[25] * n_whole, *[1] * (10 - n_whole)]
    assert loop.load.n_prefixes == (0 if can_cut else 3)
    assert engine.is_idle


def test_callers_share_a_prefix_that_is_being_computed() -> None:
    loop, engine = stepping(plan(n_slots=8))
    prompts = [[request([3] * 60 + [c * 50 + i], 5) for i in range(4)] for c in range(5)]
    run_together(loop, engine, prompts)
    assert engine.numbers["n_prefill"] == 60 + 20


def test_a_prefix_outlives_the_call_that_computes_it_if_others_wait_for_it() -> None:
    loop, engine = stepping(plan(n_slots=2))
    first, second = (
        Call(
            [request([3] * 200 + [c * 50 + i], 5) for i in range(4)],
            seed=1,
        )
        for c in range(2)
    )
    both = threading.Event()

    def cancel_once_both_wait(n_runs: int) -> None:
        if n_runs == 1:
            both.wait(60)
        if n_runs == 2:
            first.cancel()

    engine.before_run = cancel_once_both_wait
    engine.n_batch = 20  # so that the prefix needs several steps
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first.run, loop)
        wait_until(lambda: engine.n_runs >= 1)
        two = pool.submit(second.run, loop)
        wait_until(lambda: bool(loop._arrived))
        both.set()
        assert one.result().finish_reasons == ["cancelled"] * 4
        assert_all_right(two.result(), second.requests)
    assert engine.numbers["n_prefill"] == 200 + 4
    assert loop.wait(60)
    assert not engine.numbers_of


def prefixes_first(c: int) -> list[Request]:
    """Return requests that wait until a shared prefix is computed, in several steps."""
    return [request([c] * 200 + [c * 50 + i], 5) for i in range(4)]


@pytest.mark.parametrize("change", ["watch", "stop", "give_up"])
def test_changes_do_not_abort_a_prefix_that_others_need(change: str) -> None:
    """Polls of an answer once aborted each step of its prefix, so it never ended."""
    loop, engine = stepping(plan(n_slots=2))
    engine.n_batch = 20
    call = Call(prefixes_first(1), seed=1)
    singles = []

    def disturb(n_runs: int) -> None:
        if n_runs < 12:
            target = call._group if change == "watch" else singles[n_runs]._group
            getattr(loop, change)(target)
            aborted.append(engine.aborted)

    aborted: list[bool] = []
    engine.before_run = lambda n_runs: n_runs or (all_in.wait(60) and disturb(0))
    all_in = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        results = pool.submit(call.run, loop)
        wait_until(lambda: bool(loop._groups))
        singles += [submit(loop, long_request(100 + i)) for i in range(12)]
        engine.before_run = disturb
        all_in.set()
        assert_all_right(results.result(), call.requests)
    assert aborted == [False] * 12
    assert loop.wait(60)


def test_cancelling_everything_aborts_the_step_of_a_prefix() -> None:
    loop, engine = stepping(plan(n_slots=2))
    engine.n_batch = 20
    calls = [Call(prefixes_first(1), seed=1), Call(prefixes_first(1), seed=1)]

    def cancel(n_runs: int) -> None:
        if n_runs == 0:
            all_in.wait(60)
        elif n_runs <= len(calls):
            calls[n_runs - 1].cancel()
            aborted.append(engine.aborted)

    aborted: list[bool] = []
    engine.before_run = cancel
    all_in = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(call.run, loop) for call in calls]
        wait_until(lambda: len(loop._groups) + len(loop._arrived) == 2)
        all_in.set()
        for run in runs:
            assert run.result().finish_reasons == ["cancelled"] * 4
    assert aborted == [False, True]


def test_prefixes_of_prefixes_outlive_a_call_that_never_started() -> None:
    loop, engine = stepping(plan(n_slots=1))
    # In both calls, pairs of prompts share more than all four prompts do.
    prompts = [
        [request([3] * 100 + [4 + i // 2] * 100 + [10 + 4 * c + i], 5) for i in range(4)]
        for c in range(2)
    ]
    first, second = (Call(requests, seed=1) for requests in prompts)
    running = submit(loop, long_request())
    engine.before_run = lambda n_runs: n_runs or both_wait.wait(60)
    both_wait = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.submit(first.run, loop), pool.submit(second.run, loop)
        wait_until(lambda: len(loop._groups) + len(loop._arrived) == 3)
        engine.before_run = lambda n_runs: n_runs == 4 and first.cancel()
        both_wait.set()
        assert one.result().finish_reasons == ["cancelled"] * 4
        assert_all_right(two.result(), second.requests)
    assert_right(running.result(60), long_request())


def test_who_gives_way_for_want_of_cells_does_not_come_back_at_once() -> None:
    class Leaking(Stepping):
        def _n_free(self) -> int:
            return super()._n_free() - 150  # an unknown call

    sizes = plan(pooled=True)
    engine = Leaking(replace(sizes, n_ctx=256))
    engine.n_batch = 100
    loop = make_loop(replace(sizes, n_ctx=256), engine)
    old = next(r for i in range(90) if len(answer(r := request([i] * 40, 30))[0]) == 30)
    new = request([99] * 70, 5)
    handles: list[Handle] = []
    engine.before_run = lambda n_runs: n_runs == 1 and handles.append(submit(loop, new))
    assert_right(submit(loop, old).result(60), old)
    assert_right(handles[0].result(60), new)
