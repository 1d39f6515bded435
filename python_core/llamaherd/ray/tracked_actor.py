"""State of an actor in the loop of the herd, and the link to the actor."""

from __future__ import annotations

import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from llamaherd.ray.member import ActorState, Death

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.memory.plan import Plan
    from llamaherd.ray.wire import Change, HandIn, Report
    from llamaherd.ray.work import Chunk


_AHEAD = 2.0  # number of prompts sent to an actor, as a multiple of its slots
_REFILL = 1.5  # an actor with fewer prompts than this multiple of its slots receives more
_MOST_S = 1.0  # time between checks; after a longer time, the process was suspended


class Silence:
    """Time without an answer from an actor, measured only while this process ran.

    Args:
        limit_s: Maximum silence, in seconds.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self.begin()

    def begin(self) -> None:
        """Record that a call to the actor begins."""
        self._past_s = 0.0
        self._looked_s = monotonic()

    def check(self) -> None:
        """Check the limit; call this about twice a second during a call to the actor.

        Raises:
            Death: The actor was silent for too long.
        """
        now_s = monotonic()
        self._past_s += min(now_s - self._looked_s, _MOST_S)
        self._looked_s = now_s
        if self._past_s > self._limit_s:
            raise Death(f"it was silent for {self._limit_s:g} s", is_crash=False)


class ActorLink(Protocol):
    """Protocol of a link to an actor; `Member` implements it."""

    number: int
    node: tuple[str, int]
    state: ActorState
    generation: int
    error: BaseException | None
    changed_s: float

    def order(
        self,
        generation: int,
        orders: Sequence[HandIn | Change],
        then: Callable[[BaseException | None], None],
    ) -> None:
        """Send orders in sequence; return at once.

        Args:
            generation: Actor for which they are; another one does not receive them.
            orders: Orders to send.
            then: Function called with None on arrival, or with an error.
        """

    def poll(
        self, generation: int, then: Callable[[Report, BaseException | None], None]
    ) -> None:
        """Request a report of this actor; call `then` with the report or an error."""

    def restart(self, generation: int) -> None:
        """Replace the actor of this generation, unless it has already been replaced."""


class Tracked:
    """State of an actor in the loop.

    Args:
        link: Link to the actor.
        silence_s: Maximum time without a report, in seconds.

    Attributes:
        link: Link to the actor.
        generation: Generation of the actor to which the attributes below belong; -1 if
            the actor is lost.
        chunks: Chunks on the actor, by number; changed only by the methods below.
        n_open: Number of prompts on the actor.
        n_suspects: Number of chunks of suspect requests on the actor.
        orders: Orders to send.
        is_polled: Whether a request for the actor's report is in progress.
        silence: Time since the start of this request.
        plan: Sizes of the actor's KV cache; None if unknown.
        n_batches: Number of batches that the actor has reported.
    """

    def __init__(self, link: ActorLink, silence_s: float) -> None:
        self.link = link
        self.generation = link.generation
        self.chunks: dict[int, Chunk] = {}
        self.n_open = 0
        self.n_suspects = 0
        self._n_open: Counter[int] = Counter()  # by priority
        self.orders: list[HandIn | Change] = []
        self.is_polled = False
        self.silence = Silence(silence_s)
        self.plan: Plan | None = None
        self.n_batches = 0

    @property
    def is_ready(self) -> bool:
        """Whether the actor can be called."""
        return self.link.state is ActorState.READY

    @property
    def was_replaced(self) -> bool:
        """Whether the attributes still belong to an actor that was replaced."""
        return self.is_ready and self.generation not in (-1, self.link.generation)

    def n_open_from(self, priority: int) -> int:
        """Return the number of prompts on the actor of at least this priority."""
        return sum(n for each, n in self._n_open.items() if each >= priority)

    def n_wanted(
        self, priority: int, n_waiting: int, suited: Sequence[Tracked], n_slots: int
    ) -> int:
        """Return how many of the waiting prompts to send to the actor now.

        Args:
            priority: Priority of the prompts.
            n_waiting: Number of waiting prompts that the actor may compute.
            suited: Actors that can compute them, including this one.
            n_slots: Number of slots of an actor whose plan is not known yet.
        """
        slots = n_slots if self.plan is None else self.plan.n_seq_max
        n_all = n_waiting + sum(actor.n_open for actor in suited)
        share = -(-n_all // len(suited))  # so that all finish at about the same time
        if priority <= 0:
            n = int(min(_AHEAD * slots, share)) - self.n_open
            return max(1, n) if self.n_open < min(_REFILL * slots, share) else 0
        # An urgent prompt is sent even if less urgent ones have all slots, and it never
        # waits for a share if a slot is free.
        limit = min(_REFILL * slots, max(share, slots))
        return 1 if self.n_open_from(priority) < limit else 0

    def add(self, chunk: Chunk) -> None:
        """Record a chunk that was sent to the actor."""
        self.chunks[chunk.number] = chunk
        self.n_suspects += chunk.is_suspect
        self._count(chunk, len(chunk.open))

    def answered(self, chunk: Chunk, index: int) -> None:
        """Record the output of a request of a chunk."""
        n_before = len(chunk.open)
        chunk.open.discard(chunk.indices[index])
        self._count(chunk, len(chunk.open) - n_before)

    def remove(self, number: int) -> Chunk | None:
        """Remove a chunk and return it; None if it is not there."""
        chunk = self.chunks.pop(number, None)
        if chunk is not None:
            self.n_suspects -= chunk.is_suspect
            self._count(chunk, -len(chunk.open))
        return chunk

    def _count(self, chunk: Chunk, n: int) -> None:
        self.n_open += n
        self._n_open[chunk.work.priority] += n
        if not self._n_open[chunk.work.priority]:
            del self._n_open[chunk.work.priority]

    def look(self) -> None:
        """Reset the state if the actor was replaced."""
        if self.is_ready and self.generation != self.link.generation:
            self.generation = self.link.generation
            self.n_batches = 0
            self.is_polled = False

    def forget(self) -> list[Chunk]:
        """Record the loss of the actor, and return its chunks."""
        chunks = list(self.chunks.values())
        for chunk in chunks:
            self.remove(chunk.number)
        self.orders = []
        self.is_polled = False
        self.generation = -1
        return chunks


def together(plans: Sequence[Plan]) -> Plan | None:
    """Add up the sizes of KV caches; None for an empty sequence."""
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


def warn_of(link: ActorLink, what: str, error: BaseException) -> None:
    """Warn that the herd continues without an actor.

    No exception leaves this function.
    """
    with suppress(Exception):  # warnings may be errors, or have a function that raises
        warnings.warn(
            f"actor {link.number} on node {link.node[0]!r} {what}; others continue: "
            f"{error}",
            stacklevel=2,
        )
