"""Threads: one that cannot get lost, and a word on those that ggml computes with."""

from __future__ import annotations

import _thread
import atexit
import platform
import sys
import threading
import warnings
from threading import Event, RLock
from time import monotonic, sleep
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet, ref

from llamaherd.core.errors import ForkError
from llamaherd.native import shim

if TYPE_CHECKING:
    from collections.abc import Callable

_SLICE_S = 0.05  # longest wait after which its end is seen
_GONE_S = 0.0002  # to end takes about so long


class _Token:
    """Lives as long as the thread that was given it."""

    __slots__ = ("__weakref__",)


class Worker:
    """A thread that tells when it ends, whatever ends it.

    `threading.Thread.start()` waits for ever if the new thread finds no memory to say
    that it runs.

    Args:
        run: What it does.

    Raises:
        RuntimeError: It cannot be started, mostly for want of memory.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        started = _thread.allocate_lock()
        started.acquire()
        token = _Token()
        self._token = ref(token)
        _thread.start_new_thread(_run_in_thread, (started, run, token))
        del token  # now it is the thread's alone
        while not started.acquire(timeout=_SLICE_S):
            if not self.is_over:
                continue
            if started.acquire(blocking=False):  # it began and ended in between
                return
            raise RuntimeError("can't start new thread: it found no memory")

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._token() is None

    def join(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Waits until it has ended, or as long as `unless` says no."""
        while not self.is_over and not unless():
            sleep(_GONE_S)


def _run_in_thread(
    started: _thread.LockType,
    run: Callable[[], None],
    token: _Token,
) -> None:
    started.release()
    # As `threading` does, for debuggers and coverage.
    trace, profile = threading.gettrace(), threading.getprofile()
    if trace is not None:
        sys.settrace(trace)
    if profile is not None:
        sys.setprofile(profile)
    try:
        run()
    finally:
        del token  # an exception that somebody keeps would keep this frame


def wait_for(
    is_done: Event, timeout_s: float | None, worker: Worker | None = None
) -> bool:
    """Waits for work in a thread, in slices, so that Ctrl-C is seen.

    Args:
        is_done: Set when it is over.
        timeout_s: Longest time to wait, in seconds; None: as long as it takes.
        worker: What does it. If it ends without a word, the work is over, too.

    Returns:
        Whether it is over.

    Raises:
        ForkError: This process was forked; the work goes on in its parent.
    """
    end = None if timeout_s is None else monotonic() + timeout_s
    while not is_done.is_set():
        shim.check_process()  # in a forked child nobody will ever set it
        if worker is not None and worker.is_over:
            return True
        left = _SLICE_S if end is None else min(_SLICE_S, end - monotonic())
        if left <= 0:
            return False
        is_done.wait(left)
    return True


class Cancellable(Protocol):
    """Work in a thread."""

    def cancel(self) -> None:
        """Ends it soon; returns at once."""

    def wait(self) -> bool:
        """Waits for its end."""
        ...


_jobs: WeakSet[Cancellable] = WeakSet()
_jobs_lock = RLock()
_is_exiting = Event()


def start_thread(job: Cancellable, run: Callable[[], None]) -> Worker:
    """Starts the thread of a job, which is cancelled when the interpreter ends.

    Raises:
        RuntimeError: The interpreter is ending, or no thread can be started.
    """
    with _jobs_lock:
        check_not_exiting()
        _jobs.add(job)
        try:
            return Worker(run)
        except BaseException:
            _jobs.discard(job)  # nobody would ever end it
            raise


def check_not_exiting() -> None:
    """Checks that the interpreter is not about to end.

    Raises:
        RuntimeError: It is.
    """
    if _is_exiting.is_set():
        raise RuntimeError("the interpreter is ending: no new call can start")


@atexit.register
def _cancel_all() -> None:
    """Native code must not go on while the interpreter is taken down."""
    try:
        shim.check_process()
    except ForkError:
        return  # the jobs are the parent's
    with _jobs_lock:
        _is_exiting.set()  # other threads may still try to start some
        jobs = list(_jobs)
    for job in jobs:
        job.cancel()
    for job in jobs:
        job.wait()


_warned: set[str] = set()


def warn_of_foreign(n_threads: int) -> None:
    """Warns once if ggml computes with threads that others may slow down many times."""
    if n_threads == 1 or _warned:
        return
    message = trouble_with_threads()
    if message is not None:
        _warned.add("foreign threads")
        warnings.warn(message, stacklevel=3)


def trouble_with_threads() -> str | None:
    """What is wrong with ggml's threads here, and what to do; None: nothing."""
    if (
        sys.platform != "linux"
        or platform.machine() not in ("x86_64", "aarch64")
        or shim.own_threads()
    ):
        return None
    return (
        "llama-cpp-python was compiled without GCC's OpenMP: where other programs are "
        "busy, it may take many times as long. Compile it anew: CC=gcc CXX=g++ "
        "CMAKE_ARGS='-DGGML_OPENMP=ON' pip install --force-reinstall --no-cache-dir "
        f"--no-deps llama-cpp-python=={shim.llama_cpp_python()}"
    )
