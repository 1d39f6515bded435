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

    @property
    def is_idle(self) -> bool:
        """Whether there was nothing to do."""
        return self.status is Status.OK and not self.n_steps and not self.events


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a request took of the engine, times as its share of each batch's tokens.

    Attributes:
        n_prefill: Prompt tokens decoded.
        n_decode: Generated tokens decoded.
        n_draft: Generated tokens that had been drafted.
        n_pauses: Times that it was paused.
    """

    n_prefill: int = 0
    n_decode: int = 0
    n_draft: int = 0
    n_pauses: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            n_prefill=self.n_prefill + other.n_prefill,
            n_decode=self.n_decode + other.n_decode,
            n_draft=self.n_draft + other.n_draft,
            n_pauses=self.n_pauses + other.n_pauses,
            prefill_s=self.prefill_s + other.prefill_s,
            decode_s=self.decode_s + other.decode_s,
        )


NO_COST = Cost()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What became of a request so far.

    Attributes:
        text: The part that will not change any more.
        tokens: All tokens generated, without an end-of-generation token.
        n_reused: Prompt tokens that were forked from a held prefix.
        message: What went wrong, "" if nothing did.
        complete: Whether the answer came to its own end, see `Result`.
        is_rejected: Whether it failed without being run.
        cost: What it took.
        first_token_s: Seconds from its submission to its first token; 0: it has none.
        scores: float64[n_nodes], log-probabilities of its tree's tokens; None: no score.
        logprobs: float64[n_tokens], of the answer's tokens; None: not asked for.
        top_logprobs: For each token the most likely ones in its place, and the logarithms
            of their probabilities, the most likely first.
    """

    finish: Finish
    text: str = ""
    tokens: Sequence[int] = ()
    n_reused: int = 0
    seed: int = 0
    message: str = ""
    complete: bool = False
    is_rejected: bool = False
    cost: Cost = NO_COST
    first_token_s: float = 0.0
    scores: Sequence[float] | None = None
    logprobs: Sequence[float] | None = None
    top_logprobs: Sequence[dict[int, float]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What is new of an answer.

    Attributes:
        n_bytes: Bytes of text that there are now, UTF-8.
        n_tokens: Tokens that there are now.
    """

    text: str
    tokens: Sequence[int]
    n_bytes: int
    n_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the batches of a call were, or of all calls: `lh_stats`.

    Attributes:
        n_lost: Times that all recurrent states were lost, those of held prefixes too.
        n_cells_max: Most cells in use at once.
        n_clients: Sum over batches of the call's clients in the batch.
    """

    n_prefill: int = 0
    n_reused: int = 0
    n_decode: int = 0
    n_generated: int = 0
    n_draft: int = 0
    n_batches: int = 0
    n_failed_decodes: int = 0
    n_lost: int = 0
    n_pauses: int = 0
    n_cells_max: int = 0
    n_clients: int = 0
    t_prefill_s: float = 0.0
    t_decode_s: float = 0.0
    t_sample_s: float = 0.0
