"""State of a group in a herd: waiting, sent and suspect requests."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

from llamaherd.asks.answers import CANCELLED
from llamaherd.core.outcome import Counts, Finish, Output
from llamaherd.core.stats import ActorStats, RequestStats
from llamaherd.schedule.pieces import Pieces
from llamaherd.schedule.shards import DepthFirst

if TYPE_CHECKING:
    from llamaherd.core.outcome import Piece
    from llamaherd.loop.group import Group
    from llamaherd.ray.wire import Ended

_MOST_DEATHS = 2  # deaths of actors that ran only this prompt; then it fails
# Actors that were lost, for whatever reason, after the prompt was sent to them; then it
# fails. It counts if it never arrived, too: otherwise a prompt whose sending itself loses
# actors would be sent again and again.
_MOST_LOSSES = 20


@dataclass(slots=True, kw_only=True, eq=False)
class Chunk:
    """Requests that were sent to an actor together.

    Attributes:
        number: Number of the chunk.
        actor: Number of the actor.
        work: Group to which the requests belong.
        indices: Indices of the requests in the group.
        open: Indices, in the group, of the chunk's requests without an output.
        is_suspect: Whether the requests were on an actor that died. They now run
            without other requests, to find the cause.
        has_arrived: Whether the actor received the chunk. Otherwise the requests cannot
            have caused the actor's death.
    """

    number: int
    actor: int
    work: GroupWork
    indices: list[int]
    open: set[int] = field(default_factory=set)
    is_suspect: bool = False
    has_arrived: bool = False
    counts: Counts = field(default_factory=Counts)
    sent_s: float = 0.0


class GroupWork:
    """A group of requests, and the state of each request.

    Args:
        group: The group.
        n_actors: Number of actors that share the requests of the group.

    Attributes:
        group: The group.
        chunks: Chunks on actors, by number.
        suspects: Lists of requests that were on an actor that died.
        priority: Highest priority of the group's requests.
        given_up_s: Time of the group's cancellation; None if it was not cancelled.
        refusals: Errors of actors that cannot run the group, by number of the actor.
    """

    def __init__(self, group: Group, n_actors: int) -> None:
        self.group = group
        self.chunks: dict[int, Chunk] = {}
        self.suspects: deque[list[int]] = deque()
        self.priority = max((r.priority for r in group.requests), default=0)
        self.given_up_s: float | None = None
        self.refusals: dict[int, BaseException] = {}
        self._again: deque[int] = deque()  # not suspect, from lost nodes
        self._n_deaths: Counter[int] = Counter()
        self._n_losses: Counter[int] = Counter()
        self._doubted: set[int] = set()  # counts of actors that have not reported yet
        self._done_counts: list[Counts] = []
        self._rows: dict[int, ActorStats] = {}
        self._n_seen_bytes = {"thinking": 0, "answer": 0}
        requests = group.requests
        self._pieces = Pieces(
            DepthFirst(
                [request.tokens for request in requests],
                [request.n_behind for request in requests],
                order=group.tree.order if group.tree is not None else None,
            ),
            n_actors,
        )

    @property
    def n_waiting(self) -> int:
        """Number of requests that wait for an actor, without suspect requests."""
        return self._pieces.n_left + len(self._again)

    @property
    def is_stopped(self) -> bool:
        """Whether no more requests of the group will be sent."""
        return self.group.is_cancelled or self.group.is_stopping

    def suits(self, actor: int) -> bool:
        """Return True if an actor may receive more requests of the group."""
        return not self.is_stopped and actor not in self.refusals

    @property
    def is_through(self) -> bool:
        """Whether the group has finished."""
        if self.chunks:
            return False
        return self.is_stopped or not (self.n_waiting or self.suspects)

    # ---- requests and outputs ----

    def take(self, actor: int, n: int) -> list[int]:
        """Remove up to n waiting requests for an actor, and return their indices."""
        if self._again:
            return [self._again.popleft() for _ in range(min(n, len(self._again)))]
        return self._pieces.take(actor, n)

    def sent(self, chunk: Chunk) -> None:
        """Record a chunk that was sent to an actor."""
        chunk.open = set(chunk.indices)
        chunk.sent_s = perf_counter()
        self.chunks[chunk.number] = chunk

    def answered(
        self, chunk: Chunk, index: int, output: Output, stats: RequestStats, actor: int
    ) -> None:
        """Record the output of a request."""
        i = chunk.indices[index]
        if i not in self.group.open:
            return
        if output.finish is not Finish.CANCELLED:
            row = self._row(actor)
            self._rows[actor] = replace(
                row,
                n_done=row.n_done + 1,
                n_prefill_tokens=row.n_prefill_tokens + stats.n_prefill_tokens,
                n_decode_tokens=row.n_decode_tokens + stats.n_decode_tokens,
            )
        before_s = chunk.sent_s - self.group.came_s
        first_s = stats.first_token_s
        self.group.deliver(
            i,
            output,
            replace(
                stats,
                queue_s=before_s + stats.queue_s,
                first_token_s=None if first_s is None else before_s + first_s,
                wall_s=before_s + stats.wall_s,
            ),
        )

    def grown(self, piece: Piece) -> None:
        """Send the listener new text of the only request, without repetition.

        Log-probabilities may be repeated, and come without text while text is held back.
        """
        text = piece.text.encode()
        n_new = max(0, piece.n_bytes - self._n_seen_bytes[piece.kind])
        if n_new == 0 and not piece.logprobs:
            return
        self._n_seen_bytes[piece.kind] += n_new
        if n_new < len(text):
            new = text[len(text) - n_new :].decode(errors="ignore")
            piece = replace(piece, text=new)
        self.group.listener.on_piece(piece)

    def ended(self, chunk: Chunk, what: Ended) -> None:
        """Record that an actor has finished a chunk."""
        del self.chunks[chunk.number]
        self._done_counts.append(chunk.counts)
        self.group.n_fallbacks += what.n_fallbacks

    def lost(self, chunk: Chunk, reason: str, *, is_crash: bool, was_alone: bool) -> None:
        """Record that an actor was lost together with a chunk.

        Args:
            chunk: The chunk.
            reason: Reason for the loss.
            is_crash: Whether one of its requests may have caused the loss.
            was_alone: Whether the actor had no other chunk.
        """
        left = self._left_of(chunk)
        if not left:
            return
        if not chunk.has_arrived and not self._doubted.issuperset(left):
            # The actor may have died before the chunk arrived; only a second death is
            # counted.
            self._doubted.update(left)
            is_crash = False
        if not is_crash:
            self._n_losses.update(left)
            for i in left:
                if self._n_losses[i] < _MOST_LOSSES:
                    self._again.append(i)
                else:
                    lost = f"{_MOST_LOSSES} processes were lost after it was sent to them"
                    self._fail(i, lost, reason)
            return
        if len(left) > 1:
            half = len(left) // 2
            self.suspects.extend((left[:half], left[half:]))
            return
        self._n_deaths[left[0]] += was_alone
        if self._n_deaths[left[0]] < _MOST_DEATHS:
            self.suspects.append(left)
            return
        self._fail(
            left[0], "the process that computed only this prompt died twice", reason
        )

    def refused(self, chunk: Chunk) -> None:
        """Record that an actor cannot run a chunk; its requests wait for other actors."""
        self._again.extend(self._left_of(chunk))

    def _left_of(self, chunk: Chunk) -> list[int]:
        """Remove a chunk from its actor; return its requests without an output."""
        del self.chunks[chunk.number]
        self._done_counts.append(chunk.counts)
        return [i for i in chunk.indices if i in chunk.open and i in self.group.open]

    def _fail(self, i: int, what: str, reason: str) -> None:
        last = reason.strip().rpartition("\n")[2]
        output = Output(finish=Finish.ERROR, message=f"{what}: {last}")
        self.group.deliver(i, output, RequestStats())

    def cancel_rest(self) -> None:
        """Cancel the requests without an output."""
        for i in list(self.group.open):
            self.group.deliver(i, CANCELLED, RequestStats())

    # ---- counts ----

    def _row(self, actor: int) -> ActorStats:
        return self._rows.get(actor) or ActorStats(actor=actor, node="")

    def batches(self, actor: int, n: int, n_slots: int, node: str) -> None:
        """Add n batches to the count of an actor that has requests of the group."""
        row = self._row(actor)
        self._rows[actor] = replace(
            row,
            node=node,
            n_batches=row.n_batches + n,
            n_slots=max(row.n_slots, n_slots),
        )

    def died(self, actor: int) -> None:
        """Record the death of an actor that had requests of the group."""
        row = self._row(actor)
        self._rows[actor] = replace(row, n_deaths=row.n_deaths + 1)

    def count(self) -> None:
        """Update the counts of the group."""
        every = [*self._done_counts, *(chunk.counts for chunk in self.chunks.values())]
        if len(self._done_counts) > 1:
            self._done_counts = [_added(self._done_counts)]
        n_batches = sum(row.n_batches for row in self._rows.values())
        self.group.counts = replace(_added(every), n_batches=n_batches)
        self.group.actors = tuple(self._rows[actor] for actor in sorted(self._rows))


def _added(every: list[Counts]) -> Counts:
    """Return the sum of the counts of chunks that run at once on several actors."""

    def total(name: str) -> int:
        return sum(getattr(counts, name) for counts in every)

    return Counts(
        n_prefill=total("n_prefill"),
        n_reused=total("n_reused"),
        n_decode=total("n_decode"),
        n_generated=total("n_generated"),
        n_draft=total("n_draft"),
        n_pauses=total("n_pauses"),
        n_clients=total("n_clients"),
        n_cells_max=max((counts.n_cells_max for counts in every), default=0),
    )
