"""Create or change the engine so that running and new groups fit into it."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from llamaherd.core.errors import ContextError
from llamaherd.loop.runner import Runner
from llamaherd.loop.sizing import Work
from llamaherd.memory.plan import MAX_HOLD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.loop.group import Group
    from llamaherd.loop.layouts import LayoutChoice
    from llamaherd.loop.sizing import Sizing
    from llamaherd.memory.plan import Layout, Plan

_WORTH_GROWING = 1.25  # minimum ratio of the new number of slots to the current number
_LONGEST_DRAIN = 128  # maximum number of tokens for whose computation other requests wait


def fit(
    sizing: Sizing,
    runner: Runner | None,
    groups: Sequence[Group],
    choice: LayoutChoice,
) -> Runner:
    """Return a runner in which the new groups fit.

    Groups that fit are added at once. Otherwise all running requests are paused and
    continue in a KV cache of another size (docs/decisions/0036). Sequences become shorter
    only if their last such change delays no request any more, see `Delayed`.

    Args:
        sizing: Object that plans and creates engines.
        runner: Current runner; None before the first group.
        groups: New groups, at least one.
        choice: Chooses the layout of the cache for single prompts.

    Returns: The current runner; for the first groups, a new runner.

    Raises:
        ContextError: There is not enough memory; running requests continue.
    """
    if runner is None:
        plan = _plan(sizing, groups, MAX_HOLD)
        sizing.check_memory(plan)
        choice.is_own_pool = False  # the pool of an engine that was lost
        return Runner(sizing.make(plan), plan)
    is_alone = all(group.is_alone for group in groups)
    if not runner.groups:
        runner.is_draining = False
        if is_alone and _has_changed_layout(sizing, runner, groups, choice):
            return runner
    if not runner.groups and not (is_alone and choice.is_own_pool):
        layout = runner.plan.kv_layout if is_alone else None
        plan = _plan(sizing, groups, runner.n_hold_target, layout)
        is_worth = not runner.plan.covers(plan)
    elif _has_room(runner, groups):
        return runner
    else:
        every = [*runner.groups.values(), *groups]
        n_hold = runner.n_hold_target
        now, layout = runner.plan, runner.plan.kv_layout
        plan = _plan(sizing, every, n_hold, layout, is_busy=True)
        is_worth = _is_worth(now, plan, groups)
        if is_worth and now.shrinks_to(plan) and runner.delayed.has_any:
            if layout == "per_sequence":  # more streams of the same length
                least = now.n_ctx_seq - now.n_spare
                plan = _plan(sizing, every, n_hold, layout, is_busy=True, least=least)
            is_worth = _is_worth(now, plan, groups) and not now.shrinks_to(plan)
    if is_worth:
        sizing.check_memory(plan, runner.plan.memory_bytes)
        before = runner.plan
        runner.resize(plan)
        if plan.kv_layout != before.kv_layout:
            choice.changed(before, plan, is_own=False)
    return runner


def change_layout(sizing: Sizing, runner: Runner, choice: LayoutChoice) -> None:
    """Change the layout of a cache in use if the other layout suits better.

    Answers that continue a shared prefix end first, because otherwise the prefix would
    be computed again for each of them. Meanwhile no request starts. The cache keeps its
    layout while such an answer may be long, and while a call uses the layout.
    """
    was_draining, runner.is_draining = runner.is_draining, False
    if not runner.groups or not (runner.groups.are_single or choice.is_own_pool):
        return
    if choice.other_layout(sizing, runner.plan) is None:
        if was_draining:
            choice.gave_up()
    elif runner.delayed.has_any:
        return  # otherwise changes could delay a request forever
    elif runner.longest_fork == 0:
        _has_changed_layout(sizing, runner, (), choice)
    else:
        runner.is_draining = runner.longest_fork <= _LONGEST_DRAIN


def _has_changed_layout(
    sizing: Sizing, runner: Runner, groups: Sequence[Group], choice: LayoutChoice
) -> bool:
    """Change the layout if the other layout suits better; return whether it changed."""
    if choice.other_layout(sizing, runner.plan) is None:
        return False
    every = [*runner.groups.values(), *groups]
    needs = [group.requests[i].n_cells for group in every for i in group.open]
    before = runner.plan
    plan = choice.plan_other(sizing, before, runner.n_hold_target, needs)
    try:
        sizing.check_memory(plan, before.memory_bytes)
        runner.resize(plan)
    except (ContextError, MemoryError):  # the cache keeps its layout
        choice.gave_up()
        return False
    choice.changed(before, plan, is_own=True)
    return True


def _has_room(runner: Runner, groups: Sequence[Group]) -> bool:
    """Return whether running and new groups fit into the current cache."""
    plan = runner.plan
    n_open = sum(len(group.open) for group in (*runner.groups.values(), *groups))
    return (
        n_open <= plan.n_seq_max
        and _longest(groups) <= plan.n_ctx_seq - plan.n_spare
        and (plan.n_hold > 0 or not _share_prefixes(groups))
        and runner.n_hold_target <= max(plan.n_hold, MAX_HOLD)
    )


def _is_worth(plan: Plan, target: Plan, groups: Sequence[Group]) -> bool:
    """Return whether another cache size is worth the pause of all requests."""
    needs = (need for group in groups for need in group.needs)
    longest = max((need for need in needs if need <= target.capacity), default=0)
    return (
        plan.n_ctx_seq - plan.n_spare < longest
        or target.n_seq_max >= _WORTH_GROWING * plan.n_seq_max
        or (target.n_hold > plan.n_hold == 0 and _share_prefixes(groups))
        or target.n_hold > max(plan.n_hold, MAX_HOLD)
    )


def _plan(
    sizing: Sizing,
    groups: Sequence[Group],
    n_hold: int,
    layout: Layout | None = None,
    *,
    is_busy: bool = False,
    least: int = 1,
) -> Plan:
    """Return a plan for groups.

    Args:
        sizing: Object that plans sizes.
        groups: All groups that run and wait.
        n_hold: Maximum number of hold slots.
        layout: Layout of the cache; None to choose it.
        is_busy: Whether some of the groups run.
        least: Minimum number of cells of a sequence.
    """
    trees = [group.tree for group in groups if group.tree is not None]
    needs = [max(least, need) for group in groups for need in group.needs]
    n_prefixes = min(n_hold, sum(tree.n_nodes for tree in trees))
    n_shared = trees[0].n_shared if len(groups) == len(trees) == 1 else 0
    work = Work(needs=needs, n_prefixes=n_prefixes, n_shared=n_shared)
    plan = sizing.plan(work, layout)
    if not any(group.is_alone for group in groups):
        return plan
    # Plan for more and longer requests than now, because each new cache costs time.
    next_power = 1 << (max(needs) - 1).bit_length()
    more = [*needs, *(needs if is_busy else ()), next_power]
    for wanted in (more, needs):
        larger = sizing.plan(Work(needs=wanted, n_prefixes=n_hold), layout)
        if larger.n_seq_max >= plan.n_seq_max and larger.capacity >= plan.capacity:
            return _with_last_slots(sizing, wanted, n_hold, layout, larger)
    return plan


def _with_last_slots(
    sizing: Sizing, needs: list[int], n_hold: int, layout: Layout | None, plan: Plan
) -> Plan:
    """Return a plan with all slots if only a few slots more are possible, else `plan`.

    A later change from 7 slots to 8, the maximum, would not be worth the pause.
    """
    # Fewer needs may have more slots, because rounds of equal size are planned.
    for n_needs in range(ceil(plan.n_seq_max * _WORTH_GROWING), len(needs), -1):
        more = [*needs, *[needs[0]] * (n_needs - len(needs))]
        larger = sizing.plan(Work(needs=more, n_prefixes=n_hold), layout)
        if larger.n_seq_max > plan.n_seq_max:
            is_last = larger.n_seq_max < _WORTH_GROWING * plan.n_seq_max
            return larger if is_last and larger.capacity >= plan.capacity else plan
    return plan


def _longest(groups: Sequence[Group]) -> int:
    return max(need for group in groups for need in group.needs)


def _share_prefixes(groups: Sequence[Group]) -> bool:
    return any(group.tree is not None and group.tree.n_nodes > 0 for group in groups)
