"""Threads of requests; short work never waits for long work, nor clients for batches."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

from llamaherd.engine.core.request import AbandonedError
from llamaherd.server.errors import stopping

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from llamaherd.calls.run.hosted import GroupEnd, Steps

    Submit = Callable[[Callable[[], Any]], Future[Any]]  # lets a thread call a function

_T = TypeVar("_T")
Kind = Literal["parse", "short", "long", "compile", "codes", "vectors"]
# Numbers of threads by kind of work, for requests of clients and of batches. There are
# few threads, which leave the cores to the model. A request for codes blocks its thread,
# and starts another thread for each block of texts.
_N_THREADS: Mapping[Kind, tuple[int, int]] = {
    "parse": (1, 1),  # long bodies
    "short": (2, 1),  # up to about 20 ms
    "long": (2, 1),  # seconds: large requests and answers
    "compile": (2, 1),  # seconds: requests with constraints delay only each other
    "codes": (64, 16),  # until all texts are coded
    "vectors": (1, 1),  # until all vectors are computed, a request at a time
}
_LOOK_S = 1.0  # seconds between checks for the death of the loop's thread
LONG_BYTES = 1 << 16  # a request with more bytes is long
_MANY = 64  # a request with more prompts, texts, continuations or answers is long
_LISTS = ("prompt", "prompts", "input", "texts", "documents")


async def run_on(threads: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
    """Run a function on another thread, with the context variables of the caller."""
    pending = threads.submit(copy_context().run, work)
    return await asyncio.wrap_future(pending)


class WorkThreads:
    """Threads for work that would block the event loop; `files` is one thread."""

    def __init__(self) -> None:
        self._pools = {
            (kind, bool(i)): ThreadPoolExecutor(n, f"llamaherd-{kind}-{name}")
            for kind, numbers in _N_THREADS.items()
            for i, (n, name) in enumerate(
                zip(numbers, ("clients", "batches"), strict=True)
            )
        }
        self.files = ThreadPoolExecutor(1, "llamaherd-files")

    def pool(self, kind: Kind, *, is_background: bool = False) -> ThreadPoolExecutor:
        """Return the threads for a kind of work."""
        return self._pools[kind, is_background]

    def close(self) -> None:
        """End the threads; work that waits for a thread does not run."""
        for pool in (*self._pools.values(), self.files):
            pool.shutdown(wait=False, cancel_futures=True)


def kind_of(fields: Mapping[str, object], n_bytes: int) -> Kind:
    """Return the kind of the work on a request: "short" or "long"."""
    n = fields.get("n")
    n_answers = n_items(fields) * (n if isinstance(n, int) else 1)
    return "long" if n_bytes > LONG_BYTES or n_answers > _MANY else "short"


def n_items(fields: Mapping[str, object]) -> int:
    """Return the number of prompts, texts or continuations of a request, at least 1."""
    n = 1
    for name in _LISTS:
        value = fields.get(name)
        # Numbers are the tokens of one prompt.
        if isinstance(value, list) and value and not isinstance(value[0], int):
            n = max(n, len(value))
    continuations = fields.get("continuations")
    if isinstance(continuations, list):
        n = max(n, sum(len(x) if isinstance(x, list) else 1 for x in continuations))
    labels = fields.get("labels")
    return n * len(labels) if isinstance(labels, list) and labels else n


_T_co = TypeVar("_T_co", covariant=True)


class SteppedWork(Protocol[_T_co]):
    """Work of a request, in steps; see `run.steps`."""

    def cancel(self) -> None:
        """End the work soon; returns at once."""

    def steps(self) -> Steps[_T_co]:
        """Do the work. Called once."""
        ...


class AwaitedJob(Generic[_T]):
    """Job of a request, started at once.

    Each step runs on a thread of a pool. Between two steps, while the prompts of the job
    run in the loop, no thread waits.
    """

    def __init__(self, work: SteppedWork[_T], submit: Submit) -> None:
        self._work = work
        self._steps = work.steps()
        self._submit = submit
        # All steps use the messages of the caller's language.
        self._context = copy_context()
        self._result: _T | None = None
        self._is_done = self._is_cancelled = False
        self._first = self._pending = self._submit_call(None)

    def _submit_call(self, lost: MemoryError | None) -> Future[GroupEnd | None]:
        return self._submit(partial(self._context.run, self._step, lost))

    def _step(self, lost: MemoryError | None) -> GroupEnd | None:
        """Run the next step; with `lost`, raise this error where the steps wait."""
        try:
            return next(self._steps) if lost is None else self._steps.throw(lost)
        except StopIteration as stop:
            self._result = stop.value
            return None

    def done(self) -> bool:
        """Whether the work is finished."""
        return self._is_done

    def cancel(self) -> None:
        """End the work soon; at once if it waits for a thread."""
        self._is_cancelled = True
        self._work.cancel()
        self._first.cancel()

    def __await__(self) -> Generator[object, None, _T]:
        """Wait for the results, see `outcome`."""
        return self.outcome().__await__()

    async def outcome(self) -> _T:
        """Wait for the results of the job, or raise its error.

        Raises:
            AbandonedError: The job was cancelled before its first step.
            ApiError: The threads ended before its next step.
        """
        try:
            while (end := await wait_for(self._pending)) is not None:
                self._pending = self._submit_call(await _wait_for_end(end))
        except asyncio.CancelledError:
            self.cancel()
            raise
        except AbandonedError:
            raise (AbandonedError if self._is_cancelled else stopping()) from None
        finally:
            self._is_done = True
        return self._result  # type: ignore[return-value]  # None only if a step gave it


async def wait_for(pending: Future[_T]) -> _T:
    """Wait for a function on a thread; raise AbandonedError if it never runs."""
    waiting = asyncio.wrap_future(pending)
    try:
        await asyncio.wait([waiting])  # does not raise if only the future is cancelled
    except asyncio.CancelledError:
        waiting.cancel()  # nobody reads its error
        raise
    if waiting.cancelled():
        raise AbandonedError
    return waiting.result()


async def _wait_for_end(end: GroupEnd) -> MemoryError | None:
    """Wait for the end of a group; return the reason if it never comes."""
    loop, event = asyncio.get_running_loop(), asyncio.Event()

    def tell() -> None:
        with suppress(RuntimeError):  # the event loop may be closed
            loop.call_soon_threadsafe(event.set)

    end.add_listener(tell)
    while not event.is_set():
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(event.wait(), _LOOK_S)
        lost = None if event.is_set() else end.why_lost()
        # If the listener was called, the end has come.
        if lost is not None and end.remove_listener(tell):
            return lost
    return None
