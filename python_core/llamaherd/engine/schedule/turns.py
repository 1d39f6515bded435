"""Order in which calls receive free slots: round-robin within a priority."""

from __future__ import annotations

import math
from heapq import heappop, heappush
from typing import TYPE_CHECKING

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
        """Return the heap of the next call that has a client to start.

        Args:
            n_free: Number of hold slots that are free or can be freed.
            n_hold: Number of all hold slots.
        """
        self._passed.clear()
        cannot_now: list[_Turn] = []
        found: Heap = []
        while self._turns and not found:
            _, turn, call = self._turns[0]
            queue = self._queues.get(call)
            if queue is None or not queue.is_admitting or queue.turn != turn:
                heappop(self._turns)  # an outdated entry of the heap
                continue
            found = queue.head(n_free, n_hold)
            if queue.is_empty:
                heappop(self._turns)
                queue.is_listed = False
            elif not found:
                cannot_now.append(heappop(self._turns))
                self._passed.append(queue)
        for each in cannot_now:
            heappush(self._turns, each)
        return found

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
