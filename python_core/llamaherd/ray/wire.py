"""What goes between the caller's process and the actors: plain data, no code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.outcome import Counts, Output, Piece
    from llamaherd.core.request import Request
    from llamaherd.core.stats import RequestStats
    from llamaherd.memory.plan import Plan


Kind = Literal["give_up", "stop", "watch"]  # see `GroupLoop`


@dataclass(frozen=True, slots=True)
class Enforced:
    """A schema as far as the engine enforces it; answers are checked by the caller.

    Attributes:
        enforced: For llguidance.
    """

    enforced: str

    def read(self, answer: str) -> object:
        """Not here: actors never read answers, on purpose; see `Schema.read`.

        Raises:
            NotImplementedError: Always: an actor that comes here is wrong.
        """
        raise NotImplementedError(answer)


def for_wire(request: Request) -> Request:
    """A request without what an actor does not need, and without the caller's code."""
    shape = None if request.shape is None else Enforced(request.shape.enforced)
    return replace(request, shape=shape, text=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandIn:
    """Requests to run.

    Attributes:
        chunk: Their number, which outputs come back with.
        is_alone: See `Group`; as is the next one.
        n_on_node: Actors that share the memory of the node.
    """

    chunk: int
    requests: Sequence[Request]
    is_alone: bool = False
    is_watched: bool = False
    n_on_node: int = 1


@dataclass(frozen=True, slots=True)
class Change:
    """What is to become of requests that were handed in.

    Attributes:
        kind: What.
        chunk: Their number.
    """

    kind: Kind
    chunk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A chunk all of whose outputs were told.

    Attributes:
        error: What ended it before that; None: nothing.
        n_fallbacks: See `Group`.
    """

    chunk: int
    error: BaseException | None
    n_fallbacks: int


@dataclass(slots=True, kw_only=True)
class Report:
    """What is new of an actor.

    Attributes:
        outputs: Chunk, the request's place in it, its output, what it took.
        pieces: Chunk, what is new of its only answer.
        ended: Chunks that are over, all of whose outputs are above or came before.
        counts: What the batches of each chunk were so far.
        n_batches: Batches of the actor since it began.
        plan: The sizes of its KV cache; None before it has one.
    """

    outputs: list[tuple[int, int, Output, RequestStats]] = field(default_factory=list)
    pieces: list[tuple[int, Piece]] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    counts: dict[int, Counts] = field(default_factory=dict)
    n_batches: int = 0
    plan: Plan | None = None

    @property
    def is_news(self) -> bool:
        """Whether there is anything that somebody waits for."""
        return bool(self.outputs or self.pieces or self.ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorInfo:
    """An actor that is ready.

    Attributes:
        actor: Its number, from 0.
        node: Name of the machine.
        pid: Of its process there.
        n_threads: Threads that it computes with.
        cores: Processors that these run on; empty: wherever the system puts them.
        load_s: Seconds that it took to load the model.
        memory_bytes: Resident memory then; of a mapped file those pages that were read,
            which all actors of a machine share.
        processor: Kind of the processor.
        n_starts: Times that it was started.
    """

    actor: int
    node: str
    pid: int
    n_threads: int
    cores: tuple[int, ...]
    load_s: float
    memory_bytes: int
    processor: str
    n_starts: int = 1
