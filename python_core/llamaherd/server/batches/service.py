"""Files and batches of a server, and the work on its unfinished batches."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from llamaherd.engine.core.errors import LlamaHerdError
from llamaherd.server.batches.batch import (
    Batch,
    BatchOutcome,
    BatchProgress,
    RequestLine,
    Status,
    check_lines,
    line_error,
    request_lines,
)
from llamaherd.server.batches.store import NOT_STORED, BatchStore, reason_of
from llamaherd.server.protocol import RequestRecord, dumps
from llamaherd.server.threads import run_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from starlette.types import ASGIApp, Message

    from llamaherd.server.models.store import ModelStore
    from llamaherd.server.state import SharedState

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_N_ENDED = 5  # number of ended batches that the dashboard shows
_N_THREADS = 4  # so that short work with the store does not wait for long work
# Number of requests of a batch that wait, run or are being stored, so that a free slot is
# filled soon.
_AT_ONCE = 64
_TO_RETRY = (0, 429, 503)  # statuses of a full or stopping server
_RETRY_S = 0.5
# Pauses between attempts to use the store while the disk is full; the last one repeats.
_PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_EXPIRED = dumps({"code": "batch_expired", "message": "the batch expired before it ran"})


class BatchService:
    """Files and batches of a server, from its start to its end."""

    def __init__(
        self,
        shared: SharedState,
        folder: Path | None,
        endpoints: Mapping[str, ASGIApp],
        models: ModelStore,
    ) -> None:
        self.shared = shared
        self.endpoints = endpoints
        self.models = models
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

    def with_reason(self, batch: Batch) -> Batch:
        """Return a stored batch with the reason why it waits or stopped, if any."""
        if not batch.is_active:
            return batch
        code, text = "batch_stopped", self._stopped.get(batch.id)
        if batch.id in self._runs:
            code, text = self._runs[batch.id][0].waits
        errors = [line_error(code, None, text)] if text else []
        return replace(batch, errors=[*batch.errors, *errors])

    async def progress(self) -> list[BatchProgress]:
        """Return the progress of running batches and of those that ended last."""
        running = [run.progress for run, _ in self._runs.values()]
        if self._ended is None and self._store is not None:
            ended = await self.do(lambda store: store.batches(is_active=False))
            self._ended = [batch.progress for batch in ended[:_N_ENDED]]
        return [*running, *(self._ended or ())]

    async def do(self, work: Callable[[BatchStore], _T]) -> _T:
        """Run a function with the store, on another thread."""
        return await run_on(self._threads, lambda: work(self._open_store()))

    def _open_store(self) -> BatchStore:
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
        run = BatchRun(self, app, batch)
        task = asyncio.get_running_loop().create_task(self._run_watched(run, batch.id))
        self._runs[batch.id] = (run, task)

    async def cancel(self, batch: Batch) -> Batch:
        """Cancel a batch, and keep the finished answers.

        A batch without a run (after an error, or with an unknown endpoint) ends at once.
        """
        cancelling = await self.do(lambda store: store.move(batch, "cancelling"))
        # The run may have ended or started while the store was used.
        if batch.id in self._runs:
            self._runs[batch.id][0].end("cancelled")
            return self.with_reason(cancelling)
        ended = await self.do(lambda store: store.finish(cancelling))
        self._stopped.pop(batch.id, None)
        self._ended = None
        return ended

    async def _run_watched(self, run: BatchRun, batch_id: str) -> None:
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


class ModelGoneError(LlamaHerdError):
    """The model that a batch began with no longer answers."""


class BatchRun:
    """Work on a batch from its present status to its end.

    A cancelled task leaves the batch unchanged, so that the next server can continue it.
    If the store cannot be written, for example because the disk is full, finished answers
    stay in memory, no further request starts, and the batch continues when there is
    space again.
    """

    def __init__(self, service: BatchService, app: ASGIApp, batch: Batch) -> None:
        self._service = service
        self._shared = service.shared
        self._models = service.models
        self._app = app
        self._batch = batch
        self._problem = ""  # reason why the store cannot be used; "" if it can
        self._end: Literal["cancelled", "expired"] | None = None
        self._workers: list[asyncio.Task[None]] = []
        self._requests: Iterator[RequestLine] = iter(())
        self._storing = asyncio.Lock()
        self._outcomes: list[BatchOutcome] = []  # not stored yet
        self._n_before = 0  # requests that an earlier server answered
        self._n_here = 0  # requests answered or failed since then
        self._began_s = 0.0  # start of the first request

    @property
    def progress(self) -> BatchProgress:
        """Progress so far, computed without reading the store."""
        batch, n_done = self._batch, self._n_before + self._n_here
        elapsed_s = time.monotonic() - self._began_s
        return replace(
            batch.progress,
            n_done=n_done,
            left_s=expected_s(batch.n_total - n_done, self._n_here, elapsed_s),
            problem=self.waits[1],
        )

    @property
    def waits(self) -> tuple[str, str]:
        """Code and text of the reason why the batch waits; empty if it does not wait."""
        if self._problem:
            return "storage_failed", self._problem
        names = {self._models.name_of(name or None) for name in self._batch.models or ()}
        for model in self._models.statuses():
            if model.name in names and model.n_patient:
                return "waiting_for_memory", (
                    f"requests wait for memory for the model {model.name!r}, which "
                    "requests for other models use: give the server more (--memory), or "
                    "the batch a server of its own; it expires with its completion_window"
                )
        return "", ""

    def end(self, how: Literal["cancelled", "expired"]) -> None:
        """End the batch early and its running requests at once; keep finished answers."""
        if self._end is None:
            self._end = how
            for worker in self._workers:
                worker.cancel()

    async def run(self) -> Batch:
        """Process the rest of the batch; return the batch in its final state."""
        left_s = await self._do(lambda store: self._batch.expires - store.now)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(max(0, left_s), self.end, "expired")
        if "cancelling" in self._batch.times:
            self.end("cancelled")
        try:
            path = await self._do(self._input)
            await self._check(path)
            if self._batch.is_active:
                await self._bind(path)
                await self._answer_all(path)
                await self._move("finalizing")
                self._batch = await self._do(lambda store: store.finish(self._batch))
            return self._batch
        finally:
            timer.cancel()

    async def _do(self, work: Callable[[BatchStore], _T]) -> _T:
        """Run a function with the store; try again until the disk can be used."""
        pauses = chain(_PAUSES_S, repeat(_PAUSES_S[-1]))
        while True:
            try:
                value = await self._service.do(work)
            except NOT_STORED as error:
                self._report(error)
                await asyncio.sleep(next(pauses))
            else:
                if self._problem:
                    log.warning("batch %s continues", self._batch.id)
                    self._problem = ""
                return value

    async def _slowly(self, work: Callable[[], _T]) -> _T:
        """Run a function that may take seconds on a thread for long work of batches."""
        return await run_on(self._shared.threads.pool("long", is_background=True), work)

    def _report(self, error: Exception) -> None:
        problem = (
            f"the batch waits, because the server cannot use its data on disk "
            f"({reason_of(error)}): free space there; the batch then continues"
        )
        if not self._problem:
            log.error("batch %s: %s (%s)", self._batch.id, problem, error)
        self._problem = problem

    def _input(self, store: BatchStore) -> Path | None:
        file = store.file(self._batch.input_file)  # None if its content is missing
        return None if file is None else store.path(file)

    async def _move(self, status: Status) -> None:
        self._batch = await self._do(lambda store: store.move(self._batch, status))

    async def _check(self, path: Path | None) -> None:
        """Check and count the requests, once."""
        if self._batch.n_total or self._batch.status != "validating":
            return
        n, errors = 0, []
        if path is None:
            text = f"the file {self._batch.input_file} does not exist"
            errors = [line_error("invalid_file", None, text)]
        else:
            endpoint, most = self._batch.endpoint, self._shared.max_body
            n, errors = await self._slowly(
                lambda: check_lines(
                    path, endpoint, most, lambda: self._end == "cancelled"
                )
            )

        def store_check(store: BatchStore) -> Batch:
            stored = store.batch(self._batch.id) or self._batch
            if "cancelling" in stored.times:
                return store.update(stored, n_total=n)
            checked = store.update(stored, n_total=n, errors=errors)
            return store.move(checked, "failed" if errors else "in_progress")

        self._batch = await self._do(store_check)

    async def _bind(self, path: Path | None) -> None:
        """Bind the batch to the models of its requests, or check those it is bound to."""
        names = set(self._batch.models or ())
        if self._batch.models is None and path is not None:
            requests = request_lines(path, set())
            names = await self._slowly(lambda: {line.model for line in requests})
        for name in sorted(names):
            if self._end is None:  # a batch that ends anyway only keeps its answers
                await self._check_model(name)

    async def _check_model(self, name: str) -> None:
        """Check that the model of a name is the one that the batch began with."""
        identity = await self._slowly(
            partial(self._models.identity, name or None, self._batch.endpoint)
        )
        first = (self._batch.models or {}).get(name)
        if first is None and identity is not None:
            models = {**(self._batch.models or {}), name: identity}
            self._batch = await self._do(
                lambda store: store.update(self._batch, models=models)
            )
        elif first != identity:
            named = f" under the name {name!r}" if name else ""
            raise ModelGoneError(
                f"the batch began with another model{named} ({first}), which this server "
                "does not have, or whose file was replaced: start the server with that "
                "model to continue the batch, or cancel it; its answers so far are kept"
            )

    async def _answer_all(self, path: Path | None) -> None:
        """Run the requests that have no outcome, until the end of the batch."""
        done = await self._do(lambda store: store.done_lines(self._batch))
        if path is None:
            return
        self._n_before, self._began_s = len(done), time.monotonic()
        self._requests = request_lines(path, done)
        failure: Exception | None = None
        if self._end is None:
            try:
                async with asyncio.TaskGroup() as group:
                    workers = (self._work() for _ in range(_AT_ONCE))
                    self._workers = [group.create_task(worker) for worker in workers]
            except* Exception as failures:  # noqa: BLE001 - raised below
                failure = failures.exceptions[0]
        await self._store_outcomes()
        if self._end == "expired":
            await self._expire(path)
        if self._end is None and failure is not None:
            raise failure

    async def _work(self) -> None:
        """Run one request after another, each until its outcome is stored."""
        while (request := await self._next()) is not None:
            self._outcomes.append(await self._outcome(request))
            self._n_here += 1
            await self._store_outcomes()

    async def _next(self) -> RequestLine | None:
        """Return the next request of the file, None at its end."""
        read = partial(next, self._requests, None)
        return await run_on(self._shared.threads.files, read)  # one thread: no lock

    async def _store_outcomes(self) -> None:
        """Store the outcomes of all workers; until then they stay in memory."""
        async with self._storing:
            while self._outcomes:  # another worker may have stored those of this one
                new = tuple(self._outcomes)
                await self._do(lambda store: store.add_outcomes(self._batch, new))  # noqa: B023 - called at once
                del self._outcomes[: len(new)]

    async def _outcome(self, request: RequestLine) -> BatchOutcome:
        """Run a request until it has an outcome."""
        while True:
            status, answer = await _ask(self._app, self._batch.endpoint, request.body)
            await self._check_model(request.model)
            if status not in _TO_RETRY:
                return BatchOutcome(request.line, request.custom_id, status, answer)
            await asyncio.sleep(_RETRY_S)

    async def _expire(self, path: Path) -> None:
        """Store errors for the requests that did not run in time."""

        def expire(store: BatchStore) -> None:
            unanswered = request_lines(path, store.done_lines(self._batch))
            lost = (BatchOutcome(r.line, r.custom_id, 0, _EXPIRED) for r in unanswered)
            store.add_outcomes(self._batch, lost)

        await self._do(expire)


def expected_s(n_left: int, n_done: int, elapsed_s: float) -> float | None:
    """Return the seconds for the requests that are left, at the speed so far."""
    return n_left * elapsed_s / n_done if n_done and n_left >= 0 else None


async def _ask(app: ASGIApp, path: str, body: bytes) -> tuple[int, str]:
    """Send a request to an application of this process, without a connection."""
    waiting: list[Message] = [{"type": "http.request", "body": body}]
    status = 0
    parts: list[bytes] = []

    async def receive() -> Message:
        if waiting:
            return waiting.pop()
        await asyncio.Event().wait()  # the client never disconnects
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": path,
        "headers": [(b"content-length", str(len(body)).encode())],
        "llamaherd.record": RequestRecord(is_background=True),
    }
    await app(scope, receive, send)
    task = asyncio.current_task()
    if task is not None and task.cancelling():  # the application answered nevertheless
        raise asyncio.CancelledError
    # The body is empty if the request was abandoned without a response.
    return status, b"".join(parts).decode("ascii") or "{}"
