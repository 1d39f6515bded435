"""Times of slots: divided by kind, measured only while somebody looks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fake_calls import request
from fake_engine import make_loop
from llamaherd.calls.run.call import Call
from llamaherd.engine.loop.slot_times import NO_TIMES, SlotTime, SlotWatch
from llamaherd.engine.schedule.client import Client
from stepping import Stepping, plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.loop.loop import Loop


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
    for each in (client(0), client(1), client(2, is_prefix=True)):
        watch.enter(each)
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
def asked() -> tuple[Loop, Asked]:
    sizes = plan(n_slots=3)
    engine = Asked(sizes)
    return make_loop(sizes, engine), engine


def test_nothing_is_measured_while_nobody_looks(asked: tuple[Loop, Asked]) -> None:
    loop, engine = asked
    run(loop)
    assert engine.n_asked == 0
    assert loop.watched_slots() == NO_TIMES


def test_a_loop_measures_all_slots_and_stops(
    asked: tuple[Loop, Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, engine = asked
    loop.watched_slots()
    run(loop)
    times = loop.watched_slots()
    assert 1 <= len(times.prompts) <= 3
    assert sum(each.decode_s for each in times.prompts) > 0
    assert sum(each.prefill_s for each in times.prefixes + times.prompts) > 0
    before = engine.n_asked
    assert before > 0
    later: Callable[[], float] = lambda: 1e12  # noqa: E731
    monkeypatch.setattr("llamaherd.engine.loop.loop.monotonic", later)
    run(loop, 1)  # ends the measurement
    stopped = engine.n_asked
    run(loop)
    assert engine.n_asked == stopped
