"""Engine of the scheduler: its limits, the actions that it carries out, its protocol.

The native engine and a fake in tests implement the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from llamaherd.engine.core.outcome import (
    NO_KV_SLOT,
    Counts,
    Finish,
    Kept,
    Output,
    Piece,
    RunOutcome,
    Status,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.request import Request
    from llamaherd.engine.schedule.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Capacity of an engine.

    Attributes:
        n_hold: Maximum number of prefixes that run, are paused or are held at once, in
            slots of their own.
        n_cells: Number of KV cells in a pool; None if each sequence has enough of its
            own.
    """

    n_slots: int
    n_hold: int
    n_cells: int | None


class Kind(Enum):
    """Operation that an action requests."""

    SUBMIT = auto()
    RESUME = auto()
    PAUSE = auto()
    RAISE = auto()  # the priority of a running or paused prefix, to that of its request
    RELEASE = auto()  # a held prefix, or an ended prompt that kept its cells
    FAIL = auto()  # the client does not fit into the cache, even if it runs alone


@dataclass(frozen=True, slots=True)
class Action:
    """A decision about a client.

    For SUBMIT: id of the held prefix or ended prompt to continue, and number of tokens of
    the ended prompt.
    """

    kind: Kind
    client: Client
    fork_from: int | None = None
    n_fork: int = 0


_ORDER = {Kind.PAUSE: 0, Kind.RESUME: 1}


def in_order(actions: Sequence[Action]) -> list[Action]:
    """Return actions in an order that loses no saved state in a cache with streams.

    A fork from a prefix into another stream is a copy that is pending until the next
    batch, and meanwhile no state can be saved or restored. In a pool no copy is pending,
    and a client may resume only after others have released their cells.
    """
    return sorted(actions, key=lambda action: _ORDER.get(action.kind, len(_ORDER)))


class Engine(Protocol):
    """Step-level engine of llamaherd.h: the functions that run requests."""

    @property
    def n_ctx(self) -> int:
        """Total number of KV cells."""
        ...

    @property
    def n_ctx_seq(self) -> int:
        """Maximum number of KV cells of one sequence."""
        ...

    def submit(
        self,
        id_: int,
        request: Request,
        fork_from: int | None,
        *,
        n_fork: int = 0,
        keep: bool = False,
        call: int = 0,
        may_draft: bool = False,
        is_watched: bool = False,
    ) -> None:
        """Submit a request.

        Args:
            fork_from: Id of a held prefix, which may equal the tokens of the request if
                it is a whole prompt, or of an ended request that has kept its cells, see
                `kept`.
            n_fork: Number of tokens of the ended request that are not computed again.
            keep: Whether a request that ends by itself keeps its cells until `release`.
            call: Id of the call whose counts include the request, see `counts`.
            is_watched: Whether the first generated token of the request is an event.
        """

    def run(
        self,
        ids: Sequence[int] | None = None,
        *,
        max_steps: int = 0,
        max_time_ms: int = 0,
    ) -> RunOutcome:
        """Run steps until an event, a limit or the end of all requests."""

    def wake(self) -> None:
        """Make the current or the next call of `run` return after a step. Thread-safe."""

    def pause(self, id_: int) -> int:
        """Move a request's KV cells to host memory; return the number of cells."""

    def resume(self, id_: int) -> None:
        """Move the KV cells of a paused request back; may raise NoSpaceError."""

    def set_priority(self, id_: int, priority: int) -> None:
        """Change the priority of a request that runs or is paused."""

    def end(self, id_: int, finish: Finish, message: str) -> None:
        """End a request as `Finish.CANCELLED` or `Finish.ERROR`."""

    def get(self, id_: int) -> Output:
        """Return the output of a request so far."""

    def kept(self, id_: int) -> Kept | None:
        """Return the tokens of an ended request whose cells are kept, or None."""

    def read(self, id_: int, n_bytes: int, n_tokens: int) -> Piece:
        """Return the part of an answer after `n_bytes` bytes and `n_tokens` tokens."""

    def read_logprobs(
        self, id_: int, n_tokens: int
    ) -> tuple[list[float], list[dict[int, float]]]:
        """Return log-probabilities after `n_tokens` tokens, and of their alternatives."""

    def read_thought(self, id_: int, n_bytes: int) -> Piece:
        """Return the part of a thought after `n_bytes` bytes of text."""

    def release(self, id_: int) -> None:
        """Remove a request; end it first if it runs."""

    def reset(self) -> None:
        """Remove all requests."""

    def resize(self, n_ctx: int, n_seq_max: int, kv_layout: str) -> None:
        """Replace the KV cache by one of another size. All requests must be paused."""

    def close(self) -> None:
        """Free all memory. Only `abort` and `wake` may be called afterwards."""

    def abort(self, *, on: bool) -> None:
        """Abort the current and all later calls of `run`, until on=False."""

    def n_cells_taken(self) -> int:
        """Return the number of cells in use, or reserved for prompts in prefill."""

    def times(self, id_: int) -> tuple[float, float]:
        """Return a request's share of the time of batches, for prompt and answer."""

    def counts(self, call: int | None = None) -> Counts:
        """Return the counts of one call, or of all calls since the engine was created."""

    def forget(self, call: int) -> None:
        """Remove the counts of a call."""


def isolate(engine: Engine, ids: Sequence[int]) -> list[int]:
    """End the clients whose batches libllama refuses; return ids of ended or held ones.

    The group is halved until each refused part has one client: k guilty clients among n
    cost O(k log n) batches. Every other client runs one step. A client is ended only
    when a batch with it alone is refused again, so no transient failure ends a client.
    """
    events: list[int] = []
    middle = len(ids) // 2
    for part in filter(None, (ids[:middle], ids[middle:])):
        outcome = engine.run(part, max_steps=1)
        if not is_guilty(outcome):
            events += outcome.events
        elif len(part) == 1:
            engine.end(part[0], Finish.ERROR, outcome.message)
            events += part
        else:
            events += isolate(engine, part)
    return events


def is_guilty(outcome: RunOutcome) -> bool:
    """Return whether the content of a batch, not a lack of KV cells, was refused."""
    return outcome.status is Status.REFUSED and outcome.decode_code != NO_KV_SLOT
