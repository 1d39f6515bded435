"""Requests that a caller hands to the loop together, and what the loop tells of them."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from llamaherd.core.outcome import NO_COST, Counts
from llamaherd.core.stats import RequestStats

if TYPE_CHECKING:
    from collections.abc import Sequence
    from threading import Event

    from llamaherd.core.outcome import Cost, Output, Piece
    from llamaherd.core.request import Request
    from llamaherd.core.stats import ActorStats, Load
    from llamaherd.memory.plan import Plan
    from llamaherd.schedule.prefix_tree import PrefixTree


class Listener(Protocol):
    """Whoever handed requests in. Called by the loop's thread: must be quick."""

    def on_output(self, i: int, output: Output, stats: RequestStats) -> None:
        """Request i has ended."""

    def on_piece(self, piece: Piece) -> None:
        """The answer of a watched group's only request has grown."""

    def on_end(self, error: BaseException | None) -> None:
        """All have ended; with `error` not all of them have an output."""


class _Nobody:
    """Listens when all is over, so that a group does not keep its caller alive."""

    def on_output(self, i: int, output: Output, stats: RequestStats) -> None:
        """Nothing comes any more."""

    def on_piece(self, piece: Piece) -> None:
        """Nothing comes any more."""

    def on_end(self, error: BaseException | None) -> None:
        """Nothing comes any more."""


class Group:
    """Requests that share prefixes, statistics and an end: a call, or a single prompt.

    Args:
        requests: One or more.
        listener: Is told what becomes of them.
        tree: The prefixes that they share; None: not looked for yet.
        is_alone: Whether it is one of many that come one by one, so that what it has in
            common with those that came before is not computed again. What it is computed
            with then depends on them, to within rounding.
        is_watched: Whether the listener wants to see its only answer grow.
        is_counted: Whether `counts` is to be kept up to date while it runs.

    Attributes:
        is_cancelled: Whether it is to end.
        is_stopping: Whether nothing more of it is to start.
        is_over: Whether the listener was told of its end, or is at this moment.
        plan: Sizes of the context; None before it came in.
        counts: What its batches were so far.
        n_fallbacks: Its batches that were refused for what was in them.
        actors: What each process did for it, where there are several.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        listener: Listener,
        *,
        tree: PrefixTree | None = None,
        is_alone: bool = False,
        is_watched: bool = False,
        is_counted: bool = False,
    ) -> None:
        self.requests = requests
        self.listener: Listener = listener
        self.tree = tree
        self.is_alone = is_alone
        self.is_watched = is_watched
        self.is_counted = is_counted
        self.is_cancelled = False
        self.is_stopping = False
        self.is_over = False
        self.plan: Plan | None = None
        self.counts = Counts()
        self.n_fallbacks = 0
        self.actors: tuple[ActorStats, ...] = ()
        # The loop's own records.
        self.number = -1
        self.open = dict.fromkeys(range(len(requests)))
        self.n_running = 0  # in the engine, paused ones included
        self.n_read = (0, 0)  # bytes and tokens that the listener was told of
        self.came_s = perf_counter()
        self._started_s: dict[int, float] = {}
        self._charged: dict[int, Cost] = {}  # by request, for prefixes

    @property
    def needs(self) -> list[int]:
        """Cells that each request with its answer needs."""
        return [len(r.tokens) + r.max_tokens for r in self.requests]

    @property
    def may_draft(self) -> bool:
        """A single prompt gets the text that a plain loop would give it, row by row."""
        return len(self.requests) > 1

    def started(self, i: int, now_s: float) -> None:
        """Request i has a slot."""
        self._started_s[i] = now_s

    def charge(self, i: int, cost: Cost) -> None:
        """A prefix was computed for request i, and others perhaps."""
        self._charged[i] = self._charged.get(i, NO_COST) + cost

    def ended(self, i: int, output: Output, now_s: float) -> None:
        """Request i has an output."""
        cost = output.cost + self._charged.pop(i, NO_COST)
        started_s = self._started_s.pop(i, now_s)
        queue_s = started_s - self.came_s
        stats = RequestStats(
            queue_s=queue_s,
            first_token_s=queue_s + output.first_token_s if output.tokens else None,
            wall_s=now_s - self.came_s,
            prefill_s=cost.prefill_s,
            decode_s=cost.decode_s,
            n_prefill_tokens=cost.n_prefill,
            n_decode_tokens=cost.n_decode,
            n_draft_tokens=cost.n_draft,
            n_pauses=cost.n_pauses,
        )
        self.tell(i, output, stats)

    def tell(self, i: int, output: Output, stats: RequestStats) -> None:
        """Request i has an output, and this is what it took."""
        del self.open[i]
        self.listener.on_output(i, output, stats)

    def end(self, error: BaseException | None) -> None:
        """All have ended; see `Listener`."""
        self.is_over = True
        listener, self.listener = self.listener, _Nobody()
        listener.on_end(error)


class GroupLoop(Protocol):
    """What runs groups of requests, of any number of threads: `Loop`, or a herd's."""

    @property
    def plan(self) -> Plan | None:
        """The sizes of the KV cache that there is now."""
        ...

    @property
    def load(self) -> Load:
        """What runs and what waits at this moment."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can be handed in."""
        ...

    @property
    def is_dead(self) -> bool:
        """Whether its thread has ended without a word, for want of memory."""
        ...

    def hand_in(self, group: Group) -> None:
        """Has the requests of a group run. Its listener is told what becomes of them.

        Raises:
            ContextClosedError: It is closed.
            ForkError: This process was forked.
            RuntimeError: The interpreter is ending, or no thread can be started.
        """

    def give_up(self, group: Group) -> None:
        """Ends a group soon; what others run goes on."""

    def stop(self, group: Group) -> None:
        """Lets what runs of a group finish, and starts nothing new of it."""

    def watch(self, group: Group) -> None:
        """From now on the listener is told of what is new of a group's answer."""

    def wait_for(self, is_done: Event) -> None:
        """Waits for something that a listener sets.

        Raises:
            MemoryError: The thread has ended without a word.
            ForkError: This process was forked; the loop runs in its parent.
        """

    def settle(self) -> None:
        """Waits until the thread is gone if it has nothing to do."""

    def close(self) -> None:
        """Ends all groups, which get a ContextClosedError, and gives the memory back."""
