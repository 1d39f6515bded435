"""Order in which calls receive free slots, and which call computes a prefix they share.

Within a priority, calls are served round-robin.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush, heapreplace
from typing import TYPE_CHECKING

from llamaherd.engine.schedule.client import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llamaherd.engine.schedule.client import Client
    from llamaherd.engine.schedule.queue import Heap, Queue


# Negated priority, time of the last slot, number of the call.
_Turn = tuple[int, tuple[int, int], int]


class Turns:
    """Queues of all calls, served in turn.

    The next slot is assigned to a call of the highest priority: among these calls, the
    call that has waited longest since its last slot gets it. A new call is placed before
    all calls that received a slot at the current time, so it receives the next slot.
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
    """Decides which call computes a waiting prefix, its owner.

    The owner is the call that needed the prefix first. A waiting prefix moves to another
    call that needs it if its owner starts no more clients, or if the other call has a
    higher priority.

    Args:
        turns: Queues of all calls.
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

        Otherwise the client would wait until a call of lower priority gets a slot, or
        until a call ends that starts no more clients.
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
        """Return the call of the highest priority that needs a prefix, or None.

        Each outdated claim is looked at once, so that n calls that end one after the
        other are not looked at n times each.
        """
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
