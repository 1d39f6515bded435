"""The loop of a context: growth of the cache, faults, and the end."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from fake_calls import assert_all_right, assert_right, long_request, request
from fake_engine import N_VOCAB, FakeEngine, FakeSizing, answer, text_of
from llamaherd import ContextClosedError, ContextError, GenerationError, PromptError
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.errors import NativeError
from llamaherd.engine.loop import runner
from llamaherd.engine.loop.loop import Loop
from stepping import Streams, plan, stepping, submit
from waiting import wait_until

if TYPE_CHECKING:
    from llamaherd.calls.run.handle import Handle
    from llamaherd.engine.loop.sizing import Work
    from llamaherd.engine.memory.plan import Plan


def test_what_does_not_fit_has_the_cache_grow_and_nothing_is_lost() -> None:
    def hold(n_runs: int) -> None:
        if n_runs == 2:
            assert all(slot.generated for slot in sizing.engine.slots.values())
            wait_until(lambda: loop._arrived)

    sizing = Streams()
    sizing.before_run = hold
    loop = Loop(sizing)
    with loop._lock:  # they arrive at the same time
        running = [submit(loop, long_request(i)) for i in range(3)]
    wait_until(lambda: loop._groups)
    prompt = request([4] * 700, 10)
    assert_right(submit(loop, prompt).result(60), prompt)
    more = [request([i, 5], 20) for i in range(30)]
    results = Call(more, seed=1).run(loop)
    assert_all_right(results, more)
    assert_all_right(running, long_request)
    with pytest.raises(PromptError, match="more than the 1000 that one prompt may have"):
        submit(loop, request([4] * 1200)).result(60)
    assert sizing.engine.sizes  # the cache has grown in place
    assert loop.plan.n_ctx_seq >= 710


def test_a_conversation_that_outgrows_its_cells_computes_new_tokens_only() -> None:
    """A cache that grows takes kept prompts along."""
    sizing = Streams()
    loop = Loop(sizing)
    counts = []
    for i in range(1, 21):
        turn = request([*range(40 * i), *[900 + i] * 5], 3)
        result = submit(loop, turn).result(60)
        assert_right(result, turn)
        counts.append(result.stats.n_prefill_tokens)
    assert len(sizing.engine.sizes) > 2
    assert counts == [45] * 20


def test_prefixes_that_come_again_and_again_get_places() -> None:
    class Placing(Streams):
        def sizes_of(self, work: Work) -> tuple[int, int, int]:
            n_slots, _, share = super().sizes_of(work)
            return n_slots, work.n_prefixes, share

    sizing = Placing()
    loop = Loop(sizing)
    reused = []
    for i in range(8 * 12):
        prompt = request([100 + i % 12] * 60 + [i], 3)
        result = submit(loop, prompt).result(60)
        assert_right(result, prompt)
        reused.append(result.n_reused_tokens)
    assert loop.plan.n_hold == 16
    assert reused[-12:] == [60] * 12
    assert len(sizing.engine.sizes) == 1  # the cache has grown once


@pytest.mark.parametrize("n_hold", [0, 1])
def test_prefixes_without_a_hold_slot_in_the_new_cache_wait_or_are_skipped(
    n_hold: int,
) -> None:
    """A longer prompt arrives while they are computed; fewer sequences then fit."""

    class Shrinking(Streams):
        def sizes_of(self, work: Work) -> tuple[int, int, int]:
            return (1, n_hold, 1024) if max(work.needs) > 640 else (2, 4, 640)

    handles = []

    def come(n_runs: int) -> None:
        if n_runs == 1:
            assert sum(s.is_prefix for s in sizing.engine.slots.values()) == 2
            handles.append(submit(loop, request([4] * 700, 10)))

    sizing = Shrinking()
    sizing.before_run = come
    loop = Loop(sizing)
    shared = [request([6 + i % 2] * 500 + [i], 5) for i in range(8)]
    results = Call(shared, seed=1).run(loop)
    assert sizing.engine.sizes
    assert_all_right(results, shared)
    assert_right(handles[0].result(60), request([4] * 700, 10))
    assert loop.load.n_running == loop.load.n_waiting == 0


def test_nobody_is_paused_for_a_place_that_a_single_prompt_could_do_without() -> None:
    class WithoutPlaces(Streams):
        def sizes_of(self, work: Work) -> tuple[int, int, int]:
            return 4, 4 if work.n_prefixes else 0, super().sizes_of(work)[2]

    def come(n_runs: int) -> None:
        if n_runs == 1:
            assert loop.load.n_running == 4
            single.append(submit(loop, request([5] * 20)))
        if single and single[0].done() and not is_answered.is_set():
            assert not sizing.engine.sizes
            is_answered.set()
            wait_until(lambda: loop._arrived)  # until `shared` is there, too

    single: list[Handle] = []
    is_answered = threading.Event()
    sizing = WithoutPlaces()
    sizing.before_run = come
    loop = Loop(sizing)
    call = Call([long_request(i) for i in range(12)], seed=1)
    shared = Call([request([6] * 30 + [i]) for i in range(3)], seed=1)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call.run, loop)
        is_answered.wait(60)
        assert_all_right(shared.run(loop), shared.requests)
        assert sizing.engine.sizes  # they need one
        assert_all_right(running.result(), call.requests)
    assert_right(single[0].result(60), request([5] * 20))


def test_without_memory_to_grow_the_others_go_on() -> None:
    class Small(Streams):
        def check_memory(self, sizes: Plan, _n_bytes_freed: int = 0) -> None:
            if sizes.n_ctx_seq > 512:
                raise ContextError("too little memory")

    loop = Loop(Small())
    running = submit(loop, long_request())
    with pytest.raises(ContextError, match="too little memory"):
        submit(loop, request([4] * 700)).result(60)
    assert_right(running.result(60), long_request())


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
    with loop._lock:  # they arrive at the same time
        handles = [submit(loop, long_request(i)) for i in range(3)]
    for handle in handles:
        with pytest.raises(NativeError, match="nothing works"):
            handle.result(60)
    assert_right(submit(loop, long_request()).result(60), long_request())


def test_requests_are_counted_and_cancelled_while_the_engine_is_made() -> None:
    class Making(FakeSizing):
        def make(self, sizes: Plan) -> FakeEngine:
            n_waiting.append(loop.load.n_waiting)
            loop.cancel()
            return super().make(sizes)

    n_waiting: list[int] = []
    sizes = plan()
    loop = Loop(Making(sizes, FakeEngine(sizes.n_ctx, sizes.n_sequences)))
    assert submit(loop, long_request()).result(60).finish_reason == "cancelled"
    assert n_waiting == [1]


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
        submit(loop, long_request()).result(60)
    assert_right(submit(loop, long_request()).result(60), long_request())


def test_a_request_that_cannot_be_cancelled_ends_all_the_same() -> None:
    loop, engine = stepping(plan())
    end = engine.end

    def end_once(*_: object) -> None:
        engine.end = end
        raise NativeError("nothing works", 1)

    engine.end = end_once
    engine.before_run = lambda n_runs: n_runs == 3 and leaving.cancel()
    with loop._lock:  # so that neither runs before both are submitted
        leaving, other = submit(loop, long_request()), submit(loop, long_request(1))
    for handle in (leaving, other):
        with pytest.raises(GenerationError, match="the engine failed: nothing works"):
            handle.result(60)
    assert_right(submit(loop, long_request()).result(60), long_request())


def test_a_request_is_not_lost_if_another_cannot_be_cancelled() -> None:
    loop, engine = stepping(plan())

    def end(*_: object) -> None:
        raise MemoryError("nothing left")

    def join(n_runs: int) -> None:
        if n_runs == 3:
            engine.end = end
            with loop._lock:  # both in the same turn of the loop
                leaving.cancel()
                joined.append(submit(loop, long_request(1)))

    joined: list[Handle] = []
    engine.before_run = join
    leaving = submit(loop, long_request())
    with pytest.raises(MemoryError, match="nothing left"):
        leaving.result(60)
    with pytest.raises(MemoryError, match="nothing left"):
        joined[0].result(60)


def test_what_a_close_ends_is_never_taken_for_cancelled() -> None:
    loop, engine = stepping(plan())
    seen: list[bool] = []
    engine.forget = lambda _: seen.append(handle.done())
    engine.before_run = lambda n_runs: n_runs == 3 and loop.close()
    with loop._lock:
        handle = submit(loop, long_request())
    with pytest.raises(ContextClosedError):
        handle.result(60)
    assert seen == [False]
    assert handle.done()


def test_closing_ends_what_runs_and_what_waits() -> None:
    loop, engine = stepping(plan(n_slots=1))
    engine.before_run = lambda n_runs: n_runs < 3 or wait_until(lambda: loop.is_closed)
    handles = [submit(loop, long_request(i)) for i in range(3)]
    wait_until(lambda: engine.n_runs == 3)
    loop.close()
    for handle in handles:
        with pytest.raises(ContextClosedError):
            handle.result(60)
    with pytest.raises(ContextClosedError):
        submit(loop, request([1]))
    assert engine.closed


def test_a_callback_may_close_the_loop() -> None:
    loop, engine = stepping(plan())
    handle = submit(loop, request([1, 2]))
    handle.add_done_callback(lambda _: loop.close())
    handle.result(60)
    assert loop.wait(60)
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
        assert_all_right(fine.result(), good.requests)


@pytest.mark.more(reason="random schedules on many layouts", cases=1)
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
            requests = [
                request([*stem, 50 + i], mine.randint(1, 60))
                for i in range(mine.randint(1, 12))
            ]
            call = Call(requests, seed=1)
            if mine.random() < 0.5:
                threading.Timer(mine.random() * 0.01, call.cancel).start()
            for prompt, result in zip(requests, call.run(loop), strict=True):
                if result.finish_reason != "cancelled":
                    assert_right(result, prompt)
            return
        prompt = request([*stem, 60 + seed % 30], mine.randint(1, 60), mine.randrange(3))
        handle = submit(loop, prompt, stream=kind == 1)
        if kind == 2:
            threading.Event().wait(mine.random() * 0.005)
            handle.cancel()
        if kind == 1:
            assert "".join(handle) == text_of(answer(prompt)[0])
        result = handle.result(60)
        if kind != 2 or result.finish_reason != "cancelled":
            assert_right(result, prompt)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, [rng.randrange(10**6) for _ in range(400)]))
    assert loop.wait(60)
    assert not engine.numbers_of
    assert engine.is_idle
    assert loop.load.n_running == loop.load.n_waiting == 0
