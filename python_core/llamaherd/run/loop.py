"""The loop of a context: requests come and go, the engine runs as long as there are any.

One thread owns the engine. It takes in what came, lets the scheduler admit, runs a slice
of steps in C++ and hands out what is new. All callers' requests are in the same batches.
"""

from __future__ import annotations

from collections import deque
from threading import Event, RLock, get_ident
from typing import TYPE_CHECKING

from llamaherd.core.errors import ContextClosedError, ContextError, ForkError, NativeError
from llamaherd.core.stats import Load
from llamaherd.native import shim
from llamaherd.run.fit import fit
from llamaherd.run.threads import check_not_exiting, start_thread, wait_for

if TYPE_CHECKING:
    from llamaherd.memory.plan import Plan
    from llamaherd.run.group import Group
    from llamaherd.run.runner import Runner
    from llamaherd.run.sizing import Sizing
    from llamaherd.run.threads import Worker


class Loop:
    """Runs groups of requests of any number of threads in a thread of its own.

    The thread lives as long as there is work; the engine until `close`.

    Args:
        sizing: Plans and makes engines.
    """

    def __init__(self, sizing: Sizing) -> None:
        self._sizing = sizing
        self._runner: Runner | None = None  # before the first group
        # Of what follows. Reentrant: garbage collection calls destructors anywhere.
        self._lock = RLock()
        self._arrived: deque[Group] = deque()
        self._changed: deque[Group] = deque()  # cancelled, stopping, or to be watched
        self._worker: Worker | None = None
        self._has_left = Event()  # the thread
        self._has_left.set()
        self._thread = 0
        self._is_closed = False
        self._is_aborted = False  # and the flag has yet to be taken back

    # ---- from any thread ----

    @property
    def plan(self) -> Plan | None:
        """The sizes of the KV cache that there is now."""
        runner = self._runner
        return None if runner is None else runner.plan

    @property
    def n_batches(self) -> int:
        """Batches that were decoded so far."""
        runner = self._runner
        return 0 if runner is None else runner.n_batches

    @property
    def load(self) -> Load:
        """What runs and what waits at this moment."""
        runner = self._runner
        n_open = sum(len(group.open) for group in [*self._groups, *self._arrived])
        n_running = 0 if runner is None else runner.n_running
        return Load(
            n_running=n_running,
            n_waiting=max(0, n_open - n_running),
            n_slots=0 if runner is None else runner.plan.n_seq_max,
            n_prefixes=0 if runner is None else runner.n_prefixes,
            n_ctx=0 if runner is None else runner.plan.n_ctx,
        )

    @property
    def _groups(self) -> list[Group]:
        """What has been taken in and has not ended."""
        runner = self._runner
        return [] if runner is None else list(runner.groups.values())

    @property
    def is_closed(self) -> bool:
        """Whether nothing more can be handed in."""
        return self._is_closed

    @property
    def is_dead(self) -> bool:
        """Whether its thread has ended without a word, for want of memory."""
        worker = self._worker
        return worker is not None and worker.is_over and not self._has_left.is_set()

    def hand_in(self, group: Group) -> None:
        """Has the requests of a group run. Its listener is told what becomes of them.

        Raises:
            ContextClosedError: It is closed.
            ForkError: This process was forked.
            RuntimeError: The interpreter is ending, or no thread can be started.
        """
        shim.check_process()  # in a forked child the lock may be held for ever
        with self._lock:
            check_not_exiting()
            if self._is_closed:
                raise ContextClosedError("the context is closed")
            self._arrived.append(group)
            try:
                self._rouse()
            except BaseException:
                self._arrived.remove(group)
                raise

    def give_up(self, group: Group) -> None:
        """Ends a group within a step; what others run goes on."""
        group.is_cancelled = True
        self._change(group)

    def stop(self, group: Group) -> None:
        """Lets what runs of a group finish, and starts nothing new of it."""
        group.is_stopping = True
        self._change(group)

    def watch(self, group: Group) -> None:
        """From now on the listener is told of what is new of a group's answer."""
        group.is_watched = True
        self._change(group)

    def wait_for(self, is_done: Event) -> None:
        """Waits for something that a listener sets.

        Raises:
            MemoryError: The thread has ended without a word.
            ForkError: This process was forked; the loop runs in its parent.
        """
        wait_for(is_done, None, self._worker)
        if not is_done.is_set():
            raise MemoryError("the context's thread ended for want of memory")

    def close(self) -> None:
        """Ends all groups, which get a ContextClosedError, and frees the engine."""
        shim.check_process()
        with self._lock:
            self._is_closed = True
            if self._has_left.is_set() or self.is_dead:
                self._free()
                return
            self._abort()
            self._rouse()
        self.wait()

    def cancel(self) -> None:
        """Ends all groups that there are now."""
        for group in [*self._groups, *self._arrived]:
            self.give_up(group)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until there is no work, and no thread; not if this is it."""
        if get_ident() == self._thread:
            return False
        return wait_for(self._has_left, timeout_s, self._worker)

    def settle(self) -> None:
        """Waits until the thread is gone if it has nothing to do.

        R forks without Python's knowledge. A thread that waits for Python's lock at that
        moment does not exist in the child, which would wait for it to take the lock.
        """
        if self._worker is not None and get_ident() != self._thread:
            self._worker.join(unless=lambda: bool(self._groups or self._arrived))

    def _change(self, group: Group) -> None:
        if group.is_over:
            return
        try:
            shim.check_process()
        except ForkError:
            return  # it runs in the parent
        with self._lock:
            if self._has_left.is_set():
                return  # nothing is left that could change
            self._changed.append(group)
            running = [g for g in self._groups if g.n_running]
            if all(g.is_cancelled for g in running):
                self._abort()  # a step may be long, and is of no use to anybody
            self._rouse()

    def _abort(self) -> None:
        if self._runner is not None:
            self._is_aborted = True
            self._runner.engine.abort(on=True)

    def _free(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.engine.close()

    def _rouse(self) -> None:
        """Has the thread look at what has changed, within a step."""
        if self._has_left.is_set() or self.is_dead:
            self._worker = start_thread(self, self._run)
            self._has_left.clear()  # it cannot leave before: that takes the lock
            return
        if self._runner is not None:
            self._runner.engine.wake()

    # ---- the thread ----

    def _run(self) -> None:
        self._thread = get_ident()
        if self._groups:
            self._fail_all("", MemoryError("the context's thread ended early"))
        while self._has_turned():
            pass

    def _has_turned(self) -> bool:
        """One turn. Returns whether another one may follow; nothing is raised."""
        try:
            runner = self._take_in()
            if runner is None:
                return not self._may_leave()
            runner.run_slice()
        except NativeError as error:
            self._fail_all(f"the engine failed: {error}")
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._fail_all("", error)
        return True

    def _fail_all(self, reason: str, error: BaseException | None = None) -> None:
        try:
            if self._runner is not None:
                self._runner.fail_all(reason, error)
        except NativeError:
            self._free()

    def _take_in(self) -> Runner | None:
        """Looks at what came and what has changed. Returns the runner if it has work."""
        with self._lock:
            arrived, changed = list(self._arrived), list(self._changed)
            self._arrived.clear()
            self._changed.clear()
            if self._is_aborted and not self._is_closed and self._runner is not None:
                self._is_aborted = False
                self._runner.engine.abort(on=False)
        if self._is_closed:
            self._end_all(arrived)
        elif arrived:
            try:
                self._take_groups(arrived)
            except BaseException as error:
                _refuse(arrived, error)  # and those before end with the engine
                raise
        runner = self._runner
        if runner is None:
            return None
        for group in changed:
            if group.is_cancelled:
                runner.drop(group)
            elif group.is_stopping:
                runner.stop(group)
            elif group.is_watched:
                runner.watch(group)
        return runner if runner.groups else None

    def _take_groups(self, arrived: list[Group]) -> None:
        try:
            self._runner = fit(self._sizing, self._runner, arrived)
        except (ContextError, MemoryError) as error:
            if len(arrived) == 1:
                _refuse(arrived, error)
                return
            for group in arrived:  # one of them may be to blame
                self._take_groups([group])
            return
        for group in arrived:
            self._runner.add(group)

    def _end_all(self, arrived: list[Group]) -> None:
        error = ContextClosedError("the context was closed while it generated")
        if self._runner is not None:
            for group in self._groups:
                self._runner.drop(group, error)
        _refuse(arrived, error)
        self._free()

    def _may_leave(self) -> bool:
        """Whether the thread may end: nothing has come meanwhile."""
        if self._runner is not None:
            self._runner.rest()
        with self._lock:
            if self._arrived or (self._is_closed and self._runner is not None):
                return False
            self._thread = 0
            self._has_left.set()
            return True


def _refuse(groups: list[Group], error: BaseException) -> None:
    """Tells groups that have not been taken in of their end."""
    for group in groups:
        if group.number < 0:
            group.end(error)
