"""State shared by all requests: queue, limits, threads, running requests."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from llamaherd.engine.core.phrases import count_of, verb
from llamaherd.server.errors import ApiError, retry_after
from llamaherd.server.threads import WorkThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from llamaherd.engine.core.stats import Load
    from llamaherd.engine.model.model import Model
    from llamaherd.server.running import Running
    from llamaherd.server.settings import ServerSettings

_MOST_BODIES = 64  # bytes of all long bodies, in bodies of the maximum size
_BODIES_RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStatus:
    """A model or adapter as pages and metrics show it."""

    name: str  # name in requests and answers
    # Name of the model that a LoRA adapter belongs to; None for a model.
    parent: str | None = None
    state: str = "loaded"  # "unloaded", "loading", "loaded" or "unloading"
    model: Model | None = None  # the loaded model; None if it is not loaded
    # Running and waiting prompts of the model; None if it is not loaded.
    load: Load | None = None
    size_bytes: int = 0  # size of the model's files in bytes
    # Part of `--memory` in bytes that the model uses; 0 for an adapter or an unloaded
    # model.
    n_bytes: int = 0
    n_loads: int = 1  # number of times that loading began
    n_unloads: int = 0  # number of times that the model was unloaded
    n_failures: int = 0  # number of times that loading failed
    n_patient: int = 0  # requests of batches that wait until other models are idle


class SharedState:
    """State that all clients of a server share.

    While `is_ending`, new requests are refused; `when_ending` is called when that begins.
    """

    def __init__(self, slots: Loaded, settings: ServerSettings) -> None:
        self.queue = RequestQueue(slots, settings.queue)
        self.bodies = BodyMemory(_MOST_BODIES * settings.max_body)
        self.max_body = settings.max_body
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


class BodyMemory:
    """Counts the bytes of long bodies, from their arrival to the end of the answer.

    Each connection may send a body of the maximum size. Without this limit, bodies that
    arrive at the same time could fill the memory of the machine.
    """

    def __init__(self, n_bytes: int) -> None:
        self._n_bytes = n_bytes
        self._n_held = 0

    @contextmanager
    def body(self) -> Iterator[Callable[[int], None]]:
        """Count one body until the block ends; yield a function that takes its size."""
        n_here = 0

        def hold(n: int) -> None:
            nonlocal n_here
            if self._n_held + n - n_here > self._n_bytes:
                text = f"the bodies of all requests would have over {self._n_bytes} bytes"
                headers = retry_after(_BODIES_RETRY_S)
                raise ApiError(429, text, code="queue_full", headers=headers)
            self._n_held += n - n_here
            n_here = n

        try:
            yield hold
        finally:
            self._n_held -= n_here


_TIMED = 8  # one request out of this number is timed


class Loaded(Protocol):
    """Protocol of a context, or of all contexts of a server."""

    @property
    def load(self) -> Load:
        """Running and waiting prompts, and the number of slots."""


class RequestQueue:
    """Counts the requests whose body has arrived and whose answer has not ended.

    Requests beyond the number of slots are treated as waiting. The context's own number
    of waiting prompts is not used: it also counts prompts that arrived at the same moment
    and are about to get a free slot.

    Attributes:
        n_inside: Number of running and waiting requests.
    """

    def __init__(
        self, slots: Loaded, n_waiting: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._slots = slots
        self._n_waiting = n_waiting
        self.n_inside = 0
        self._n_seen = 0
        self._mean_s = 1.0  # mean duration of a request in a slot

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Count a request while the block runs."""
        if self.n_inside >= self._n_waiting:
            n_slots = self._n_slots
            if self.n_inside >= self._n_waiting + n_slots:
                raise self._full(n_slots)
        self.n_inside += 1
        self._n_seen += 1
        # Counting the slots takes longer the more requests there are, so only every
        # `_TIMED`-th request is timed.
        is_timed = self._n_seen % _TIMED == 1
        # The slots have to be filled this many times until this request is answered.
        n_rounds = max(1.0, self.n_inside / self._n_slots) if is_timed else 1.0
        start = self._clock()
        try:
            yield
        finally:
            self.n_inside -= 1
            if is_timed:
                took_s = (self._clock() - start) / n_rounds
                self._mean_s += 0.3 * (took_s - self._mean_s)

    @property
    def _n_slots(self) -> int:
        return max(1, self._slots.load.n_slots)

    def _full(self, n_slots: int) -> ApiError:
        """Return the error of a full queue, with the expected time until it is empty."""
        n = self._n_waiting
        return ApiError(
            429,
            f"{count_of(n, 'request')} {verb(n, 'is', 'are')} already waiting",
            code="queue_full",
            headers=retry_after(self._mean_s * self.n_inside / n_slots),
        )
