"""Random delays of threads and event loops, to find what depends on their order.

`LLAMAHERD_TEST_DELAYS=SEED pytest` (in `make test-delays`) loads this plugin. In each
test, each thread and each function that a thread pool or an event loop runs is fast, a
little slow or very slow, by chance. It sleeps where it waits for others, tells others or
starts work. So orders occur that are rare on an idle machine. The idea is Burckhardt and
others, "A randomized scheduler with probabilistic guarantees of finding bugs" (ASPLOS
2010).
"""

from __future__ import annotations

import asyncio
import functools
import os
import queue
import random
import threading
import time
from concurrent.futures import Future, thread
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

_SEED = os.environ["LLAMAHERD_TEST_DELAYS"]
_LONGEST_S = (0.0, 0.0, 0.0, 0.002, 0.02, 0.1)  # of a sleep of one thread or function
_SHARE = 0.2  # of the places at which a slow thread sleeps


class _Delays:
    """Delays of one test."""

    def __init__(self, name: str) -> None:
        self.random = random.Random(f"{_SEED} {name}")
        self.longest_s: dict[object, float] = {}

    def sleep(self, *whose: object) -> None:
        current = threading._active.get(threading.get_ident())  # type: ignore[attr-defined]
        if current is None:  # the thread starts or ends
            return
        for each in (current.name, *whose):
            if each not in self.longest_s:
                self.longest_s[each] = self.random.choice(_LONGEST_S)
            if self.longest_s[each] and self.random.random() < _SHARE:
                time.sleep(self.random.random() * self.longest_s[each])


_now = _Delays("")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    global _now  # noqa: PLW0603 - a plugin has no other state
    _now = _Delays(item.nodeid)


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
        found = real(*arguments, **named)
        if after:
            _now.sleep(real.__qualname__, *more)
        return found

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
