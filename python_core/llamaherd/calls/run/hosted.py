"""Calls on a host: a call waits for the host's loop, on a thread or between steps.

A scoring call runs a generating call and converts its results to scores.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from dataclasses import replace
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from llamaherd.engine.core.errors import GenerationError
from llamaherd.engine.core.keeping import keep_made, keeping, kept_results
from llamaherd.engine.core.progress import say
from llamaherd.engine.core.table import index_of, set_index

if TYPE_CHECKING:
    from llamaherd.calls.run.host import Host
    from llamaherd.engine.core.results import Results
    from llamaherd.engine.core.stats import Progress
    from llamaherd.engine.loop.group import Group
    from llamaherd.engine.loop.threaded import ThreadedLoop


_T = TypeVar("_T")


class GroupEnd:
    """End of a group of requests, for which a call waits between two steps."""

    def __init__(self, loop: ThreadedLoop, group: Group) -> None:
        self._loop = loop
        self._group = group
        self._lock = Lock()
        self._is_over = Event()
        self._listeners: list[Callable[[], object]] = []

    def set(self) -> None:
        """Record the end. The loop's thread calls this method."""
        with self._lock:
            self._is_over.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()

    def add_listener(self, listener: Callable[[], object]) -> None:
        """Call a function at the end of the group; at once if the group has ended.

        The loop's thread calls it, so it must be fast and must not raise errors.
        """
        with self._lock:
            if not self._is_over.is_set():
                self._listeners.append(listener)
                return
        listener()

    def remove_listener(self, listener: Callable[[], object]) -> bool:
        """Remove a listener; return whether it was removed before it was called."""
        with self._lock:
            if listener not in self._listeners:
                return False
            self._listeners.remove(listener)
            return True

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; return False after the timeout."""
        return self._loop.wait_for(self._is_over, self._group, timeout_s)

    def why_lost(self) -> MemoryError | None:
        """Return the reason why the end never comes; None if it may come."""
        error = self._loop.why_lost(self._group)
        return None if self._is_over.is_set() else error


# Between two steps a call waits for the yielded end of a group.
Steps: TypeAlias = Generator[GroupEnd, None, _T]


class LoopCall(Protocol):
    """A call whose requests run in a host's loop, with or without a journal."""

    @property
    def progress(self) -> Progress:
        """Counts of finished units."""
        ...

    @property
    def problem(self) -> str:
        """Warning for the caller, during and after the run; "" if there is none."""
        ...

    @property
    def is_stepped(self) -> bool:
        """Whether no step blocks its thread until other requests have ended."""
        ...

    def cancel(self) -> None:
        """Ends the call soon. Any thread may call this method."""
        ...

    def steps(self, loop: ThreadedLoop) -> Steps[Results]:
        """Answers the prompts in steps."""
        ...


class HostedCall(Generic[_T]):
    """A call and the host that it runs on: the work of a `Job`.

    `tell` warns about the results at the end; `convert` makes scores of them. `n_beside`
    requests are not the caller's.
    """

    def __init__(
        self,
        host: Host,
        call: LoopCall,
        prompts: object = None,
        *,
        tell: Callable[[_T], object] | None = None,
        convert: Callable[[Results], _T] | None = None,
        name: str = "prompts",
        n_beside: int = 0,
    ) -> None:
        self.host = host
        self.tell = tell
        self.call = call
        self._index = index_of(prompts)
        self._convert = convert
        self._name = name
        self._n_beside = n_beside

    @property
    def progress(self) -> Progress:
        """Counts of finished units, without the additional requests."""
        progress = self.call.progress
        n_total = progress.n_total - self._n_beside
        return replace(
            progress,
            n_done=min(progress.n_done, n_total),
            n_failed=min(progress.n_failed, n_total),
            n_total=n_total,
        )

    @property
    def is_stepped(self) -> bool:
        """Whether no step blocks its thread until other requests have ended."""
        return self.call.is_stepped

    @property
    def problem(self) -> str:
        """Warning of the journal after the run; "" if there is none."""
        return self.call.problem

    def cancel(self) -> None:
        """Ends the call soon; finished answers are kept."""
        self.call.cancel()

    def run(self) -> _T:
        """Answers the prompts; if the loop's thread is ending, waits for its end."""
        try:
            return run_steps(self.steps())
        finally:
            self.host.loop.settle()

    def steps(self) -> Steps[_T]:
        """Answers the prompts in steps, with the errors of `run`."""
        try:
            results: _T = yield from self._converting_steps()
        except BaseException as error:
            set_index(kept_results(error), self._index)
            raise
        set_index(results, self._index)
        if os.environ.get("NEWRLLAMA_DEBUG", "0") not in ("", "0"):
            say(f"llamaherd: {getattr(results, 'stats', results)}")
        return results

    def _converting_steps(self) -> Steps[Any]:
        steps, convert = self.call.steps(self.host.loop), self._convert
        if convert is None:
            return (yield from steps)
        try:
            answers = yield from steps
        except GenerationError as error:
            results: Any = convert(error.results)
            failed = ((i, why) for i, why in enumerate(results.errors) if why is not None)
            i, why = next(failed)
            raise type(error)(f"{self._name}[{i}] failed: {why}", results) from None
        except Exception as error:
            partial = kept_results(error)
            if partial is not None:
                keep_made(error, lambda: convert(partial))
            raise
        with keeping(answers):
            return convert(answers)


def run_steps(steps: Steps[_T]) -> _T:
    """Run steps to their end on the current thread, which waits between them."""
    lost: BaseException | None = None
    while True:
        try:
            end = next(steps) if lost is None else steps.throw(lost)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
        lost = None
        try:
            end.wait()
        except BaseException as error:  # noqa: BLE001 - raised where the steps wait
            lost = error


class OwnThread(Generic[_T]):
    """Call in steps on the caller's thread, without the cost of a `Job`'s thread."""

    def __init__(self, work: HostedCall[_T]) -> None:
        self._work = work
        self._steps = work.steps()
        self._end: GroupEnd | None = None  # for which the next step waits
        self._results: _T | None = None
        self._error: BaseException | None = None
        self._step()

    @property
    def progress(self) -> Progress:
        """Progress of the call."""
        return self._work.progress

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until all steps are over; return False after the timeout."""
        while self._end is not None:
            try:
                if not self._end.wait(timeout_s):
                    return False
            except MemoryError as lost:  # the thread of the loop died
                self._step(lost)
            else:
                self._step()
        return True

    def cancel(self) -> None:
        """End the call soon."""
        self._work.cancel()

    def outcome(self) -> _T:
        """Return the results when the thread of the loop has no more work."""
        try:
            self.wait()
            return self._wait_for_end()
        except BaseException:
            self.cancel()  # an error between two steps leaves the group in the loop
            raise
        finally:
            self._work.host.loop.settle()

    def warn(self) -> None:
        """Warn of nothing: a call in steps has no journal."""

    def tell(self) -> None:
        """Warn about the results."""
        if self._work.tell is not None:
            self._work.tell(self.outcome())

    def _wait_for_end(self) -> _T:
        if self._error is not None:
            raise self._error
        return self._results  # type: ignore[return-value]  # None only if a step gave it

    def _step(self, lost: MemoryError | None = None) -> None:
        self._end = None
        try:
            self._end = next(self._steps) if lost is None else self._steps.throw(lost)
        except StopIteration as stop:
            self._results = stop.value
        except BaseException as error:  # noqa: BLE001 - raised by `outcome`
            self._error = error
