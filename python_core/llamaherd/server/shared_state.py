"""State shared by all requests: limits, threads, running and waiting requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.server.limits import Bodies, RequestQueue
from llamaherd.server.work_threads import WorkThreads

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.server.limits import Loaded
    from llamaherd.server.running import Running
    from llamaherd.server.settings import ServerSettings


class SharedState:
    """State that all clients of a server share.

    Args:
        slots: Load of all contexts, for the limit on waiting requests.
        settings: Settings of the server.

    Attributes:
        queue: Limit on running and waiting requests.
        bodies: Limit on the memory of bodies.
        threads: Threads for work that would block the event loop.
        timeout_s: Maximum duration of a request in seconds; None for no limit.
        connections: Maximum number of connections.
        is_ending: Whether new requests are refused during shutdown.
        when_ending: Function called when the shutdown begins; None to call no function.
    """

    def __init__(self, slots: Loaded, settings: ServerSettings) -> None:
        self.queue = RequestQueue(slots, settings.queue)
        self.bodies = Bodies(settings.max_body)
        self.threads = WorkThreads()
        self.timeout_s = settings.timeout_s
        self.connections = settings.connections
        self.is_ending = False
        self.when_ending: Callable[[], None] | None = None
        self._running: set[Running] = set()
        self._is_stopped = False

    def enter(self, running: Running) -> Running:
        """Register a running prompt, which `stop` ends."""
        self._running.add(running)
        if self._is_stopped:  # the server stopped while the request was read
            running.end("stopping")
        return running

    def leave(self, running: Running) -> None:
        """Remove an answered or abandoned request."""
        self._running.discard(running)
        running.close()

    def begin_ending(self) -> None:
        """Refuse new requests from now on, and stop loading models."""
        self.is_ending = True
        if self.when_ending is not None:
            self.when_ending()

    def stop(self) -> None:
        """End all running prompts; each client gets an error."""
        self._is_stopped = True
        for running in tuple(self._running):
            running.end("stopping")

    def close(self) -> None:
        """Stop the threads."""
        self.threads.close()
