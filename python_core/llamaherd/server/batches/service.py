"""Files and batches of a server, and the runs of its unfinished batches."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from llamaherd.server.batches.batch import line_error
from llamaherd.server.batches.runner import BatchRun, ModelGoneError
from llamaherd.server.batches.store import BatchStore
from llamaherd.server.threads import run_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from starlette.types import ASGIApp

    from llamaherd.server.batches.batch import Batch, BatchProgress
    from llamaherd.server.state import ModelView, SharedState

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_N_ENDED = 5  # number of ended batches that the dashboard shows
_N_THREADS = 4  # so that short work with the store does not wait for long work


class BatchService:
    """Files and batches of a server, from its start to its end."""

    def __init__(
        self,
        shared: SharedState,
        folder: Path | None,
        endpoints: Mapping[str, ASGIApp],
        models: ModelView,
    ) -> None:
        self.endpoints = endpoints
        self.shared = shared
        self._models = models
        self._threads = ThreadPoolExecutor(_N_THREADS, "llamaherd-batches")
        self._opening = Lock()
        self._store = None if folder is None else BatchStore(folder)
        self._runs: dict[str, tuple[BatchRun, asyncio.Task[None]]] = {}
        self._stopped: dict[str, str] = {}  # unfinished batches without a run: reasons
        self._ended: list[BatchProgress] | None = None  # None after a change

    @property
    def n_active(self) -> int:
        """Number of batches that are not finished."""
        return len(self._runs)

    def shown(self, batch: Batch) -> Batch:
        """Return a stored batch with the reason why it waits or stopped, if any."""
        if not batch.is_active:
            return batch
        code, text = "batch_stopped", self._stopped.get(batch.id)
        if batch.id in self._runs:
            code, text = self._runs[batch.id][0].waits
        errors = [line_error(code, None, text)] if text else []
        return replace(batch, errors=[*batch.errors, *errors])

    async def progress(self) -> list[BatchProgress]:
        """Return the progress of running batches and of the batches that ended last.

        The store is read only if a batch ended since the last call.
        """
        running = [run.progress for run, _ in self._runs.values()]
        if self._ended is None and self._store is not None:
            ended = await self.do(lambda store: store.batches(is_active=False))
            self._ended = [batch.progress for batch in ended[:_N_ENDED]]
        return [*running, *(self._ended or ())]

    async def do(self, work: Callable[[BatchStore], _T]) -> _T:
        """Run a function with the store, on another thread."""
        return await run_on(self._threads, lambda: work(self._opened()))

    def _opened(self) -> BatchStore:
        with self._opening:
            if self._store is None:
                self._store = BatchStore(None)
            return self._store

    async def resume(self) -> None:
        """Start the batches that an earlier server did not finish."""
        if self._store is not None:
            for batch in await self.do(lambda store: store.batches(is_active=True)):
                self.start(batch)

    async def close(self) -> None:
        """Stop all batches. The next server with the same folder continues them."""
        tasks = [task for _, task in self._runs.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)
        if self._store is not None:
            self._store.close()

    def start(self, batch: Batch) -> None:
        """Start or resume the work on a batch."""
        app = self.endpoints.get(batch.endpoint)
        if app is None:  # from a newer version
            log.error("batch %s has an unknown endpoint", batch.id)
            text = f"this server has no path {batch.endpoint}"
            self._stopped[batch.id] = f"{text}: start the server that accepted the batch"
            return
        run = BatchRun(self.shared, self._models, app, self.do, batch)
        task = asyncio.get_running_loop().create_task(self._watched(run, batch.id))
        self._runs[batch.id] = (run, task)

    async def cancel(self, batch: Batch) -> Batch:
        """Cancel a batch, and keep the finished answers.

        A batch without a run (after an error, or with an unknown endpoint) ends at once.
        """
        cancelling = await self.do(lambda store: store.move(batch, "cancelling"))
        # The run may have ended or started while the store was used.
        if batch.id in self._runs:
            self._runs[batch.id][0].end("cancelled")
            return self.shown(cancelling)
        ended = await self.do(lambda store: store.finish(cancelling))
        self._stopped.pop(batch.id, None)
        self._ended = None
        return ended

    async def _watched(self, run: BatchRun, batch_id: str) -> None:
        """Run a batch; log its final status."""
        try:
            batch = await run.run()
            log.info(
                "batch %s %s: %d of %d answered, %d failed",
                *(batch.id, batch.status, batch.n_done, batch.n_total, batch.n_failed),
            )
        except ModelGoneError as error:
            log.warning("batch %s stopped: %s", batch_id, error)
            self._stopped[batch_id] = str(error)
        except Exception as error:
            # The next server continues the batch.
            log.exception("batch %s stopped", batch_id)
            self._stopped[batch_id] = (
                f"the work on the batch stopped because of an error ({error}): restart "
                "the server to continue it, or cancel the batch"
            )
        finally:
            self._runs.pop(batch_id, None)
            self._ended = None
