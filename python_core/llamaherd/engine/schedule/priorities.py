"""Priorities: the order of paused clients, and prefixes that inherit a priority."""

from __future__ import annotations

from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from llamaherd.engine.schedule.client import Client, State
from llamaherd.engine.schedule.engine import Action, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator


class PausedClients:
    """Paused clients; the first has the highest priority and, among equals, is oldest."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Client]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Client]:
        return (client for *_, client in self._heap)

    @property
    def first(self) -> Client | None:
        """Client that resumes first."""
        return self._heap[0][2] if self._heap else None

    def add(self, client: Client) -> None:
        """Add a client."""
        heappush(self._heap, (-client.priority, client.age, client))

    def pop(self) -> Client:
        """Remove and return the first client."""
        return heappop(self._heap)[2]

    def remove(self, client: Client) -> None:
        """Remove a client."""
        self._heap.remove((-client.priority, client.age, client))
        heapify(self._heap)


class RaisedPrefixes:
    """Prefixes with the priority of a prompt that needs them (priority inheritance)."""

    def __init__(self, paused: PausedClients) -> None:
        self._paused = paused
        self._raised: dict[Client, None] = {}  # unknown to the engine

    def raise_for(self, client: Client) -> None:
        """Give the prefixes of a client at least its priority."""
        prefix = client.parent
        while prefix is not None:
            if prefix.priority < client.priority:
                self._set_priority(prefix, client.priority)
            prefix = prefix.parent

    def _set_priority(self, prefix: Client, priority: int) -> None:
        is_paused = prefix.state is State.PAUSED
        if is_paused:
            self._paused.remove(prefix)
        prefix.request = replace(prefix.request, priority=priority)
        if is_paused:
            self._paused.add(prefix)
        self._raised[prefix] = None

    def actions(self) -> list[Action]:
        """Return actions for the prefixes whose old priority the engine still has."""
        raised, self._raised = self._raised, {}
        in_engine = (State.RUNNING, State.PAUSED)
        return [Action(Kind.RAISE, p) for p in raised if p.state in in_engine]
