"""Calls in the order in which they get free slots."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llamaherd.schedule.client import Client
    from llamaherd.schedule.queue import Heap, Queue

# Priority (the highest is least), the slot that it had last, the call.
_Turn = tuple[int, tuple[int, int], int]


class Turns:
    """The queues of all calls.

    Among those of the highest priority it is the turn of the one that has not had a slot
    for the longest time. A call that comes counts as having had one just before the last
    that was given, so that it has the next.
    """

    def __init__(self) -> None:
        self._queues: dict[int, Queue] = {}  # by call
        self._turns: list[_Turn] = []  # a heap of those that have something to start
        self._clock = 0  # slots given so far

    def __contains__(self, call: int) -> bool:
        return call in self._queues

    def __getitem__(self, call: int) -> Queue:
        return self._queues[call]

    @property
    def queues(self) -> Iterable[Queue]:
        """All of them."""
        return self._queues.values()

    @property
    def has_any(self) -> bool:
        """Whether somebody may have something to start."""
        return bool(self._turns)

    def add(self, queue: Queue) -> None:
        """A call has come."""
        queue.turn = (self._clock, 0)  # before those that had a slot at this time
        self._queues[queue.call] = queue

    def remove(self, call: int) -> Queue | None:
        """A call goes. Returns its queue, if it was there."""
        return self._queues.pop(call, None)

    def make_ready(self, client: Client) -> None:
        """A client may start when it is the turn of its call."""
        queue = self._queues[client.call]
        queue.push(client)
        self._list(queue)

    def next(self, n_places: float) -> Heap:
        """The first clients of the call whose turn it is, of those that can start any.

        Args:
            n_places: Prefixes that may come to be there.
        """
        cannot_now: list[_Turn] = []
        found: Heap = []
        while self._turns and not found:
            _, turn, call = self._turns[0]
            queue = self._queues.get(call)
            if queue is None or not queue.is_admitting or queue.turn != turn:
                heappop(self._turns)  # it has gone, or is listed anew
                continue
            found = queue.head(n_places)
            if queue.is_empty:
                heappop(self._turns)
                queue.is_listed = False
            elif not found:
                cannot_now.append(heappop(self._turns))
        for each in cannot_now:
            heappush(self._turns, each)
        return found

    def had_slot(self, call: int) -> None:
        """Puts a call behind those that wait."""
        self._clock += 1
        queue = self._queues[call]
        queue.turn = (self._clock, 1)
        queue.is_listed = False
        self._list(queue)

    def _list(self, queue: Queue) -> None:
        if not queue.is_listed and not queue.is_empty:
            queue.is_listed = True
            heappush(self._turns, (-queue.priority, queue.turn, queue.call))
