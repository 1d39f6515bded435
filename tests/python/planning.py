"""Sizes of a fake engine, planned as for a model; prompts that share a codebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fake_calls import assert_all_right, request
from fake_engine import FakeSizing
from llamaherd import ContextError
from llamaherd.engine.loop.loop import Loop
from llamaherd.engine.memory.plan import Plan, Sizes, make_plan
from stepping import Stepping, submit

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.core.request import Request
    from llamaherd.engine.loop.sizing import Work
    from llamaherd.engine.memory.plan import Layout

CODEBOOK = [500 + i % 400 for i in range(400)]
CELLS = 64_000  # number of cells that fit into memory


class Planning(FakeSizing):
    """Sizing that plans as for a model, and records the layouts of its engine."""

    def __init__(self, sizes: Sizes | None = None, n_cells: int = CELLS) -> None:
        self.fixed = sizes or Sizes()
        self.n_cells = n_cells
        self.n_sharing = 1
        self.keeps_prefixes = True
        self.layouts: list[str] = []
        self.most_bytes = 1 << 60
        self.engine: Stepping
        self.before_run: Callable[[int], object] = lambda _: None

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

    def _before(self, n_runs: int) -> None:
        self.before_run(n_runs)

    def make(self, plan: Plan) -> Stepping:
        self.engine = Stepping(plan)
        self.engine.before_run = self._before
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


def run_all(loop: Loop, asked: list[Request]) -> None:
    """Submit requests at the same time, and check their results."""
    with loop._lock:
        handles = [submit(loop, one) for one in asked]
    assert_all_right(handles, asked)


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
