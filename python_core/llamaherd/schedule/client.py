"""A request and its life: what the scheduler moves around."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llamaherd.core.request import Request


class State(Enum):
    """Where a client is in its life."""

    WAITING = auto()
    RUNNING = auto()
    PAUSED = auto()
    HELD = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False, kw_only=True)
class Client:
    """A request on its way through the scheduler.

    Attributes:
        id: Unique among all of a context.
        call: Number of the call that it belongs to; of a prefix, that computes it.
        index: The prompt's place in its call; -1: a prefix.
        request: What the engine is given.
        parent: The prefix that it continues.
        place: Rank in which it may start, within its call.
        height: Of a prefix: levels of prefixes that continue it, itself included.
        waiting: Of a prefix: children that cannot start before it is held.
        n_unsubmitted: Of a prefix: children that have not been submitted.
        stays: Of a prefix: whether it may be held when nobody needs it.
        age: When it was admitted first, among all.
        n_saved: Cells that it had when it was paused.
    """

    id: int
    call: int
    request: Request
    index: int = -1
    parent: Client | None = None
    place: int = 0
    height: int = 0
    waiting: list[Client] = field(default_factory=list)
    n_unsubmitted: int = 0
    stays: bool = True
    state: State = State.WAITING
    age: int = -1
    n_saved: int = 0

    def __post_init__(self) -> None:
        prefix: Client | None = self
        height = int(self.is_prefix)
        while prefix is not None and prefix.height < height:
            prefix.height = height
            prefix, height = prefix.parent, height + 1

    @property
    def is_prefix(self) -> bool:
        """Whether it exists only to be forked from."""
        return self.request.max_tokens == 0

    @property
    def priority(self) -> int:
        """Of its request."""
        return self.request.priority

    @property
    def n_tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.tokens)

    @property
    def depth(self) -> int:
        """Of a prefix: number of prefixes on its path that are not gone, itself too."""
        prefix, depth = self.parent, 1
        while prefix is not None and prefix.state is not State.ENDED:
            prefix, depth = prefix.parent, depth + 1
        return depth

    def fork_source(self) -> Client | None:
        """The longest prefix it starts with that is held now."""
        prefix = self.parent
        while prefix is not None and prefix.state is not State.HELD:
            prefix = prefix.parent
        return prefix
