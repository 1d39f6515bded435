"""Work of jobs that call a function in a thread, or start a server or a cluster."""

from __future__ import annotations

import ctypes
import warnings
from dataclasses import dataclass
from threading import Lock, Timer, get_ident
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from llamaherd.engine.core.caller import recorded_warnings
from llamaherd.engine.core.errors import JournalWarning, ServerError
from llamaherd.engine.core.keeping import keep, kept
from llamaherd.engine.core.progress import JobProgress

if TYPE_CHECKING:
    from collections.abc import Callable

_Started = TypeVar("_Started")
_GRACE_S = 0.5  # reports of progress follow each other in a shorter time


class _NoProgress(JobProgress):
    """Progress of a call that has not reported any, or cannot."""

    unit: ClassVar[str] = "calls"
    n_done, n_total = 0, 0


class FunctionWork:
    """Call of a function: the work of a `Job`.

    Cancelling raises KeyboardInterrupt in the thread: in the next report of progress,
    which the functions turn into their finished results; or, if there is no report for
    half a second or at all, at the thread's next instruction, as Ctrl-C does in Python.

    Args:
        function: Function of a function for reports of progress.
        reports: True if the function reports its progress.
    """

    def __init__(self, function: Callable[[Any], Any], *, reports: bool) -> None:
        self._function, self._reports = function, reports
        self._lock = Lock()
        self._thread: int | None = None  # of the running function
        self._is_cancelled = self._is_told = False
        self._caught: list[warnings.WarningMessage] = []
        self.progress: JobProgress = _NoProgress()

    @property
    def problem(self) -> str:
        """Problem of the call's journal, to be reported while the call runs."""
        caught = (record.message for record in reversed(self._caught))
        return next((w.problem for w in caught if isinstance(w, JournalWarning)), "")

    def ended(self, error: BaseException) -> Any:  # noqa: ANN401 - any results
        """Return the results that an exception keeps, for a call that was cancelled."""
        return kept(error)

    def cancel(self) -> None:
        """End the call soon; return at once."""
        self._is_cancelled = True
        if self._reports:
            timer = Timer(_GRACE_S, self._insist)
            timer.daemon = True
            timer.start()
        else:
            self._insist()

    def run(self) -> Any:  # noqa: ANN401 - results of any function
        """Call the function; return its results, or those that Ctrl-C leaves of them."""
        with recorded_warnings() as self._caught:
            try:
                return self._called()
            except KeyboardInterrupt as error:
                if not self._is_cancelled:
                    raise
                return self.ended(error)
            except Exception as error:
                if kept(error) is not None:
                    keep(error, self.ended(error), converted=True)
                raise

    def tell(self, _results: object) -> None:
        """Issue the recorded warnings again, in the thread that collects the results."""
        caught, self._caught = self._caught, []
        for warning in caught:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )

    def _called(self) -> Any:  # noqa: ANN401 - results of any function
        try:
            with self._lock:
                self._thread = get_ident()
            if self._is_cancelled:
                raise KeyboardInterrupt
            return self._function(self._report)
        finally:
            with self._lock:
                self._thread = None
            _nothing()  # an interrupt that was requested is raised here at the latest

    def _report(self, progress: JobProgress) -> None:
        self.progress = progress
        if self._is_cancelled and not self._is_told:
            with self._lock:
                self._is_told = True
            raise KeyboardInterrupt

    def _insist(self) -> None:
        with self._lock:
            if self._thread is not None and not self._is_told:
                self._is_told = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(self._thread), ctypes.py_object(KeyboardInterrupt)
                )


def _nothing() -> None:
    """Return; Python raises requested exceptions where a function begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProgress(JobProgress):
    """Progress of a start, without counts until the start is complete.

    Attributes:
        n_done: 1 when the start is complete, 0 before.
        n_total: 0, because the duration is unknown.
    """

    n_done: int
    n_total: int = 0

    unit: ClassVar[str] = "starts"


class StartWork(Generic[_Started]):
    """Work of a `Job`: starts a server or a cluster, which may take minutes.

    Args:
        start: Function that starts it. Its argument `is_cancelled` is a function
            that returns True after `cancel`.
    """

    problem = ""

    def __init__(self, start: Callable[..., _Started]) -> None:
        self._start = start
        self._is_cancelled = False
        self._is_complete = False

    @property
    def progress(self) -> StartProgress:
        """Progress of the start; `n_done` is 1 when all is ready."""
        return StartProgress(n_done=int(self._is_complete))

    def cancel(self) -> None:
        """End the processes that are starting."""
        self._is_cancelled = True

    def run(self) -> _Started | None:
        """Start; return None if the start of a server was cancelled.

        Raises:
            ServerError: The server did not start.
            ClusterError: The cluster did not start.
        """
        try:
            started = self._start(is_cancelled=lambda: self._is_cancelled)
        except ServerError:
            if self._is_cancelled:
                return None
            raise
        self._is_complete = True
        return started
