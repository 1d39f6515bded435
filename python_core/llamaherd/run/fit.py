"""Has a runner whose engine does for what there is and for what comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.memory.plan import MAX_HOLD
from llamaherd.run.runner import Runner
from llamaherd.run.sizing import Work

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.memory.plan import Layout, Plan
    from llamaherd.run.group import Group
    from llamaherd.run.sizing import Sizing

_WORTH_GROWING = 1.25  # times as many slots


def fit(sizing: Sizing, runner: Runner | None, groups: Sequence[Group]) -> Runner:
    """A runner that new groups can be added to.

    What fits joins at once. If it does not, what runs is paused and goes on in a KV cache
    of another size (docs/decisions/0036).

    Args:
        sizing: Plans and makes engines.
        runner: The one that there is.
        groups: One or more, that come now.

    Returns:
        That runner, or the first one.

    Raises:
        ContextError: There is not enough memory; what there is goes on as before.
    """
    if runner is None:
        plan = _plan(sizing, groups, MAX_HOLD)
        sizing.check_memory(plan)
        return Runner(sizing.make(plan), plan)
    if not runner.groups:
        is_alone = all(group.is_alone for group in groups)
        layout = runner.plan.kv_layout if is_alone else None
        plan = _plan(sizing, groups, runner.n_places_wanted, layout)
        is_worth = not runner.plan.covers(plan)
    elif _has_room(runner, groups):
        return runner
    else:
        every = [*runner.groups.values(), *groups]
        n_places = runner.n_places_wanted
        plan = _plan(sizing, every, n_places, runner.plan.kv_layout, is_busy=True)
        is_worth = _is_worth(runner.plan, plan, groups)
    if is_worth:
        sizing.check_memory(plan, runner.plan.memory_bytes)
        runner.resize(plan)
    return runner


def _has_room(runner: Runner, groups: Sequence[Group]) -> bool:
    """Whether new groups fit beside the others as it is."""
    plan = runner.plan
    n_open = sum(len(group.open) for group in (*runner.groups.values(), *groups))
    return (
        n_open <= plan.n_seq_max
        and _longest(groups) <= plan.n_ctx_seq - plan.n_spare
        and (plan.n_hold > 0 or not _share_prefixes(groups))
        and runner.n_places_wanted <= max(plan.n_hold, MAX_HOLD)
    )


def _is_worth(plan: Plan, wanted: Plan, groups: Sequence[Group]) -> bool:
    """Whether other sizes are worth a pause of everybody."""
    return (
        plan.n_ctx_seq - plan.n_spare < _longest(groups) <= wanted.capacity
        or wanted.n_seq_max >= _WORTH_GROWING * plan.n_seq_max
        or (wanted.n_hold > plan.n_hold == 0 and _share_prefixes(groups))
        or wanted.n_hold > max(plan.n_hold, MAX_HOLD)
    )


def _plan(
    sizing: Sizing,
    groups: Sequence[Group],
    n_places: int,
    layout: Layout | None = None,
    *,
    is_busy: bool = False,
) -> Plan:
    trees = [group.tree for group in groups if group.tree is not None]
    needs = [need for group in groups for need in group.needs]
    n_prefixes = min(n_places, sum(tree.n_nodes for tree in trees))
    n_shared = trees[0].n_shared if len(groups) == len(trees) == 1 else 0
    work = Work(needs=needs, n_prefixes=n_prefixes, n_shared=n_shared)
    plan = sizing.plan(work, layout)
    if not any(group.is_alone for group in groups):
        return plan
    # More will come, and longer ones perhaps; to be made anew each time costs.
    next_power = 1 << (max(needs) - 1).bit_length()
    more = Work(
        needs=[*needs, *(needs if is_busy else ()), next_power],
        n_prefixes=n_places,
    )
    larger = sizing.plan(more, layout)
    is_within = larger.n_seq_max >= plan.n_seq_max and larger.capacity >= plan.capacity
    return larger if is_within else plan


def _longest(groups: Sequence[Group]) -> int:
    return max(need for group in groups for need in group.needs)


def _share_prefixes(groups: Sequence[Group]) -> bool:
    return any(group.tree is not None and group.tree.n_nodes > 0 for group in groups)
