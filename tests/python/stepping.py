"""A loop on a fake engine that runs a step on request; sizes planned as for a model."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fake_calls import assert_all_right, request
from fake_engine import FakeEngine, FakeSizing, make_loop
from llamaherd import ContextError
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.handle import Handle
from llamaherd.engine.loop.loop import Loop
from llamaherd.engine.memory.plan import Plan, Sizes, make_plan
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.core.outcome import RunOutcome
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.loop.sizing import Work
    from llamaherd.engine.memory.plan import Layout


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

    def submit(self, id_: int, request: Request, *args: object, **kwargs: object) -> None:
        self.started.append(tuple(request.tokens))
        super().submit(id_, request, *args, **kwargs)

    def pause(self, id_: int) -> int:
        self.paused.append(tuple(self.slots[id_].request.tokens))
        return super().pause(id_)


def stepping(sizes: Plan) -> tuple[Loop, Stepping]:
    engine = Stepping(sizes)
    return make_loop(sizes, engine), engine


def submit(loop: Loop, request: Request, **options: object) -> Handle:
    return Handle(loop, request, None, **options)


def run_together(loop: Loop, engine: Stepping, calls: list[list[Request]]) -> None:
    """Run calls that are all submitted before the first one starts."""
    engine.before_run = lambda n_runs: n_runs or all_in.wait(60)
    all_in = threading.Event()
    with ThreadPoolExecutor(len(calls)) as pool:
        runs = [pool.submit(lambda p=call: Call(p, seed=1).run(loop)) for call in calls]
        wait_until(lambda: len(loop._groups) + len(loop._arrived) == len(calls))
        all_in.set()
        for run, call in zip(runs, calls, strict=True):
            assert_all_right(run.result(), call)


class SteppingSizing(FakeSizing):
    """Sizing whose engines call a function before each run."""

    def __init__(self) -> None:
        super().__init__(plan(), FakeEngine(1, 1))
        self.engine: Stepping
        self.before_run: Callable[[int], object] = lambda _: None

    def _before(self, n_runs: int) -> None:
        self.before_run(n_runs)

    def make(self, sizes: Plan) -> Stepping:
        self.engine = Stepping(sizes)
        self.engine.before_run = self._before
        return self.engine


class Streams(SteppingSizing):
    """Sizing of cells per sequence."""

    capacity = 1000

    def sizes_of(self, work: Work) -> tuple[int, int, int]:
        """Return the slots of prompts, those of prefixes, and the cells of each.

        By default, slots in multiples of four, and cells for the longest prompt.
        """
        return min(32, -(-len(work.needs) // 4) * 4), 4, -(-max(work.needs) // 64) * 64

    def plan(self, work: Work, layout: Layout | None = None) -> Plan:
        n_slots, n_hold, share = self.sizes_of(work)
        return Plan(
            n_ctx=share * (n_slots + n_hold),
            n_seq_max=n_slots,
            n_hold=n_hold,
            kv_layout=layout or "per_sequence",
            n_ctx_seq=share,
            capacity=self.capacity,
            memory_bytes=0,
        )


CODEBOOK = [500 + i % 400 for i in range(400)]
CELLS = 64_000  # number of cells that fit into memory


class Planning(SteppingSizing):
    """Sizing that plans as for a model, and records the layouts of its engine."""

    def __init__(self, sizes: Sizes | None = None, n_cells: int = CELLS) -> None:
        super().__init__()
        self.fixed = sizes or Sizes()
        self.n_cells = n_cells
        self.layouts: list[str] = []
        self.most_bytes = 1 << 60

    def plan(self, work: Work, layout: Layout | None = None) -> Plan:
        n_ctx, deterministic = self.fixed.n_ctx, self.fixed.deterministic
        return make_plan(
            Sizes(
                n_ctx=n_ctx,
                kv_layout=layout or self.fixed.kv_layout,
                deterministic=deterministic,
            ),
            work.needs,
            work.n_prefixes,
            work.n_shared,
            n_batch=512,
            bytes_per_cell=1,
            memory_bytes=2 * self.n_cells,
        )

    def check_memory(self, plan: Plan, _n_bytes_freed: int = 0) -> None:
        if plan.memory_bytes > self.most_bytes:
            raise ContextError("too little memory")

    def make(self, plan: Plan) -> Stepping:
        super().make(plan)
        self.layouts.append(plan.kv_layout)
        resize = self.engine.resize

        def resized(n_ctx: int, n_seq_max: int, kv_layout: str) -> None:
            resize(n_ctx, n_seq_max, kv_layout)
            if kv_layout != self.layouts[-1]:
                self.layouts.append(kv_layout)

        self.engine.resize = resized
        return self.engine


def coding(i: int, max_tokens: int = 8, **options: object) -> Request:
    """Return a request that continues the codebook with 12 tokens."""
    tokens = [i % 400, *range(10), 400 + i // 400]
    return request([*CODEBOOK, *tokens], max_tokens, **options)


def other(i: int, n: int = 300) -> Request:
    """Return a request of n tokens that shares no prefix with another."""
    return request([i % 400, 400 + i // 400, *(i % 900 for i in range(n - 2))], 8)


def run_all(loop: Loop, requests: list[Request]) -> None:
    """Submit requests at the same time, and check their results."""
    with loop._lock:
        handles = [submit(loop, one) for one in requests]
    assert_all_right(handles, requests)


def run_forties(loop: Loop, one: Callable[[int], Request], *starts: int) -> None:
    """Run 40 requests at the same time, one after another for each start."""
    for start in starts or (0,):
        run_all(loop, [one(start + i) for i in range(40)])


def planned(sizes: Sizes | None = None, n_cells: int = CELLS) -> tuple[Loop, Planning]:
    """Return a loop on a fake engine that is planned as for a model."""
    sizing = Planning(sizes, n_cells)
    return Loop(sizing), sizing


def in_pool(n_cells: int = CELLS) -> tuple[Loop, Planning]:
    """Return a loop whose single prompts use a pool."""
    loop, sizing = planned(n_cells=n_cells)
    run_forties(loop, coding, 0, 40)
    assert sizing.layouts == ["per_sequence", "unified"]
    return loop, sizing
