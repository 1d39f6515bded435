"""Progress of calls, and the times of slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from fake_calls import assert_all_right, assert_right, long_request, request
from fake_engine import answer, make_loop
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.outcome import RunOutcome, Status
from llamaherd.engine.loop.loop import Loop
from llamaherd.engine.loop.slot_times import NO_TIMES, SlotTime, SlotWatch
from llamaherd.engine.schedule.client import Client
from stepping import Stepping, Streams, plan, stepping, submit
from thorough import examples
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.calls.run.handle import Handle
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.loop.sizing import Work
    from llamaherd.engine.memory.plan import Plan


def test_a_cancelled_request_aborts_no_step_while_another_one_waits() -> None:
    """An abort may lose states that the waiting request continues."""
    loop, engine = stepping(plan(n_slots=1))
    aborted: list[bool] = []

    def cancel(n_runs: int) -> None:
        if n_runs == 2:
            running.cancel()
            aborted.append(engine.aborted)

    engine.before_run = cancel
    with loop._lock:
        running, waiting = submit(loop, long_request()), submit(loop, long_request(1))
    assert_right(waiting.result(60), long_request(1))
    assert aborted == [False]


class Losing(Stepping):
    """Engine that loses all states in some runs, as recurrent models do."""

    fails_next = False

    def run(self, *args: object, **kwargs: object) -> RunOutcome:
        if not self.fails_next:
            return super().run(*args, **kwargs)
        self.fails_next = False
        self.lose_states()
        return RunOutcome(status=Status.REFUSED, decode_code=-3, message="it failed")


def test_a_prefix_whose_state_was_lost_is_computed_once_more() -> None:
    """Otherwise each later prompt would compute all tokens of the prefix."""
    sizes = plan(n_slots=2)
    engine = Losing(sizes)
    loop = make_loop(sizes, engine)

    def fail(_n_runs: int) -> None:
        if engine.n_submitted == 5:
            assert any(slot.is_held for slot in engine.slots.values())
            engine.before_run = lambda _: None
            engine.fails_next = True

    engine.before_run = fail
    requests = [request([1] * 200 + [50 + i], 3) for i in range(40)]
    call = Call(requests, seed=1)
    assert_all_right(call.run(loop), requests)
    assert engine.numbers["n_lost"] == 1
    # The prefix twice, the own tokens of each prompt, and two prompts that were running.
    assert engine.numbers["n_prefill"] <= 2 * 200 + 40 + 2 * 201
    assert loop.wait(60)


class Scarce(Streams):
    """Sizing of a machine whose memory holds few long sequences or many short ones."""

    capacity = 2048

    def sizes_of(self, work: Work) -> tuple[int, int, int]:
        share = 1 << (max(need for need in work.needs if need <= 2048) - 1).bit_length()
        return max(1, min(2048 // share, len(work.needs))), 2, share

    def make(self, sizes: Plan) -> Stepping:
        super().make(sizes).n_batch = 40
        return self.engine


def alternating() -> tuple[Loop, Scarce, list[Handle], Callable[[int], None]]:
    """Return a loop, and a function that submits long and short prompts in turn."""
    sizing = Scarce()
    loop = Loop(sizing)
    handles: list[Handle] = []

    def come(n_runs: int) -> None:
        if n_runs % 4 == 1:
            handles.append(submit(loop, request([9] * 1000, 5)))
        elif n_runs % 4 == 3:
            handles.extend(submit(loop, request([i], 5)) for i in range(8))
        else:
            for handle in handles[-8:]:
                handle.cancel()

    return loop, sizing, handles, come


@pytest.mark.parametrize("is_call", [False, True])
def test_caches_of_other_sizes_do_not_delay_a_prompt_forever(*, is_call: bool) -> None:
    """Each change of the number of streams computes the running prompts again."""
    loop, sizing, handles, come = alternating()
    n_most = 200

    def limited(n_runs: int) -> None:
        if n_runs < n_most and not is_done:
            come(n_runs)

    is_done: list[bool] = []
    sizing.before_run = limited
    if is_call:
        requests = [request([7] * 200 + [i], 3) for i in range(6)]
        results = list(Call(requests, seed=1).run(loop))
    else:
        requests = [request([7] * 201, 3)]
        results = [submit(loop, requests[0]).result(60)]
    is_done.append(True)
    assert_all_right(results, requests)
    assert sizing.engine.n_runs < n_most
    assert loop.wait(60)
    assert all(handle.done() for handle in handles)


def test_a_prompt_that_never_fits_does_not_spoil_the_others_of_its_call() -> None:
    sizing = Scarce()
    loop = Loop(sizing)
    sizing.before_run = lambda n_runs: n_runs == 1 and wait_until(lambda: loop._arrived)
    running = submit(loop, long_request())
    wait_until(lambda: loop._groups)
    requests = [request([1] * 3000, 5), request([2] * 1000, 5)]
    results = Call(requests, seed=1).run(loop)
    assert "more than the 2048" in str(results[0].error)
    assert_right(results[1], requests[1])
    assert_right(running.result(60), long_request())


@dataclass
class Adversary:
    """Submits, polls and cancels at every step, as long as some prompts are open.

    Args:
        loop: Loop.
        engine: Engine of the loop.
        moves: Moves, which are repeated without end.
        n_most: Maximum number of steps.
    """

    loop: Loop
    engine: Stepping
    moves: list[tuple[str, int]]
    n_most: int
    is_over: bool = False

    def __post_init__(self) -> None:
        self.handles: list[Handle] = []
        self.engine.before_run = self.move

    def move(self, n_runs: int) -> None:
        """Make the next move, unless all ordinary prompts have ended."""
        if self.is_over:
            return
        if n_runs >= self.n_most:
            self.is_over = True
            for handle in self.handles:
                handle.cancel()
            return
        kind, n = self.moves[n_runs % len(self.moves)]
        self.handles = [handle for handle in self.handles if not handle.done()]
        if kind == "cancel" or len(self.handles) > 12:
            for handle in self.handles[: 1 + n]:
                handle.cancel()
        elif kind == "poll":
            for handle in self.handles:
                handle.read(0, 0)
        else:
            prompt = KINDS[kind](n, n_runs % 900)
            n_again = 30 if kind == "prefix" else 0
            self.handles.append(submit(self.loop, prompt, n_again=n_again))


KINDS: dict[str, Callable[[int, int], Request]] = {
    "submit": lambda n, i: request([n, i], 1 + n % 5),
    "prefix": lambda n, i: request([n] * 30 + [i], 1 + n % 3),
    "shared": lambda n, i: request([1] * 60 + [n, i]),
    "low": lambda n, _: request([n] * 9, 9, -1),
}


@given(
    moves=st.lists(
        st.tuples(st.sampled_from([*KINDS, "cancel", "poll"]), st.integers(2, 8)),
        min_size=1,
    ),
    stems=st.lists(st.integers(1, 3), min_size=1, max_size=8),
    n_slots=st.integers(1, 4),
    n_hold=st.integers(1, 4),
    pooled=st.booleans(),
)
@examples(300)
@pytest.mark.slow(reason="random schedules on a fake engine")
def test_every_call_ends_while_others_come_and_go_without_end(
    moves: list[tuple[str, int]],
    stems: list[int],
    n_slots: int,
    n_hold: int,
    *,
    pooled: bool,
) -> None:
    """The number of steps, and of tokens that are computed, has a bound."""
    sizes = plan(n_slots, n_hold, pooled=pooled)
    engine = Stepping(sizes)
    engine.n_batch = 32
    loop = make_loop(sizes, engine)
    requests: list[Request] = []
    for i, depth in enumerate(stems):
        tokens = [token for level in range(depth) for token in [1 + level] * 40]
        requests.append(request([*tokens, 50 + i], 4))
    n_tokens = sum(len(one.tokens) + len(answer(one)[0]) for one in requests)
    # Each prompt waits for a slot, at most once for each other call that arrived earlier;
    # each batch computes tokens of the oldest prompt, or one token of each answer.
    n_most = 200 + 20 * n_tokens
    adversary = Adversary(loop, engine, moves, n_most)
    results = Call(requests, seed=1).run(loop)
    adversary.is_over = True
    for handle in adversary.handles:
        handle.cancel()
    assert_all_right(results, requests)
    assert results.stats.n_prefill_tokens <= 2 * sum(len(one.tokens) for one in requests)
    assert loop.wait(60)
    assert not engine.numbers_of


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def client(id_: int, *, is_prefix: bool = False) -> Client:
    return Client(id=id_, call=0, request=request([1, 2], 0 if is_prefix else 5))


def test_time_is_divided_as_the_batches_were() -> None:
    clock, batches = Clock(), {0: (0.0, 0.0), 1: (5.0, 0.0), 2: (0.0, 0.0)}
    watch = SlotWatch(lambda id_: batches[id_], clock)
    for newcomer in (client(0), client(1), client(2, is_prefix=True)):
        watch.enter(newcomer)
    clock.now_s += 4
    batches.update({0: (1.0, 3.0), 1: (5.0, 0.0), 2: (0.5, 0.0)})
    watch.look([client(0), client(1), client(2, is_prefix=True)])
    assert watch.times.prompts == (
        SlotTime(prefill_s=1.0, decode_s=3.0),
        SlotTime(waiting_s=4.0),
    )
    assert watch.times.prefixes == (SlotTime(prefill_s=4.0),)
    watch.leave(0)
    watch.leave(0)  # as a request that ended within a pause
    clock.now_s += 1
    batches[3] = (0.0, 0.0)
    watch.enter(client(3))  # gets the lowest free slot
    clock.now_s += 2
    batches[3] = (0.0, 7.0)
    watch.leave(3)
    assert watch.times.prompts[0] == SlotTime(prefill_s=1.0, decode_s=5.0)
    assert (watch.times.began_s, watch.times.at_s) == (100.0, 107.0)


def test_looks_in_quick_succession_read_nothing() -> None:
    clock, reads = Clock(), []

    def read(id_: int) -> tuple[float, float]:
        reads.append(id_)
        return 0.0, 0.0

    watch = SlotWatch(read, clock)
    for _ in range(5):
        watch.look([client(0)])
    assert reads == [0]
    clock.now_s += 1
    watch.look([client(0)])
    assert reads == [0, 0]
    assert watch.times.prompts == (SlotTime(waiting_s=1.0),)


class Asked(Stepping):
    """An engine that counts the questions for times."""

    n_asked = 0

    def times(self, id_: int) -> tuple[float, float]:
        self.n_asked += 1
        return super().times(id_)


def run(loop: Loop, n: int = 12) -> None:
    results = Call([request([7, 7, 7, i], 6) for i in range(n)], seed=1).run(loop)
    assert len(results) == n


@pytest.fixture
def bench() -> tuple[Loop, Asked]:
    sizes = plan(n_slots=3)
    engine = Asked(sizes)
    return make_loop(sizes, engine), engine


def test_nothing_is_measured_while_nobody_looks(bench: tuple[Loop, Asked]) -> None:
    loop, engine = bench
    run(loop)
    assert engine.n_asked == 0
    assert loop.watched_slots() == NO_TIMES


def test_a_loop_measures_all_slots_and_stops(
    bench: tuple[Loop, Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, engine = bench
    loop.watched_slots()
    run(loop)
    times = loop.watched_slots()
    assert 1 <= len(times.prompts) <= 3
    assert sum(slot.decode_s for slot in times.prompts) > 0
    assert sum(slot.prefill_s for slot in times.prefixes + times.prompts) > 0
    before = engine.n_asked
    assert before > 0
    later: Callable[[], float] = lambda: 1e12  # noqa: E731
    monkeypatch.setattr("llamaherd.engine.loop.loop.monotonic", later)
    run(loop, 1)  # ends the measurement
    stopped = engine.n_asked
    run(loop)
    assert engine.n_asked == stopped
