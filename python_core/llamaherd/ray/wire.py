"""Messages between the caller's process and the actors: data without code."""

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
class WireSchema:
    """Part of a schema that an actor's engine enforces. The caller parses answers.

    Attributes:
        enforced: Schema for llguidance.
        is_lark: Whether `enforced` is a Lark grammar instead of a JSON Schema.
    """

    enforced: str
    is_lark: bool = False

    def read(self, answer: str) -> object:
        """Raise an error, because only the caller parses answers; see `Schema.read`.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(answer)


def for_wire(request: Request) -> Request:
    """Return a request without code, and without fields that actors do not use."""
    own = request.shape
    shape = None if own is None else WireSchema(own.enforced, own.is_lark)
    return replace(request, shape=shape, text=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandIn:
    """Requests to run.

    Attributes:
        chunk: Number of the chunk, to which outputs refer.
        is_watched: See `Group`, also for `n_again`.
        n_on_node: Number of actors that share the memory of the node.
    """

    chunk: int
    requests: Sequence[Request]
    is_watched: bool = False
    n_again: int = 0
    n_on_node: int = 1


@dataclass(frozen=True, slots=True)
class Change:
    """Change of submitted requests.

    Attributes:
        kind: Kind of change.
        chunk: Number of the chunk.
    """

    kind: Kind
    chunk: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """End of a chunk, sent after all outputs of the chunk.

    Attributes:
        error: Error that ended the chunk early; None without an error.
        n_fallbacks: See `Group`.
    """

    chunk: int
    error: BaseException | None
    n_fallbacks: int


@dataclass(slots=True, kw_only=True)
class Report:
    """Report from an actor.

    Attributes:
        outputs: Tuples of chunk, index of the request in the chunk, output and
            statistics.
        pieces: Pairs of a chunk and the new text of its only answer.
        ended: Chunks that have ended. All their outputs are in this report or in
            earlier reports.
        counts: Counts of the batches of each chunk so far.
        n_batches: Number of batches of the actor since its start.
        plan: Sizes of the actor's KV cache; None before it exists.
    """

    outputs: list[tuple[int, int, Output, RequestStats]] = field(default_factory=list)
    pieces: list[tuple[int, Piece]] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    counts: dict[int, Counts] = field(default_factory=dict)
    n_batches: int = 0
    plan: Plan | None = None

    @property
    def is_news(self) -> bool:
        """Whether the report has outputs for a waiting caller."""
        return bool(self.outputs or self.pieces or self.ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorInfo:
    """Information about an actor that is ready.

    Attributes:
        actor: Number of the actor, from 0.
        node: Name of the machine.
        pid: Process id on that machine.
        n_threads: Number of threads with which the actor computes.
        cores: Processors to which the threads are pinned; empty if they are not pinned.
        load_s: Time to load the model, in seconds.
        memory_bytes: Resident memory after loading. For a mapped file, this includes
            the pages that were read, which all actors of a machine share.
        processor: Name of the processor.
        n_starts: Number of starts of the actor.
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
