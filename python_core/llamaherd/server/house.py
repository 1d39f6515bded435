"""What all requests share: the context, and the lists of who is here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from llamaherd.server.limits import Bodies, Queue

if TYPE_CHECKING:
    from llamaherd.run.context import Context
    from llamaherd.server.running import Running
    from llamaherd.server.settings import Settings

_N_TOKENIZING = 2  # the processors have other work
_N_COMPILING = 2


class House:
    """A context with what its clients share.

    Attributes:
        ctx: Where prompts run.
        queue: Who may wait.
        bodies: How much may be read at once.
        pool: Threads for what would keep the event loop too long.
        compiling: Threads that compile constraints, and nothing else.
        timeout_s: Seconds that a request may take; None: any.
        connections: Bounds on connections and on slow clients.
        is_ending: Whether nothing new may come in, because the server ends.
    """

    def __init__(self, ctx: Context, settings: Settings) -> None:
        self.ctx = ctx
        self.queue = Queue(ctx, settings.queue)
        self.bodies = Bodies(settings.max_body)
        self.pool = ThreadPoolExecutor(_N_TOKENIZING, "llamaherd-tokenize")
        self.compiling = ThreadPoolExecutor(_N_COMPILING, "llamaherd-compile")
        self.timeout_s = settings.timeout_s
        self.connections = settings.connections
        self.is_ending = False
        self._running: set[Running] = set()
        self._is_stopped = False

    def enter(self, running: Running) -> Running:
        """Counts a prompt among those that `stop` ends."""
        self._running.add(running)
        if self._is_stopped:  # while it was read, or its constraint compiled
            running.end("stopping")
        return running

    def leave(self, running: Running) -> None:
        """It is answered, or nobody waits for it any more."""
        self._running.discard(running)
        running.close()

    def stop(self) -> None:
        """Ends all that runs: each client is told."""
        self._is_stopped = True
        for running in tuple(self._running):
            running.end("stopping")

    def close(self) -> None:
        """Ends the threads."""
        for pool in (self.pool, self.compiling):
            pool.shutdown(wait=False, cancel_futures=True)
