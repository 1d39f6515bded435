"""A loop on a fake engine that runs a step when a test requests it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fake_calls import assert_all_right
from fake_engine import FakeEngine, make_loop
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.handle import Handle
from llamaherd.engine.memory.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.core.outcome import RunOutcome
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.loop.loop import Loop


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
    """Calls a function before each run, on the loop's thread."""

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
    """Run calls that are all submitted before the first one starts."""
    engine.before_run = lambda n_runs: n_runs or all_in.wait(60)
    all_in = threading.Event()
    with ThreadPoolExecutor(len(calls)) as pool:
        runs = [pool.submit(lambda p=call: Call(p, seed=1).run(loop)) for call in calls]
        while len(loop._groups) + len(loop._arrived) < len(calls):
            threading.Event().wait(0.001)
        all_in.set()
        for run, call in zip(runs, calls, strict=True):
            assert_all_right(run.result(), call)
