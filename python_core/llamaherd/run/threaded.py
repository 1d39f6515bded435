"""What all loops have in common: a thread that lives as long as there is work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Event, RLock, get_ident
from typing import TYPE_CHECKING

from llamaherd.core.errors import ContextClosedError, ForkError
from llamaherd.native import shim
from llamaherd.run.threads import check_not_exiting, start_thread, wait_for

if TYPE_CHECKING:
    from llamaherd.run.group import Group
    from llamaherd.run.threads import Worker


class ThreadedLoop(ABC):
    """Groups of requests of any number of threads, and one thread that they run in.

    Args:
        name: Of what the caller has, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # Of what follows. Reentrant: garbage collection calls destructors anywhere.
        self._lock = RLock()
        self._worker: Worker | None = None
        self._has_left = Event()  # the thread
        self._has_left.set()
        self._thread = 0
        self._is_closed = False

    # ---- from any thread ----

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can be handed in."""
        return self._is_closed

    @property
    def is_dead(self) -> bool:
        """Whether its thread has ended without a word, for want of memory."""
        worker = self._worker
        return worker is not None and worker.is_over and not self._has_left.is_set()

    def give_up(self, group: Group) -> None:
        """See `GroupLoop`."""
        group.is_cancelled = True
        self._change(group)

    def stop(self, group: Group) -> None:
        """See `GroupLoop`."""
        group.is_stopping = True
        self._change(group)

    def watch(self, group: Group) -> None:
        """See `GroupLoop`."""
        group.is_watched = True
        self._change(group)

    def cancel(self) -> None:
        """Ends all groups that there are now."""
        for group in self._every():
            self.give_up(group)

    def wait_for(self, is_done: Event) -> None:
        """See `GroupLoop`."""
        wait_for(is_done, None, self._worker)
        if not is_done.is_set():
            raise MemoryError(f"the {self._name}'s thread ended for want of memory")

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until there is no work, and no thread; not if this is it."""
        if get_ident() == self._thread:
            return False
        return wait_for(self._has_left, timeout_s, self._worker)

    def settle(self) -> None:
        """See `GroupLoop`.

        R forks without Python's knowledge. A thread that waits for Python's lock at that
        moment does not exist in the child, which would wait for it to take the lock.
        """
        if self._worker is not None and get_ident() != self._thread:
            self._worker.join(unless=lambda: bool(self._every()))

    def _change(self, group: Group) -> None:
        if group.is_over:
            return
        try:
            shim.check_process()
        except ForkError:
            return  # it runs in the parent
        with self._lock:
            if not self._has_left.is_set():  # else nothing is left that could change
                self._note(group)

    # ---- for those that inherit; the lock is held, but for `_every` and `_run` ----

    @abstractmethod
    def _every(self) -> list[Group]:
        """Groups that have not ended."""

    @abstractmethod
    def _note(self, group: Group) -> None:
        """Has the thread look at what is to become of a group."""

    @abstractmethod
    def _run(self) -> None:
        """What the thread does. It sets `_thread` first, and ends with `_leave`."""

    def _check_open(self) -> None:
        """Checks that work may come in.

        Raises:
            ContextClosedError: It is closed.
            RuntimeError: The interpreter is ending.
        """
        check_not_exiting()
        if self._is_closed:
            raise ContextClosedError(f"the {self._name} is closed")

    @property
    def _is_gone(self) -> bool:
        """Whether there is no thread."""
        return self._has_left.is_set() or self.is_dead

    def _start(self) -> None:
        """Starts the thread.

        Raises:
            RuntimeError: The interpreter is ending, or no thread can be started.
        """
        self._worker = start_thread(self, self._run)
        self._has_left.clear()  # it cannot leave before: that takes the lock

    def _leave(self) -> None:
        """The thread does nothing more than end."""
        self._thread = 0
        self._has_left.set()
