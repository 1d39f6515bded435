"""Input and output of the scheduler: limits of an engine, and actions for the engine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.schedule.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Capacity of an engine.

    Attributes:
        n_slots: Maximum number of prompts that run at once.
        n_hold: Maximum number of prefixes that run, are paused or are held at once.
            Prefixes use no slots of prompts.
        n_cells: Number of KV cells in a pool that all sequences share; None if each
            sequence has enough separate cells.
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

    Attributes:
        kind: Operation to carry out.
        client: Client to which the action applies.
        fork_from: For SUBMIT, id of the held prefix to fork from, or of the ended prompt
            to continue; None to start from nothing.
        n_fork: For SUBMIT, number of tokens of the ended prompt to continue.
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
