"""Waiting clients: the queue of each call, and the order in which calls receive slots.

Within a priority, calls are served round-robin. The call that needed a shared prefix
first computes it.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from llamaherd.engine.core.request import Request
from llamaherd.engine.schedule.client import Client, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from llamaherd.engine.schedule.prefixes import PrefixCache, PrefixTree


Heap = list[tuple[int, int, Client]]  # by rank, then by id

# Maximum number of prefixes of later calls that start before a prefix that needs several
# hold slots at once. The prefix is then skipped, and the next level is tried.
MOST_PASSED = 32


class Queue:
    """Clients of one call that may start, in their order.

    Attributes:
        turn: Time at which the call last received a slot, or else arrived; see `Turns`.
        is_listed: Whether the queue is in the heap of `Turns`.
        n_passed: Number of later calls' prefixes that started while one of this call
            lacked hold slots.
    """

    def __init__(
        self, call: int, clients: list[Client], *, is_single: bool = False
    ) -> None:
        self.call = call
        self.is_single = is_single
        self.clients = clients
        self.priority = max((c.priority for c in clients if not c.is_prefix), default=0)
        self.turn = (0, 0)
        self.is_listed = False
        self.is_admitting = True
        self.n_passed = 0
        self._prompts: Heap = []
        self._prefixes: dict[int, Heap] = {}  # heaps of prefixes, by number of levels
        self._ready: set[int] = set()  # ids of the clients in the heaps
        self._known: set[int] = {client.id for client in clients}

    @property
    def is_empty(self) -> bool:
        """Whether no client may start, even if more hold slots were free."""
        return not self._prompts and not any(self._prefixes.values())

    def adopt(self, prefix: Client) -> None:
        """Take over a prefix that another call was to compute."""
        prefix.call = self.call
        if prefix.id not in self._known:
            self._known.add(prefix.id)
            self.clients.append(prefix)

    def push(self, client: Client) -> None:
        """Add a client whose parent is held, or that has no parent."""
        if client.id in self._ready:
            return  # another call had taken the prefix over
        self._ready.add(client.id)
        item = (client.rank, client.id, client)
        if client.is_prefix:
            heappush(self._prefixes.setdefault(client.n_levels, []), item)
        else:
            heappush(self._prompts, item)

    def pop(self, heap: Heap) -> Client:
        """Remove and return the first client of one of the queue's heaps."""
        client = heappop(heap)[2]
        self._ready.discard(client.id)
        return client

    def head(self, n_free: float, n_hold: float) -> Heap:
        """Return the heap whose first client starts next; [] if no client can start.

        A prefix with d levels starts only when d hold slots are free, one per nested
        prefix. Otherwise two prefixes could each hold a slot that the other needs
        (deadlock). Prefixes that can never start, or that many later calls have passed,
        are skipped by the caller.
        """
        for n_levels, heap in list(self._prefixes.items()):
            self._send_back(heap)
            while heap and heap[0][2].n_levels != n_levels:  # it was extended
                self.push(self.pop(heap))
                self._send_back(heap)
        self._send_back(self._prompts)
        heaps = [self._prompts]
        is_late = n_free > 0 and self.n_passed >= MOST_PASSED
        heaps += [
            heap
            for depth, heap in self._prefixes.items()
            if depth <= n_free or depth > n_hold or is_late
        ]
        return min((h for h in heaps if h), key=lambda h: h[0][:2], default=[])

    def _send_back(self, heap: Heap) -> None:
        """Remove the clients at the top of a heap that cannot start.

        One whose prefix was evicted waits for it again; a prefix that no client needs, or
        that another call computes, is dropped.
        """
        while heap:
            client = heap[0][2]
            parent = client.parent
            if client.state is not State.WAITING or client.call != self.call:
                self.pop(heap)
            elif parent is None or parent.state in (State.HELD, State.ENDED):
                return
            else:
                parent.add_dependent(self.pop(heap), self.priority)


def make_clients(
    requests: Sequence[Request],
    indices: Sequence[int],
    tree: PrefixTree,
    cache: PrefixCache,
    ids: Iterator[int],
    *,
    call: int,
    max_cached_depth: int,
) -> list[Client]:
    """Create the clients of requests and their prefixes, each prefix before its children.

    Prefixes in the cache are used, new ones inserted. Groups without a common prefix are
    ordered by their longest answer, longest first: none runs alone at the end.
    """
    clients: list[Client] = []
    prefixes: list[Client] = []
    depths = tree.depth

    def add(client: Client) -> None:
        clients.append(client)
        if client.parent is not None:
            client.parent.n_unsubmitted += 1
            cache.use(client.parent)

    for i in tree.order:
        request = requests[i]
        # Nodes are numbered depth-first as well: create the nodes that start at this
        # prompt.
        while len(prefixes) <= tree.node_of[i]:
            k = len(prefixes)
            parent = prefixes[tree.parent[k]] if tree.parent[k] >= 0 else None
            of = requests[tree.prompt[k]].tokens
            tokens, is_whole = of[: tree.length[k]], tree.length[k] == len(of)
            prefix = cache.find(tokens, is_whole=is_whole)
            if prefix is None:
                prefix = Client(
                    id=next(ids),
                    call=call,
                    request=Request(
                        tokens=tokens,
                        max_tokens=0,
                        priority=request.priority,
                        is_whole=is_whole,
                    ),
                    parent=parent,
                    is_cached=depths[k] <= max_cached_depth,
                )
                cache.insert(prefix)
                add(prefix)
            prefixes.append(prefix)
        node = tree.node_of[i]
        parent = prefixes[node] if node >= 0 else None
        add(
            Client(
                id=next(ids), call=call, index=indices[i], request=request, parent=parent
            )
        )
    return _longest_first(clients)


def _longest_first(clients: Sequence[Client]) -> list[Client]:
    """Set `rank` in depth-first order; roots with the longest answers come first."""
    new = {client.id for client in clients}
    groups: list[list[Client]] = []
    for client in clients:
        if client.parent is None or client.parent.id not in new:
            groups.append([])
        groups[-1].append(client)
    groups.sort(key=lambda group: max(c.request.n_behind for c in group), reverse=True)
    ordered = [client for group in groups for client in group]
    for rank, client in enumerate(ordered):
        client.rank = rank
    return ordered


# Negated priority, time of the last slot, number of the call.
_Turn = tuple[int, tuple[int, int], int]


class Turns:
    """Queues of all calls, served in turn.

    The next slot is assigned to a call of the highest priority, which has waited longest
    since its last slot; a new call comes before all calls that have had one by now.
    """

    def __init__(self) -> None:
        self._queues: dict[int, Queue] = {}  # by call
        self._turns: list[_Turn] = []  # heap of the calls with clients that may start
        self._clock = 0  # number of slots assigned so far
        self._passed: list[Queue] = []  # queues without enough hold slots in `next`

    def __contains__(self, call: int) -> bool:
        return call in self._queues

    def __getitem__(self, call: int) -> Queue:
        return self._queues[call]

    @property
    def queues(self) -> Iterable[Queue]:
        """All queues."""
        return self._queues.values()

    @property
    def has_any(self) -> bool:
        """Whether any call may have a client to start."""
        return bool(self._turns)

    def may_start(self, call: int) -> bool:
        """Whether clients of a call may still start."""
        return call in self._queues and self._queues[call].is_admitting

    def priority_of(self, call: int) -> float:
        """Return the priority of a call; minus infinity if it may start no client."""
        return self._queues[call].priority if self.may_start(call) else -math.inf

    def add(self, queue: Queue) -> None:
        """Add the queue of a new call."""
        queue.turn = (self._clock, 0)  # before calls with a slot at this time
        self._queues[queue.call] = queue

    def remove(self, call: int) -> Queue | None:
        """Remove the queue of a call and return it; None if the call has no queue."""
        return self._queues.pop(call, None)

    def make_ready(self, client: Client) -> None:
        """Allow a client to start when it is its call's turn."""
        queue = self._queues[client.call]
        queue.push(client)
        self._list(queue)

    def next(self, n_free: float, n_hold: float = math.inf) -> Heap:
        """Return the heap of the next call that has a client to start."""
        self._passed.clear()
        cannot_now: list[_Turn] = []
        heap: Heap = []
        while self._turns and not heap:
            _, turn, call = self._turns[0]
            queue = self._queues.get(call)
            if queue is None or not queue.is_admitting or queue.turn != turn:
                heappop(self._turns)  # an outdated entry of the heap
                continue
            heap = queue.head(n_free, n_hold)
            if queue.is_empty:
                heappop(self._turns)
                queue.is_listed = False
            elif not heap:
                cannot_now.append(heappop(self._turns))
                self._passed.append(queue)
        for passed in cannot_now:
            heappush(self._turns, passed)
        return heap

    def had_slot(self, call: int) -> None:
        """Record that a call received a slot; move it behind all other calls."""
        self._clock += 1
        queue = self._queues[call]
        queue.turn = (self._clock, 1)
        queue.is_listed = False
        self._list(queue)

    def had_hold_slot(self, call: int) -> None:
        """Record that a prefix started before the prefixes of earlier calls."""
        self._queues[call].n_passed = 0
        for queue in self._passed:
            queue.n_passed += 1

    def _list(self, queue: Queue) -> None:
        if not queue.is_listed and not queue.is_empty:
            queue.is_listed = True
            heappush(self._turns, (-queue.priority, queue.turn, queue.call))


class PrefixOwners:
    """Decides which call computes a waiting prefix, its owner: the first that needed it.

    A waiting prefix moves to another call that needs it if its owner starts no more
    clients, or if the other call has a higher priority.
    """

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def await_prefix(self, client: Client) -> None:
        """Make a client ready, or let it wait for its prefix; see `_is_settled`."""
        parent = client.parent
        if parent is None or _is_settled(parent):
            self._turns.make_ready(client)
        else:
            parent.add_dependent(client, self._turns.priority_of(client.call))

    def send_to_wait(self, prefix: Client) -> None:
        """Make a lost prefix wait, in the queue of a call that may still start it."""
        if self._turns.priority_of(prefix.call) >= prefix.priority:
            self.await_prefix(prefix)
        else:
            self._hand_over(prefix)

    def take_over(self, client: Client, queue: Queue) -> None:
        """Move the waiting prefixes of a client to its call if that has priority.

        Otherwise it would wait for a call of lower priority, or one that starts no
        clients.
        """
        prefix = client.parent
        while prefix is not None:
            is_waiting = prefix.state is State.WAITING and prefix.call != queue.call
            if is_waiting and self._turns.priority_of(prefix.call) < queue.priority:
                queue.adopt(prefix)
                self._await_parent(prefix)
            prefix = prefix.parent

    def leave_to_others(self, prefix: Client, call: int) -> None:
        """Let another call compute a waiting prefix of a call that starts no clients."""
        is_waiting = prefix.is_prefix and prefix.state is State.WAITING
        if is_waiting and prefix.call == call:
            self._hand_over(prefix)

    def _hand_over(self, prefix: Client) -> None:
        """Move a prefix to the call of the highest priority that needs the prefix."""
        if not prefix.dependents:  # its children became ready before the prefix was lost
            self._find_dependents(prefix)
        call = self._first_claim(prefix)
        if call is None:  # it is moved when its children, which are prefixes, are moved
            return
        self._turns[call].adopt(prefix)
        self._await_parent(prefix)

    def _find_dependents(self, prefix: Client) -> None:
        """Record all clients that wait for a prefix; looks at all clients."""
        for queue in self._turns.queues:
            for client in queue.clients:
                if client.parent is prefix and client.state is State.WAITING:
                    priority = self._turns.priority_of(client.call)
                    prefix.add_dependent(client, priority)

    def _first_claim(self, prefix: Client) -> int | None:
        """Return the call of highest priority that needs a prefix; drop old claims."""
        while prefix.claims:
            before, call, _, client = prefix.claims[0]
            key = -self._turns.priority_of(call)
            is_there = client in prefix.dependents and client.call == call
            if not is_there or call not in self._turns:
                heappop(prefix.claims)
            elif key != before:  # the call starts no more clients
                heapreplace(prefix.claims, (key, call, client.id, client))
            else:
                return call
        return None

    def _await_parent(self, prefix: Client) -> None:
        """Make a moved prefix ready, or let it wait for its parent, moved if needed."""
        parent = prefix.parent
        if parent is None or _is_settled(parent):
            self._turns.make_ready(prefix)
            return
        parent.add_dependent(prefix, self._turns.priority_of(prefix.call))
        if parent.state is State.WAITING and not self._turns.may_start(parent.call):
            self._hand_over(parent)


def _is_settled(prefix: Client) -> bool:
    """Return whether a prefix's children may start: it is held, or never will be."""
    return prefix.state in (State.HELD, State.ENDED)
