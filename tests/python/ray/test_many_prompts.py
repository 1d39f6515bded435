"""Many single prompts in a herd: a turn of its loop looks only at what changed."""

from __future__ import annotations

from array import array
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING

import pytest
import thorough
from counted_work import n_instructions
from llamaherd.core.errors import ClusterError, ContextError
from llamaherd.core.outcome import Finish, Output
from llamaherd.core.request import Request
from llamaherd.core.sampling import SamplingParams
from llamaherd.core.stats import RequestStats
from llamaherd.loop.group import Group
from llamaherd.ray.loop import HerdLoop
from llamaherd.ray.member import ActorState
from llamaherd.ray.wire import Change, Ended, HandIn, Report
from stepping import plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from llamaherd.ray.work import GroupWork

N_SLOTS = 12
GREEDY = SamplingParams(temperature=0.0)
OUTPUT = Output(finish=Finish.LENGTH, text="a", tokens=[1])
NO_STATS = RequestStats()


class HeldLink:
    """Link to an actor that answers, refuses or loses chunks when a test says so."""

    error: BaseException | None = None
    changed_s = 0.0
    state = ActorState.READY
    generation = 1

    def __init__(self, number: int) -> None:
        self.number = number
        self.node = (f"node{number}", 1)
        self.chunks: dict[int, HandIn] = {}
        self.n_batches = 0
        self.then: Callable[[Report, None], None] | None = None

    def order(
        self,
        _generation: int,
        orders: Sequence[HandIn | Change],
        then: Callable[[None], None],
    ) -> None:
        self.chunks.update((o.chunk, o) for o in orders if isinstance(o, HandIn))
        then(None)

    def poll(self, _generation: int, then: Callable[[Report, None], None]) -> None:
        self.then = then

    def report(self, n: int, error: BaseException | None = None) -> None:
        """Report the end of n chunks."""
        self.n_batches += 1
        report = Report(n_batches=self.n_batches, plan=plan(N_SLOTS))
        for number in list(self.chunks)[:n]:
            del self.chunks[number]
            if error is None:
                report.outputs.append((number, 0, OUTPUT, NO_STATS))
            report.ended.append(Ended(chunk=number, error=error, n_fallbacks=0))
        assert self.then is not None
        then, self.then = self.then, None
        then(report, None)


class Ends:
    """Listener that counts groups that ended, and stores their errors."""

    def __init__(self) -> None:
        self.n = 0
        self.errors: list[BaseException] = []

    def on_output(self, _i: int, _output: Output, _stats: RequestStats) -> None: ...

    def on_end(self, error: BaseException | None) -> None:
        self.n += 1
        self.errors += [] if error is None else [error]


class ByHand:
    """Loop of a herd without a thread: a test runs each turn."""

    def __init__(self, n: int, priority: Callable[[int], int], n_actors: int = 2) -> None:
        self.links = [HeldLink(i) for i in range(n_actors)]
        self.loop = HerdLoop(self.links, n_slots=N_SLOTS)
        self.loop._start = lambda: None  # type: ignore[method-assign]
        self.loop._has_left.clear()
        self.ends = Ends()
        self.groups = [
            Group(
                [
                    Request(
                        tokens=array("i", [1, i]),
                        max_tokens=3,
                        sampling=GREEDY,
                        priority=priority(i),
                    )
                ],
                self.ends,
            )
            for i in range(n)
        ]

    def hand_in(self) -> None:
        for group in self.groups:
            self.loop.hand_in(group)
        self.loop._turn()

    def turn(self, error: BaseException | None = None) -> None:
        for link in self.links:
            link.report(5, error)
        self.loop._turn()


PRIORITIES: dict[str, Callable[[int], int]] = {
    "equal": lambda _: 0,
    "urgent": lambda _: 1,
    "many": lambda i: i % 20 - 10,
}


@pytest.mark.more(reason="starts actors of Ray or runs very many prompts", cases=1)
@pytest.mark.more(reason="10,000 of 50,000 prompts, so that a case takes 2 s")
@pytest.mark.parametrize(
    "error", [None, ContextError("no room")], ids=["ended", "refused"]
)
@pytest.mark.parametrize("priority", PRIORITIES.values(), ids=PRIORITIES)
def test_a_turn_looks_only_at_prompts_that_changed(
    priority: Callable[[int], int], error: ContextError | None
) -> None:
    def n_of(n: int) -> int:
        herd = ByHand(n, priority, n_actors=3 if error else 2)
        herd.hand_in()
        for _ in range(2):
            herd.turn(error)
        n_ended = herd.ends.n
        found = n_instructions(lambda: herd.turn(error))
        assert herd.ends.n == n_ended + (0 if error else 10)
        assert all(len(link.chunks) <= 2 * N_SLOTS for link in herd.links)
        return found

    assert n_of(thorough.sized(10_000, 50_000)) < 1.05 * n_of(500)


@pytest.mark.more(reason="starts actors of Ray or runs very many prompts", cases=1)
@pytest.mark.parametrize("order", [list, reversed], ids=["in order", "in reverse"])
def test_cancelling_prompts_one_by_one_is_linear(
    order: Callable[[list[Group]], Iterable[Group]],
) -> None:
    def n_of(n: int) -> int:
        herd = ByHand(n, lambda _: 0)
        herd.hand_in()

        def cancel() -> None:
            for group in order(herd.groups):
                herd.loop.give_up(group)
                herd.loop._turn()

        found = n_instructions(cancel)
        n_on_actors = sum(len(link.chunks) for link in herd.links)
        assert herd.ends.n == n - n_on_actors
        return found

    assert n_of(1000) < 2.4 * n_of(500)


def test_prompts_that_no_actor_can_run_end_although_they_did_not_change() -> None:
    herd = ByHand(100, lambda _: 0)
    herd.hand_in()
    for link in herd.links:
        link.state, link.error = ActorState.FAILED, ValueError("no room")
        herd.loop.changed(link)
    herd.loop._turn()
    assert {type(error) for error in herd.ends.errors} == {ContextError}
    assert len(herd.ends.errors) == 100


def test_prompts_do_not_end_if_an_actor_becomes_ready_within_the_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    herd = ByHand(100, lambda _: 0)
    for link in herd.links:
        link.state = ActorState.STARTING
    why, n_calls = herd.loop._why_nobody, count(1)

    def why_nobody(work: GroupWork) -> BaseException | None:
        if next(n_calls) == 50:  # as if on the thread that starts actors
            herd.links[0].state = ActorState.READY
        return why(work)

    monkeypatch.setattr(herd.loop, "_why_nobody", why_nobody)
    herd.loop._patience_s = -1.0
    herd.hand_in()
    assert {type(error) for error in herd.ends.errors} == {ClusterError}
    assert herd.ends.n == len(herd.ends.errors) == 48
    while herd.links[0].chunks:
        herd.links[0].report(100)
        herd.loop._turn()
    assert herd.ends.n == 100
    assert sum(not group.open for group in herd.groups) == 52


def refuse(herd: ByHand, actor: int) -> None:
    """Let an actor refuse all prompts, and let the others receive them."""
    herd.loop._take_events()
    for work in herd.loop._works:
        work.refusals[actor] = ContextError("no room")
        herd.loop._works.note(work)
    herd.loop._end_some()
    herd.loop._hand_out()
    herd.loop._send_all()


@pytest.mark.parametrize(("n", "n_sent"), [(6, 6), (30, 18)])
def test_urgent_prompts_that_an_actor_refuses_go_to_the_other(
    n: int, n_sent: int
) -> None:
    herd = ByHand(n, lambda _: 1)
    for group in herd.groups:
        herd.loop.hand_in(group)
    refuse(herd, 1)
    assert [len(link.chunks) for link in herd.links] == [n_sent, 0]


def hand_in_before_actor_1_is_ready(herd: ByHand, n: int) -> None:
    """Hand in the first groups while only actor 0 is ready; then actor 1 gets ready."""
    herd.links[1].state = ActorState.STARTING
    herd.links[1].changed_s = monotonic()
    for group in herd.groups[:n]:
        herd.loop.hand_in(group)
    herd.loop._turn()
    herd.links[1].state = ActorState.READY


def test_an_urgent_prompt_does_not_wait_for_an_actor_with_a_suspect() -> None:
    herd = ByHand(8, lambda _: 1)
    hand_in_before_actor_1_is_ready(herd, 7)
    herd.loop._actors[1].n_suspects = 1
    herd.loop.hand_in(herd.groups[7])
    herd.loop._turn()
    assert [len(link.chunks) for link in herd.links] == [8, 0]


def test_an_urgent_prompt_goes_to_a_free_slot_beyond_a_share() -> None:
    herd = ByHand(16, lambda _: 1)
    herd.loop._actors[0].plan = plan(2)
    for group in herd.groups:
        herd.loop.hand_in(group)
    herd.loop._turn()
    assert [len(link.chunks) for link in herd.links] == [3, 12]


def test_urgent_prompts_are_divided_among_actors() -> None:
    herd = ByHand(20, lambda _: 1)
    hand_in_before_actor_1_is_ready(herd, 12)
    for group in herd.groups[12:]:
        herd.loop.hand_in(group)
    herd.loop._turn()
    assert [len(link.chunks) for link in herd.links] == [12, 8]
