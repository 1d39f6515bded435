"""Models of a server: one least-recently-used set of files in memory, under one lock.

Models are loaded and closed on another thread; all methods are called on the thread of
the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from llamaherd.engine.core.errors import LlamaHerdError
from llamaherd.engine.core.outcome import Counts
from llamaherd.engine.core.stats import Load
from llamaherd.engine.core.words import words
from llamaherd.engine.native.models import LoadInterrupt
from llamaherd.server.errors import ApiError, retry_after, stopping
from llamaherd.server.models.loading import ServedFile, StoredModel
from llamaherd.server.models.spec import shown_down, shown_up
from llamaherd.server.protocol import ClientGoneError
from llamaherd.server.settings import name_among

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from starlette.types import Receive

    from llamaherd.engine.loop.slot_times import SlotTimes
    from llamaherd.engine.model.loading import ModelHeader
    from llamaherd.engine.model.model import Model
    from llamaherd.server.formats import Served
    from llamaherd.server.state import ModelStatus

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class ModelStore:
    """Models of a server: open ones, or files. A request that asks for a file loads it.

    A request for a model in memory uses it at once. Other requests take the lock in the
    order of their arrival. The request with the lock loads its model, after it has
    unloaded the least recently used models for which there is no memory beside it. All
    requests that wait for this model then use it, so that requests in turn for models
    that do not fit together load each model once, not once per request.
    """

    def __init__(
        self,
        models: Sequence[StoredModel],
        *,
        n_bytes: int = 0,  # memory of weights, KV caches and buffers of all files
        wait_s: float = 0.0,  # maximum time that a request of a client waits for memory
        any_model: bool = False,
    ) -> None:
        self._models = models
        self._files = [model for model in models if isinstance(model, ServedFile)]
        self._of_name: dict[str, StoredModel] = {}
        for model in models:
            for name in model.names:
                self._of_name.setdefault(name, model)
        self._any_model = any_model
        self._n_bytes = n_bytes
        self._wait_s = wait_s
        self._thread = ThreadPoolExecutor(1, "llamaherd-models")
        self._lock = asyncio.Lock()  # held while models are unloaded and loaded
        self._changed = asyncio.Event()  # set when a request ends; then replaced
        # Model for which the thread works; its requests wait until it is loaded.
        self._in_work: ServedFile | None = None
        self._interrupt = LoadInterrupt()  # ends the loading at the end of the server
        self._watchers: set[asyncio.Task[None]] = set()  # of clients that wait
        self._n_leases = 0
        self._past = Counts()  # of the engines of unloaded models
        self._is_ended = False

    # ---- what pages show ----

    @property
    def has_files(self) -> bool:
        """Whether models are loaded on demand; metrics then have a model label."""
        return bool(self._files)

    @property
    def is_closed(self) -> bool:
        """Whether no prompts can run."""
        return self._is_ended or any(model.is_closed for model in self._models)

    def name_of(self, requested: str | None) -> str | None:
        """Return the name of the model for a request; None if unknown."""
        default_name = next(iter(self._of_name))
        if requested is None:
            return default_name
        name = name_among(requested, self._of_name)
        return default_name if name is None and self._any_model else name

    def identity(self, requested: str | None, endpoint: str) -> str | None:
        """Return the identity of the model that answers requests; safe on any thread.

        The first call takes about one second per GB.
        """
        name = self.name_of(requested)
        return None if name is None else self._of_name[name].identity(name, endpoint)

    def header(self, name: str) -> Model | ModelHeader:
        """Return the metadata of a model, without loading it; safe on any thread."""
        return self._of_name[name].header(name)

    @property
    def load(self) -> Load:
        """Running and waiting prompts of all models in memory."""
        return sum((model.load for model in self._models), Load())

    @property
    def counts(self) -> Counts:
        """Counts of the engines of all models, including unloaded ones."""
        served = (part for model in self._models for part in model.served.values())
        return sum((model.counts for model in served), self._past)

    def slots(self) -> dict[str, SlotTimes]:
        """Return the times of the slots of models and adapters in memory, by name.

        A call makes the engines measure these times for a few seconds.
        """
        served = (item for model in self._models for item in model.served.items())
        return {name: part.slot_times for name, part in served}

    def statuses(self) -> list[ModelStatus]:
        """Return the data that pages show about each model and adapter."""
        return [model.status(name) for name, model in self._of_name.items()]

    # ---- requests ----

    @asynccontextmanager
    async def lease(
        self, name: str, receive: Receive, *, is_patient: bool = False
    ) -> AsyncIterator[Served]:
        """Load a model if it is not in memory, and keep it there within the block.

        A patient request (of a batch) waits until other models have no requests.
        """
        model = self._of_name[name]
        with nullcontext() if is_patient else model.queue.slot():
            if self._is_ended:
                raise stopping()
            if isinstance(model, ServedFile) and model.state != "loaded":
                await self._wait(model, name, receive, is_patient=is_patient)
            else:
                self._enter(model)
            try:
                yield model.served_as(name)
            finally:
                self._leave(model)

    def _enter(self, model: StoredModel) -> None:
        self._n_leases += 1
        model.n_leases += 1
        model.used = self._n_leases

    def _leave(self, model: StoredModel) -> None:
        model.n_leases -= 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait(
        self, file: ServedFile, name: str, receive: Receive, *, is_patient: bool
    ) -> None:
        """Wait until a request uses its model, its client leaves or the server stops."""
        loop = asyncio.get_running_loop()
        admitted: asyncio.Future[None] = loop.create_future()
        file.waiting.append(admitted)
        bring = loop.create_task(
            self._bring(file, file.n_failures, is_patient=is_patient)
        )
        gone = loop.create_task(_wait_for_disconnect(receive))
        self._watchers.add(gone)
        try:
            while not (admitted.done() or bring.done()):
                limit_s = None if is_patient else self._wait_s
                first, of_request = asyncio.FIRST_COMPLETED, {admitted, bring, gone}
                await asyncio.wait(of_request, timeout=limit_s, return_when=first)
                # Only the wait for memory is limited, not the time of loading.
                is_over = admitted.done() or bring.done() or file is self._in_work
                self._check_waiting(gone, None if is_over else self._no_room(file, name))
            if not admitted.done():
                bring.result()
        except BaseException:
            if admitted.done():  # a request that was given up leaves its model
                self._leave(file)
            else:
                file.waiting.remove(admitted)
            raise
        finally:
            self._watchers.discard(gone)
            gone.cancel()
            bring.add_done_callback(_read_error)
            if file is not self._in_work:
                bring.cancel()

    def _check_waiting(self, gone: asyncio.Task[None], problem: ApiError | None) -> None:
        if gone.done():
            raise stopping() if self._is_ended else ClientGoneError
        if problem is not None:
            raise problem

    async def _bring(
        self, file: ServedFile, n_failures: int, *, is_patient: bool
    ) -> None:
        """Load a model if necessary; let all requests that wait for it use it."""
        while True:
            async with self._lock:
                if self._is_ended:
                    raise stopping()
                if file.n_failures > n_failures:  # while this request waited
                    raise file.not_loaded(file.name, file.failure)
                if file.state == "loaded" or self._may_load(file, is_patient=is_patient):
                    if file.state != "loaded":
                        await self._load(file)
                    for admitted in file.waiting:
                        self._enter(file)
                        admitted.set_result(None)
                    file.waiting.clear()
                    return
                changed = self._changed
            file.n_patient += 1
            try:
                await changed.wait()
            finally:
                file.n_patient -= 1

    # ---- loading and unloading ----

    def _may_load(self, file: ServedFile, *, is_patient: bool) -> bool:
        """Whether a model may be loaded, and models in use unloaded for it."""
        in_use = sum(other.n_bytes for other in self._files if other.n_leases)
        return not is_patient or in_use + file.n_bytes <= self._n_bytes

    async def _load(self, file: ServedFile) -> None:
        """Load a model, after others have been unloaded for it."""
        file.n_weights = file.spec.n_bytes  # its files may have been replaced
        if file.n_bytes > self._n_bytes:
            raise self._too_large(file)
        await self._make_room(file, file.n_bytes)
        start_s = time.perf_counter()
        file.state = "loading"
        file.n_loads += 1
        load = partial(file.open, file.spec, file.n_cache, self._interrupt)
        try:
            loaded = await self._run(file, load)
        except Exception as error:
            file.state = "unloaded"
            if self._is_ended:
                raise stopping() from None
            file.n_failures += 1
            file.failure = str(error)
            if isinstance(error, LlamaHerdError):
                log.warning("model %s was not loaded: %s", file.name, error)
            else:
                log.exception("model %s was not loaded", file.name)
            raise file.not_loaded(file.name, file.failure) from None
        file.load_s = time.perf_counter() - start_s
        log.info("model %s loaded in %.1f s", file.name, file.load_s)
        file.loaded, file.state, file.n_cache = loaded, "loaded", loaded.n_cache
        if file.n_bytes > self._n_bytes:  # its real size is known now
            await self._unload(file, file)
            raise self._too_large(file)
        await self._make_room(file, 0)

    async def _make_room(self, file: ServedFile, n_bytes: int) -> None:
        """Unload models other than `file` until there is memory of this size.

        Models without requests are unloaded first, and of these the least recently used.
        Requests of a model in use finish, and later ones wait.
        """
        while True:
            in_memory = [other for other in self._files if other.state == "loaded"]
            if sum(other.n_bytes for other in in_memory) + n_bytes <= self._n_bytes:
                return
            others = [other for other in in_memory if other is not file]
            victim = min(others, key=lambda other: (other.n_leases > 0, other.used))
            victim.state = "unloading"
            try:
                while victim.n_leases:
                    await self._changed.wait()
            except asyncio.CancelledError:  # the request was given up
                victim.state = "loaded"
                raise
            await self._unload(victim, file)

    async def _unload(self, victim: ServedFile, file: ServedFile) -> None:
        """Close a model; `file` is the one that needs its memory."""
        loaded, victim.loaded, victim.state = victim.loaded, None, "unloading"
        if loaded is not None:
            counts = (model.counts for model in loaded.served.values())
            self._past = sum(counts, self._past)
            try:
                await self._run(file, loaded.close)
            except Exception:
                log.exception("model %s could not be closed", victim.name)
            del loaded  # memory is freed once nothing refers to it
        victim.n_unloads += 1
        victim.state = "unloaded"
        log.info("model %s unloaded", victim.name)

    async def _run(self, file: ServedFile, work: Callable[[], _T]) -> _T:
        """Run a function on the thread, for the requests of a model."""
        self._in_work = file
        try:
            return await asyncio.wrap_future(self._thread.submit(work))
        finally:
            self._in_work = None

    def stop_loading(self) -> None:
        """Refuse waiting requests and interrupt the loading of a model."""
        self._is_ended = True
        self._interrupt.set()
        for gone in self._watchers:
            gone.cancel()

    async def close(self) -> None:
        """Refuse waiting requests, then unload all models."""
        self.stop_loading()
        async with self._lock:
            for file in self._files:
                if file.state == "loaded":
                    await self._unload(file, file)
        self._thread.shutdown()

    # ---- errors ----

    def _too_large(self, file: ServedFile) -> ApiError:
        return ApiError(
            404,
            f"the model {file.name!r} needs {shown_up(file.n_bytes)} with its KV cache "
            f"and buffers, and the server has {shown_down(self._n_bytes)} for models "
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


def _read_error(task: asyncio.Task[None]) -> None:
    """Read the error of a task that nobody waits for, which asyncio would log."""
    if not task.cancelled():
        task.exception()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
