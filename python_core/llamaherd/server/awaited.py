"""Work of requests that asyncio waits for; while prompts run, it uses no thread."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from llamaherd.loop.threads import wait_or_look
from llamaherd.server.errors import stopping

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Future

    from llamaherd.run.hosted import GroupEnd, Steps
    from llamaherd.server.work_threads import Submitting

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class SteppedWork(Protocol[_T_co]):
    """Work of a request, in steps; see `run.steps`."""

    def cancel(self) -> None:
        """End the work soon; returns at once."""

    def steps(self) -> Steps[_T_co]:
        """Do the work. Called once."""
        ...


class AwaitedJob(Generic[_T]):
    """Job of a request, started at once.

    Each step runs on a thread of a pool. Between two steps, while the prompts of the job
    run in the loop, no thread waits.

    Args:
        work: Work of the job.
        threads: Threads of the steps.
    """

    def __init__(self, work: SteppedWork[_T], threads: Submitting) -> None:
        self._work = work
        self._steps = work.steps()
        self._threads = threads
        # All steps use the messages of the caller's language.
        self._context = copy_context()
        self._lock = Lock()
        self._listeners: list[Callable[[], object]] = []
        self._end: GroupEnd | None = None  # for which the next step waits
        self._is_done = False
        self._result: _T | None = None
        self._error: BaseException | None = None
        self._is_cancelled = False
        self._first = threads.submit(self._step)
        self._first.add_done_callback(self._end_if_dropped)

    def done(self) -> bool:
        """Whether the work is finished."""
        return self._is_done

    def cancel(self) -> None:
        """End the work soon; returns at once."""
        self._is_cancelled = True
        self._work.cancel()

    async def outcome(self) -> _T:
        """Wait for the results of the job, or raise its error."""
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        with self._lock:
            self._listeners.append(lambda: loop.call_soon_threadsafe(event.set))
        try:
            while not self._is_done:
                await wait_or_look(event, self._end_if_lost)
        except asyncio.CancelledError:
            self.cancel()
            raise
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # None only if a step gave it

    def _end_if_lost(self) -> None:
        """End the steps if the thread of the loop died while they wait for it."""
        end = self._end
        error = None if end is None else end.why_lost()
        # If the listener was called, a thread runs or will run the next step.
        if end is not None and error is not None and end.remove_listener(self._go_on):
            self._submit(partial(self._step, error))

    # ---- threads of the pool ----

    def _step(self, lost: MemoryError | None = None) -> None:
        """Run the next step; with `lost`, raise this error where the steps wait."""
        try:
            if lost is None:
                end = self._context.run(next, self._steps)
            else:
                end = self._context.run(self._steps.throw, lost)
            self._end = end
            end.add_listener(self._go_on)
        except StopIteration as stop:
            self._finish(result=stop.value)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._finish(error=error)

    def _go_on(self) -> None:
        """Let a thread run the next step; called by the loop."""
        self._submit(self._step)

    def _submit(self, step: Callable[[], None]) -> None:
        try:
            pending = self._threads.submit(step)
        except (RuntimeError, MemoryError) as error:  # the threads have ended
            self._finish(error=error)
        else:
            pending.add_done_callback(self._end_if_dropped)

    def _end_if_dropped(self, pending: Future[None]) -> None:
        """End the job if its step never runs: it was cancelled, or the threads ended."""
        if pending.cancelled():
            self._finish(error=self._error_of_dropped())

    def _error_of_dropped(self) -> BaseException | None:
        """Return the error of a job whose next step never runs."""
        return stopping()

    def _finish(
        self, *, result: _T | None = None, error: BaseException | None = None
    ) -> None:
        self._result, self._error = result, error
        self._end = None
        with self._lock:
            self._is_done = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            with suppress(RuntimeError):  # the event loop may be closed
                listener()


class AwaitedWork(AwaitedJob[_T]):
    """Job whose results are the results of its work; None if it was cancelled early."""

    def cancel(self) -> None:
        """End the work soon; at once if it waits for a thread."""
        super().cancel()
        self._first.cancel()

    def _error_of_dropped(self) -> BaseException | None:
        return None if self._is_cancelled else super()._error_of_dropped()

    def __await__(self) -> Generator[object, None, _T]:
        """Wait for the results, see `outcome`."""
        return self.outcome().__await__()
