"""Ctrl-C during a call is recorded at once and raised later, where no result is lost.

Python raises KeyboardInterrupt between any two instructions of the main thread, even
between the start of a call and the assignment of its job, or while the results of a first
Ctrl-C are collected.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType

_REPORT_S = 0.1


class Interrupts:
    """Delays Ctrl-C: `with Interrupts() as interrupts: ...`.

    It does nothing in a process of R, and in threads other than the main thread, which
    receive no signals.
    """

    def __init__(self) -> None:
        self._handler: Callable[[int, FrameType | None], Any] | None = None
        self._is_held = True
        self._is_noted = False

    def __enter__(self) -> Interrupts:  # noqa: PYI034 - typing.Self is of Python 3.11
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

    def deliver(self) -> None:
        """Raise a delayed Ctrl-C, if any."""
        if self._is_noted and self._handler is not None:
            self._is_noted = False
            self._is_held = True  # a second Ctrl-C must not interrupt these lines
            self._handler(signal.SIGINT, None)

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
    def progress(self) -> Any:  # noqa: ANN401 - each kind of work has its own
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
    """Wait for a job; cancel the job after Ctrl-C or an error in `report`.

    Args:
        job: Job.
        report: Function called with the progress repeatedly, and at the end.
        interrupts: Object that delays Ctrl-C during the wait.
    """
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
