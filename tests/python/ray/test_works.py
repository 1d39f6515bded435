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
    """Compare the next group of each actor, and the suspicious groups, with a search."""
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
        suspicious = (w for w in works.suspicious() if actor not in w.refusals)
        expected = (
            work
            for work in order
            if work.suspects and not work.is_stopped and actor not in work.refusals
        )
        assert next(suspicious, None) is next(expected, None)
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
    assert work not in works.suspicious()


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
