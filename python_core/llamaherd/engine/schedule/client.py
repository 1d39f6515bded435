"""Clients: requests with their state in the scheduler."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from heapq import heappush
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from llamaherd.engine.core.request import Request

    # Negated priority and number of a call, id of its client, its client.
    Claim: TypeAlias = tuple[float, int, int, "Client"]


_N_OUTDATED = 16  # outdated claims that are kept for each prefix


class State(Enum):
    """State of a client in the scheduler."""

    WAITING = auto()
    RUNNING = auto()
    PAUSED = auto()
    HELD = auto()
    ENDED = auto()


class Continued(NamedTuple):
    """Ended prompt whose first tokens another client continues."""

    client: Client
    n_tokens: int


@dataclass(slots=True, eq=False, kw_only=True)
class Client:
    """A request in the scheduler: a prompt, or a prefix that prompts share.

    Attributes:
        call: Number of the call of the client, or of the call that computes a prefix.
        index: Index of the prompt in its call; -1 for a prefix.
        parent: Prefix that the client continues; None if it starts from nothing.
        rank: Position in the order in which the clients of its call start.
        n_levels: Length of the longest chain of nested prefixes that starts with a
            prefix.
        dependents: Children that cannot start before a prefix is held, in order.
        claims: Heap of dependents, perhaps outdated: the first one belongs to the call
            that should compute the prefix.
        is_cached: Whether a prefix stays in the cache when no client needs it.
        continued: Ended prompt that this prompt continues, instead of a prefix.
        age: Number of clients admitted before this client; -1 until it is admitted.
        n_saved: Number of KV cells that the client had when it was paused.
    """

    id: int
    call: int
    request: Request
    index: int = -1
    parent: Client | None = None
    rank: int = 0
    n_levels: int = 0
    dependents: dict[Client, None] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)
    n_unsubmitted: int = 0
    is_cached: bool = True
    continued: Continued | None = None
    state: State = State.WAITING
    age: int = -1
    n_saved: int = 0

    def __post_init__(self) -> None:
        prefix: Client | None = self
        n_levels = int(self.is_prefix)
        while prefix is not None and prefix.n_levels < n_levels:
            prefix.n_levels = n_levels
            prefix, n_levels = prefix.parent, n_levels + 1

    @property
    def is_prefix(self) -> bool:
        """Whether the client is a prefix, from which other clients fork."""
        return self.request.max_tokens == 0

    @property
    def is_held(self) -> bool:
        """Whether the client is a prefix that is computed and held."""
        return self.state is State.HELD

    @property
    def priority(self) -> int:
        """Priority of the request."""
        return self.request.priority

    @property
    def n_tokens(self) -> int:
        """Number of tokens of the prompt."""
        return len(self.request.tokens)

    @property
    def depth(self) -> int:
        """Number of hold slots that it needs: its own, one for each ancestor not held."""
        prefix, depth = self, 1
        while prefix.state is not State.HELD and prefix.parent is not None:
            prefix = prefix.parent
            if prefix.state is State.ENDED:
                break
            depth += 1
        return depth

    def add_dependent(self, child: Client, priority: float) -> None:
        """Let a child wait for this prefix; `priority` is the priority of its call."""
        self.dependents[child] = None
        heappush(self.claims, (-priority, child.call, child.id, child))
        if len(self.claims) > 2 * len(self.dependents) + _N_OUTDATED:
            self._drop_outdated_claims()

    def _drop_outdated_claims(self) -> None:
        """Keep one claim for each dependent, the one of the highest priority."""
        valid = (c for c in self.claims if c[3] in self.dependents and c[3].call == c[1])
        by_id = {claim[2]: claim for claim in sorted(valid, reverse=True)}
        self.claims = sorted(by_id.values())  # a sorted list is a heap

    def take_dependents(self) -> dict[Client, None]:
        """Remove and return all dependents."""
        dependents, self.dependents, self.claims = self.dependents, {}, []
        return dependents

    def first_waiting(self) -> Client | None:
        """Return the first prompt that depends on the prefix, also through prefixes."""
        for child in self.dependents:
            prompt = child.first_waiting() if child.is_prefix else child
            if prompt is not None and prompt.state is State.WAITING:
                return prompt
        return None

    def source(self) -> tuple[Client | None, int]:
        """Return what a client continues, and the number of tokens to continue.

        It is an ended prompt, the longest held prefix, or None; after a pause, itself.
        """
        if self.continued is not None:
            return self.continued
        prefix = None if self.state is State.PAUSED else self.parent
        while prefix is not None and prefix.state is not State.HELD:
            prefix = prefix.parent
        return prefix, 0 if prefix is None else prefix.n_tokens
