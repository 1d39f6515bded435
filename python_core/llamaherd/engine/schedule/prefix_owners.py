"""Owners of waiting prefixes: the call that computes a prefix that calls share."""

from __future__ import annotations

from heapq import heappop, heapreplace
from typing import TYPE_CHECKING

from llamaherd.engine.schedule.client import State

if TYPE_CHECKING:
    from llamaherd.engine.schedule.client import Client
    from llamaherd.engine.schedule.queue import Queue
    from llamaherd.engine.schedule.turns import Turns


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
