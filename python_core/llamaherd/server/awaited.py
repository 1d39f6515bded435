"""Jobs that asyncio waits for without an additional thread."""

from __future__ import annotations

import asyncio
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from llamaherd.run.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from llamaherd.run.job import Runnable

_T = TypeVar("_T")


class AwaitedJob(Generic[_T]):
    """Job of a request, started at once.

    Args:
        work: Work of the job.
    """

    def __init__(self, work: Runnable[_T]) -> None:
        self._work = work
        self._lock = Lock()
        self._listeners: list[Callable[[], object]] = []
        self._is_done = False
        self._job: Job[_T] = Job(self)

    @property
    def progress(self) -> object:
        """Counts of finished units."""
        return self._work.progress

    @property
    def problem(self) -> str:
        """Warning for the caller after the run; "" without a warning."""
        return self._work.problem

    def run(self) -> _T:
        """Do the work, on the thread of the job."""
        try:
            return self._work.run()
        finally:
            with self._lock:
                self._is_done = True
                listeners, self._listeners = self._listeners, []
            for listener in listeners:
                listener()

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
            if self._is_done:
                event.set()
            else:
                self._listeners.append(lambda: loop.call_soon_threadsafe(event.set))
        try:
            await event.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self._job.outcome()


class AwaitedWork(AwaitedJob[_T]):
    """Job whose results are the results of its work."""

    def __await__(self) -> Generator[object, None, _T]:
        """Wait for the results, see `outcome`."""
        return self.outcome().__await__()
