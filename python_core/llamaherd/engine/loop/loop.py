"""Loop of a context: runs the engine as long as there are requests.

One thread owns the engine. The thread accepts new groups, asks the scheduler which
requests to run, runs a slice of steps in C++ and passes outputs to listeners. The
requests of all callers share batches.
"""

from __future__ import annotations

from collections import deque
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import ContextClosedError, ContextError, NativeError
from llamaherd.engine.core.outcome import Counts
from llamaherd.engine.core.stats import Load
from llamaherd.engine.loop.fit import change_layout, fit
from llamaherd.engine.loop.sizing import LayoutChoice, NativeSizing
from llamaherd.engine.loop.slot_times import NO_TIMES, SlotTimes
from llamaherd.engine.loop.threaded import ThreadedLoop
from llamaherd.engine.memory.plan import MAX_CTX, Plan
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from llamaherd.engine.loop.group import Group
    from llamaherd.engine.loop.runner import Runner

_WATCHED_S = 10.0  # seconds for which counts are updated after each reading


class Loop(ThreadedLoop):
    """Thread that runs the groups of all callers; it ends when there is no work."""

    def __init__(self, sizing: NativeSizing) -> None:
        super().__init__("context")
        self._sizing = sizing
        self._runner: Runner | None = None  # None before the first group
        self._choice = LayoutChoice()
        self._arrived: deque[Group] = deque()
        self._accepting: list[Group] = []  # no longer in `_arrived`, not yet in `_groups`
        self._changed: deque[Group] = deque()  # groups to cancel, to stop or to watch
        self._is_aborted = False  # whether the abort flag of the engine is set
        self._counts = Counts()
        self._slot_times = NO_TIMES
        self._counted_until = 0.0  # time until which counts are updated

    # ---- any thread ----

    @property
    def plan(self) -> Plan | None:
        """Plan of the current KV cache; None before the first group."""
        runner = self._runner
        return None if runner is None else runner.plan

    @property
    def n_batches(self) -> int:
        """Number of decoded batches."""
        runner = self._runner
        return 0 if runner is None else runner.n_batches

    @property
    def load(self) -> Load:
        """Return the number of running and waiting requests."""
        runner = self._runner
        n_open = sum(len(group.open) for group in self._every())
        if runner is None:
            return Load(n_waiting=n_open)
        return Load(
            n_running=runner.n_running,
            n_waiting=max(0, n_open - runner.n_running),
            n_slots=runner.plan.n_seq_max,
            n_prefixes=runner.n_prefixes,
            n_ctx=runner.plan.n_ctx,
        )

    def watched_counts(self) -> Counts:
        """Return counts of the engine, updated for some seconds after a call."""
        self._counted_until = monotonic() + _WATCHED_S
        return self._counts

    def watched_slots(self) -> SlotTimes:
        """Return recent times of the slots; see `watched_counts`."""
        self._counted_until = monotonic() + _WATCHED_S
        return self._slot_times

    @property
    def _groups(self) -> list[Group]:
        """Return the accepted groups that have not ended."""
        runner = self._runner
        return [] if runner is None else list(runner.groups.values())

    def _every(self) -> list[Group]:
        # In the order of a group's way: the thread moves groups meanwhile, and a group
        # that is seen twice is listed once.
        groups = dict.fromkeys([*self._arrived, *self._accepting, *self._groups])
        return [group for group in groups if not group.is_over]

    def hand_in(self, group: Group) -> None:
        """Submit a group, see `ThreadedLoop`."""
        shim.check_process()  # in a forked child process the lock may never be released
        with self._lock:
            self._check_open()
            self._arrived.append(group)
            try:
                self._rouse()
            except BaseException:
                self._arrived.remove(group)
                raise
            group.worker = self._worker

    def share(self, n: int) -> None:
        """Plan later caches for 1/n of the memory, because n contexts share it."""
        self._sizing.n_sharing = n

    def close(self) -> None:
        """Fail all groups and free the engine; do nothing in a forked child."""
        if shim.is_forked():
            return
        with self._lock:
            self._is_closed = True
            if self._is_gone:
                self._free()
                return
            self._abort()
            self._rouse()
        self.wait()

    def _note(self, group: Group) -> None:
        self._changed.append(group)
        runner = self._runner  # the thread may set it to None meanwhile
        if group.is_cancelled and runner is not None:
            groups = runner.groups
            groups.will_end(group)
            # A step is aborted only if no group needs it: otherwise repeated changes
            # could abort the same step forever, or lose states that others continue.
            if not self._is_aborted and not groups.is_needed:
                self._abort()
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
        """Interrupt the thread's current step, so that it processes changes."""
        if self._is_gone:
            self._start()
            for group in self._arrived:  # an earlier thread may have died
                group.worker = self._worker
        elif self._runner is not None:
            self._runner.engine.wake()

    # ---- the thread of the loop ----

    def _run(self) -> None:
        self._thread = get_ident()
        self._accepting = []
        if self._groups:  # an earlier thread died
            text = "the context's thread ended because memory ran out"
            self._fail_all("", MemoryError(text))
        while self._has_turned():
            pass

    def _has_turned(self) -> bool:
        """Run one iteration, never raising; return whether another may follow."""
        try:
            runner = self._take_in()
            if runner is None:
                return not self._may_leave()
            runner.run_slice()
            if self._counted_until > 0:
                self._count(runner)
        except NativeError as error:
            self._fail_all(f"the engine failed: {error}")
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._fail_all("", error)
        return True

    def _count(self, runner: Runner) -> None:
        """Update counts and times of slots if a caller read them recently."""
        if self._counted_until > monotonic():
            self._counts = runner.engine.counts()
            self._slot_times = runner.slot_times()
        else:
            self._counted_until = 0.0
            runner.ignore_slots()

    def _fail_all(self, reason: str, error: BaseException | None = None) -> None:
        try:
            if self._runner is not None:
                self._runner.fail_all(reason, error)
        except NativeError:
            self._free()

    def _take_in(self) -> Runner | None:
        """Accept new groups and changes; return the runner, or None without work."""
        with self._lock:
            arrived, changed = list(self._arrived), list(self._changed)
            self._accepting = arrived  # set first, so that `_every` misses no group
            self._arrived.clear()
            self._changed.clear()
            if self._is_aborted and not self._is_closed and self._runner is not None:
                self._is_aborted = False
                self._runner.engine.abort(on=False)
        try:
            # First, so that new groups get the memory of cancelled ones. A new group
            # that is in both lists ends when it is added.
            if self._runner is not None:
                self._change_groups(self._runner, changed)
            if self._is_closed:
                self._end_all(arrived)
            elif arrived:
                capacity = MAX_CTX if self.plan is None else self.plan.capacity
                self._choice.note(_running_groups(arrived), len(self._groups), capacity)
                self._take_groups(arrived)
        except BaseException as error:
            _refuse(arrived, error)  # earlier groups end together with the engine
            raise
        finally:
            self._accepting = []
        runner = self._runner
        if runner is None:
            return None
        change_layout(self._sizing, runner, self._choice)
        return runner if runner.groups else None

    def _change_groups(self, runner: Runner, changed: list[Group]) -> None:
        for group in changed:
            if group.is_cancelled:
                runner.drop(group)
            elif group.is_stopping:
                runner.stop(group)
            elif group.is_watched:
                runner.watch(group)

    def _take_groups(self, arrived: list[Group]) -> None:
        # Cancelled groups change no cache: the others would be paused for nothing.
        fitting = _running_groups(arrived)
        try:
            if fitting or self._runner is None:
                self._runner = fit(
                    self._sizing, self._runner, fitting or arrived, self._choice
                )
        except (ContextError, MemoryError) as error:
            if len(arrived) == 1:
                _refuse(arrived, error)
                return
            for group in arrived:  # the error may come from one of the new groups
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
        """Return whether the thread may end, because no group has arrived."""
        with self._lock:
            if self._arrived or (self._is_closed and self._runner is not None):
                return False
            self._leave()
            return True


def _running_groups(groups: list[Group]) -> list[Group]:
    return [group for group in groups if not group.is_cancelled]


def _refuse(groups: list[Group], error: BaseException) -> None:
    """End groups that were not accepted."""
    for group in groups:
        if group.number < 0:
            group.end(error)
