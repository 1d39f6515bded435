"""A group on its way through a herd: what waits, what is out, what is suspect."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

from llamaherd.core.outcome import Counts, Finish, Output
from llamaherd.core.stats import ActorStats, RequestStats
from llamaherd.run.answers import CANCELLED
from llamaherd.schedule.pieces import Pieces
from llamaherd.schedule.shards import DepthFirst

if TYPE_CHECKING:
    from llamaherd.core.outcome import Piece
    from llamaherd.ray.wire import Ended
    from llamaherd.run.group import Group

_MOST_DEATHS = 2  # of actors that had a prompt alone


@dataclass(slots=True, kw_only=True, eq=False)
class Chunk:
    """Requests that an actor has.

    Attributes:
        number: Of its own.
        work: Of which they are.
        indices: Of the requests in their group.
        open: Those that have no output.
        is_suspect: Whether they were with an actor that died, and run by themselves now.
        has_arrived: Whether the actor has them: one that was dead before cannot have died
            of them.
        is_ended: Whether the actor is through with it.
    """

    number: int
    work: Work
    indices: list[int]
    open: set[int] = field(default_factory=set)
    is_suspect: bool = False
    has_arrived: bool = False
    is_ended: bool = False
    counts: Counts = field(default_factory=Counts)
    sent_s: float = 0.0


class Work:
    """A group, and what of it is where.

    Args:
        group: It is.
        n_actors: Among how many it will be divided.

    Attributes:
        group: It is.
        chunks: Those that are out, by number.
        suspects: Requests that were with actors that died, some at a time.
        priority: Of its requests.
        given_up_s: When it was cancelled; None: it was not.
        refusals: Why actors cannot do it, by their number.
    """

    def __init__(self, group: Group, n_actors: int) -> None:
        self.group = group
        self.chunks: dict[int, Chunk] = {}
        self.suspects: deque[list[int]] = deque()
        self.priority = max((r.priority for r in group.requests), default=0)
        self.given_up_s: float | None = None
        self.refusals: dict[int, BaseException] = {}
        self._again: deque[int] = deque()  # lost with a node, through nobody's fault
        self._n_deaths: Counter[int] = Counter()
        self._doubted: set[int] = set()  # with actors that died before they said a word
        self._done_counts: list[Counts] = []
        self._rows: dict[int, ActorStats] = {}
        self._n_seen_bytes = 0
        requests = group.requests
        self._pieces = Pieces(
            DepthFirst(
                [request.tokens for request in requests],
                [request.max_tokens for request in requests],
                order=group.tree.order if group.tree is not None else None,
            ),
            n_actors,
        )

    @property
    def n_waiting(self) -> int:
        """Requests that nobody has, suspects not among them."""
        return self._pieces.n_left + len(self._again)

    @property
    def is_stopped(self) -> bool:
        """Whether nothing more of it is to be handed out."""
        return self.group.is_cancelled or self.group.is_stopping

    def suits(self, actor: int) -> bool:
        """Whether an actor is to get more of it."""
        return not self.is_stopped and actor not in self.refusals

    @property
    def is_through(self) -> bool:
        """Whether nothing more will come of it."""
        if self.chunks:
            return False
        return self.is_stopped or not (self.n_waiting or self.suspects)

    # ---- out and back ----

    def take(self, actor: int, n: int) -> list[int]:
        """Up to n requests that an actor is to have."""
        if self._again:
            return [self._again.popleft() for _ in range(min(n, len(self._again)))]
        return self._pieces.take(actor, n)

    def sent(self, chunk: Chunk) -> None:
        """An actor gets some of them."""
        chunk.open = set(chunk.indices)
        chunk.sent_s = perf_counter()
        self.chunks[chunk.number] = chunk

    def answered(
        self, chunk: Chunk, place: int, output: Output, stats: RequestStats, actor: int
    ) -> None:
        """A request has ended."""
        i = chunk.indices[place]
        chunk.open.discard(i)
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
        self.group.tell(
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
        """The only answer has grown; what was told before an actor died is not again."""
        text = piece.text.encode()
        n_new = piece.n_bytes - self._n_seen_bytes
        if n_new <= 0:
            return
        self._n_seen_bytes = piece.n_bytes
        if n_new < len(text):
            piece = replace(piece, text=text[-n_new:].decode(errors="ignore"))
        self.group.listener.on_piece(piece)

    def ended(self, chunk: Chunk, what: Ended) -> None:
        """An actor is through with a chunk."""
        del self.chunks[chunk.number]
        self._done_counts.append(chunk.counts)
        self.group.n_fallbacks += what.n_fallbacks

    def lost(self, chunk: Chunk, reason: str, *, is_crash: bool, was_alone: bool) -> None:
        """The actor that had a chunk is gone.

        Args:
            chunk: It is.
            reason: Why.
            is_crash: Whether one of its requests may be to blame.
            was_alone: Whether the actor had nothing but the chunk.
        """
        del self.chunks[chunk.number]
        self._done_counts.append(chunk.counts)
        left = [i for i in chunk.indices if i in chunk.open and i in self.group.open]
        if not left:
            return
        if not chunk.has_arrived and not self._doubted.issuperset(left):
            # The actor may have been dead before. Twice it is no accident.
            self._doubted.update(left)
            is_crash = False
        if not is_crash:
            self._again.extend(left)
            return
        if len(left) > 1:
            half = len(left) // 2
            self.suspects.extend((left[:half], left[half:]))
            return
        self._n_deaths[left[0]] += was_alone
        if self._n_deaths[left[0]] < _MOST_DEATHS:
            self.suspects.append(left)
            return
        last = reason.strip().rpartition("\n")[2]
        message = f"the process that computed it died, twice, with it alone: {last}"
        self.group.tell(
            left[0], Output(finish=Finish.ERROR, message=message), RequestStats()
        )

    def cancel_rest(self) -> None:
        """What has no output yet will have none."""
        for i in list(self.group.open):
            self.group.tell(i, CANCELLED, RequestStats())

    # ---- numbers ----

    def _row(self, actor: int) -> ActorStats:
        return self._rows.get(actor) or ActorStats(actor=actor, node="")

    def batches(self, actor: int, n: int, n_slots: int, node: str) -> None:
        """An actor that has some of it decoded n batches."""
        row = self._row(actor)
        self._rows[actor] = replace(
            row,
            node=node,
            n_batches=row.n_batches + n,
            n_slots=max(row.n_slots, n_slots),
        )

    def died(self, actor: int) -> None:
        """An actor that had some of it is gone."""
        row = self._row(actor)
        self._rows[actor] = replace(row, n_deaths=row.n_deaths + 1)

    def count(self) -> None:
        """Brings the group's numbers up to date."""
        every = [*self._done_counts, *(chunk.counts for chunk in self.chunks.values())]
        if len(self._done_counts) > 1:
            self._done_counts = [_added(self._done_counts)]
        n_batches = sum(row.n_batches for row in self._rows.values())
        self.group.counts = replace(_added(every), n_batches=n_batches)
        self.group.actors = tuple(self._rows[actor] for actor in sorted(self._rows))


def _added(every: list[Counts]) -> Counts:
    """Of chunks that run at the same time on several actors."""

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
