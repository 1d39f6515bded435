"""Where an actor is, as a herd sees it, and what the loop of the herd knows of it."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from llamaherd.ray.member import Death, State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.memory.plan import Plan
    from llamaherd.ray.wire import Change, HandIn, Report
    from llamaherd.ray.work import Chunk, Work


_MOST_S = 1.0  # between two looks: more, and this process did not run meanwhile


class Silence:
    """How long an actor has not answered, while this process ran.

    Args:
        limit_s: How long it may be.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self.begin()

    def begin(self) -> None:
        """It is asked now."""
        self._past_s = 0.0
        self._looked_s = monotonic()

    def check(self) -> None:
        """Is to be called about twice a second while there is no answer.

        Raises:
            Death: It was silent for too long.
        """
        now_s = monotonic()
        self._past_s += min(now_s - self._looked_s, _MOST_S)
        self._looked_s = now_s
        if self._past_s > self._limit_s:
            raise Death(f"it was silent for {self._limit_s:g} s", is_crash=False)


class Place(Protocol):
    """Where an actor is: a `Member`."""

    number: int
    node: tuple[str, int]
    state: State
    generation: int
    error: BaseException | None
    changed_s: float

    def order(
        self,
        orders: Sequence[HandIn | Change],
        then: Callable[[BaseException | None], None],
    ) -> None:
        """Hands orders over, in their order. Returns at once.

        Args:
            orders: They are.
            then: Called with None when the actor has them, or with an error.
        """

    def poll(self, then: Callable[[Report, BaseException | None], None]) -> None:
        """Asks for what is new; `then` is called with the report, or with an error."""

    def restart(self, generation: int) -> None:
        """Has another actor take the place of that generation's, unless one did."""


class Known:
    """What the loop knows of an actor.

    Args:
        place: Where it is.
        silence_s: How long it may say nothing.

    Attributes:
        place: It is.
        generation: Of the actor that all that follows is about; -1: there is none.
        chunks: Those that it has, by number.
        orders: To be sent.
        is_polled: Whether it was asked for what is new.
        silence: Since then.
        plan: Sizes of its KV cache; None: it has told of none.
        n_batches: That it has told of.
    """

    def __init__(self, place: Place, silence_s: float) -> None:
        self.place = place
        self.generation = place.generation
        self.chunks: dict[int, Chunk] = {}
        self.orders: list[HandIn | Change] = []
        self.is_polled = False
        self.silence = Silence(silence_s)
        self.plan: Plan | None = None
        self.n_batches = 0

    @property
    def n_open(self) -> int:
        """Prompts that it has."""
        return sum(len(chunk.open) for chunk in self.chunks.values())

    @property
    def is_ready(self) -> bool:
        """Whether it can be asked."""
        return self.place.state is State.READY

    def chunks_of(self, work: Work) -> list[int]:
        """Numbers of those of its chunks that are the work's."""
        return [number for number, chunk in self.chunks.items() if chunk.work is work]

    def look(self) -> None:
        """The actor may be another one than before."""
        if self.is_ready and self.generation != self.place.generation:
            self.generation = self.place.generation
            self.n_batches = 0
            self.is_polled = False

    def forget(self) -> list[Chunk]:
        """It is gone. Returns what it had."""
        chunks, self.chunks = list(self.chunks.values()), {}
        self.orders = []
        self.is_polled = False
        self.generation = -1
        return chunks


def together(plans: Sequence[Plan]) -> Plan | None:
    """The sizes of several KV caches together; None: there is none."""
    if not plans:
        return None
    return replace(
        plans[0],
        n_ctx=sum(plan.n_ctx for plan in plans),
        n_seq_max=sum(plan.n_seq_max for plan in plans),
        n_hold=sum(plan.n_hold for plan in plans),
        capacity=min(plan.capacity for plan in plans),
        n_ctx_seq=min(plan.n_ctx_seq for plan in plans),
        memory_bytes=sum(plan.memory_bytes for plan in plans),
    )


def warn_of(place: Place, what: str, error: BaseException) -> None:
    """Tells that the others go on without an actor. Nothing is raised."""
    with suppress(UserWarning):  # where warnings are errors
        warnings.warn(
            f"actor {place.number} on node {place.node[0]!r} {what}, the others go on: "
            f"{error}",
            stacklevel=2,
        )
