"""Jobs: work in a separate thread, so that its caller is not blocked.

Python raises KeyboardInterrupt between any two instructions of the main thread, even
between the start of a call and the assignment of its job, or while the results of a first
Ctrl-C are collected. `Interrupts` records it at once and raises it where no result is
lost.
"""

from __future__ import annotations

import asyncio
import signal
import warnings
from contextlib import contextmanager, suppress
from threading import Event, current_thread, main_thread
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from llamaherd.engine.core.errors import JournalWarning
from llamaherd.engine.core.keeping import keep_made, keeping, kept_results
from llamaherd.engine.core.process import ProcessBound
from llamaherd.engine.core.progress import JobProgress
from llamaherd.engine.loop.threads import (
    Worker,
    check_may_wait,
    start_thread,
    wait_for,
    wait_or_look,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from types import FrameType, TracebackType


_REPORT_S = 0.1


class Interrupts:
    """Delays Ctrl-C: `with Interrupts() as interrupts: ...`.

    It does nothing in R, and in threads other than the main thread, as no signals come.
    """

    def __init__(self) -> None:
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        self._is_held = True
        self._is_noted = False

    def __enter__(self) -> Self:
        handler = signal.getsignal(signal.SIGINT)
        is_here = current_thread() is main_thread()
        if is_here and callable(handler) and not _is_of_r(handler):
            self._handler = handler
            signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # Keep a handler that was set in the meantime. The comparison needs `==`,
        # because each access creates a new bound method.
        if self._handler and signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, self._handler)

    def deliver(self, cancel: Callable[[], object] = lambda: None) -> None:
        """Raise a delayed Ctrl-C, if any; `cancel` ends what has begun."""
        if self._is_noted and self._handler is not None:
            self._is_noted = False
            self._is_held = True  # a second Ctrl-C must not interrupt these lines
            try:
                self._handler(signal.SIGINT, None)
            except BaseException:
                cancel()
                raise

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Do not delay Ctrl-C within the block; first raise a delayed Ctrl-C."""
        try:
            self.deliver()
            self._is_held = False
            yield
        finally:
            self._is_held = True

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._is_held or self._handler is None:
            self._is_noted = True
        else:
            self._is_held = True
            self._handler(number, frame)


def _is_of_r(handler: object) -> bool:
    """Return whether R runs Python and owns the handler of Ctrl-C.

    In R, Python's handler only reads the state of R's handler. `signal.signal` would
    remove R's handler, and Python could not restore it.
    """
    return getattr(handler, "__module__", None) == "rpytools.signals"


class Waitable(Protocol):
    """Work in a thread."""

    @property
    def progress(self) -> Any:  # each kind of work has its own
        """Progress of the job."""
        ...

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the work; return whether it has ended."""
        ...

    def cancel(self) -> None:
        """End the work soon; returns at once."""

    def warn(self) -> None:
        """Warn of a new problem of the journal."""


def wait_for_end(
    job: Waitable, report: Callable[[Any], object], interrupts: Interrupts
) -> None:
    """Wait for a job; cancel the job after Ctrl-C or an error in `report`."""
    try:
        is_over = False
        while not is_over:
            is_over = job.wait(_REPORT_S)
            with interrupts.let_through():
                report(job.progress)
                if not is_over:  # `results` warns at the end
                    job.warn()
    except BaseException:
        job.cancel()
        job.wait()
        raise


_LOOK_S = 0.2  # interval in seconds at which `results` looks for a problem
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)


class Runnable(Protocol[_R_co]):
    """Work of a `Job`. Any thread may call the methods other than `run` at any time."""

    @property
    def progress(self) -> Any:  # each kind of work has its own
        """Counts of finished units, a `JobProgress`."""
        ...

    @property
    def problem(self) -> str:
        """Warning for the caller, during and after the run; "" if there is none."""
        ...

    def cancel(self) -> None:
        """Ends the work soon; returns at once."""

    def run(self) -> _R_co:
        """Does the work. Called once, on the job's thread."""
        ...


class Job(ProcessBound, Generic[_R]):
    """Work that runs in a thread: a call to a model, a download, the start of a cluster.

    A job may be used in any thread. In asyncio, `await job` returns its results.

    Args:
        work: The work. The value that its `run` returns is the result of the job.

    Raises:
        RuntimeError: The interpreter is ending, or no thread can be started.
    """

    def __init__(self, work: Runnable[_R]) -> None:
        self._work = work
        self._is_done = Event()
        self._tell = getattr(work, "tell", None)
        self._told = ""  # last problem that was reported
        self._results: _R | None = None
        self._error: BaseException | None = None
        self._listeners: list[Callable[[], object]] = []  # called at the end
        self._worker: Worker | None = None
        self._worker = start_thread(self, self._run)

    @property
    def progress(self) -> Any:  # each kind of work has its own
        """Counts of finished units; for a call that generates, a `Progress`."""
        return self._work.progress

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the work is over. Ctrl-C ends only the wait, not the work.

        Args:
            timeout_s: Maximum time to wait in seconds; None for no limit.

        Returns:
            True if the work is over.

        Raises:
            ForkError: This process was forked; the work runs in the parent process.
            RuntimeError: The caller is a callback of `Handle.add_done_callback`.
        """
        if not self._is_done.is_set():
            check_may_wait()
        return wait_for(self._is_done, timeout_s, self._worker)

    def cancel(self) -> None:
        """Ends the work within a fraction of a second; finished results are kept."""
        self._work.cancel()

    def results(self) -> _R:
        """Waits for the end of the work and returns its results.

        Returns:
            The results. A cancelled job of `start_optimize` returns None.

        Raises:
            GenerationError: A prompt failed, and `on_error` is "stop".
            ContextClosedError: The context was closed.
            ModelClosedError: The model was closed.
            ModelLoadError: The model makes no vectors of texts.
            QuantizeError: A file could not be made.
            ContextError: There is not enough memory.
            JournalError: The journal is damaged.
            ForkError: This process was forked; the work runs in the parent process.
        """
        error = None
        while not self.wait(_LOOK_S):
            error = self._raise_warnings(error)
        return self._end_with(self._raise_warnings(error))

    result = results

    def __await__(self) -> Generator[object, None, _R]:
        """Waits for the results in asyncio. Cancelling the wait cancels the job."""
        return self._await_results().__await__()

    async def _await_results(self) -> _R:
        running = asyncio.get_running_loop()
        event = asyncio.Event()
        self._listeners.append(lambda: running.call_soon_threadsafe(event.set))
        error = None
        try:
            while not self.wait(0):
                await wait_or_look(event, lambda: None)
                error = self._raise_warnings(error)
        except asyncio.CancelledError:
            self.cancel()
            raise
        return self._end_with(self._raise_warnings(error))

    def _raise_warnings(self, error: BaseException | None) -> BaseException | None:
        """Warns; cancels the job and returns the error if a filter makes one of it."""
        if error is None:
            try:
                self.warn(stacklevel=4)
            except KeyboardInterrupt:
                raise
            except BaseException as problem:  # noqa: BLE001 - raised by `_end_with`
                self.cancel()
                return problem
        return error

    def _end_with(self, error: BaseException | None) -> _R:
        """Raises the error of a warning, with the results; returns them without one."""
        if error is None:
            results = self.outcome()
            with keeping(results):
                self.tell()
            return results
        keep_made(error, self.outcome)
        raise error

    def warn(self, stacklevel: int = 3) -> None:
        """Warns once of each problem of the journal; call this method while you wait.

        Args:
            stacklevel: Number of frames between the warning and the caller's code.

        Warns:
            JournalWarning: Results cannot be stored at present, or were not stored.
        """
        problem = self.new_problem()
        if problem is not None:
            warnings.warn(problem, stacklevel=stacklevel)

    def tell(self) -> None:
        """Warns once about the results of the work, after its end."""
        tell, self._tell = self._tell, None
        if tell is not None:
            tell(self._results)

    def new_problem(self) -> JournalWarning | None:
        """Returns a problem of the journal that was not returned before, if any."""
        problem = self._work.problem
        if not problem or problem == self._told:
            return None
        self._told = problem
        return JournalWarning(problem)

    def outcome(self) -> _R:
        """Returns the same as `results`, but does not warn about a problem."""
        self.wait()
        if self._worker is not None:
            self._worker.join()
        if self._error is not None:
            raise self._error
        if not self._is_done.is_set():
            raise MemoryError("the job's thread ended because memory ran out")
        return self._results  # type: ignore[return-value]  # None only if `run` gave it

    def keep(self) -> None:
        """Lets `results` return the results that the error of the job has, if any."""
        results = None if self._error is None else kept_results(self._error)
        if results is not None:
            self._results, self._error = results, None

    def _run(self) -> None:
        try:
            self._results = self._work.run()
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        finally:
            self._is_done.set()  # before the listeners, which look for it
            for listener in list(self._listeners):
                with suppress(RuntimeError):  # the event loop may be closed
                    listener()

    def __repr__(self) -> str:
        name, state = type(self).__name__, "running"
        if self._is_done.is_set():
            state = "done" if self._error is None else f"failed: {self._error}"
        progress = self.progress
        if isinstance(progress, JobProgress):
            state = f"{progress.n_done} of {progress.n_total} {progress.unit}, {state}"
        return f"<{name}: {state}>"
