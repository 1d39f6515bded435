"""Calls in steps: a call waits for a loop between two steps, without a thread."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from threading import Event, Lock
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from llamaherd.loop.group import Group, GroupLoop

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class GroupEnd:
    """End of a group of requests, for which a call waits between two steps.

    Args:
        loop: Loop of the group.
        group: Group.
    """

    def __init__(self, loop: GroupLoop, group: Group) -> None:
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

        Args:
            listener: Function. The loop's thread calls it, so it must be fast and must
                not raise errors.
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

    def wait(self) -> None:
        """Wait for the end.

        Raises:
            MemoryError: The thread that received the group died for lack of memory.
            ForkError: This process was forked; the loop runs in its parent.
        """
        self._loop.wait_for(self._is_over, self._group)

    def why_lost(self) -> MemoryError | None:
        """Return the reason why the end never comes; None if it may come."""
        error = self._loop.why_lost(self._group)
        return None if self._is_over.is_set() else error


# Between two steps a call waits for the yielded end of a group.
Steps: TypeAlias = Generator[GroupEnd, None, _T]


class _Call(Protocol[_T_co]):
    """A call of any kind, see `LoopCall`."""

    def run(self, loop: GroupLoop) -> _T_co:
        """Answers the prompts."""
        ...


@runtime_checkable
class Stepped(Protocol[_T_co]):
    """A call that can run in steps."""

    def steps(self, loop: GroupLoop) -> Steps[_T_co]:
        """Answer the prompts in steps, with the errors of `LoopCall.run`."""
        ...


def run_steps(steps: Steps[_T]) -> _T:
    """Run steps to their end on the current thread."""
    with closing(steps):
        try:
            end = next(steps)
            while True:
                try:
                    end.wait()
                except BaseException as error:  # noqa: BLE001 - the call raises it
                    end = steps.throw(error)
                else:
                    end = next(steps)
        except StopIteration as stop:
            value: _T = stop.value
            return value


def steps_of(call: _Call[_T], loop: GroupLoop) -> Steps[_T]:
    """Return the steps of a call; a call without steps is one step, which may be long."""
    if isinstance(call, Stepped):
        results: _T = yield from call.steps(loop)
        return results
    return call.run(loop)
