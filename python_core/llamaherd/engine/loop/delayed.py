"""Clients that a change of the cache delays, to limit the number of such changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.engine.schedule.client import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llamaherd.engine.schedule.client import Client


class Delayed:
    """Clients that the last optional change of the cache has interrupted.

    A change is optional if it makes the sequences shorter, or changes the layout. All
    running clients are interrupted, and may be computed again. Before the next optional
    change, each of these clients must end, and each prefix must be continued by one of
    its children. Otherwise requests of different lengths, which arrive again and again,
    could delay a client forever.
    """

    def __init__(self) -> None:
        self._clients: list[tuple[Client, int]] = []

    def note(self, clients: Iterable[Client]) -> None:
        """Record the clients that an optional change interrupts."""
        self._clients = [(client, client.n_unsubmitted) for client in clients]

    @property
    def has_any(self) -> bool:
        """Whether the last optional change still delays a client."""
        self._clients = [each for each in self._clients if _is_delayed(*each)]
        return bool(self._clients)


def _is_delayed(client: Client, n_children: int) -> bool:
    """Return whether a client has not ended, or no child has continued a prefix.

    Args:
        client: Client that was interrupted.
        n_children: Number of children that waited for the prefix at that time.
    """
    if client.state is State.ENDED:
        return False
    return not client.is_prefix or client.n_unsubmitted >= n_children > 0
