"""Create or enlarge the engine so that new groups fit beside the running groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.loop.runner import Runner
from llamaherd.loop.sizing import Work
from llamaherd.memory.plan import MAX_HOLD

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.loop.group import Group
    from llamaherd.loop.sizing import Sizing
    from llamaherd.memory.plan import Layout, Plan

_WORTH_GROWING = 1.25  # minimum ratio of the new number of slots to the current number


def fit(sizing: Sizing, runner: Runner | None, groups: Sequence[Group]) -> Runner:
    """Return a runner in which the new groups fit.

    Groups that fit are added at once. Otherwise all running requests are paused and
    continue in a KV cache of another size (docs/decisions/0036).

    Args:
        sizing: Object that plans and creates engines.
        runner: Current runner; None before the first group.
        groups: New groups, at least one.

    Returns: The current runner; for the first groups, a new runner.

    Raises:
        ContextError: There is not enough memory; running requests continue as before.
    """
    if runner is None:
        plan = _plan(sizing, groups, MAX_HOLD)
        sizing.check_memory(plan)
        return Runner(sizing.make(plan), plan)
    if not runner.groups:
        is_alone = all(group.is_alone for group in groups)
        layout = runner.plan.kv_layout if is_alone else None
        plan = _plan(sizing, groups, runner.n_hold_target, layout)
        is_worth = not runner.plan.covers(plan)
    elif _has_room(runner, groups):
        return runner
    else:
        every = [*runner.groups.values(), *groups]
        n_hold = runner.n_hold_target
        plan = _plan(sizing, every, n_hold, runner.plan.kv_layout, is_busy=True)
        is_worth = _is_worth(runner.plan, plan, groups)
    if is_worth:
        sizing.check_memory(plan, runner.plan.memory_bytes)
        runner.resize(plan)
    return runner


def _has_room(runner: Runner, groups: Sequence[Group]) -> bool:
    """Return whether new groups fit into the current cache beside the running groups."""
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
    return (
        plan.n_ctx_seq - plan.n_spare < _longest(groups) <= target.capacity
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
) -> Plan:
    trees = [group.tree for group in groups if group.tree is not None]
    needs = [need for group in groups for need in group.needs]
    n_prefixes = min(n_hold, sum(tree.n_nodes for tree in trees))
    n_shared = trees[0].n_shared if len(groups) == len(trees) == 1 else 0
    work = Work(needs=needs, n_prefixes=n_prefixes, n_shared=n_shared)
    plan = sizing.plan(work, layout)
    if not any(group.is_alone for group in groups):
        return plan
    # Plan for more and longer requests than now, because each new cache costs time.
    next_power = 1 << (max(needs) - 1).bit_length()
    more = Work(
        needs=[*needs, *(needs if is_busy else ()), next_power],
        n_prefixes=n_hold,
    )
    larger = sizing.plan(more, layout)
    is_within = larger.n_seq_max >= plan.n_seq_max and larger.capacity >= plan.capacity
    return larger if is_within else plan


def _longest(groups: Sequence[Group]) -> int:
    return max(need for group in groups for need in group.needs)


def _share_prefixes(groups: Sequence[Group]) -> bool:
    return any(group.tree is not None and group.tree.n_nodes > 0 for group in groups)
