"""Threads whose end is always noticed, and warnings about the threads of ggml."""

from __future__ import annotations

import _thread
import asyncio
import atexit
import os
import platform
import sys
import threading
import warnings
from contextvars import copy_context
from functools import partial
from threading import Event, RLock, local
from time import monotonic, sleep
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet, ref

from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from collections.abc import Callable

_SLICE_S = 0.05  # maximum delay until the end of a thread is noticed
_LOOK_S = 1.0  # maximum delay until asyncio notices that a thread has died
_GONE_S = 0.0002  # approximate time that a thread needs to end


class _Token:
    """Object that lives as long as its thread."""

    __slots__ = ("__weakref__",)


class Worker:
    """Thread whose end is always noticed.

    `Thread.start()` would wait forever if memory did not suffice to report the start.
    """

    def __init__(self, run: Callable[[], None]) -> None:
        self._process = os.getpid()
        started = _thread.allocate_lock()
        started.acquire()
        token = _Token()
        self._token = ref(token)
        _thread.start_new_thread(_run_in_thread, (started, run, token))
        del token  # the only other reference is held by the thread
        while not started.acquire(timeout=_SLICE_S):
            if not self.is_over:
                continue
            if started.acquire(blocking=False):  # the thread has already ended
                return
            raise RuntimeError("can't start new thread: it found no memory")

    @property
    def is_over(self) -> bool:
        """Whether the thread has ended."""
        return self._token() is None

    def check_process(self) -> None:
        """Check that the thread was not started before this process was forked."""
        if self._process != os.getpid():
            shim.check_process()

    def join(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Wait until the thread has ended, or until `unless()` is True."""
        while not self.is_over and not unless():
            sleep(_GONE_S)


def _run_in_thread(
    started: _thread.LockType,
    run: Callable[[], None],
    token: _Token,
) -> None:
    started.release()
    # `threading` also sets these functions in new threads, for debuggers and coverage.
    trace, profile = threading.gettrace(), threading.getprofile()
    if trace is not None:
        sys.settrace(trace)
    if profile is not None:
        sys.setprofile(profile)
    try:
        run()
    finally:
        del token  # a stored exception would keep this frame alive


def wait_for(
    is_done: Event, timeout_s: float | None, worker: Worker | None = None
) -> bool:
    """Wait in short intervals, for Ctrl-C; return whether all is over."""
    end = None if timeout_s is None else monotonic() + timeout_s
    while not is_done.is_set():
        # In a forked child process the event of a parent's thread is never set.
        (shim if worker is None else worker).check_process()
        if worker is not None and worker.is_over:
            return True
        left = _SLICE_S if end is None else min(_SLICE_S, end - monotonic())
        if left <= 0:
            return False
        is_done.wait(left)
    return True


async def wait_or_look(event: asyncio.Event, look: Callable[[], object]) -> None:
    """Wait for the event or a second, clear it, and call `look`, which may raise."""
    timer = asyncio.get_running_loop().call_later(_LOOK_S, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
    event.clear()
    look()


class Cancellable(Protocol):
    """Work in a thread."""

    def cancel(self) -> None:
        """End the work soon; returns at once."""

    def wait(self) -> bool:
        """Wait for the end of the work."""
        ...


class _Place(local):
    """Whether the current thread is the thread of a loop."""

    is_loop = False


_place = _Place()


def enter_loop() -> None:
    """Record that the current thread is the thread of a loop."""
    _place.is_loop = True


def check_may_wait() -> None:
    """Check that the thread is not a loop's, which would wait for itself forever."""
    if _place.is_loop:
        raise RuntimeError(
            "a callback of add_done_callback cannot wait for results, because it runs on "
            "the thread of a context, whose requests would wait for the callback: let "
            "the callback pass the work to a thread of yours, or use submit() with a "
            "further callback"
        )


_jobs: WeakSet[Cancellable] = WeakSet()
_jobs_lock = RLock()
_is_exiting = Event()


def _forget_jobs() -> None:
    """Begin without jobs in a forked child: those of the parent have no threads here."""
    global _jobs, _jobs_lock
    _jobs, _jobs_lock = WeakSet(), RLock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_forget_jobs)


def start_thread(job: Cancellable, run: Callable[[], None]) -> Worker:
    """Start the thread of a job, which is cancelled at interpreter exit."""
    with _jobs_lock:
        check_not_exiting()
        _jobs.add(job)
        try:
            # The thread runs in a copy of the caller's `contextvars` context, so that
            # the job's messages use the notation of the caller's language, Python or R.
            return Worker(partial(copy_context().run, run))
        except BaseException:
            _jobs.discard(job)  # the job has no thread to cancel
            raise


def check_not_exiting() -> None:
    """Check that the interpreter is not exiting."""
    if _is_exiting.is_set():
        raise RuntimeError("the interpreter is ending: no new call can start")


@atexit.register
def _cancel_all() -> None:
    """Cancel all jobs, because native code must not run while the interpreter exits."""
    with _jobs_lock:
        _is_exiting.set()  # other threads may still try to start jobs
        jobs = list(_jobs)
    for job in jobs:
        job.cancel()
    for job in jobs:
        job.wait()


_warned: set[str] = set()


def warn_of_foreign(n_threads: int) -> None:
    """Warn once if other programs could make the threads of ggml many times slower."""
    if n_threads == 1 or _warned:
        return
    message = trouble_with_threads()
    if message is not None:
        _warned.add("foreign threads")
        warnings.warn(message, stacklevel=3)


def trouble_with_threads() -> str | None:
    """Return a problem with the threads of ggml and its remedy; None if there is none."""
    if (
        sys.platform != "linux"
        or platform.machine() not in ("x86_64", "aarch64")
        or shim.own_threads()
    ):
        return None
    return (
        "llama-cpp-python was compiled without GCC's OpenMP: while other programs are "
        "busy, calls may take many times as long. Compile it again: CC=gcc CXX=g++ "
        "CMAKE_ARGS='-DGGML_OPENMP=ON' pip install --force-reinstall --no-cache-dir "
        f"--no-deps llama-cpp-python=={shim.llama_cpp_python()}"
    )
