"""Models of a server: one least-recently-used set of files in memory.

Loading and unloading happen on another thread, one at a time and started by one task; all
methods are called on the thread of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import LlamaHerdError, ModelLoadError
from llamaherd.engine.core.words import words
from llamaherd.engine.model.loading import read_header
from llamaherd.engine.native.models import LoadInterrupt
from llamaherd.server.errors import ApiError, retry_after, stopping
from llamaherd.server.models.loading import ServedFile
from llamaherd.server.models.spec import (
    FileContents,
    cache_sizes,
    shown_down,
    shown_up,
)
from llamaherd.server.protocol import ClientGoneError
from llamaherd.server.state import sum_of_counts, sum_of_loads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from starlette.types import Receive

    from llamaherd.engine.core.outcome import Counts
    from llamaherd.engine.core.stats import Load
    from llamaherd.engine.loop.slot_times import SlotTimes
    from llamaherd.engine.model.loading import ModelHeader
    from llamaherd.server.models.loading import ModelFiles, ServedModel
    from llamaherd.server.models.spec import ModelSpec
    from llamaherd.server.state import ShownModel

log = logging.getLogger(__name__)

_PATIENCE_S = 10.0
_BATCH_PATIENCE_S = 600.0


@dataclass(eq=False, slots=True)
class _Waiter:
    """A request that waits for a model."""

    file: ServedFile
    future: asyncio.Future[None]  # done when the request uses the model, or is refused
    urgent_s: float  # time from which models in use are unloaded for the request


class ModelStore:
    """`ModelView` of several models. A model is loaded when a request asks for it."""

    has_several = True

    def __init__(
        self,
        specs: Sequence[ModelSpec],
        load: Callable[[ModelSpec, int, LoadInterrupt], ModelFiles],
        *,
        n_bytes: int,  # memory of weights, KV caches and buffers of all models
        n_waiting: int,  # maximum number of waiting requests of each model
        wait_s: float,  # maximum time that a request of a client waits for memory
        any_model: bool = False,
        least: Sequence[int] | None = None,
        # Times after which models in use are unloaded for a waiting request.
        patience_s: float = _PATIENCE_S,
        batch_patience_s: float = _BATCH_PATIENCE_S,
        contents: FileContents | None = None,
    ) -> None:
        weights = [spec.n_bytes for spec in specs]
        caches = cache_sizes(weights, n_bytes, least)
        self._files = [
            ServedFile(spec, n, n_cache, n_waiting)
            for spec, n, n_cache in zip(specs, weights, caches, strict=True)
        ]
        self._of_name = {name: file for file in self._files for name in file.spec.names}
        self._any_model = any_model
        self._contents = FileContents() if contents is None else contents
        self._headers: dict[str, tuple[object, ModelHeader]] = {}
        self._load_file = load
        self._n_bytes = n_bytes
        self._wait_s = wait_s
        self._patience_s = patience_s
        self._batch_patience_s = batch_patience_s
        self._thread = ThreadPoolExecutor(1, "llamaherd-models")
        self._waiters: list[_Waiter] = []  # in the order of arrival
        self._changed = asyncio.Event()
        self._mover: asyncio.Task[None] | None = None  # the only one that (un)loads
        self._next_file: ServedFile | None = None  # being loaded, or given memory
        self._n_requests = 0
        self._past: Counts = sum_of_counts(())  # of the engines of unloaded models
        self.is_closed = False

    # ---- what pages show ----

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all models and adapters."""
        return tuple(self._of_name)

    def name_of(self, asked: str | None) -> str | None:
        """Return the name of the model for a request; None if `asked` is unknown."""
        first = next(iter(self._of_name))
        if asked is None:
            return first
        for name in (asked, asked.removesuffix(".gguf"), asked.removesuffix(":latest")):
            if name in self._of_name:
                return name
        return first if self._any_model else None

    def identity(self, asked: str | None, endpoint: str) -> str | None:  # noqa: ARG002
        """Return the identity of the model that answers; see `ModelView`."""
        name = self.name_of(asked)
        if name is None:
            return None
        file = self._of_name[name]
        adapter = {each.name: each.path for each in file.spec.adapters}.get(name)
        is_loaded = name in file.served
        return self._contents.identity(file.spec.path, adapter, is_loaded=is_loaded)

    def header(self, name: str) -> ModelHeader:
        """Return the metadata of a model file without loading it; safe on any thread."""
        file = self._of_name[name]
        state = file.spec.state
        known = self._headers.get(file.name)
        if known is None or known[0] != state:
            try:
                known = (state, read_header(file.spec.path))
            except ModelLoadError as error:
                raise file.not_loaded(name, str(error)) from None
            self._headers[file.name] = known
        return known[1]

    @property
    def load(self) -> Load:
        """Running and waiting prompts of all models in memory."""
        return sum_of_loads(file.load for file in self._files)

    @property
    def counts(self) -> Counts:
        """Counts of the engines of all models, including unloaded ones."""
        served = (each for file in self._files for each in file.served.values())
        return sum_of_counts([self._past, *(each.counts for each in served)])

    def slots(self) -> dict[str, SlotTimes]:
        """Return the times of the slots of models and adapters in memory, by name."""
        served = (item for file in self._files for item in file.served.items())
        return {name: model.slot_times for name, model in served}

    def shown(self) -> list[ShownModel]:
        """Return the data that pages show about each model and adapter."""
        return [file.shown(name) for name, file in self._of_name.items()]

    # ---- requests ----

    @asynccontextmanager
    async def lease(
        self, name: str, receive: Receive, *, is_patient: bool = False
    ) -> AsyncIterator[ServedModel]:
        """Load a model if it is not in memory, and keep it there within the block."""
        file = self._of_name[name]
        with nullcontext() if is_patient else file.queue.slot():
            await self._enter(file, name, receive, is_patient=is_patient)
            try:
                served = file.served.get(name)
                if served is None:
                    problems = {} if file.loaded is None else file.loaded.problems
                    raise file.not_loaded(name, problems.get(name, "it was unloaded"))
                yield served
            finally:
                self._leave(file)

    async def _enter(
        self, file: ServedFile, name: str, receive: Receive, *, is_patient: bool
    ) -> None:
        """Wait until a model is in memory, then count the request as one that uses it."""
        if self.is_closed:
            raise stopping()
        self._n_requests += 1
        loaded = file.loaded
        if loaded is not None and not file.n_leases and name not in loaded.served:
            file.is_stale = file.is_stale or loaded.has_changed(name)
        if file.is_ready:
            file.lease(self._n_requests)
            return
        if file.state == "unloaded":  # its files may have been replaced
            file.n_weights = file.spec.n_bytes
        if file.n_bytes > self._n_bytes:
            raise self._too_large(file, name)
        loop = asyncio.get_running_loop()
        patience_s = self._batch_patience_s if is_patient else self._patience_s
        waiter = _Waiter(file, loop.create_future(), loop.time() + patience_s)
        self._waiters.append(waiter)
        self._changed.set()
        if self._mover is None or self._mover.done():
            self._mover = loop.create_task(self._move())
        try:
            await self._wait(waiter, name, receive, None if is_patient else self._wait_s)
        except BaseException:
            self._give_up(waiter)
            raise

    async def _wait(
        self, waiter: _Waiter, name: str, receive: Receive, limit_s: float | None
    ) -> None:
        gone = asyncio.get_running_loop().create_task(_disconnected(receive))
        either: set[asyncio.Future[None]] = {waiter.future, gone}
        first = asyncio.FIRST_COMPLETED
        try:
            while not waiter.future.done():
                await asyncio.wait(either, timeout=limit_s, return_when=first)
                if gone.done():
                    raise ClientGoneError
                # Only the wait for memory is limited, not the time of loading.
                if not waiter.future.done() and waiter.file is not self._next_file:
                    raise self._no_room(waiter.file, name)
        finally:
            gone.cancel()
        waiter.future.result()

    def _leave(self, file: ServedFile) -> None:
        """Count a request that has ended."""
        file.n_leases -= 1
        self._changed.set()

    def _give_up(self, waiter: _Waiter) -> None:
        """Remove a waiting request, or let it leave the model that it got meanwhile."""
        file, future = waiter.file, waiter.future
        if waiter in self._waiters:
            self._waiters.remove(waiter)
            future.cancel()
            is_wanted = any(other.file is file for other in self._waiters)
            # Not twice in a row: a client that gives up before the model is loaded, and
            # tries again, would never get an answer.
            if file.interrupt is not None and not is_wanted and not file.was_interrupted:
                file.was_interrupted = True
                file.interrupt.set()
            self._changed.set()
        elif not future.cancelled() and future.exception() is None:
            self._leave(file)

    def _end_waiting(self, file: ServedFile, error: ApiError | None = None) -> None:
        """Let all requests that wait for a model use it, or refuse them."""
        waiters = [waiter for waiter in self._waiters if waiter.file is file]
        self._waiters = [waiter for waiter in self._waiters if waiter.file is not file]
        for waiter in waiters:
            if waiter.future.done():
                continue
            if error is not None:
                waiter.future.set_exception(error)
            else:
                waiter.future.set_result(None)
                file.lease(self._n_requests)

    # ---- loading and unloading ----

    async def _move(self) -> None:
        """Load models for requests that wait, and unload others, until none waits."""
        while self._waiters and not self.is_closed:
            self._changed.clear()
            file = self._next()
            if file is not None and file.state == "loaded":
                await self._unload(file)
            elif file is not None:
                await self._load(file)
            self._next_file = None
            for other in self._files:
                if other.is_ready:
                    self._end_waiting(other)
            if file is None and self._waiters:
                await self._until_changed()

    async def _until_changed(self) -> None:
        """Wait for a change, or until a request becomes urgent."""
        now_s = asyncio.get_running_loop().time()
        later = [w.urgent_s - now_s for w in self._waiters if w.urgent_s > now_s]
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), min(later, default=None))

    def _next(self) -> ServedFile | None:
        """Return the model to load or to unload now; None if there is nothing to do.

        The first request for which there is, or can be, enough memory gets it. Models
        without requests are unloaded for it, the least recently used first. For an urgent
        request, models in use are held: their requests finish, and later ones wait.
        """
        now_s = asyncio.get_running_loop().time()
        in_memory = [file for file in self._files if file.state == "loaded"]
        free = self._n_bytes - sum(file.n_bytes for file in in_memory)
        for file in self._files:
            file.is_held = False
        for waiter in self._waiters:
            file = waiter.file
            if file.is_ready:
                continue
            self._next_file = file
            if file.state == "loaded" or file.n_bytes <= free:
                return file  # to be loaded, or unloaded to be loaded again
            short, is_urgent = file.n_bytes - free, waiter.urgent_s <= now_s
            victims = _victims(in_memory, short, with_used=is_urgent)
            for victim in victims:
                victim.is_held = True
            idle = [victim for victim in victims if not victim.n_leases]
            if victims:
                self._next_file = file if idle else None
                return idle[0] if idle else None
        self._next_file = None
        return None

    async def _load(self, file: ServedFile) -> None:
        start_s = time.perf_counter()
        file.state = "loading"
        file.n_loads += 1
        file.interrupt = interrupt = LoadInterrupt()
        arguments = (file.spec, file.n_cache, interrupt)
        try:
            pending = self._thread.submit(self._load_file, *arguments)
            loaded = await asyncio.wrap_future(pending)
        except Exception as error:
            file.state, file.interrupt = "unloaded", None
            if interrupt.is_set:  # a request that waits meanwhile has it loaded again
                log.info("loading model %s was interrupted", file.name)
                return
            file.n_failures += 1
            if isinstance(error, LlamaHerdError):
                log.warning("model %s was not loaded: %s", file.name, error)
            else:
                log.exception("model %s was not loaded", file.name)
            self._end_waiting(file, file.not_loaded(file.name, str(error)))
            return
        file.load_s = time.perf_counter() - start_s
        log.info("model %s loaded in %.1f s", file.name, file.load_s)
        file.loaded, file.state, file.interrupt = loaded, "loaded", None
        file.was_interrupted, file.n_cache = False, loaded.n_cache
        n_used = sum(each.n_bytes for each in self._files if each.state == "loaded")
        if n_used > self._n_bytes:
            # Its real size is now known and does not fit: it is loaded again when there
            # is free memory, or refused if it exceeds the whole memory.
            await self._unload(file)
            if file.n_bytes > self._n_bytes:
                self._end_waiting(file, self._too_large(file, file.name))

    async def _unload(self, file: ServedFile) -> None:
        loaded, file.loaded, file.state = file.loaded, None, "unloading"
        if loaded is not None:
            counts = [each.counts for each in loaded.served.values()]
            self._past = sum_of_counts([self._past, *counts])
            pending = self._thread.submit(loaded.close)
            del loaded  # memory is freed once nothing refers to it
            try:
                await asyncio.wrap_future(pending)
            except Exception:
                log.exception("model %s could not be closed", file.name)
            del pending
        file.n_unloads += 1
        file.state, file.is_stale = "unloaded", False
        log.info("model %s unloaded", file.name)

    def stop_loading(self) -> None:
        """Refuse waiting requests and interrupt the loading of a model."""
        self.is_closed = True
        self._changed.set()
        for file in self._files:
            self._end_waiting(file, stopping())
            if file.interrupt is not None:
                file.interrupt.set()

    async def close(self) -> None:
        """Refuse waiting requests, then unload all models."""
        self.stop_loading()
        if self._mover is not None:
            await self._mover
        for file in self._files:
            if file.state == "loaded":
                await self._unload(file)
        self._thread.shutdown()

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


def _victims(
    in_memory: Sequence[ServedFile], short: int, *, with_used: bool
) -> list[ServedFile]:
    """Return models whose unloading frees `short` bytes; none if this is impossible.

    Models without requests come first, and among them the least recently used. Models
    with requests are chosen only with `with_used`.
    """
    chosen: list[ServedFile] = []
    for file in sorted(in_memory, key=lambda file: (file.n_leases > 0, file.used)):
        if sum(each.n_bytes for each in chosen) >= short:
            break
        if with_used or not file.n_leases:
            chosen.append(file)
    total = sum(file.n_bytes for file in chosen)
    for file in tuple(chosen):  # drop it if the others free enough
        if total - file.n_bytes >= short:
            chosen.remove(file)
            total -= file.n_bytes
    return chosen if total >= short else []


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
