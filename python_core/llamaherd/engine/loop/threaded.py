"""Base classes of loops: a thread that ends when there is no work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Event, RLock, get_ident
from typing import TYPE_CHECKING, Generic, TypeVar

from llamaherd.engine.core.errors import ContextClosedError, ForkError
from llamaherd.engine.core.outcome import CANCELLED
from llamaherd.engine.core.stats import Load, RequestStats
from llamaherd.engine.loop.threads import (
    Worker,
    check_may_wait,
    check_not_exiting,
    enter_loop,
    start_thread,
    wait_for,
)
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from collections.abc import Callable

    from llamaherd.engine.loop.group import Group
    from llamaherd.engine.memory.plan import Plan

WorkT = TypeVar("WorkT")


class ThreadedLoop(ABC):
    """Base class of loops: groups of any number of callers, run in one thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        # Protects the fields below. The lock is reentrant, because garbage collection
        # may call destructors while it is held.
        self._lock = RLock()
        self._worker: Worker | None = None
        self._has_left = Event()  # set when the thread ends
        self._has_left.set()
        self._thread = 0
        self._is_closed = False

    # ---- any thread ----

    @property
    @abstractmethod
    def plan(self) -> Plan | None:
        """Plan of the current KV cache; None before the first group."""

    @property
    @abstractmethod
    def load(self) -> Load:
        """Return the number of running and waiting requests."""

    @abstractmethod
    def hand_in(self, group: Group) -> None:
        """Submit a group of requests; its listener receives their outputs."""

    @abstractmethod
    def close(self) -> None:
        """End all groups with ContextClosedError and free the memory."""

    @property
    def is_closed(self) -> bool:
        """Whether no more groups can be submitted."""
        return self._is_closed

    def why_lost(self, group: Group) -> MemoryError | None:
        """Return the error of a group whose thread has ended; None if the thread runs.

        If the listener of the group does not know its end after this call, it never will.
        """
        worker = group.worker
        if worker is None or not worker.is_over:
            return None
        if worker is not group.worker:  # a later thread has received the group meanwhile
            return None
        return MemoryError(f"the {self._name}'s thread ended because memory ran out")

    def give_up(self, group: Group) -> None:
        """End a group soon; other groups continue."""
        group.is_cancelled = True
        self._change(group)

    def stop(self, group: Group) -> None:
        """Start no more requests of a group; running requests finish."""
        group.is_stopping = True
        self._change(group)

    def watch(self, group: Group) -> None:
        """Start to send new parts of the group's answer to its listener."""
        if not group.is_watched:
            group.is_watched = True
            self._change(group)

    def cancel(self) -> None:
        """End all current groups."""
        groups = self._every()
        for group in groups:  # all before the first change, so that none of them starts
            group.is_cancelled = True
        for group in groups:
            self._change(group)

    def wait_for(
        self, is_done: Event, group: Group, timeout_s: float | None = None
    ) -> bool:
        """Wait for an event; raise MemoryError if the group's thread died before."""
        if not is_done.is_set():
            check_may_wait()
        while not is_done.is_set():
            if not wait_for(is_done, timeout_s, group.worker):
                return False
            error = self.why_lost(group)
            if error is not None and not is_done.is_set():
                raise error
        return True

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for work and thread; return False at once on the loop's thread."""
        if get_ident() == self._thread:
            return False
        return wait_for(self._has_left, timeout_s, self._worker)

    def settle(self) -> None:
        """Wait until the thread has ended; return at once if it has work.

        R forks without Python's knowledge: a child would wait forever for a thread that
        waits for Python's lock at that moment.
        """
        if self._worker is not None and get_ident() != self._thread:
            self._worker.join(unless=lambda: bool(self._every()))

    def _change(self, group: Group) -> None:
        if group.is_over:
            return
        try:
            shim.check_process()
        except ForkError:
            return  # the thread runs in the parent process
        with self._lock:
            if not self._has_left.is_set():  # otherwise the thread has ended
                self._note(group)

    # ---- for subclasses; callers hold the lock, except in `_every` and `_run` ----

    @abstractmethod
    def _every(self) -> list[Group]:
        """Return the groups that have not ended."""

    @abstractmethod
    def _note(self, group: Group) -> None:
        """Queue a change of a group for the thread."""

    @abstractmethod
    def _run(self) -> None:
        """Run the thread: set `_thread` first and call `_leave` last."""

    def _check_open(self) -> None:
        """Check that the loop accepts work."""
        check_not_exiting()
        if self._is_closed:
            raise ContextClosedError(f"the {self._name} is closed")

    @property
    def _is_gone(self) -> bool:
        """Return whether no thread runs, because it has left or has died."""
        worker = self._worker
        return worker is None or worker.is_over or self._has_left.is_set()

    def _start(self) -> None:
        """Starts the thread."""
        self._worker = start_thread(self, self._run_as_loop)
        self._has_left.clear()  # the thread needs the lock to end

    def _run_as_loop(self) -> None:
        enter_loop()
        self._run()

    def _leave(self) -> None:
        """Record that the thread has no more work and will end."""
        self._thread = 0
        self._has_left.set()


class SendingLoop(ThreadedLoop, Generic[WorkT]):
    """Base of loops that send requests elsewhere; WorkT: state of a group's requests."""

    def __init__(self, name: str, on_close: Callable[[], None] = lambda: None) -> None:
        super().__init__(name)
        self._on_close = on_close
        self._works: dict[Group, WorkT] = {}

    def hand_in(self, group: Group) -> None:
        """See `ThreadedLoop`; a stream is an `ArgumentError`."""
        shim.check_process()
        work = self._make_work(group)
        with self._lock:
            self._check_open()
            if self._is_gone:
                self._start()
            group.worker = self._worker
            self._works[group] = work
            self._stir()

    def close(self) -> None:
        """See `ThreadedLoop`. In a forked child this does nothing."""
        if shim.is_forked():
            return
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            self._stir()
        self.wait()
        if not was_closed:
            self._on_close()

    def _every(self) -> list[Group]:
        with self._lock:
            groups = list(self._works)
        return [group for group in groups if self.why_lost(group) is None]

    def _note(self, group: Group) -> None:
        """Let the thread look at the flags of a group."""
        del group
        self._stir()

    def _run(self) -> None:
        self._thread = get_ident()
        with self._lock:  # an earlier thread may have died; its callers notice it
            self._works = {
                group: work
                for group, work in self._works.items()
                if group.worker is self._worker
            }
        while True:
            with self._lock:
                if not self._works:
                    self._leave()
                    return
            try:
                self._turn()
            except BaseException as error:  # noqa: BLE001 - the waiting callers get it
                for group in list(self._works):
                    self._end(group, error)

    def _end(self, group: Group, error: BaseException | None) -> None:
        """End a group; without an error its open requests are cancelled."""
        with self._lock:
            if self._works.pop(group, None) is None:
                return
        for i in () if error is not None else list(group.open):
            group.deliver(i, CANCELLED, RequestStats())
        group.plan = self.plan
        group.end(error)

    def _closed_error(self) -> ContextClosedError:
        """Return the error of groups that run when the loop is closed."""
        return ContextClosedError(f"the {self._name} was closed while it generated")

    @abstractmethod
    def _make_work(self, group: Group) -> WorkT:
        """Return the state of a new group; refuse a group that cannot be sent."""

    @abstractmethod
    def _stir(self) -> None:
        """Wake the thread, if it would not look at the groups soon."""

    @abstractmethod
    def _turn(self) -> None:
        """Send requests and receive answers for a while; groups get its errors."""
