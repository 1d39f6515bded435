"""Calls of Python's own functions as jobs that R waits for, and jobs of all other types.

A job of a call runs the function in a thread, so that R can show progress and handle
Ctrl-C while it waits. Its warnings are recorded in this thread and issued again where R
collects the result.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock, Timer, get_ident
from typing import Any, ClassVar

import llamaherd as lh
from llamaherd._r.arguments import by_name, convert_argument, read_argument
from llamaherd._r.boundary import (
    Status,
    boundary,
    clean,
    clean_or_none,
    form_of,
    unrecorded,
)
from llamaherd._r.composites import named_journal
from llamaherd._r.functions import door, function_of
from llamaherd._r.results import labels_so_far
from llamaherd.coding.annotation.record import called_from
from llamaherd.engine.core.caller import recorded_warnings
from llamaherd.engine.core.errors import JournalWarning
from llamaherd.engine.core.keeping import keep, kept_results
from llamaherd.engine.core.progress import JobProgress
from llamaherd.engine.hub.quantizations import gigabytes

_FIRST_WAIT_S = 0.1  # as long as R waits between two checks for Ctrl-C
_GRACE_S = 0.5  # reports of progress follow each other in a shorter time


class NoProgress(JobProgress):
    """Progress of a call that has not reported any, or cannot."""

    unit: ClassVar[str] = "calls"
    n_done, n_total = 0, 0


@dataclass(frozen=True, slots=True)
class Ended:
    """Results of a call that ended early."""

    finished: Any
    running: lh.Coded | None
    progress: JobProgress

    @classmethod
    def of(cls, error: BaseException, progress: JobProgress) -> Ended:
        """Read the results that an exception keeps."""
        finished, running = kept_results(error), vars(error).get("inner_results")
        if isinstance(finished, lh.Coded):
            finished, running = None, finished
        return cls(finished, running, progress)


class CallWork:
    """Call of a function that R knows by its name: the work of a `Job`.

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
        self.progress: JobProgress = NoProgress()

    @property
    def problem(self) -> str:
        """Problem of the call's journal, to be reported while the call runs."""
        caught = (record.message for record in reversed(self._caught))
        return next((w.problem for w in caught if isinstance(w, JournalWarning)), "")

    def cancel(self) -> None:
        """End the call soon; return at once."""
        self._is_cancelled = True
        if self._reports:
            timer = Timer(_GRACE_S, self._insist)
            timer.daemon = True
            timer.start()
        else:
            self._insist()

    def run(self) -> Any:  # results of any function
        """Call the function; return its results, or those that Ctrl-C leaves of them."""
        with recorded_warnings() as self._caught:
            try:
                return self._call_function()
            except KeyboardInterrupt as error:
                if not self._is_cancelled:
                    raise
                return Ended.of(error, self.progress)
            except Exception as error:
                if kept_results(error) is not None:
                    keep(error, Ended.of(error, self.progress), converted=True)
                raise

    def tell(self, _results: object) -> None:
        """Issue the recorded warnings again, in the thread that collects the results."""
        caught, self._caught = self._caught, []
        for warning in caught:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )

    def _call_function(self) -> Any:  # results of any function
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


@unrecorded
def call_start(
    name: str, arguments: Mapping[str, Any] | Sequence[Any], version: str = ""
) -> dict[str, Any]:
    """Start the call of a function that R knows by its name, see `function_of`.

    Arguments by name are read by `convert_argument`, and may have more in `settings`;
    those in their order are read by `read_argument`. The result is `job`, and `journal`,
    a path or None.
    """
    function = function_of(name)
    ordered: list[Any] = []
    keywords: dict[str, Any] = {}
    if isinstance(arguments, Mapping):
        keywords = dict(convert_argument(arguments))
        keywords |= by_name("...", keywords.pop("settings", None))
    else:
        ordered = list(map(read_argument, arguments))
    journal = named_journal(name, keywords)
    reports = "progress" in inspect.signature(function).parameters

    def run(report: Callable[[Any], object]) -> Any:  # any result
        with called_from(R=version):
            return function(
                *ordered, **keywords, **({"progress": report} if reports else {})
            )

    return {"job": lh.Job(CallWork(run, reports=reports)), "journal": journal}


_door = functools.cache(door)


def model_start(*arguments: Any) -> Status:  # see `calls.model_start`
    """Start a call that runs a model, and wait for a short time for its `result`."""
    status = _door("model_start")(*arguments)
    if not status["ok"]:
        return status
    job = status["value"]["job"]
    try:
        if job.wait(_FIRST_WAIT_S):
            status["value"]["result"] = _door("job_result")(job)
    except BaseException:
        job.cancel()
        raise
    return status


def call_result(job: lh.Job[Any]) -> Status:
    """Wait until a call ends; return its result in the form of `forms`."""
    job.wait()  # before `_collect_result` records warnings
    return _collect_result(job)


@boundary
def _collect_result(job: lh.Job[Any]) -> Any:  # a part, or plain data
    job.tell()  # of an error's call, too
    result = job.results()
    if not isinstance(result, Ended):
        return form_of(result)
    progress, line = result.progress, None
    if progress.n_total:
        line = f"{progress.n_done:,} of {progress.n_total:,} {progress.unit}"
    return {
        "type": "ended",
        "finished": None if result.finished is None else form_of(result.finished),
        "running": labels_so_far(result.running),
        "line": clean_or_none(line),
    }


@unrecorded
def job_wait(job: lh.Job[Any], timeout_s: float) -> Status:
    """Wait for a job, for at most `timeout_s`; return its progress and new problem."""
    done = job.wait(timeout_s)
    progress = job.progress
    # A problem at the end becomes R's warning when the results are collected.
    problem = None if done else job.new_problem()
    amount = gigabytes if progress.unit == "B" else "{:.0f}".format
    counts = f"{amount(progress.n_done)}/{amount(progress.n_total)}"
    return {
        "done": done,
        "problem": clean(str(problem or "")),
        "n_done": float(progress.n_done),  # numbers of bytes can exceed 32 bits
        "n_total": float(progress.n_total),
        "counts": " | ".join(filter(None, [counts, clean(progress.line)])),
        "messages": [clean(text) for text in progress.messages],
    }


@unrecorded
def job_cancel(job: lh.Job[Any]) -> None:
    """Request the end of a job of any type, and return at once."""
    job.cancel()


@unrecorded
def job_keep(job: lh.Job[Any]) -> None:
    """Wait until a job of any type ends, and turn its error into its finished results."""
    job.wait()
    job.keep()
