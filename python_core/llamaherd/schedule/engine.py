"""What the scheduler's side asks of an engine, native or fake."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.schedule.client import Request

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


class Engine(Protocol):
    """The step-level engine of llamaherd.h, as far as running requests needs it."""

    def submit(self, id_: int, request: Request, fork_from: int | None) -> None:
        """Takes a request in; `fork_from` is the id of a held prefix of it.

        Raises:
            ValueError: The request cannot be run, for example for a bad grammar.
        """

    def run(
        self,
        ids: Sequence[int] | None = None,
        *,
        max_steps: int = 0,
        max_time_ms: int = 0,
        draft: bool = False,
    ) -> RunOutcome:
        """Runs steps until something ended, a limit is reached or nothing is left.

        Args:
            ids: Run only these; None: all.
            max_steps: 0: no limit.
            max_time_ms: 0: no limit.
            draft: Whether answers that repeat themselves may take several tokens a step.
        """

    def pause(self, id_: int) -> int:
        """Moves a request's cells to host memory. Returns their number."""

    def resume(self, id_: int) -> None:
        """Brings a paused request back.

        Raises:
            NoSpaceError: There is no room for its cells.
        """

    def end(self, id_: int, finish: Finish, message: str) -> None:
        """Ends a request as `Finish.CANCELLED` or `Finish.ERROR`."""

    def get(self, id_: int) -> Output:
        """What became of a request so far."""

    def release(self, id_: int) -> None:
        """Forgets a request, ending it if it runs."""

    def reset(self) -> None:
        """Forgets every request."""

    def abort(self, *, on: bool) -> None:
        """Ends a running `run`, and those to come until called with on=False."""

    def n_cells_taken(self) -> int:
        """Cells in use, and those that prompts being prefilled have yet to take."""

    def restart_high_water(self) -> None:
        """Lets `Counts.n_cells_max` start anew."""

    def counts(self) -> Counts:
        """Counts since the engine was made."""
