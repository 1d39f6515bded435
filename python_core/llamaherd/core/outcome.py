"""What an engine says of requests: how they end, what became of them, its counts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_KV_SLOT = 1  # llama_decode's code for "no room for this batch now"


class Finish(IntEnum):
    """Why a request ended: `lh_finish`."""

    NONE = 0
    EOG = 1
    STOP = 2
    LENGTH = 3
    CANCELLED = 4
    ERROR = 5


class Status(Enum):
    """How a run of steps ended."""

    OK = auto()
    REFUSED = auto()  # llama_decode took the batch not; no client advanced
    ABORTED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """What a run of steps did.

    Attributes:
        events: Ids of the requests that were held, finished or failed.
        n_steps: Batches decoded.
        n_active: Requests that could still take a step.
        decode_code: After `Status.REFUSED`: what llama_decode returned.
        message: After `Status.REFUSED`: the reason.
    """

    status: Status
    events: tuple[int, ...] = ()
    n_steps: int = 0
    n_active: int = 0
    decode_code: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What became of a request so far.

    Attributes:
        text: The part that will not change any more.
        tokens: All tokens generated, without an end-of-generation token.
        n_reused: Prompt tokens that were forked from a held prefix.
        message: What went wrong, "" if nothing did.
        complete: Whether the answer came to its own end, see `Result`.
    """

    finish: Finish
    text: str = ""
    tokens: Sequence[int] = ()
    n_reused: int = 0
    seed: int = 0
    message: str = ""
    complete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts since the engine was made: `lh_stats`. Calls take differences.

    Attributes:
        n_lost: Times that all recurrent states were lost, those of held prefixes too.
        n_cells_max: High-water mark since `restart_high_water`.
        n_clients: Sum over batches of the clients in the batch.
    """

    n_prefill: int = 0
    n_reused: int = 0
    n_decode: int = 0
    n_generated: int = 0
    n_guessed: int = 0
    n_batches: int = 0
    n_failed_decodes: int = 0
    n_lost: int = 0
    n_pauses: int = 0
    n_cells_max: int = 0
    n_clients: int = 0
    t_prefill_s: float = 0.0
    t_decode_s: float = 0.0
    t_sample_s: float = 0.0
