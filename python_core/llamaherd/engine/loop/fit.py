"""Create or change the engine so that running and new groups fit into it."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import ContextError
from llamaherd.engine.loop.runner import Runner
from llamaherd.engine.loop.sizing import LayoutChoice, NativeSizing, Work
from llamaherd.engine.memory.plan import MAX_HOLD, Layout, Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.loop.group import Group

_WORTH_GROWING = 1.25  # minimum ratio of the new number of slots to the current number
_MOST_GROWTH = 4  # maximum ratio of the memory of a cache for two calls to that of one
_LONGEST_DRAIN = 128  # maximum number of tokens for whose computation other requests wait


def fit(
    sizing: NativeSizing,
    runner: Runner | None,
    groups: Sequence[Group],
    choice: LayoutChoice,
) -> Runner:
    """Return a runner in which the new groups fit, in a larger cache if needed (0036).

    Sequences become shorter only if their last such change delays no request any more.
    """
    if runner is None:
        plan = _plan(sizing, groups, MAX_HOLD)
        sizing.check_memory(plan)
        choice.is_own_pool = False  # the pool of an engine that was lost
        return Runner(sizing.make(plan), plan, keeps_prefixes=sizing.keeps_prefixes)
    is_alone = all(group.is_alone for group in groups)
    if not runner.groups:
        runner.is_draining = False
        if is_alone and _has_changed_layout(sizing, runner, groups, choice):
            return runner
    may_plan_afresh = not runner.groups and not (is_alone and choice.is_own_pool)
    keeps = is_alone and runner.plan.n_hold > 0
    if (keeps or not may_plan_afresh) and _has_room(runner, groups):
        return runner
    make = _plan_for_idle if may_plan_afresh else _plan_for_busy
    before, better = runner.plan, make(sizing, runner, groups)
    if better is not None:
        sizing.check_memory(better, before.memory_bytes)
        runner.resize(better)
        if better.kv_layout != before.kv_layout:
            choice.changed(before, better, is_own=False)
    return runner


def _plan_for_idle(
    sizing: NativeSizing, runner: Runner, groups: Sequence[Group]
) -> Plan | None:
    """Return another plan for groups that find no running request; None to keep it."""
    now = runner.plan
    is_alone = all(group.is_alone for group in groups)
    layout = now.kv_layout if is_alone else None
    plan = _plan(sizing, groups, runner.n_hold_target, layout)
    if now.covers(plan) or _can_wait(runner, groups):
        return None
    return _for_both(sizing, now, plan)


def _plan_for_busy(
    sizing: NativeSizing, runner: Runner, groups: Sequence[Group]
) -> Plan | None:
    """Return another plan for running and new groups; None to keep the current plan."""
    every = [*runner.groups.values(), *groups]
    n_hold = runner.n_hold_target
    now, layout = runner.plan, runner.plan.kv_layout
    plan = _plan(sizing, every, n_hold, layout, is_busy=True)
    if not _is_worth(now, plan, groups):
        return None
    if now.shrinks_to(plan) and runner.delayed.has_any:
        if layout == "per_sequence":  # more streams of the same length
            least = now.n_ctx_seq - now.n_spare
            plan = _plan(sizing, every, n_hold, layout, is_busy=True, least=least)
        if now.shrinks_to(plan) or not _is_worth(now, plan, groups):
            return None
    return plan


def change_layout(sizing: NativeSizing, runner: Runner, choice: LayoutChoice) -> None:
    """Change the layout of a cache in use if the other layout suits better.

    Answers that continue a shared prefix end first, because otherwise the prefix would
    be computed again for each of them. The cache keeps its layout while such an answer
    may be long, and while a call uses the layout.
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
    sizing: NativeSizing, runner: Runner, groups: Sequence[Group], choice: LayoutChoice
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
    sizing: NativeSizing,
    groups: Sequence[Group],
    n_hold: int,
    layout: Layout | None = None,
    *,
    is_busy: bool = False,
    least: int = 1,
) -> Plan:
    """Return a plan for groups; `layout` None: choose it."""
    trees = [group.tree for group in groups if group.tree is not None]
    needs = [max(least, need) for group in groups for need in group.needs]
    n_nodes = sum(tree.n_nodes for tree in trees)
    n_prefixes = min(n_hold, n_nodes + 1 if n_nodes else 0)  # one of an earlier prompt
    n_shared = trees[0].n_shared if len(groups) == len(trees) == 1 else 0
    work = Work(needs=needs, n_prefixes=n_prefixes, n_shared=n_shared)
    plan = sizing.plan(work, layout)
    if not any(group.is_alone for group in groups):
        return plan
    # Plan for more and longer requests than now, because each new cache costs time.
    next_power = 1 << (max(needs) - 1).bit_length()
    more = [*needs, *(needs if is_busy else ()), next_power]
    for n_cells in (more, needs):
        work = replace(work, needs=n_cells, n_prefixes=n_hold)
        larger = sizing.plan(work, layout)
        if _has_all(larger, plan):
            return _with_last_slots(sizing, work, layout, larger)
    return plan


def _has_all(larger: Plan, plan: Plan) -> bool:
    return (
        larger.n_seq_max >= plan.n_seq_max
        and larger.capacity >= plan.capacity
        and larger.kv_layout == plan.kv_layout
    )


def _with_last_slots(
    sizing: NativeSizing, work: Work, layout: Layout | None, plan: Plan
) -> Plan:
    """Return a plan with all slots if a change to them would not be worth the pause."""
    # Fewer needs may have more slots, because rounds of equal size are planned.
    needs = list(work.needs)
    for n_needs in range(ceil(plan.n_seq_max * _WORTH_GROWING), len(needs), -1):
        more = [*needs, *[needs[0]] * (n_needs - len(needs))]
        larger = sizing.plan(replace(work, needs=more), layout)
        if larger.n_seq_max > plan.n_seq_max:
            is_last = larger.n_seq_max < _WORTH_GROWING * plan.n_seq_max
            return larger if is_last and _has_all(larger, plan) else plan
    return plan


def _for_both(sizing: NativeSizing, now: Plan, plan: Plan) -> Plan:
    """Return a plan that serves the work of two plans, or else the new plan.

    Otherwise calls of few long and of many short prompts, in turns, would create a new
    cache each time, and lose what is kept.
    """
    if now.kv_layout != plan.kv_layout:
        return plan
    both = (now, plan)
    longest = max(candidate.n_ctx_seq - candidate.n_spare for candidate in both)
    n_others = max(candidate.n_seq_max for candidate in both) - 1
    n_hold = max(candidate.n_hold for candidate in both)
    others = [1 if plan.kv_layout == "unified" else longest] * n_others
    work = Work(needs=[longest, *others], n_prefixes=n_hold)
    larger = sizing.plan(work, plan.kv_layout)
    n_bytes = max(candidate.memory_bytes for candidate in both)
    is_both = larger.covers(now) and larger.covers(plan)
    if not is_both or larger.memory_bytes > _MOST_GROWTH * n_bytes:
        return plan
    try:
        sizing.check_memory(larger, now.memory_bytes)
    except ContextError:
        return plan
    return larger


def _can_wait(runner: Runner, groups: Sequence[Group]) -> bool:
    """Return whether calls run in the current cache, so that it keeps its prefixes.

    It changes when the waiting calls have needed as many cells, beside the prefixes that
    their prompts share, as the prefix that a call continues has.
    """
    if _longest(groups) > runner.plan.n_ctx_seq - runner.plan.n_spare:
        return False
    for group in groups:
        n_shared = 0 if group.tree is None else group.tree.n_shared
        runner.n_waited += sum(group.needs) - n_shared * len(group.needs)
    return runner.n_waited <= min(map(runner.n_continued, groups))


def _longest(groups: Sequence[Group]) -> int:
    return max(need for group in groups for need in group.needs)


def _share_prefixes(groups: Sequence[Group]) -> bool:
    return any(group.tree is not None and group.tree.n_nodes > 0 for group in groups)
