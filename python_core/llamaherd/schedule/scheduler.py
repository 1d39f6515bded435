"""Which client runs when. Decisions only: the runner carries them out.

Prompts start in a depth-first order of the prefix tree, so that few prefixes are held at
once; of what shares nothing, the longest answers come first. Each prefix is a client of
its own; what continues it waits until it is held and forks from it. Admission is
optimistic: it looks at the cells that prompts take, not at those that answers may come to
take. When cells run out after all, the newest client is paused and comes back, before any
new one, when there is room. The oldest is never paused, so that there is always progress.

A prefix that nobody continues any more stays held, so that the next call can start from
it, until its place is needed. In one pool that is done only for the prefix that all
prompts share, and only until the cells are needed. It then lies at the beginning of the
pool in each call alike, and with it all that follows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum, auto
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from llamaherd.schedule.client import Client, State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llamaherd.schedule.client import Kept

HEADROOM = 16  # cells for each client's answer without which nobody new is admitted

_Heap = list[tuple[int, Client]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What there is to schedule on.

    Attributes:
        n_slots: Prompts that may run at once.
        n_hold: Prefixes that may be there at once, on top of the prompts.
        n_cells: KV cells that all share; None: each sequence has enough of its own.
        keeps: Whether prefixes may stay held for the next call.
    """

    n_slots: int
    n_hold: int
    n_cells: int | None
    keeps: bool = True


class Kind(Enum):
    """What to do with a client."""

    SUBMIT = auto()
    RESUME = auto()
    PAUSE = auto()
    RELEASE = auto()  # a held prefix
    FAIL = auto()  # it does not fit, even alone


@dataclass(frozen=True, slots=True)
class Action:
    """A decision. `fork_from`: id of the prefix that a submitted client starts from."""

    kind: Kind
    client: Client
    fork_from: int | None = None


class Scheduler:
    """Moves clients through their states.

    Args:
        clients: Prefixes and prompts, parents before children. No prefix may be deeper
            than `limits.n_hold`.
        limits: What there is to schedule on.
        kept: Held prefixes that none of the clients continues; kept up to date.
    """

    def __init__(
        self, clients: Iterable[Client], limits: Limits, kept: Kept | None = None
    ) -> None:
        self._limits = limits
        self._ready: _Heap = []  # by place
        self._ready_prefixes: list[_Heap] = [[] for _ in range(limits.n_hold + 1)]
        self._max_depth = 0
        self._paused: _Heap = []  # by age
        self._running: dict[int, Client] = {}
        self._held: dict[int, Client] = {}
        self._n_slots_used = 0
        self._kept: Kept = {} if kept is None else kept
        self._n_hold_used = len(self._kept)  # prefixes that run, are held, kept or paused
        self._n_admitted = 0
        self._n_open = 0  # prompts that have not ended
        self._is_admitting = True
        for client in clients:
            self._n_open += not client.is_prefix
            self._max_depth = max(self._max_depth, client.depth)
            if client.parent is None and client.state is State.WAITING:
                self._make_ready(client)
            if client.state is State.HELD:  # since an earlier call
                self._n_hold_used += 1
                self._held[client.id] = client
        for prefix in self._held.values():
            self._make_children_ready(prefix)

    # ---- what is there ----

    @property
    def is_done(self) -> bool:
        """Whether no prompt runs, or will."""
        if self._is_admitting:
            return self._n_open == 0
        return not any(not c.is_prefix for c in self._running.values()) and not any(
            not c.is_prefix for _, c in self._paused
        )

    @property
    def running_ids(self) -> list[int]:
        """Clients that take part in the next batch, oldest first."""
        return [client.id for client in self._by_age()]

    # ---- decisions ----

    def admit(self, n_cells_taken: int) -> list[Action]:
        """Decides who starts or comes back now, in this order.

        Args:
            n_cells_taken: Cells in use or about to be taken by prompts.
        """
        cells = self._limits.n_cells
        free = math.inf if cells is None else cells - n_cells_taken
        actions: list[Action] = []
        while cells is not None and self._n_admitted == 0 and self._kept:
            prefix = self._drop_oldest()
            actions.append(Action(Kind.RELEASE, prefix))
            free += prefix.n_tokens
        while self._paused:
            client = self._paused[0][1]
            need = max(client.n_saved, client.n_tokens)
            if not self._has_slot(client) or not self._fits(client, need, free):
                return actions
            heappop(self._paused)
            self._start(client)
            actions.append(Action(Kind.RESUME, client))
            free -= need
        while (client_heap := self._next()) is not None:
            client = client_heap[0][1]
            source = client.fork_source()
            need = client.n_tokens - (source.n_tokens if source else 0)
            if not self._fits(client, need, free):
                break
            heappop(client_heap)
            if client.is_prefix and self._n_hold_used == self._limits.n_hold:
                actions.append(Action(Kind.RELEASE, self._drop_oldest()))
            self._start(client)
            actions.append(Action(Kind.SUBMIT, client, source.id if source else None))
            actions += self._submitted(client)
            free -= need
        return actions

    def make_room(self) -> Action:
        """Decides who gives way when a batch found no KV cells."""
        clients = self._by_age()
        if self._kept:
            return Action(Kind.RELEASE, self._drop_oldest())
        if len(clients) > 1:
            return Action(Kind.PAUSE, clients[-1])
        if self._held:
            prefix = max(self._held.values(), key=lambda client: client.place)
            self._evict(prefix)
            return Action(Kind.RELEASE, prefix)
        return Action(Kind.FAIL, clients[0] if clients else self._paused[0][1])

    def stop_admitting(self) -> None:
        """Lets what runs finish, and starts nothing new."""
        self._is_admitting = False

    # ---- what happened ----

    def paused(self, client: Client, n_saved: int) -> None:
        """A client was paused, with so many cells."""
        self._stop(client)
        client.state = State.PAUSED
        client.n_saved = n_saved
        heappush(self._paused, (client.age, client))

    def held(self, prefix: Client) -> None:
        """A prefix is computed: what continues it may start."""
        del self._running[prefix.id]
        prefix.state = State.HELD
        self._held[prefix.id] = prefix
        self._make_children_ready(prefix)

    def ended(self, client: Client) -> None:
        """A client ended, well or not. What continues a failed prefix does without it."""
        if client.state is State.PAUSED:
            self._paused.remove((client.age, client))
        else:
            self._stop(client)
        client.state = State.ENDED
        if client.is_prefix:
            self._n_hold_used -= 1
            self._make_children_ready(client)
        else:
            self._n_open -= 1

    # ---- inside ----

    def _by_age(self) -> list[Client]:
        return sorted(self._running.values(), key=lambda client: client.age)

    def _has_slot(self, client: Client) -> bool:
        return client.is_prefix or self._n_slots_used < self._limits.n_slots

    def _fits(self, client: Client, need: int, free: float) -> bool:
        """Whether there is room; alone a client always tries."""
        if not self._running or math.isinf(free):
            return True
        answers = sum(min(HEADROOM, c.request.max_tokens) for c in self._running.values())
        headroom = answers + min(HEADROOM, client.request.max_tokens)
        return need + headroom <= free

    def _next(self) -> _Heap | None:
        """The heap whose head is the next client to start.

        A prefix of depth d may start if that leaves a place for each level below it: then
        the youngest prefix can always be continued, and no two wait for each other.
        """
        if not self._is_admitting or self._n_slots_used >= self._limits.n_slots:
            return None
        n_free = self._limits.n_hold - self._n_hold_used + len(self._kept)
        first = max(1, self._max_depth - n_free + 1)
        heaps = [self._ready, *self._ready_prefixes[first : self._max_depth + 1]]
        for heap in heaps:
            self._send_back(heap)
        return min((h for h in heaps if h), key=lambda h: h[0][0], default=None)

    def _send_back(self, heap: _Heap) -> None:
        """Takes clients off a heap's head whose prefix was evicted, to come again."""
        while heap:
            parent = heap[0][1].parent
            if parent is None or parent.state in (State.HELD, State.ENDED):
                return
            parent.waiting.append(heappop(heap)[1])

    def _start(self, client: Client) -> None:
        if client.age < 0:
            client.age = self._n_admitted
            self._n_admitted += 1
        if client.is_prefix:
            self._n_hold_used += client.state is State.WAITING
        else:
            self._n_slots_used += 1
        client.state = State.RUNNING
        self._running[client.id] = client

    def _stop(self, client: Client) -> None:
        del self._running[client.id]
        self._n_slots_used -= not client.is_prefix

    def _submitted(self, client: Client) -> list[Action]:
        """What the last client that continues a prefix has forked from it means."""
        parent = client.parent
        if parent is None:
            return []
        parent.n_unsubmitted -= 1
        if parent.n_unsubmitted > 0 or parent.state is not State.HELD:
            return []
        del self._held[parent.id]
        leaves: Client | None = parent
        if parent.depth == 1 and self._limits.keeps:
            leaves = self._kept.pop(parent.key, None)  # there was no place to use it
            self._kept[parent.key] = parent
        if leaves is None:
            return []
        leaves.state = State.ENDED
        self._n_hold_used -= 1
        return [Action(Kind.RELEASE, leaves)]

    def _drop_oldest(self) -> Client:
        """The kept prefix that was not used for the longest time gives its place up."""
        prefix = self._kept.pop(next(iter(self._kept)))
        prefix.state = State.ENDED
        self._n_hold_used -= 1
        return prefix

    def _evict(self, prefix: Client) -> None:
        """A held prefix gives its cells back and is computed again later."""
        del self._held[prefix.id]
        self._n_hold_used -= 1
        prefix.state = State.WAITING
        if prefix.parent is not None:
            prefix.parent.n_unsubmitted += 1
        self._make_ready(prefix)

    def _make_ready(self, client: Client) -> None:
        heap = self._ready_prefixes[client.depth] if client.is_prefix else self._ready
        heappush(heap, (client.place, client))

    def _make_children_ready(self, prefix: Client) -> None:
        for child in prefix.waiting:
            self._make_ready(child)
        prefix.waiting.clear()
