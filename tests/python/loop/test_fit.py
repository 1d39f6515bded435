"""Single prompts that arrive one after the other get all slots of a busy context."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from fake_calls import request
from llamaherd.engine.loop.fit import fit
from llamaherd.engine.loop.group import Group
from llamaherd.engine.loop.open_groups import OpenGroups
from llamaherd.engine.loop.sizing import LayoutChoice
from llamaherd.engine.memory.plan import MAX_HOLD, Plan, Sizes, make_plan


class Limited:
    """Sizing with a limited number of slots."""

    n_sharing = 1
    keeps_prefixes = True

    def __init__(self, n_seq_max: int | None, *, deterministic: bool) -> None:
        self.sizes = Sizes(n_seq_max=n_seq_max, deterministic=deterministic)

    def plan(self, work: Any, _layout: str | None = None) -> Plan:
        return make_plan(
            self.sizes,
            work.needs,
            work.n_prefixes,
            work.n_shared,
            n_batch=512,
            bytes_per_cell=1,
            memory_bytes=1 << 30,
        )

    def check_memory(self, plan: Plan, _n_bytes_freed: int = 0) -> None:
        pass


@pytest.mark.more(reason="random schedules on many layouts", cases=98)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("n_seq_max", [*range(1, 34), None])
@pytest.mark.parametrize("n_first", range(1, 9))
def test_prompts_that_come_one_by_one_get_all_slots(
    n_first: int, n_seq_max: int | None, *, deterministic: bool
) -> None:
    sizing: Any = Limited(n_seq_max, deterministic=deterministic)
    prompts = [Group([request([i], 20)], SimpleNamespace()) for i in range(90)]
    runner: Any = SimpleNamespace(
        groups=OpenGroups(),
        plan=sizing.plan(SimpleNamespace(needs=[1], n_prefixes=0, n_shared=0)),
    )
    runner.n_hold_target, runner.is_draining = MAX_HOLD, False
    runner.n_waited, runner.n_continued = 0, lambda _: 0
    runner.resize = lambda plan: setattr(runner, "plan", plan)
    n_changes = 0
    while prompts:
        new = [prompts.pop() for _ in range(1 if runner.groups else n_first)]
        before = runner.plan
        fit(sizing, runner, new, LayoutChoice())
        n_changes += runner.plan is not before
        for group in new:
            group.number = id(group)
            runner.groups.add(group)
    if n_seq_max is None:  # rounds of equal size: 36 of 71 prompts, for example
        assert 36 <= runner.plan.n_seq_max <= 40
    else:
        assert runner.plan.n_seq_max == n_seq_max
    assert n_changes <= 7
