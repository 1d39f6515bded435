"""Output of an engine: finish reasons, pieces of text, outputs and counts of requests."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum, IntEnum, auto
from typing import TYPE_CHECKING, Literal, NamedTuple, Self, TypeVar

if TYPE_CHECKING:
    from array import array
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from _typeshed import DataclassInstance


PieceKind = Literal["thinking", "answer"]


class TokenLogprob(NamedTuple):
    """Generated token; see `Result.logprobs` and `Result.top_logprobs`."""

    token: int
    logprob: float
    top: dict[int, float]


class TextPiece(str):
    """Piece of the text of a thought or an answer.

    Attributes:
        kind: "thinking" for a part of the thought, "answer" for a part of the answer.
        n_tokens: Number of tokens of the answer up to this piece; 0 in a thought.
        logprobs: With `logprobs=k`, the tokens of the answer since the previous piece.
            The text of the last of these tokens may be held back, because it could
            become a part of a stop text. Tokens after the last piece are only in the
            result.
    """

    __slots__ = ("kind", "logprobs", "n_tokens")
    kind: PieceKind
    n_tokens: int
    logprobs: tuple[TokenLogprob, ...]

    def __new__(
        cls,
        text: str,
        kind: PieceKind = "answer",
        n_tokens: int = 0,
        logprobs: tuple[TokenLogprob, ...] = (),
    ) -> Self:
        """Make a piece of a text."""
        self = super().__new__(cls, text)
        self.kind = kind
        self.n_tokens = n_tokens
        self.logprobs = logprobs
        return self

    def __reduce__(
        self,
    ) -> tuple[type[TextPiece], tuple[str, PieceKind, int, tuple[TokenLogprob, ...]]]:
        return TextPiece, (str(self), self.kind, self.n_tokens, self.logprobs)


class PieceStream:
    """Pieces of a request, to iterate over in a thread or in asyncio."""

    def __init__(
        self,
        iterate: Callable[[], Iterator[TextPiece]],
        iterate_async: Callable[[], AsyncIterator[TextPiece]],
    ) -> None:
        self._iterate = iterate
        self._iterate_async = iterate_async

    def __iter__(self) -> Iterator[TextPiece]:
        return self._iterate()

    def __aiter__(self) -> AsyncIterator[TextPiece]:
        return self._iterate_async()


class Stripped:
    """Text that arrives in parts, without white space at its start and end."""

    def __init__(self) -> None:
        self._held = ""
        self._has_begun = False

    def add(self, text: str) -> str:
        """Add a part and return the new part of the stripped text."""
        whole = self._held + text
        if not self._has_begun:
            whole = whole.lstrip()
        new = whole.rstrip()
        self._held = whole[len(new) :]
        self._has_begun = self._has_begun or bool(new)
        return new


NO_KV_SLOT = 1  # code of llama_decode for a batch that does not fit at the moment


class Finish(IntEnum):
    """Reason for the end of a request: `lh_finish`."""

    NONE = 0
    EOG = 1
    STOP = 2
    LENGTH = 3
    CANCELLED = 4
    ERROR = 5


class Status(Enum):
    """Status of a run of steps."""

    OK = auto()
    REFUSED = auto()  # llama_decode refused the batch; no client advanced
    ABORTED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """Outcome of a run of steps; its events are ids of held and of ended requests."""

    status: Status
    events: tuple[int, ...] = ()
    n_steps: int = 0
    n_active: int = 0
    decode_code: int = 0
    message: str = ""

    @property
    def is_idle(self) -> bool:
        """Whether no request could take a step."""
        return self.status is Status.OK and not self.n_steps and not self.events


_Sums = TypeVar("_Sums", bound="DataclassInstance")


def sum_of(earlier: _Sums, later: _Sums, **others: object) -> _Sums:
    """Return an object with the sum of each field, except the fields in `others`."""
    names = (field.name for field in fields(earlier) if field.name not in others)
    sums = {name: getattr(earlier, name) + getattr(later, name) for name in names}
    return type(earlier)(**sums, **others)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of a request. Requests share the time of a batch in proportion to tokens."""

    n_prefill: int = 0
    n_decode: int = 0
    n_draft: int = 0
    n_pauses: int = 0
    prefill_s: float = 0.0
    decode_s: float = 0.0

    def __add__(self, later: Cost) -> Cost:
        return sum_of(self, later)


NO_COST = Cost()


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Output of a request so far.

    Attributes:
        text: Text that later tokens cannot change.
        n_reused: Number of prompt tokens forked from a held prefix.
        first_token_s: Seconds from its submission to its first token; 0 without a token.
        scores: float64[n_nodes], log-probabilities of its tree's tokens.
        n_prompt, n_generated: Numbers of tokens as an engine elsewhere counted them; None
            if the tokens are known.
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
    ranks: Sequence[int] | None = None
    thinking: str | None = None
    n_thinking_tokens: int = 0
    thinking_complete: bool | None = None
    n_prompt: int | None = None
    n_generated: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """Tokens of a request that has ended, whose KV cells it has kept.

    Attributes:
        tokens: int32[n], the prompt and its answer, usually without the last token.
        least: Fewest tokens to continue; n for cells that cannot be cut (recurrent
            states).
    """

    tokens: array[int]
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """New part of a thought or an answer.

    Attributes:
        n_bytes: Length of the thought or the answer so far, in bytes of UTF-8.
        n_tokens: Number of tokens of the answer so far; unused in a thought.
    """

    text: str
    tokens: Sequence[int]
    n_bytes: int
    n_tokens: int
    kind: PieceKind = "answer"
    logprobs: Sequence[float] | None = None
    top_logprobs: Sequence[dict[int, float]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of the batches of a call, or of all calls: `lh_stats`.

    Attributes:
        n_lost: Number of times that the recurrent states, held ones too, were lost.
        n_clients: Number of the call's sequences in each batch, summed over all batches.
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
    n_thinking: int = 0
    n_thoughts: int = 0
    n_thoughts_closed: int = 0
    t_prefill_s: float = 0.0
    t_decode_s: float = 0.0
    t_sample_s: float = 0.0

    def __add__(self, later: Counts) -> Counts:
        return sum_of(self, later)


CANCELLED = Output(finish=Finish.CANCELLED)
