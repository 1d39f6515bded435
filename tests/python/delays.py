"""Random delays of threads and event loops, to find what depends on their order.

`LLAMAHERD_TEST_DELAYS=SEED pytest` (in `make test-delays`) loads this plugin. In each
test, each thread and each function that a thread pool or an event loop runs is fast, a
little slow or very slow, by chance. It sleeps where it waits for others, tells others or
starts work, and, more rarely, where a function of llamaherd begins or ends. So orders
occur that are rare on an idle machine. The idea is Burckhardt and others, "A randomized
scheduler with probabilistic guarantees of finding bugs" (ASPLOS 2010).

Python processes that tests start are delayed, too, see `delayed_children`. While tests of
Ray and of servers run, their processes are stopped for a moment at random.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import queue
import random
import signal
import sys
import threading
import time
from concurrent.futures import Future, thread
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    import psutil
    import pytest

_SEED = os.environ["LLAMAHERD_TEST_DELAYS"]
_LONGEST_S = (0.0, 0.0, 0.0, 0.002, 0.02, 0.1, 0.6)  # of one sleep
_SHARE = 0.2  # of the places at which a slow thread or function sleeps
_SLOW_FUNCTIONS = 0.05  # share of llamaherd's functions that sleep
_MOST_S = 1.0  # of all sleeps of one thread or function in a test
_STOPPED = ("/ray/", "/remote/", "cluster")  # tests whose processes are stopped
_LONGEST_STOP_S = 1.0
# Folders of llamaherd whose functions sleep: those that use threads or processes.
_FOLDERS = {"loop", "run", "ray", "remote", "journal", "hub", "coding_page", "tables"}
_FOLDERS |= {"server", "batches", "models"}


class _Delays:
    """Delays of one test."""

    def __init__(self, name: str) -> None:
        self.random = random.Random(f"{_SEED} {name}")
        self.longest_s: dict[object, float] = {}
        self.slept_s: dict[object, float] = {}

    def sleep(self, *whose: object) -> None:
        thread_id = threading.get_ident()
        # Not `current_thread`, which adds a thread that it does not know.
        current = threading._active.get(thread_id)  # type: ignore[attr-defined]
        for name in (thread_id if current is None else current.name, *whose):
            if name not in self.longest_s:
                self.longest_s[name] = self.random.choice(_LONGEST_S)
            self._sleep(name, _SHARE)

    def sleep_in(self, code: CodeType) -> None:
        """Sleep in a function of llamaherd, if it is slow in this thread."""
        whose = (threading.get_ident(), code)
        if whose not in self.longest_s:
            is_slow = self.random.random() < _SLOW_FUNCTIONS
            self.longest_s[whose] = self.random.choice(_LONGEST_S) if is_slow else 0.0
        self._sleep(whose, 1.0)

    def _sleep(self, whose: object, share: float) -> None:
        longest_s = self.longest_s[whose]
        if longest_s == 0.0 or self.random.random() >= share:
            return
        slept_s = self.slept_s.get(whose, 0.0)
        if slept_s < _MOST_S:
            seconds = self.random.random() * longest_s
            self.slept_s[whose] = slept_s + seconds
            time.sleep(seconds)


_now = _Delays("")


def pytest_runtest_setup(item: pytest.Item) -> None:
    global _now  # noqa: PLW0603 - a plugin has no other state
    _now = _Delays(item.nodeid)
    sys.setprofile(_sleep_in_functions)  # a test may have removed it


def pytest_runtest_call(item: pytest.Item) -> None:
    """Stop processes from here on: Ray itself may not start if it is stopped."""
    if any(part in item.nodeid for part in _STOPPED):
        _start_stopping()
        _may_stop.set()


def pytest_runtest_teardown() -> None:
    _may_stop.clear()


def _name(function: object) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__qualname__", type(function).__qualname__))


def _slow(owner: Any, name: str, *, after: bool = False, by_function: int = -1) -> None:
    """Make a function sleep before it works, and after it."""
    real: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(real)
    def slow(*arguments: Any, **named: Any) -> Any:
        more = (_name(arguments[by_function]),) if by_function >= 0 else ()
        _now.sleep(real.__qualname__, *more)
        result = real(*arguments, **named)
        if after:
            _now.sleep(real.__qualname__, *more)
        return result

    setattr(owner, name, slow)


def _slow_work_items() -> None:
    """Make functions of thread pools sleep before they start."""
    real = thread._WorkItem.run

    def run(item: Any) -> None:
        _now.sleep(f"work {_name(item.fn)}")
        real(item)

    setattr(thread._WorkItem, "run", run)  # noqa: B010 - no type fits


def _slow_callbacks() -> None:
    """Make an event loop sleep before some callbacks."""
    real = asyncio.Handle._run

    def run(handle: Any) -> None:
        task = getattr(handle._callback, "__self__", None)
        whose = task.get_coro() if isinstance(task, asyncio.Task) else handle._callback
        _now.sleep(f"loop {_name(whose)}")
        real(handle)

    setattr(asyncio.Handle, "_run", run)  # noqa: B010 - no type fits


def _sleep_in_functions(frame: FrameType, event: str, _argument: object) -> None:
    """Make functions of llamaherd sleep before they work, and after it."""
    if event in ("call", "return") and _is_own(frame.f_code.co_filename):
        _now.sleep_in(frame.f_code)


@functools.cache
def _is_own(filename: str) -> bool:
    """Whether a file is one of llamaherd whose functions sleep."""
    path = Path(filename)
    return "llamaherd" in path.parts and path.parent.name in _FOLDERS


@functools.cache
def _start_stopping() -> None:
    _note_stops()
    threading.Thread(target=_stop_processes, daemon=True).start()


def _stop_processes() -> None:
    """Stop processes that tests started for a moment, again and again."""
    import psutil  # processes that tests start do without

    chance = random.Random(f"{_SEED} stops")
    while _may_stop.wait():
        time.sleep(chance.random() * _LONGEST_STOP_S)
        with suppress(psutil.Error):
            children = psutil.Process().children(recursive=True)
            if children:
                _stop(chance.choice(children), chance.random() * _LONGEST_STOP_S)


def _stop(process: psutil.Process, seconds: float) -> None:
    """Stop a process, unless a test has stopped it or does so now."""
    if process.pid in _stopped_by_tests:
        return
    process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        if process.pid not in _stopped_by_tests:
            process.send_signal(signal.SIGCONT)


def _note_stops() -> None:
    """Record the processes that tests stop."""
    import psutil

    real = psutil.Process.suspend

    def suspend(process: psutil.Process) -> None:
        _stopped_by_tests.add(process.pid)
        real(process)

    psutil.Process.suspend = suspend  # type: ignore[method-assign]


_slow_work_items()
_slow_callbacks()
_slow(threading.Thread, "run")
_slow(threading.Event, "set", after=True)
_slow(threading.Event, "wait", after=True)
_slow(threading.Condition, "wait", after=True)
_slow(queue.Queue, "put", after=True)
_slow(queue.Queue, "get", after=True)
_slow(Future, "set_result")
_slow(Future, "set_exception")
_slow(asyncio.BaseEventLoop, "call_soon_threadsafe", after=True, by_function=1)

# For Python processes that tests start.
_CHILDREN = str(Path(__file__).parent / "delayed_children")
_PATH = os.environ.get("PYTHONPATH", "")
if _CHILDREN not in _PATH.split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (_CHILDREN, _PATH)))

threading.setprofile(_sleep_in_functions)
sys.setprofile(_sleep_in_functions)
atexit.register(sys.setprofile, None)  # this module ends before other code
_stopped_by_tests: set[int] = set()  # process ids
_may_stop = threading.Event()  # made after `Event` was made slow
