"""Groups of a herd in the order of their service, compared with a plain search."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING

import thorough
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.ray.works import Works

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

N_ACTORS = 2


def made(number: int, priority: int) -> Any:
    return SimpleNamespace(
        group=SimpleNamespace(number=number),
        priority=priority,
        refusals={},
        n_waiting=1,
        suspects=[],
        is_stopped=False,
        given_up_s=None,
    )


def compare(works: Works, order: list[Any]) -> None:
    """Compare next groups of each actor, and groups with suspects, with a search."""
    for actor in range(N_ACTORS):
        for above in (-inf, 0):
            suited = [
                work
                for work in order
                if work.n_waiting
                and not work.is_stopped
                and actor not in work.refusals
                and work.priority > above
            ]
            best = max(suited, key=lambda work: work.priority, default=None)
            found, n_waiting = works.next(actor, above)
            assert found is best
            assert n_waiting == sum(work.n_waiting for work in suited)
        with_suspects = (w for w in works.with_suspects() if actor not in w.refusals)
        expected = (
            work
            for work in order
            if work.suspects and not work.is_stopped and actor not in work.refusals
        )
        assert next(with_suspects, None) is next(expected, None)
    kinds = {frozenset(work.refusals) for work in order}
    each = works.of_each_kind()
    assert {frozenset(work.refusals) for work in each} == kinds
    assert sum(len(works.of_kind(work)) for work in each) == len(order) == len(works)


def serve(works: Works, order: list[Any], work: Any, n: int) -> None:
    work.n_waiting = n % 4
    order.append(order.pop(order.index(work)))
    works.served(work)


def wait(_works: Works, _order: list[Any], work: Any, n: int) -> None:
    work.n_waiting = n % 4


def suspect(_works: Works, _order: list[Any], work: Any, n: int) -> None:
    work.suspects = [n] if n % 2 else []


def refuse(_works: Works, _order: list[Any], work: Any, n: int) -> None:
    work.refusals[n % N_ACTORS] = None


def stop(works: Works, _order: list[Any], work: Any, _n: int) -> None:
    """Stop a group, and check that it is not found although it was not updated."""
    work.is_stopped = True
    for actor in range(N_ACTORS):
        assert works.next(actor, -inf)[0] is not work
    assert work not in works.with_suspects()


def remove(works: Works, order: list[Any], work: Any, _n: int) -> None:
    order.remove(work)
    assert works.remove(work)
    assert not works.remove(work)


STEPS = (None, None, serve, wait, suspect, refuse, stop, remove)  # None adds a group


@thorough.examples(300)
@given(st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1000)), max_size=60))
def test_the_next_group_is_that_of_a_search(
    steps: list[tuple[Callable[[Works, list[Any], Any, int], None] | None, int]],
) -> None:
    works, order = Works(), []
    for i_step, (step, n) in enumerate(steps):
        if step is None:
            order.append(made(i_step, n % 3 - 1))
            works.add(order[-1])
        elif order:
            work = order[n % len(order)]
            step(works, order, work, n)
            works.note(work)
        for work in works.take_changed():
            works.update(work)
        compare(works, order)


def test_groups_that_ended_leave_no_entries_behind_an_old_one() -> None:
    works = Works()

    def add(number: int) -> Any:
        work = made(number, 0)
        works.add(work)
        for changed in works.take_changed():
            works.update(changed)
        return work

    old = add(0)
    for number in range(1, 10_001):
        works.remove(add(number))
    for lines in (works._all, works._waiting):
        (line,) = lines.lines.values()
        assert len(line._heap) < 100
    assert works.next(0, -inf) == (old, 1)
