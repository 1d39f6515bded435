"""Limits on the number and the speed of connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Connection(Protocol):
    """A connection."""

    def give_up(self) -> None:
        """Close this idle connection in favour of another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Limits on connections, so that slow or idle clients do not block others.

    Attributes:
        most: Maximum number of connections. A further connection replaces the connection
            with the longest idle time, if this time is at least `spare_s` seconds;
            otherwise the new connection gets status 503.
        head_s: Maximum time for the head of a request in seconds, from its first byte or
            from the start of a new connection.
        pause_s: Maximum time between two parts of a body in seconds.
        body_s: Maximum time for a whole body in seconds.
        drain_s: Maximum time in seconds to read the rest of a refused body.
        drain_bytes: Maximum number of bytes of the rest of a refused body.
        stall_s: Maximum time in seconds during which a client may read nothing.
        spare_s: Minimum time in seconds before an idle connection is replaced.
    """

    most: int = 1024
    head_s: float = 30.0
    pause_s: float = 30.0
    body_s: float = 300.0
    drain_s: float = 20.0
    drain_bytes: int = 1 << 28
    stall_s: float = 60.0
    spare_s: float = 5.0


class Connections:
    """Connections of a server, with a record of idle connections.

    Attributes:
        limits: Limits on connections.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._idle: dict[Connection, float] = {}  # start of the idle time, oldest first
        self._n_open = 0
        self._n_refused = 0

    def enter(self, protocol: Connection, now: float) -> bool:
        """Add a connection; return False if there are too many."""
        if self._n_open >= self.limits.most and not self._replace(now):
            return False
        self._n_open += 1
        self._idle[protocol] = now
        return True

    def leave(self, protocol: Connection) -> None:
        """Remove a connection."""
        self._n_open -= 1
        self._idle.pop(protocol, None)

    def refuse(self) -> bool:
        """Count a refused connection; return False if too many of them are still open."""
        self._n_refused += 1
        return self._n_refused <= self.limits.most

    def forget_refused(self) -> None:
        """Remove a refused connection."""
        self._n_refused -= 1

    def set_busy(self, protocol: Connection) -> None:
        """Mark a connection as busy."""
        self._idle.pop(protocol, None)

    def set_idle(self, protocol: Connection, now: float) -> None:
        """Mark a connection as idle."""
        self._idle[protocol] = now

    def _replace(self, now: float) -> bool:
        """Close the longest idle connection if it has been idle for `spare_s`."""
        oldest = next(iter(self._idle), None)
        if oldest is None or now - self._idle[oldest] < self.limits.spare_s:
            return False
        del self._idle[oldest]
        oldest.give_up()
        return True
