"""Where an actor is, as the loop of a herd sees it, and what the loop knows of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from llamaherd.ray.member import State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.memory.plan import Plan
    from llamaherd.ray.wire import ActorInfo, Change, HandIn, Report
    from llamaherd.ray.work import Chunk, Work


class Place(Protocol):
    """Where an actor is: a `Member`."""

    number: int
    state: State
    generation: int
    info: ActorInfo | None
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

    Attributes:
        place: It is.
        generation: Of the actor that all that follows is about; -1: there is none.
        chunks: Those that it has, by number.
        orders: To be sent.
        is_polled: Whether it was asked for what is new.
        plan: Sizes of its KV cache; None: it has told of none.
        n_batches: That it has told of.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.generation = place.generation
        self.chunks: dict[int, Chunk] = {}
        self.orders: list[HandIn | Change] = []
        self.is_polled = False
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
