"""Work on one batch: its requests run in slots that requests of clients leave free."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from llamaherd.engine.core.errors import LlamaHerdError
from llamaherd.server.batches.lines import (
    RequestLine,
    check_lines,
    line_error,
    model_names,
    next_requests,
    request_lines,
)
from llamaherd.server.batches.store import (
    NOT_STORED,
    BatchOutcome,
    BatchProgress,
    reason_of,
)
from llamaherd.server.errors import ApiError
from llamaherd.server.protocol import RequestRecord, dumps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from starlette.types import ASGIApp, Message

    from llamaherd.server.batches.store import Batch, BatchStore, Status
    from llamaherd.server.model_view import ModelView
    from llamaherd.server.state import SharedState

log = logging.getLogger(__name__)

_T = TypeVar("_T")
# Number of requests of a batch that wait or run, so that a free slot is filled soon.
_AT_ONCE = 64
_TO_RETRY = (0, 429, 503)  # statuses of a full or stopping server
_RETRY_S = 0.5
# Pauses between attempts to use the store while the disk is full; the last one repeats.
_PAUSES_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_EXPIRED = dumps({"code": "batch_expired", "message": "the batch expired before it ran"})


class ModelGoneError(LlamaHerdError):
    """The model that a batch began with no longer answers."""


End = Literal["cancelled", "expired"]


class BatchWork(Protocol):
    """Access to the store."""

    async def do(self, work: Callable[[BatchStore], _T]) -> _T:
        """Run a function with the store, on another thread."""


class BatchRun:
    """Work on a batch from its present status to its end.

    A cancelled task leaves the batch unchanged, so that the next server can continue it.
    If the store cannot be written, for example because the disk is full, finished answers
    stay in memory, no further request starts, and the batch continues when there is
    space again.

    Attributes:
        problem: Reason why the batch waits; "" if it does not wait.
    """

    def __init__(
        self,
        work: BatchWork,
        shared: SharedState,
        app: ASGIApp,
        batch: Batch,
        models: ModelView,
    ) -> None:
        self._work = work
        self._shared = shared
        self._app = app
        self._batch = batch
        self._models = models
        self._gone: ModelGoneError | None = None
        self.problem = ""
        self._end: End | None = None
        self._end_time = 0
        self._ended = asyncio.Event()
        self._is_over = False
        self._running: set[asyncio.Task[None]] = set()
        self._outcomes: list[BatchOutcome] = []
        self._n_before = 0  # requests that an earlier server answered
        self._n_here = 0  # requests answered or failed since then
        self._began_s: float | None = None  # start of the first request

    @property
    def progress(self) -> BatchProgress:
        """Progress so far, computed without reading the store."""
        began_s = self._began_s
        return BatchProgress(
            id=self._batch.id,
            endpoint=self._batch.endpoint,
            status=self.shown(self._batch).status,
            n_total=self._batch.n_total,
            n_done=self._n_before + self._n_here,
            n_here=self._n_here,
            elapsed_s=0.0 if began_s is None else time.monotonic() - began_s,
            problem=self.problem,
        )

    def end(self, how: End) -> None:
        """End the batch early, and keep the finished answers.

        Running requests end at once, even if the store cannot be written at present.
        """
        if self._end is None:
            self._end = how
            self._end_time = int(time.time())
            self._ended.set()
            self._cancel_requests()

    def shown(self, batch: Batch) -> Batch:
        """Return a stored batch, as cancelled if its cancellation is not stored yet."""
        is_cancelled = self._end == "cancelled" and batch.is_active
        if not is_cancelled or "cancelling" in batch.times:
            return batch
        times = {**batch.times, "cancelling": self._end_time}
        return replace(batch, status="cancelling", times=times)

    async def run(self) -> Batch:
        """Process the rest of the batch; return the batch in its final state.

        Raises:
            ModelGoneError: Another model answers than the one that the batch began with.
        """
        left_s = await self._do(lambda store: self._batch.expires - store.now)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(max(0, left_s), self.end, "expired")
        if "cancelling" in self._batch.times:
            self.end("cancelled")
        try:
            path = await self._do(self._find)
            await self._check(path)
            if self._batch.is_active:
                await self._bind(path)
                await self._ask_all(path)
                if self._end == "cancelled":
                    await self._move("cancelling")
                await self._move("finalizing")
                self._batch = await self._do(self._finish)
            return self._batch
        finally:
            timer.cancel()

    def _finish(self, store: BatchStore) -> Batch:
        # A cancellation that came after the last move may not be stored yet.
        if self._end == "cancelled":
            self._batch = store.move(self._batch, "cancelling")
        return store.finish(self._batch)

    async def _do(self, work: Callable[[BatchStore], _T]) -> _T:
        """Run a function with the store; try again until the disk can be used."""
        pauses = chain(_PAUSES_S, repeat(_PAUSES_S[-1]))
        while True:
            try:
                found = await self._work.do(work)
            except NOT_STORED as error:
                self._report(error)
                await asyncio.sleep(next(pauses))
            else:
                if self.problem:
                    log.warning("batch %s continues", self._batch.id)
                    self.problem = ""
                return found

    async def _slowly(self, work: Callable[[], _T]) -> _T:
        """Run a function that may take seconds on a thread for long work of batches."""
        long = self._shared.threads.pool("long", is_background=True)
        return await asyncio.wrap_future(long.submit(work))

    def _report(self, error: Exception) -> None:
        problem = (
            f"the batch waits, because the server cannot use its data on disk "
            f"({reason_of(error)}): free space there; the batch then continues"
        )
        if not self.problem:
            log.error("batch %s: %s (%s)", self._batch.id, problem, error)
        self.problem = problem

    def _find(self, store: BatchStore) -> Path | None:
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
            errors = [line_error("invalid_file", None, None, text)]
        else:
            n, errors = await self._slowly(
                partial(
                    check_lines,
                    path,
                    self._batch.endpoint,
                    self._shared.bodies.most,
                    lambda: self._end == "cancelled",
                )
            )

        def store_check(store: BatchStore) -> Batch:
            now = store.batch(self._batch.id) or self._batch
            if self._end == "cancelled" or "cancelling" in now.times:
                return store.update(now, n_total=n)
            checked = store.update(now, n_total=n, errors=errors)
            return store.move(checked, "failed" if errors else "in_progress")

        self._batch = await self._do(store_check)

    async def _bind(self, path: Path | None) -> None:
        """Bind the batch to the models of its requests, or check those it is bound to."""
        names = set(self._batch.models or ())
        if self._batch.models is None and path is not None:
            names = await self._slowly(partial(model_names, path))
        for name in sorted(names):
            if self._end is None:  # a batch that ends anyway only keeps its answers
                await self._check_model(name)

    async def _check_model(self, name: str) -> None:
        """Check that the model of a name is the one that the batch began with."""
        asked, path = name or None, self._batch.endpoint
        identity = await self._slowly(partial(self._models.identity, asked, path))
        bound = (self._batch.models or {}).get(name)
        if bound is None and identity is not None:
            models = {**(self._batch.models or {}), name: identity}
            self._batch = await self._do(
                lambda store: store.update(self._batch, models=models)
            )
        elif bound != identity:
            named = f" under the name {name!r}" if name else ""
            raise ModelGoneError(
                f"the batch began with another model{named} ({bound}), which this server "
                "does not have, or whose file was replaced: start the server with that "
                "model to continue the batch, or cancel it; its answers so far are kept"
            )

    async def _ask_all(self, path: Path | None) -> None:
        """Run the requests that have no outcome, until the end of the batch."""
        done = await self._do(lambda store: store.done_lines(self._batch))
        self._n_before, self._began_s = len(done), time.monotonic()
        try:
            if path is not None:
                await self._start_all(request_lines(path, done))
            while self._running and not self._ended.is_set():
                await self._wait()
        except BaseException:
            await self._end_requests()
            await self._store_last()
            raise
        await self._end_requests()
        await self._store_outcomes()
        if self._gone is not None and self._end is None:
            raise self._gone
        if self._end == "expired" and path is not None:
            await self._expire(path)

    async def _start_all(self, requests: Iterator[RequestLine]) -> None:
        """Start each request when few others run, until the end of the batch.

        Outcomes are stored before a further request starts. So at most `_AT_ONCE`
        requests run or wait to be stored, however slowly the file is read.
        """
        files = self._shared.threads.files
        while found := await asyncio.wrap_future(files.submit(next_requests, requests)):
            for request in found:
                while not (self._may_start() or self._ended.is_set()):
                    await self._wait()
                if self._ended.is_set():
                    return
                self._start(request)

    def _may_start(self) -> bool:
        return not self._outcomes and len(self._running) < _AT_ONCE

    def _cancel_requests(self) -> None:
        self._is_over = True
        for task in self._running:
            task.cancel()

    async def _end_requests(self) -> None:
        self._cancel_requests()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _start(self, request: RequestLine) -> None:
        task = asyncio.get_running_loop().create_task(self._ask(request))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _wait(self) -> None:
        """Wait for an outcome or the end of the batch; store all outcomes so far.

        Outcomes that came since the last call, while nothing waited, are stored at once.
        """
        if not self._outcomes:
            ended = asyncio.get_running_loop().create_task(self._ended.wait())
            try:
                await asyncio.wait(
                    {*self._running, ended}, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                ended.cancel()
        await self._store_outcomes()

    async def _store_outcomes(self) -> None:
        """Store all outcomes so far; they stay in memory until they are on disk."""
        while self._outcomes:
            new = tuple(self._outcomes)
            await self._do(partial(self._add, new))
            del self._outcomes[: len(new)]

    def _add(self, outcomes: Sequence[BatchOutcome], store: BatchStore) -> None:
        store.add_outcomes(self._batch, outcomes)

    async def _store_last(self) -> None:
        """Try once to store the outcomes, because the server stops."""
        outcomes = tuple(self._outcomes)
        try:
            if outcomes:
                await self._work.do(partial(self._add, outcomes))
        except NOT_STORED as error:
            log.warning(
                "batch %s: %d answers could not be stored (%s); the next server computes "
                "them again",
                *(self._batch.id, len(outcomes), reason_of(error)),
            )

    async def _ask(self, request: RequestLine) -> None:
        """Run a request until it has an outcome."""
        while True:
            status, answer = await self._answer(request)
            if self._is_over:  # the batch was cancelled, or the server stops
                return
            try:
                await self._check_model(request.model)
            except ModelGoneError as error:  # the answer may be that of another model
                self._gone = error
                self._ended.set()
                return
            if status not in _TO_RETRY:
                break
            await asyncio.sleep(_RETRY_S)
        outcome = BatchOutcome(request.line, request.custom_id, status, answer)
        self._outcomes.append(outcome)
        self._n_here += 1

    async def _answer(self, request: RequestLine) -> tuple[int, str]:
        """Run a request; return the status and the JSON of its answer or error."""
        try:
            if request.error is not None:
                raise request.error
            return await _ask(self._app, self._batch.endpoint, request.body)
        except ApiError as error:  # only this request fails
            return error.status, dumps(error.body)

    async def _expire(self, path: Path) -> None:
        """Store errors for the requests that did not run in time."""

        def expire(store: BatchStore) -> None:
            left = request_lines(path, store.done_lines(self._batch))
            while found := next_requests(left):
                lost = [
                    BatchOutcome(each.line, each.custom_id, 0, _EXPIRED) for each in found
                ]
                store.add_outcomes(self._batch, lost)

        await self._do(expire)


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
    # The body is empty if the request was abandoned without a response.
    return status, b"".join(parts).decode("ascii") or "{}"
