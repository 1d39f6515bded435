"""Groups of a herd that have not ended, in the order in which actors serve them."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from itertools import count, takewhile
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.ray.work import GroupWork


class LineKey(NamedTuple):
    """Properties that all groups of a line share.

    Attributes:
        refusals: Numbers of the actors that refuse the groups.
        priority: Priority of the groups.
    """

    refusals: frozenset[int]
    priority: int

    @classmethod
    def of(cls, work: GroupWork) -> LineKey:
        """Return the key of a group."""
        return cls(frozenset(work.refusals), work.priority)


class WorkLine:
    """Groups that are equal for each actor, in the order of their turns.

    Attributes:
        n_waiting: Number of waiting requests of all groups.
    """

    def __init__(self) -> None:
        self.n_waiting = 0
        self._heap: list[tuple[int, int]] = []  # turn and number of a group
        self._turns: dict[int, int] = {}  # by number; other entries are outdated
        self._n_waiting: dict[int, int] = {}  # by number

    def __len__(self) -> int:
        return len(self._turns)

    def put(self, number: int, turn: int, n_waiting: int) -> None:
        """Add a group, or change its turn and its number of waiting requests."""
        self.n_waiting += n_waiting - self._n_waiting.get(number, 0)
        self._n_waiting[number] = n_waiting
        if self._turns.get(number) != turn:
            self._turns[number] = turn
            heappush(self._heap, (turn, number))
            if len(self._heap) > 2 * len(self._turns) + 64:  # mostly outdated entries
                self._heap = [(turn, number) for number, turn in self._turns.items()]
                heapify(self._heap)

    def remove(self, number: int) -> None:
        """Remove a group."""
        del self._turns[number]
        self.n_waiting -= self._n_waiting.pop(number)

    def first(self) -> tuple[int, int]:
        """Return turn and number of the first group. The line must not be empty."""
        while self._turns.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0]


class WorkLines:
    """Lines of groups by their keys; a group is in at most one of them."""

    def __init__(self) -> None:
        self.lines: dict[LineKey, WorkLine] = {}
        self._keys: dict[int, LineKey] = {}  # by number of the group

    def put(self, number: int, key: LineKey, turn: int, n_waiting: int) -> None:
        """Add a group, or change its line, turn and number of waiting requests."""
        if self._keys.get(number, key) != key:
            self.remove(number)
        self._keys[number] = key
        self.lines.setdefault(key, WorkLine()).put(number, turn, n_waiting)

    def remove(self, number: int) -> None:
        """Remove a group if it is in a line."""
        key = self._keys.pop(number, None)
        if key is None:
            return
        self.lines[key].remove(number)
        if not self.lines[key]:
            del self.lines[key]

    def firsts(self) -> list[tuple[LineKey, int]]:
        """Return the key and the first group of each line, in the order of turns."""
        found = sorted((line.first(), key) for key, line in self.lines.items())
        return [(key, number) for (_, number), key in found]


class Works:
    """Groups of a herd that have not ended.

    A turn of the loop looks only at the groups that changed since the last turn, and at
    the first group of each line. With 50,000 groups of single prompts, the loop would
    otherwise do nothing else. Only the loop's thread changes this object.
    """

    def __init__(self) -> None:
        self._works: dict[int, GroupWork] = {}  # by number of the group
        self._turns: dict[int, int] = {}  # by number of the group
        self._clock = count()
        self._changed: dict[int, GroupWork] = {}
        self._given_up: dict[int, GroupWork] = {}  # the first was cancelled first
        self._all = WorkLines()
        self._waiting = WorkLines()
        self._suspects = WorkLines()

    def __len__(self) -> int:
        return len(self._works)

    def __iter__(self) -> Iterator[GroupWork]:
        return iter(list(self._works.values()))

    def get(self, number: int) -> GroupWork | None:
        """Return the group of a number; None if it has ended."""
        return self._works.get(number)

    # ---- changes ----

    def add(self, work: GroupWork) -> None:
        """Add a group, which is served last."""
        self._works[work.group.number] = work
        self._turns[work.group.number] = next(self._clock)
        self.note(work)

    def note(self, work: GroupWork) -> None:
        """Record that a group changed; see `take_changed`."""
        if work.group.number in self._works:
            self._changed[work.group.number] = work
            if work.given_up_s is not None:
                self._given_up.setdefault(work.group.number, work)

    def take_changed(self) -> list[GroupWork]:
        """Return the groups that changed since the last call.

        Afterwards, each of them must be removed or updated.
        """
        changed, self._changed = self._changed, {}
        return list(changed.values())

    def update(self, work: GroupWork) -> None:
        """Put a group into the lines of its current state."""
        number, key = work.group.number, LineKey.of(work)
        turn = self._turns[number]
        self._all.put(number, key, turn, 0)
        for lines, n_waiting in (
            (self._waiting, work.n_waiting),
            (self._suspects, len(work.suspects)),
        ):
            if n_waiting and not work.is_stopped:
                lines.put(number, key, turn, n_waiting)
            else:
                lines.remove(number)

    def served(self, work: GroupWork) -> None:
        """Make a group, of which an actor received requests, the last to be served."""
        self._turns[work.group.number] = next(self._clock)
        self.update(work)

    def remove(self, work: GroupWork) -> bool:
        """Remove a group; return False if it is not there."""
        number = work.group.number
        if self._works.pop(number, None) is None:
            return False
        del self._turns[number]
        self._changed.pop(number, None)
        self._given_up.pop(number, None)
        for lines in (self._all, self._waiting, self._suspects):
            lines.remove(number)
        return True

    # ---- groups to look at ----

    def late(self, limit_s: float) -> list[GroupWork]:
        """Return the groups that were cancelled longer ago than a limit."""
        latest_s = monotonic() - limit_s
        cancelled = self._given_up.values()
        return list(takewhile(lambda w: (w.given_up_s or inf) < latest_s, cancelled))

    def of_each_kind(self) -> list[GroupWork]:
        """Return a group of each set of actors that refuse groups."""
        firsts = {key.refusals: number for key, number in self._all.firsts()}
        return [self._works[number] for number in firsts.values()]

    def of_kind(self, work: GroupWork) -> list[GroupWork]:
        """Return all groups that the same actors refuse."""
        refusals = work.refusals.keys()
        return [other for other in self if other.refusals.keys() == refusals]

    def with_suspects(self) -> list[GroupWork]:
        """Return the first group with suspect requests of each line, in order."""
        self._drop_stopped(self._suspects)
        return [self._works[number] for _, number in self._suspects.firsts()]

    def next(self, actor: int, above: float) -> tuple[GroupWork | None, int]:
        """Return the group whose requests an actor receives next.

        Args:
            actor: Number of the actor.
            above: Priority that the group must exceed.

        Returns:
            The group, of the highest priority; None if there is no group. And the number
            of waiting requests of all groups that suit.
        """
        self._drop_stopped(self._waiting)
        suited = [
            (-key.priority, line.first(), line.n_waiting)
            for key, line in self._waiting.lines.items()
            if key.priority > above and actor not in key.refusals
        ]
        if not suited:
            return None, 0
        _, (_, number), _ = min(suited)
        return self._works[number], sum(n_waiting for *_, n_waiting in suited)

    def _drop_stopped(self, lines: WorkLines) -> None:
        """Remove first groups that a caller has stopped since their last update."""
        for line in list(lines.lines.values()):
            while line and (work := self._works[line.first()[1]]).is_stopped:
                self.update(work)
