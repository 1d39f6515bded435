"""Connections of a server: how many there may be, and how slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Connection(Protocol):
    """One of them."""

    def give_up(self) -> None:
        """Ends it in favour of another. It has no request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimits:
    """Bounds on connections, so that slow or idle clients keep nobody else out.

    Attributes:
        most: Connections at once. One more replaces the one that has been idle for the
            longest time, if that is at least `spare_s`; else it gets status 503.
        head_s: Seconds for the head of a request, from its first byte or, on a new
            connection, from the start of that.
        pause_s: Seconds between two parts of a body.
        body_s: Seconds for a whole body.
        drain_s: Seconds for which the rest of a body is read after it was refused.
        drain_bytes: Bytes of it at most.
        stall_s: Seconds for which a client may read nothing of an answer.
        spare_s: Seconds for which a connection without a request is left alone.
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
    """All connections of a server, and those of them that have no request.

    Attributes:
        limits: See there.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._idle: dict[Connection, float] = {}  # since when, the oldest first
        self._n_open = 0
        self._n_refused = 0

    def enter(self, protocol: Connection, now: float) -> bool:
        """Adds a connection. False: there are too many."""
        if self._n_open >= self.limits.most and not self._replace(now):
            return False
        self._n_open += 1
        self._idle[protocol] = now
        return True

    def leave(self, protocol: Connection) -> None:
        """Removes a connection that was added."""
        self._n_open -= 1
        self._idle.pop(protocol, None)

    def refuse(self) -> bool:
        """Adds a connection that is only told why. False: it is not even told."""
        self._n_refused += 1
        return self._n_refused <= self.limits.most

    def forget_refused(self) -> None:
        """Removes one of those."""
        self._n_refused -= 1

    def set_busy(self, protocol: Connection) -> None:
        """Marks a connection as one with a request."""
        self._idle.pop(protocol, None)

    def set_idle(self, protocol: Connection, now: float) -> None:
        """Marks a connection as one without a request."""
        self._idle[protocol] = now

    def _replace(self, now: float) -> bool:
        """Closes the connection that has been idle the longest, if that is long."""
        oldest = next(iter(self._idle), None)
        if oldest is None or now - self._idle[oldest] < self.limits.spare_s:
            return False
        del self._idle[oldest]
        oldest.give_up()
        return True
