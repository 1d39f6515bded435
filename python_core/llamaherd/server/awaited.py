"""Work of requests that asyncio waits for; while prompts run, it uses no thread."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import copy_context
from threading import Lock
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Executor

    from llamaherd.run.steps import GroupEnd, Steps

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_LOOK_S = 1.0  # maximum delay until a dead loop is noticed


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
        threads: Pool of threads.
    """

    def __init__(self, work: SteppedWork[_T], threads: Executor) -> None:
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
        self._first = threads.submit(self._step)

    def done(self) -> bool:
        """Whether the work is finished."""
        return self._is_done

    def cancel(self) -> None:
        """End the work soon; returns at once."""
        self._work.cancel()

    async def outcome(self) -> _T:
        """Wait for the results of the job, or raise its error."""
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        with self._lock:
            self._listeners.append(lambda: loop.call_soon_threadsafe(event.set))
        try:
            while not self._is_done:
                timer = loop.call_later(_LOOK_S, event.set)
                try:
                    await event.wait()
                finally:
                    timer.cancel()
                event.clear()
                self._check_alive()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # None only if a step gave it

    def _check_alive(self) -> None:
        end = self._end
        if end is not None and end.is_lost and not self._is_done:
            raise MemoryError("the context's thread ended because memory ran out")

    # ---- threads of the pool ----

    def _step(self) -> None:
        try:
            self._end = self._context.run(next, self._steps)
        except StopIteration as stop:
            self._finish(result=stop.value)
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._finish(error=error)
        else:
            self._end.add_listener(self._go_on)

    def _go_on(self) -> None:
        """Let a thread run the next step; called by the loop."""
        try:
            self._threads.submit(self._step)
        except RuntimeError as error:  # the server has ended its threads
            self._finish(error=error)

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
        if self._first.cancel():
            self._finish()

    def __await__(self) -> Generator[object, None, _T]:
        """Wait for the results, see `outcome`."""
        return self.outcome().__await__()
