"""Groups of requests that a caller submits together: prefix tree, listener."""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import accumulate
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

from llamaherd.engine.core.errors import Failure, code_of
from llamaherd.engine.core.keeping import copy_error
from llamaherd.engine.core.outcome import NO_COST, Cost, Counts, Finish, Output, Piece
from llamaherd.engine.core.request import Request, too_long
from llamaherd.engine.core.stats import ActorStats, RequestStats
from llamaherd.engine.memory.plan import MAX_DEPTH, Plan
from llamaherd.engine.native import shim
from llamaherd.engine.native.request import constraint_failure
from llamaherd.engine.schedule.prefixes import PrefixTree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.loop.threads import Worker


def find_prefixes(prompts: Sequence[array[int]], min_tokens: int) -> PrefixTree:
    """Find the prefixes that prompts share, in O(total log n)."""
    tokens = array("i")
    tokens.frombytes(b"".join(map(memoryview, prompts)))
    offsets = array("q", accumulate(map(len, prompts), initial=0))
    return PrefixTree(*shim.prefix_tree(tokens, offsets, min_tokens))


def call_tree(requests: Sequence[Request]) -> PrefixTree:
    """Return the prefix tree of a call, in which equal prompts share all their tokens."""
    if len(requests) == 1:
        return PrefixTree(order=[0], node_of=[-1], parent=[], length=[], prompt=[])
    least = least_tokens(requests)
    indices_of: dict[bytes, list[int]] = {}
    for i, request in enumerate(requests):
        indices_of.setdefault(request.tokens.tobytes(), []).append(i)
    prompts = [requests[equals[0]].tokens for equals in indices_of.values()]
    tree = find_prefixes(prompts, least)
    if len(prompts) == len(requests):
        return tree.limited(MAX_DEPTH)
    # If a whole prompt is held, the first token of each sample is drawn from the held
    # logits. Only the copies of its KV cells cost time.
    n_least = least if least > shim.min_prefix_tokens(0) else 1
    return tree.limited(MAX_DEPTH - 1).with_equals(
        list(indices_of.values()), [len(tokens) for tokens in prompts], n_least
    )


def least_tokens(requests: Sequence[Request]) -> int:
    """Return the minimum number of tokens that a prefix of a call adds to its parent."""
    return shim.min_prefix_tokens(max((r.n_cells for r in requests), default=0))


class Listener(Protocol):
    """Receiver of a group's outputs. The loop's thread calls it, so it must be fast."""

    def on_output(self, i: int, output: Output, stats: RequestStats) -> None:
        """Receive the output of request i after the request has ended."""

    def on_piece(self, piece: Piece) -> None:
        """Receive a new part of the answer of a watched group."""

    def on_end(self, error: BaseException | None) -> None:
        """Handle the end of the group. With `error`, some requests have no output."""


class _Nobody:
    """Listener that does nothing; set when a group ends, to free the group's listener."""

    def on_output(self, i: int, output: Output, stats: RequestStats) -> None:
        """Do nothing: the group is over."""

    def on_piece(self, piece: Piece) -> None:
        """Do nothing: the group is over."""

    def on_end(self, error: BaseException | None) -> None:
        """Do nothing: the group is over."""


class Group:
    """Requests of a call or a single prompt, with shared prefixes and statistics.

    Args:
        tree: Tree of the shared prefixes; None if the tree is not computed yet.
        n_again: For a single prompt, number of its first tokens whose cells are kept,
            because later prompts will share them.

    Attributes:
        is_alone: Whether the group has one prompt; the latest such prompts set the
            layout.
        is_stopping: Whether the remaining requests of the group must not start.
        is_over: Whether `on_end` of the listener was called, or is being called.
        needs: Number of KV cells of each request with its thought and answer.
        worker: Thread that received the group; None before `hand_in`. If it dies for lack
            of memory, a later thread answers the group only if it was still in the queue.
        plan: Plan of the context; None before the loop accepts the group.
        n_fallbacks: Number of the group's batches that were refused for their content.
    """

    def __init__(
        self,
        requests: Sequence[Request],
        listener: Listener,
        *,
        tree: PrefixTree | None = None,
        is_watched: bool = False,
        is_counted: bool = False,
        n_again: int = 0,
    ) -> None:
        self.requests = requests
        self.listener: Listener = listener
        self.tree = tree
        first = requests[0].tokens
        self.is_alone = all(request.tokens == first for request in requests)
        self.is_watched = is_watched
        self.is_counted = is_counted
        self.n_again = n_again
        self.is_cancelled = False
        self.is_stopping = False
        self.is_over = False
        self.needs: Sequence[int] = array("q", (request.n_cells for request in requests))
        self.worker: Worker | None = None
        self.plan: Plan | None = None
        self.counts = Counts()
        self.n_fallbacks = 0
        self.actors: tuple[ActorStats, ...] = ()
        # State of the loop.
        self.number = -1
        self.open = dict.fromkeys(range(len(requests)))
        self.n_running = 0  # requests in the engine, including paused ones
        self.n_thought_read = 0  # bytes of the thought that were sent
        self.n_read = (0, 0)  # bytes and tokens of the answer that were sent
        self.came_s = perf_counter()
        self._started_s: dict[int, float] = {}
        self._charged: dict[int, Cost] = {}  # cost of prefixes, by request

    @property
    def may_draft(self) -> bool:
        """Whether draft tokens may be used; False for a single prompt."""
        return len(self.requests) > 1

    def fitting(self, plan: Plan) -> list[int]:
        """Return the indices of requests that fit into a cache; fail the others."""
        n_now = min(plan.capacity, plan.n_ctx_seq - plan.n_spare)
        fitting = []
        for i, request in enumerate(self.requests):
            # The cache is not enlarged for a request that no cache of the context fits.
            capacity = plan.capacity if request.n_cells > plan.capacity else n_now
            problem = request.problem or too_long(
                request, capacity, "one prompt may have (see n_ctx)"
            )
            if problem:
                rejected = Output(finish=Finish.ERROR, message=problem, is_rejected=True)
                self.ended(i, rejected, perf_counter())
            else:
                fitting.append(i)
        return fitting

    def started(self, i: int, now_s: float) -> None:
        """Record that request i got a slot."""
        self._started_s[i] = now_s

    def charge(self, i: int, cost: Cost) -> None:
        """Charge request i with the cost of a prefix, which other requests may share."""
        self._charged[i] = self._charged.get(i, NO_COST) + cost

    def ended(self, i: int, output: Output, now_s: float) -> None:
        """Record the output of request i."""
        reason = output.message
        is_unnamed = isinstance(reason, Failure) and not reason.argument
        if is_unnamed and code_of(reason) == "constraint":
            named = constraint_failure(self.requests[i].sampling, reason)
            output = replace(output, message=named)
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
        self.deliver(i, output, stats)

    def deliver(self, i: int, output: Output, stats: RequestStats) -> None:
        """Pass the output and statistics of request i to the listener."""
        del self.open[i]
        self.listener.on_output(i, output, stats)

    def end(self, error: BaseException | None) -> None:
        """End the group, see `Listener`. The listener gets a copy of the error."""
        self.is_over = True
        listener, self.listener = self.listener, _Nobody()
        listener.on_end(None if error is None else copy_error(error))
