"""Many callers on one loop, with a fake engine."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from fake_calls import assert_right, long_request, request
from fake_engine import N_VOCAB, FakeEngine, FakeSizing, answer, make_loop, text_of
from llamaherd import ContextClosedError, ContextError, GenerationError, PromptError
from llamaherd.core.errors import NativeError
from llamaherd.memory.plan import Plan
from llamaherd.run import runner
from llamaherd.run.call import Call
from llamaherd.run.handle import Handle
from llamaherd.run.loop import Loop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.core.outcome import RunOutcome
    from llamaherd.core.request import Request


def plan(n_slots: int = 4, n_hold: int = 4, *, pooled: bool = False) -> Plan:
    return Plan(
        n_ctx=4096 if pooled else 4096 * (n_slots + n_hold),
        n_seq_max=n_slots,
        n_hold=n_hold,
        kv_layout="unified" if pooled else "per_sequence",
        n_ctx_seq=4096,
        capacity=4096,
        memory_bytes=0,
    )


class Stepping(FakeEngine):
    """Does something before each run, on the loop's thread."""

    def __init__(self, sizes: Plan) -> None:
        super().__init__(
            sizes.n_ctx, sizes.n_sequences, pooled=sizes.kv_layout == "unified"
        )
        self.before_run: Callable[[int], object] = lambda _: None
        self.n_runs = 0
        self.started: list[tuple[int, ...]] = []
        self.paused: list[tuple[int, ...]] = []

    def run(self, *args: object, **kwargs: object) -> RunOutcome:
        self.before_run(self.n_runs)
        self.n_runs += 1
        return super().run(*args, **kwargs)

    def submit(self, id_: int, asked: Request, *args: object, **kwargs: object) -> None:
        self.started.append(tuple(asked.tokens))
        super().submit(id_, asked, *args, **kwargs)

    def pause(self, id_: int) -> int:
        self.paused.append(tuple(self.slots[id_].request.tokens))
        return super().pause(id_)


def stepping(sizes: Plan) -> tuple[Loop, Stepping]:
    engine = Stepping(sizes)
    return make_loop(sizes, engine), engine


def submit(loop: Loop, asked: Request, **options: object) -> Handle:
    return Handle(loop, asked, None, **options)


def run_together(loop: Loop, engine: Stepping, calls: list[list[Request]]) -> None:
    """Runs calls, all of which are there before the first one starts."""
    engine.before_run = lambda n_runs: n_runs or all_in.wait(5)
    all_in = threading.Event()
    with ThreadPoolExecutor(len(calls)) as pool:
        runs = [pool.submit(lambda p=each: Call(p, seed=1).run(loop)) for each in calls]
        while len(loop._groups) + len(loop._arrived) < len(calls):
            threading.Event().wait(0.001)
        all_in.set()
        for run, each in zip(runs, calls, strict=True):
            for asked, result in zip(each, run.result(), strict=True):
                assert_right(result, asked)


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
    for asked, result in zip(prompts, results, strict=True):
        assert_right(result, asked)
    for n_runs, place in zip((4, 12), places, strict=True):
        # One slot may be free at that moment, and the call's turn.
        assert engine.started.index((900 + n_runs,)) <= place + 1
    assert all(handle.result(5).is_finished for handle in handles)


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
    for asked, result in zip(prompts, results, strict=True):
        assert_right(result, asked)
    assert_right(handles[0].result(5), urgent)
    assert engine.started.index((999, 5)) == ran[0]  # before anything else
    assert len(engine.paused) == 1  # the one that came last
    assert results.stats.n_pauses == 1
    assert engine.numbers["n_prefill"] == 4 * 2 + 2  # nothing is computed twice


def test_of_two_priorities_the_higher_one_goes_first() -> None:
    loop, engine = stepping(plan(n_slots=1))
    low = [submit(loop, request([i, 1], 3)) for i in range(5)]
    high = [submit(loop, request([100 + i], 3, priority=2)) for i in range(3)]
    middle = [submit(loop, request([200 + i], 3, priority=1)) for i in range(3)]
    for handle in (*low, *high, *middle):
        assert handle.result(5).is_finished
    order = [tokens[0] for tokens in engine.started if tokens[0] >= 100]
    assert order == sorted(order)


def test_cancelling_one_call_leaves_the_other_alone() -> None:
    loop, engine = stepping(plan(n_slots=8))
    first, second = (
        Call([long_request(c * 10 + i) for i in range(6)], seed=1) for c in range(2)
    )
    engine.before_run = lambda n_runs: first.cancel() if n_runs == 8 else None
    with ThreadPoolExecutor(2) as pool:
        ended, whole = list(pool.map(lambda call: call.run(loop), (first, second)))
    assert "cancelled" in ended.finish_reasons
    for asked, result in zip(second.requests, whole, strict=True):
        assert_right(result, asked)
    assert loop.wait(5)
    assert not engine.slots


def test_statistics_of_calls_at_once_are_their_own_and_add_up() -> None:
    loop, engine = stepping(plan(n_slots=8))
    prompts = [[request([c] * 40 + [100 + i], 20) for i in range(12)] for c in range(3)]
    calls = [Call(each, seed=1) for each in prompts]
    with ThreadPoolExecutor(3) as pool:
        runs = list(pool.map(lambda call: call.run(loop), calls))
    for results in runs:
        stats = results.stats
        each = [result.stats for result in results]
        assert None not in each
        assert stats.n_prefill_tokens == sum(s.n_prefill_tokens for s in each) == 40 + 12
        assert stats.n_generated_tokens == sum(r.n_generated_tokens for r in results)
        assert stats.n_reused_tokens == 12 * 40
        assert 0 < stats.mean_batch_occupancy <= 1
        assert all(0 <= s.queue_s <= s.wall_s for s in each)
        assert all(s.queue_s <= s.first_token_s <= s.wall_s for s in each)
    for kind in ("n_prefill", "n_generated"):
        field = f"{kind}_tokens" if kind == "n_prefill" else "n_generated_tokens"
        assert engine.numbers[kind] == sum(getattr(r.stats, field) for r in runs)
    assert not engine.numbers_of


def test_what_came_before_is_not_computed_again() -> None:
    loop, engine = stepping(plan())
    chat = [5] * 30

    def n_prefilled(tokens: Sequence[int]) -> int:
        result = submit(loop, request(tokens, 5)).result(5)
        assert_right(result, request(tokens, 5))
        return result.stats.n_prefill_tokens

    assert n_prefilled([*chat, 1]) == 31
    assert n_prefilled([*chat, 2]) == 31  # and holds what they share
    assert [n_prefilled([*chat, 10 + i]) for i in range(5)] == [1] * 5
    # A longer beginning in common is held on top of that.
    longer = [*chat, *[6] * 20]
    assert [n_prefilled([*longer, 20 + i]) for i in range(4)] == [21, 21, 1, 1]
    equal = [9] * 25
    assert [n_prefilled(equal) for _ in range(10)] == [25, 25, *[1] * 8]
    assert loop.load.n_prefixes == len(engine.slots) == 3


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
            both.wait(5)
        if n_runs == 2:
            first.cancel()

    engine.before_run = cancel_once_both_wait
    engine.n_batch = 20  # so that the prefix takes several steps
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first.run, loop)
        while engine.n_runs < 1:
            threading.Event().wait(0.001)
        two = pool.submit(second.run, loop)
        while not loop._arrived:
            threading.Event().wait(0.001)
        both.set()
        assert one.result().finish_reasons == ["cancelled"] * 4
        for asked, result in zip(second.requests, two.result(), strict=True):
            assert_right(result, asked)
    assert engine.numbers["n_prefill"] == 200 + 4
    assert loop.wait(5)
    assert not engine.numbers_of


def test_prefixes_of_prefixes_outlive_a_call_that_never_started() -> None:
    loop, engine = stepping(plan(n_slots=1))
    # Two and two of them share more than all four do, in both calls.
    prompts = [
        [request([3] * 100 + [4 + i // 2] * 100 + [10 + 4 * c + i], 5) for i in range(4)]
        for c in range(2)
    ]
    first, second = (Call(each, seed=1) for each in prompts)
    running = submit(loop, long_request())
    engine.before_run = lambda n_runs: n_runs or both_wait.wait(5)
    both_wait = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.submit(first.run, loop), pool.submit(second.run, loop)
        while len(loop._groups) + len(loop._arrived) < 3:
            threading.Event().wait(0.001)
        engine.before_run = lambda n_runs: n_runs == 4 and first.cancel()
        both_wait.set()
        assert one.result().finish_reasons == ["cancelled"] * 4
        for asked, result in zip(second.requests, two.result(), strict=True):
            assert_right(result, asked)
    assert_right(running.result(5), long_request())


def test_who_gives_way_for_want_of_cells_does_not_come_back_at_once() -> None:
    class Leaking(Stepping):
        def _n_free(self) -> int:
            return super()._n_free() - 150  # which nobody knows of

    sizes = plan(pooled=True)
    engine = Leaking(replace(sizes, n_ctx=256))
    engine.n_batch = 100
    loop = make_loop(replace(sizes, n_ctx=256), engine)
    old = next(r for i in range(90) if len(answer(r := request([i] * 40, 30))[0]) == 30)
    new = request([99] * 70, 5)
    handles: list[Handle] = []
    engine.before_run = lambda n_runs: n_runs == 1 and handles.append(submit(loop, new))
    assert_right(submit(loop, old).result(5), old)
    assert_right(handles[0].result(5), new)


class Growing(FakeSizing):
    """Plans four slots for each four prompts, and cells for the longest."""

    def plan(self, work: object, layout: str | None = None) -> Plan:
        n_slots = min(32, -(-len(work.needs) // 4) * 4)
        share = -(-max(work.needs) // 64) * 64
        return Plan(
            n_ctx=share * (n_slots + 4),
            n_seq_max=n_slots,
            n_hold=4,
            kv_layout=layout or "per_sequence",
            n_ctx_seq=share,
            capacity=1000,
            memory_bytes=0,
        )

    def make(self, sizes: Plan) -> FakeEngine:
        self.engine = FakeEngine(sizes.n_ctx, sizes.n_sequences, pooled=False)
        return self.engine


def test_what_does_not_fit_has_the_cache_grow_and_nothing_is_lost() -> None:
    sizing = Growing(plan(), FakeEngine(1, 1))
    loop = Loop(sizing)
    running = [submit(loop, long_request(i)) for i in range(3)]
    while not all(
        slot.generated for slot in getattr(sizing.engine, "slots", {}).values()
    ):
        threading.Event().wait(0.001)
    asked = request([4] * 700, 10)
    assert_right(submit(loop, asked).result(5), asked)
    more = [request([i, 5], 20) for i in range(30)]
    results = Call(more, seed=1).run(loop)
    for one, result in zip(more, results, strict=True):
        assert_right(result, one)
    for i, handle in enumerate(running):
        assert_right(handle.result(5), long_request(i))
    with pytest.raises(PromptError, match="more than the 1000 that one prompt may have"):
        submit(loop, request([4] * 1200)).result(5)
    assert sizing.engine.sizes  # it has grown in place
    assert loop.plan.n_ctx_seq >= 710


def test_prefixes_that_come_again_and_again_get_places() -> None:
    class Placing(Growing):
        def plan(self, work: object, layout: str | None = None) -> Plan:
            sizes = super().plan(work, layout)
            n_ctx = sizes.n_ctx_seq * (sizes.n_seq_max + work.n_prefixes)
            return replace(sizes, n_hold=work.n_prefixes, n_ctx=n_ctx)

    sizing = Placing(plan(), FakeEngine(1, 1))
    loop = Loop(sizing)
    reused = []
    for i in range(8 * 12):
        asked = request([100 + i % 12] * 60 + [i], 3)
        result = submit(loop, asked).result(5)
        assert_right(result, asked)
        reused.append(result.n_reused_tokens)
    assert loop.plan.n_hold == 16
    assert reused[-12:] == [60] * 12
    assert len(sizing.engine.sizes) == 1  # it has grown once


def test_nobody_is_paused_for_a_place_that_a_single_prompt_could_do_without() -> None:
    class WithoutPlaces(Growing):
        def plan(self, work: object, layout: str | None = None) -> Plan:
            n_hold = 4 if work.n_prefixes else 0
            return replace(super().plan(work, layout), n_seq_max=4, n_hold=n_hold)

    sizing = WithoutPlaces(plan(), FakeEngine(1, 1))
    loop = Loop(sizing)
    call = Call([long_request(i) for i in range(12)], seed=1)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call.run, loop)
        while loop.load.n_running < 4:
            threading.Event().wait(0.001)
        assert_right(submit(loop, request([5] * 20)).result(5), request([5] * 20))
        assert not sizing.engine.sizes
        shared = [request([6] * 30 + [i]) for i in range(3)]
        for one, result in zip(shared, Call(shared, seed=1).run(loop), strict=True):
            assert_right(result, one)
        assert sizing.engine.sizes  # they need one
        for one, result in zip(call.requests, running.result(), strict=True):
            assert_right(result, one)


def test_without_memory_to_grow_the_others_go_on() -> None:
    class Small(Growing):
        def check_memory(self, sizes: Plan, _n_bytes_freed: int = 0) -> None:
            if sizes.n_ctx_seq > 512:
                raise ContextError("too little memory")

    loop = Loop(Small(plan(), FakeEngine(1, 1)))
    running = submit(loop, long_request())
    with pytest.raises(ContextError, match="too little memory"):
        submit(loop, request([4] * 700)).result(5)
    assert_right(running.result(5), long_request())


def test_whoever_comes_beside_one_that_breaks_the_engine_is_told() -> None:
    class Breaking(FakeSizing):
        n_made = 0

        def make(self, sizes: Plan) -> FakeEngine:
            self.n_made += 1
            if self.n_made == 1:
                raise ContextError("too little memory for all of them")
            if self.n_made == 2:
                raise NativeError("nothing works", 1)
            return super().make(sizes)

    sizes = plan()
    loop = Loop(Breaking(sizes, FakeEngine(sizes.n_ctx, sizes.n_sequences)))
    with loop._lock:  # they come at once
        handles = [submit(loop, long_request(i)) for i in range(3)]
    for handle in handles:
        with pytest.raises(NativeError, match="nothing works"):
            handle.result(5)
    assert_right(submit(loop, long_request()).result(5), long_request())


def test_what_finds_no_memory_to_be_taken_in_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_clients = runner.make_clients

    def fail_once(*_: object, **__: object) -> None:
        monkeypatch.setattr(runner, "make_clients", make_clients)
        raise MemoryError

    monkeypatch.setattr(runner, "make_clients", fail_once)
    loop, _ = stepping(plan())
    with pytest.raises(MemoryError):
        submit(loop, long_request()).result(5)
    assert_right(submit(loop, long_request()).result(5), long_request())


def test_a_request_that_cannot_be_cancelled_ends_all_the_same() -> None:
    loop, engine = stepping(plan())
    end = engine.end

    def end_once(*_: object) -> None:
        engine.end = end
        raise NativeError("nothing works", 1)

    engine.end = end_once
    engine.before_run = lambda n_runs: n_runs == 3 and leaving.cancel()
    with loop._lock:  # so that neither runs before both are there
        leaving, other = submit(loop, long_request()), submit(loop, long_request(1))
    for handle in (leaving, other):
        with pytest.raises(GenerationError, match="the engine failed: nothing works"):
            handle.result(5)
    assert_right(submit(loop, long_request()).result(5), long_request())


def test_what_a_close_ends_is_never_taken_for_cancelled() -> None:
    loop, engine = stepping(plan())
    seen: list[bool] = []
    engine.forget = lambda _: seen.append(handle.done())
    engine.before_run = lambda n_runs: n_runs == 3 and loop.close()
    with loop._lock:
        handle = submit(loop, long_request())
    with pytest.raises(ContextClosedError):
        handle.result(5)
    assert seen == [False]
    assert handle.done()


def test_closing_ends_what_runs_and_what_waits() -> None:
    loop, engine = stepping(plan(n_slots=1))
    closed = threading.Event()
    engine.before_run = lambda n_runs: n_runs < 3 or closed.wait(0.01)
    handles = [submit(loop, long_request(i)) for i in range(3)]
    while engine.n_runs < 3:
        threading.Event().wait(0.001)
    loop.close()
    for handle in handles:
        with pytest.raises(ContextClosedError):
            handle.result(5)
    with pytest.raises(ContextClosedError):
        submit(loop, request([1]))
    assert engine.closed


def test_a_callback_may_close_the_loop() -> None:
    loop, engine = stepping(plan())
    handle = submit(loop, request([1, 2]))
    handle.add_done_callback(lambda _: loop.close())
    handle.result(5)
    assert loop.wait(5)
    assert engine.closed


def test_on_error_stop_ends_only_its_own_call() -> None:
    loop, _ = stepping(plan(n_slots=8))
    bad = Call(
        [request([i, N_VOCAB + 1]) for i in range(3)],
        seed=1,
        on_error="stop",
    )
    good = Call([long_request(i) for i in range(3)], seed=1)
    with ThreadPoolExecutor(2) as pool:
        failed, fine = pool.submit(bad.run, loop), pool.submit(good.run, loop)
        with pytest.raises(GenerationError):
            failed.result()
        for asked, result in zip(good.requests, fine.result(), strict=True):
            assert_right(result, asked)


@pytest.mark.parametrize("n_hold", [1, 2, 3])
@pytest.mark.parametrize("pooled", [False, True])
def test_callers_that_come_and_go_at_random_get_the_right_answers(
    *, pooled: bool, n_hold: int
) -> None:
    rng = random.Random(7)
    sizes = plan(n_slots=3, n_hold=n_hold, pooled=pooled)
    loop, engine = stepping(replace(sizes, n_ctx=700) if pooled else sizes)

    def one(seed: int) -> None:
        mine = random.Random(seed)
        stem = [mine.randrange(2)] * mine.choice([0, 12, 40])
        for depth in range(mine.randrange(3)):
            stem += [10 * depth + mine.randrange(2)] * 30
        kind = mine.randrange(4)
        if kind == 0:
            asked = [
                request([*stem, 50 + i], mine.randint(1, 60))
                for i in range(mine.randint(1, 12))
            ]
            call = Call(asked, seed=1)
            if mine.random() < 0.5:
                threading.Timer(mine.random() * 0.01, call.cancel).start()
            for each, result in zip(asked, call.run(loop), strict=True):
                if result.finish_reason != "cancelled":
                    assert_right(result, each)
            return
        asked = request([*stem, 60 + seed % 30], mine.randint(1, 60), mine.randrange(3))
        handle = submit(loop, asked, stream=kind == 1)
        if kind == 2:
            threading.Event().wait(mine.random() * 0.005)
            handle.cancel()
        if kind == 1:
            assert "".join(handle) == text_of(answer(asked)[0])
        result = handle.result(20)
        if kind != 2 or result.finish_reason != "cancelled":
            assert_right(result, asked)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, [rng.randrange(10**6) for _ in range(400)]))
    assert loop.wait(5)
    assert not engine.numbers_of
    assert all(slot.is_held for slot in engine.slots.values())
    assert loop.load.n_running == loop.load.n_waiting == 0
