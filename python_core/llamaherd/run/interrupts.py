"""Ctrl-C during a call: noted at once, acted on where nothing can be lost.

Python raises KeyboardInterrupt between any two instructions of the main thread: also
between the start of a call and the line that would know of it, or while the results of
the first Ctrl-C are collected.
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
    """Holds Ctrl-C back: `with Interrupts() as interrupts: ...`.

    In other threads than the main one, where it cannot arrive, and in a process of R's
    this does nothing.
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
        # Unless somebody else has set one meanwhile. (Bound methods are made anew.)
        if self._handler and signal.getsignal(signal.SIGINT) == self._note:
            signal.signal(signal.SIGINT, self._handler)

    def deliver(self) -> None:
        """Does what Ctrl-C would have done, if there was one."""
        if self._is_noted and self._handler is not None:
            self._is_noted = False
            self._is_held = True  # what follows is not to be interrupted again
            self._handler(signal.SIGINT, None)

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Within this block Ctrl-C works as ever; one that was held back comes first."""
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
    """Whether R runs Python: its handler only asks what R's own one has noted.

    `signal.signal` would take R's away, and Python cannot put it back.
    """
    return getattr(handler, "__module__", None) == "rpytools.signals"


class Waitable(Protocol):
    """Work in a thread."""

    @property
    def progress(self) -> Any:  # noqa: ANN401 - each kind of work has its own
        """How far it is."""
        ...

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for its end. Returns whether it is over."""
        ...

    def cancel(self) -> None:
        """Ends it soon; returns at once."""


def wait_for_end(
    job: Waitable, report: Callable[[Any], object], interrupts: Interrupts
) -> None:
    """Waits for work, and ends it first if anything is raised: Ctrl-C, or by `report`.

    Args:
        job: The work.
        report: Called with its progress now and then, and at the end.
        interrupts: Holds Ctrl-C back while this runs.
    """
    try:
        is_over = False
        while not is_over:
            is_over = job.wait(_REPORT_S)
            with interrupts.let_through():
                report(job.progress)
    except BaseException:
        job.cancel()
        job.wait()
        raise
