"""What the scheduler is told of an engine, and what it decides."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llamaherd.schedule.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What there is to schedule on.

    Attributes:
        n_slots: Prompts that may run at once.
        n_hold: Prefixes that may be there at once, on top of the prompts.
        n_cells: KV cells that all share; None: each sequence has enough of its own.
    """

    n_slots: int
    n_hold: int
    n_cells: int | None


class Kind(Enum):
    """What to do with a client."""

    SUBMIT = auto()
    RESUME = auto()
    PAUSE = auto()
    RELEASE = auto()  # a held prefix
    FAIL = auto()  # it does not fit, even alone


@dataclass(frozen=True, slots=True)
class Action:
    """A decision. `fork_from`: id of the prefix that a submitted client starts from."""

    kind: Kind
    client: Client
    fork_from: int | None = None
