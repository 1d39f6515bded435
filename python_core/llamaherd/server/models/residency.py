"""Model files in memory: loaded for requests, unloaded when others need memory."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from llamaherd.core.errors import LlamaHerdError
from llamaherd.core.words import words
from llamaherd.native.models import LoadInterrupt
from llamaherd.server.errors import ApiError, retry_after, stopping
from llamaherd.server.messages import ClientGoneError
from llamaherd.server.model_view import sum_of_counts
from llamaherd.server.models.decision import Resident, Wanted, decide
from llamaherd.server.models.fitting import shown_down, shown_up
from llamaherd.server.models.model_file import Waiter, not_loaded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.types import Receive

    from llamaherd.core.outcome import Counts
    from llamaherd.server.models.decision import State
    from llamaherd.server.models.model_file import InMemoryFile, ServedFile
    from llamaherd.server.models.spec import ModelSpec

log = logging.getLogger(__name__)

_N_THREADS = 4  # threads that load models, and as many that unload them


class Residency:
    """Loads and unloads model files according to `decide`.

    Loading and unloading happen on other threads; all methods are called on the thread of
    the event loop.

    Args:
        files: Model files.
        load: Function that loads a file; its other arguments are the memory for KV
            caches and buffers in bytes, and a flag that interrupts it.
        n_bytes: Memory of weights, KV caches and buffers of all models in bytes.
        wait_s: Maximum time in seconds that a request waits for memory.
        patience_s: Time in seconds after which models in use are unloaded for a waiting
            request.
        batch_patience_s: The same time for requests of batches.

    Attributes:
        past: Counts of the engines of unloaded models.
        is_closed: Whether no requests are accepted.
    """

    def __init__(
        self,
        files: Sequence[ServedFile],
        load: Callable[[ModelSpec, int, LoadInterrupt], InMemoryFile],
        *,
        n_bytes: int,
        wait_s: float,
        patience_s: float,
        batch_patience_s: float,
    ) -> None:
        self._files = {file.name: file for file in files}
        self._load_file = load
        self._n_bytes = n_bytes
        self._wait_s = wait_s
        self._patience_s = patience_s
        self._batch_patience_s = batch_patience_s
        self._threads = ThreadPoolExecutor(_N_THREADS, "llamaherd-models")
        # Memory is freed at once, even if all other threads load models, or another model
        # is unloaded slowly because a thread still computes vectors with it.
        self._closing = ThreadPoolExecutor(_N_THREADS, "llamaherd-unload")
        self._work: set[asyncio.Task[None]] = set()
        self._n_requests = 0
        self.past: Counts = sum_of_counts(())
        self.is_closed = False

    # ---- requests ----

    async def enter(
        self, file: ServedFile, name: str, receive: Receive, *, is_patient: bool
    ) -> None:
        """Wait until a model is in memory, then count the request as one that uses it.

        Args:
            file: File of the model.
            name: Name of the model or of an adapter.
            receive: Channel that reports a disconnect.
            is_patient: Whether models in use are unloaded for the request after
                `batch_patience_s`, not after `patience_s`.

        Raises:
            ApiError: The model can never fit, cannot be loaded, or got no memory in time.
            ClientGoneError: The client disconnected while it waited.
        """
        if self.is_closed:
            raise stopping()
        self._n_requests += 1
        if file.is_ready and not self._is_outdated(file, name):
            self._count(file)
            return
        file.measure()
        if file.n_bytes > self._n_bytes:
            raise self._too_large(file, name)
        loop = asyncio.get_running_loop()
        waiter = Waiter(loop.create_future(), self._n_requests)
        file.waiters.append(waiter)
        left_s = self._patience_s
        if is_patient:
            left_s = self._batch_patience_s - file.batch_wait_s(loop.time())
        timer = loop.call_later(max(0.0, left_s), self._hurry, waiter)
        try:
            self._advance()
            await self._wait(file, name, waiter, receive)
        except BaseException:
            self._give_up(file, waiter)
            raise
        finally:
            timer.cancel()
            if is_patient and file.batch_left_s is not None:
                file.batch_left_s = loop.time()

    def leave(self, file: ServedFile) -> None:
        """Release the lease of a request that has ended."""
        file.n_leases -= 1
        if file.n_leases == 0:
            self._advance()

    async def _wait(
        self, file: ServedFile, name: str, waiter: Waiter, receive: Receive
    ) -> None:
        gone = asyncio.get_running_loop().create_task(_disconnected(receive))
        waiting: set[asyncio.Future[None]] = {waiter.future, gone}
        try:
            while not waiter.future.done():
                await asyncio.wait(
                    waiting, timeout=self._wait_s, return_when=asyncio.FIRST_COMPLETED
                )
                if gone.done():
                    raise ClientGoneError
                # Only the wait for memory is limited, not the time of loading.
                if not waiter.future.done() and file.state != "loading":
                    raise self._no_room(file, name)
        finally:
            gone.cancel()
        waiter.future.result()

    def _give_up(self, file: ServedFile, waiter: Waiter) -> None:
        """Remove a waiting request, or release the lease that it got meanwhile."""
        if waiter in file.waiters:
            file.waiters.remove(waiter)
            waiter.future.cancel()
            if not file.waiters and file.interrupt is not None:
                self._interrupt(file, file.interrupt)
            self._advance()
        elif not waiter.future.cancelled() and waiter.future.exception() is None:
            self.leave(file)

    def _interrupt(self, file: ServedFile, interrupt: LoadInterrupt) -> None:
        """Interrupt a load that no request waits for, but not twice in a row.

        Otherwise a client that gives up before the model is loaded, and tries again,
        would never get an answer.
        """
        if not file.was_interrupted:
            file.was_interrupted = True
            interrupt.set()

    def _hurry(self, waiter: Waiter) -> None:
        waiter.is_urgent = True
        self._advance()

    def _count(self, file: ServedFile) -> None:
        file.n_leases += 1
        file.used = self._n_requests

    def _is_outdated(self, file: ServedFile, name: str) -> bool:
        """Start to unload an idle model if the file of a damaged adapter has changed.

        Returns:
            Whether the model is being unloaded.
        """
        loaded = file.loaded
        if file.n_leases or loaded is None or name in loaded.served:
            return False
        if loaded.has_changed(name):
            self._start(file, "unloading")
        return file.state == "unloading"

    # ---- loading and unloading ----

    def _advance(self) -> None:
        """Start all loads, unloads and waiting requests that are possible now."""
        if self.is_closed:
            return
        waiting = sorted(
            (file.waiters[0].place, name, any(x.is_urgent for x in file.waiters))
            for name, file in self._files.items()
            if file.waiters
        )
        wanted = [Wanted(name, is_urgent) for _, name, is_urgent in waiting]
        models = {
            name: Resident(
                n_bytes=file.n_bytes,
                state=file.state,
                n_leases=file.n_leases,
                used=file.used,
            )
            for name, file in self._files.items()
        }
        decision = decide(models, wanted, self._n_bytes)
        for name, file in self._files.items():
            file.is_held = name in decision.hold
        for name in decision.unload:
            self._start(self._files[name], "unloading")
        for name in decision.load:
            self._start(self._files[name], "loading")
        for file in self._files.values():
            if file.is_ready:
                self._grant(file)

    def _grant(self, file: ServedFile) -> None:
        file.batch_left_s = None
        waiters, file.waiters = file.waiters, []
        for waiter in waiters:
            if not waiter.future.done():
                waiter.future.set_result(None)
                self._count(file)

    def _start(self, file: ServedFile, state: State) -> None:
        file.state = state
        work = self._load if state == "loading" else self._unload
        task = asyncio.get_running_loop().create_task(work(file))
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def _load(self, file: ServedFile) -> None:
        start_s = time.perf_counter()
        file.n_loads += 1
        file.interrupt = interrupt = LoadInterrupt()
        pending = self._threads.submit(
            self._load_file, file.spec, file.n_cache, interrupt
        )
        try:
            loaded = await asyncio.wrap_future(pending)
        except Exception as error:
            file.end_loading()
            file.state = "unloaded"
            if interrupt.is_set:  # a waiting request loads it again
                log.info("loading model %s was interrupted", file.name)
                self._advance()
                return
            file.n_failures += 1
            if isinstance(error, LlamaHerdError):
                log.warning("model %s was not loaded: %s", file.name, error)
            else:
                log.exception("model %s was not loaded", file.name)
            file.refuse(not_loaded(file.name, str(error), file.spec))
        else:
            file.end_loading()
            file.load_s = time.perf_counter() - start_s
            log.info("model %s loaded in %.1f s", file.name, file.load_s)
            await self._take(file, loaded)
        self._advance()

    async def _take(self, file: ServedFile, loaded: InMemoryFile) -> None:
        """Accept a loaded model; its caches may need more memory than was reserved."""
        more = loaded.n_cache - file.n_cache
        free = self._n_bytes - sum(
            x.n_bytes for x in self._files.values() if x.state != "unloaded"
        )
        file.loaded = loaded
        file.was_interrupted = False
        file.n_cache = loaded.n_cache
        if more <= free:
            file.state = "loaded"
            self._grant(file)  # before another request may unload it
            return
        # The model's real size is now known and does not fit: unload it. The model is
        # loaded again when there is free memory, or refused if it exceeds the whole
        # memory.
        file.state = "unloading"
        await self._unload(file)
        if file.n_bytes > self._n_bytes:
            file.refuse(self._too_large(file, file.name))

    async def _unload(self, file: ServedFile) -> None:
        loaded, file.loaded = file.loaded, None
        if loaded is not None:
            counts = [each.counts for each in loaded.served.values()]
            self.past = sum_of_counts([self.past, *counts])
            pending = self._closing.submit(loaded.close)
            del loaded  # memory is freed once nothing refers to it
            try:
                await asyncio.wrap_future(pending)
            except Exception:
                log.exception("model %s could not be closed", file.name)
            del pending
        file.n_unloads += 1
        file.state = "unloaded"
        log.info("model %s unloaded", file.name)
        self._advance()

    def stop_loading(self) -> None:
        """Refuse waiting requests and interrupt the loading of models."""
        self.is_closed = True
        for file in self._files.values():
            file.refuse(stopping())
            if file.interrupt is not None:
                file.interrupt.set()

    async def close(self) -> None:
        """Refuse waiting requests, then unload all models."""
        self.stop_loading()
        while self._work:
            await asyncio.wait(self._work)
        for file in self._files.values():
            if file.state == "loaded":
                self._start(file, "unloading")
        while self._work:
            await asyncio.wait(self._work)
        self._threads.shutdown()
        self._closing.shutdown()

    # ---- errors ----

    def _too_large(self, file: ServedFile, name: str) -> ApiError:
        return ApiError(
            404,
            f"the model {name!r} needs {shown_up(file.n_bytes)} with its KV cache and "
            f"buffers, and the server has {shown_down(self._n_bytes)} for models "
            f"({words().memory})",
            param="model",
            code="model_not_found",
        )

    def _no_room(self, file: ServedFile, name: str) -> ApiError:
        return ApiError(
            503,
            f"there was no memory for the model {name!r} in {self._wait_s:g} s: requests "
            "for other models use it",
            param="model",
            code="no_memory_for_model",
            headers=retry_after(2 * file.load_s),
        )


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
