"""Loop of a herd: sends requests to actors and returns outputs to callers.

As in a context's loop, one thread runs as long as there is work. Callers and Ray put
events into the thread's queue. Only this thread changes the state of groups and actors.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from math import inf
from queue import Empty, SimpleQueue
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING

from llamaherd.core.errors import ClusterError, ContextClosedError, ContextError
from llamaherd.core.stats import Load
from llamaherd.loop.threaded import ThreadedLoop
from llamaherd.memory.plan import AUTO_SLOTS
from llamaherd.native import shim
from llamaherd.ray.member import ActorState, Death
from llamaherd.ray.tracked_actor import Tracked, together, warn_of
from llamaherd.ray.wire import Change, HandIn, Report, for_wire
from llamaherd.ray.work import Chunk, GroupWork
from llamaherd.ray.works import Works

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.loop.group import Group
    from llamaherd.memory.plan import Plan
    from llamaherd.ray.tracked_actor import ActorLink
    from llamaherd.ray.wire import Kind

_TICK_S = 0.5  # maximum time between two checks of time limits
_CANCEL_S = 5.0  # maximum wait for cancelled requests
_MOST_DEATHS = 20  # maximum number of consecutive deaths of actors without an output


class HerdLoop(ThreadedLoop):
    """Runs groups of requests on actors.

    Args:
        links: Links to the actors.
        n_slots: Estimated number of slots of an actor without a plan; None for the
            default.
        patience_s: Maximum time to wait while no actor exists, in seconds.
        silence_s: Maximum time without a report from an actor, in seconds.
        problem: Reason why no prompt can run; "" if prompts can run.
        on_close: Function that ends the actors.
    """

    def __init__(
        self,
        links: Sequence[ActorLink],
        *,
        n_slots: int | None = None,
        patience_s: float = 600.0,
        silence_s: float = 300.0,
        problem: str = "",
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__("herd")
        self._actors = [Tracked(link, silence_s) for link in links]
        self._n_slots = n_slots or AUTO_SLOTS
        self._patience_s = patience_s
        self._problem = problem
        self._on_close = on_close
        self._events: SimpleQueue[Callable[[], None]] = SimpleQueue()
        # By number of the group; these works wait in `_events`.
        self._arrived: dict[int, GroupWork] = {}
        self._works = Works()
        self._numbers = count()
        self._n_deaths = 0

    # ---- called from any thread ----

    @property
    def plan(self) -> Plan | None:
        """Sum of the sizes of all actors' KV caches."""
        return together([actor.plan for actor in self._actors if actor.plan is not None])

    @property
    def load(self) -> Load:
        """Return the number of running and waiting requests."""
        plan = self.plan
        n_slots = 0 if plan is None else plan.n_seq_max
        n_open = sum(len(group.open) for group in self._every())
        n_out = sum(actor.n_open for actor in self._actors)
        n_running = min(n_slots, n_out)
        return Load(
            n_running=n_running,
            n_waiting=max(0, n_open - n_running),
            n_slots=n_slots,
            n_prefixes=0,
            n_ctx=0 if plan is None else plan.n_ctx,
        )

    def hand_in(self, group: Group) -> None:
        """See `GroupLoop`."""
        shim.check_process()
        if self._problem:
            raise ContextError(self._problem)
        work = GroupWork(group, len(self._actors))
        group.number = next(self._numbers)
        with self._lock:
            self._check_open()
            self._arrived[group.number] = work
            try:
                self._put(lambda: self._take_in(work))
            except BaseException:
                group.is_cancelled = True  # a later thread sends it to no actor
                raise
            group.worker = self._worker

    def close(self) -> None:
        """See `GroupLoop`; also ends the actors. In a forked child this does nothing."""
        if shim.is_forked():
            return
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            if not self._is_gone:
                self._put(self._end_all)
        self.wait()
        if not was_closed:
            self._on_close()

    def changed(self, link: ActorLink) -> None:
        """Queue a check of an actor whose state changed."""
        was_there = link.generation > 0 and not self._is_closed
        if link.state is ActorState.FAILED and was_there and link.error is not None:
            warn_of(link, "cannot be started again", link.error)
        actor = self._actors[link.number]
        self._events.put(lambda: self._look(actor))

    def _every(self) -> list[Group]:
        # In the order of a work's way, because the thread moves works meanwhile.
        groups = dict.fromkeys(
            w.group for w in [*self._arrived.copy().values(), *self._works]
        )
        return [group for group in groups if self.why_lost(group) is None]

    def _note(self, group: Group) -> None:
        self._put(lambda: self._pass_on(group))

    def _put(self, event: Callable[[], None]) -> None:
        """Queue an event for the thread; the caller must hold the lock."""
        self._events.put(event)
        if self._is_gone:
            self._start()

    # ---- called from the loop's thread ----

    def _run(self) -> None:
        self._thread = get_ident()
        for work in self._works:  # an earlier thread died
            text = "the herd's thread ended because memory ran out"
            self._end(work, MemoryError(text))
        while not self._may_leave():
            self._turn()

    def _turn(self) -> None:
        """Process events and send waiting requests; never raises an error."""
        try:
            self._take_events()
            self._check_silence()
            for actor in self._actors:
                self._look(actor)
            self._end_some()
            self._hand_out()
            self._send_all()
        except BaseException as error:  # noqa: BLE001 - reported to the waiting caller
            for work in self._works:
                self._end(work, error)
            with suppress(Exception):
                self._send_all()  # so that actors stop cancelled requests

    def _may_leave(self) -> bool:
        with self._lock:
            if self._works or not self._events.empty():
                return False
            self._arrived.clear()  # an earlier thread may have died and left some
            self._leave()
            return True

    def _take_events(self) -> None:
        try:
            event = self._events.get(timeout=_TICK_S)
            while True:
                event()
                event = self._events.get_nowait()
        except Empty:
            pass

    def _take_in(self, work: GroupWork) -> None:
        if self._is_closed:
            self._arrived.pop(work.group.number, None)
            work.group.end(ContextClosedError("the herd was closed"))
            return
        with self._lock:
            work.group.worker = self._worker  # an earlier thread may have died
        self._works.add(work)
        self._arrived.pop(work.group.number, None)

    def _pass_on(self, group: Group) -> None:
        work = self._works.get(group.number)
        if work is None:
            return
        kind: Kind = "stop" if group.is_stopping else "watch"
        if group.is_cancelled:
            kind = "give_up"
            work.given_up_s = work.given_up_s or monotonic()
        self._works.note(work)
        self._change_all(work, kind)

    def _change_all(self, work: GroupWork, kind: Kind) -> None:
        """Send a change of a group to the actors that have its requests."""
        for chunk in work.chunks.values():
            self._actors[chunk.actor].orders.append(Change(kind, chunk.number))

    def _check_silence(self) -> None:
        for actor in self._actors:
            if actor.is_polled:
                try:
                    actor.silence.check()
                except Death as death:
                    self._has_failed(actor, actor.generation, death)

    def _look(self, actor: Tracked) -> None:
        """Notice that an actor was replaced, even before its last calls have failed.

        A call for embeddings also replaces an actor that has died.
        """
        if actor.was_replaced and actor.chunks:
            death = Death("it was replaced", is_crash=False)
            self._has_failed(actor, actor.generation, death)
        actor.look()

    # ---- requests to actors ----

    def _hand_out(self) -> None:
        ready = [actor for actor in self._actors if actor.is_ready]
        for actor in ready:
            if not actor.chunks:
                self._hand_out_suspects(actor)
        kept, least = self._kept_for_suspects(ready)
        left = sorted(ready, key=lambda actor: actor.n_open)
        while left:  # in turn, because urgent requests are sent one by one
            left = [
                actor
                for actor in left
                if self._hand_out_some(actor, ready, least if actor is kept else -inf)
            ]

    def _kept_for_suspects(
        self, ready: Sequence[Tracked]
    ) -> tuple[Tracked | None, float]:
        """Return an actor that must become empty for suspect requests.

        Suspect requests run only on an actor without other requests. Otherwise requests
        that arrive again and again could postpone them forever.

        Returns: The actor, or None; and the priority that other requests must exceed to
            be sent to it.
        """
        for work in self._works.with_suspects():
            suited = [actor for actor in ready if work.suits(actor.link.number)]
            if suited and not any(actor.n_suspects for actor in suited):
                return min(suited, key=lambda actor: actor.n_open), work.priority
        return None, -inf

    def _hand_out_suspects(self, actor: Tracked) -> None:
        for work in self._works.with_suspects():
            if work.suits(actor.link.number):
                self._give(actor, work, work.suspects.popleft(), is_suspect=True)
                self._works.update(work)
                return

    def _hand_out_some(
        self, actor: Tracked, ready: Sequence[Tracked], above: float
    ) -> bool:
        """Send requests with a priority above a limit; return whether any were sent."""
        number = actor.link.number
        work, n_waiting = self._works.next(number, above)
        if work is None or actor.n_suspects:
            return False
        suited = [a for a in ready if work.suits(a.link.number) and not a.n_suspects]
        n = actor.n_wanted(work.priority, n_waiting, suited, self._n_slots)
        if n == 0:
            return False
        self._give(actor, work, work.take(number, n))
        self._works.served(work)
        return True

    def _give(
        self,
        actor: Tracked,
        work: GroupWork,
        indices: list[int],
        *,
        is_suspect: bool = False,
    ) -> None:
        chunk = Chunk(
            number=next(self._numbers),
            actor=actor.link.number,
            work=work,
            indices=indices,
            is_suspect=is_suspect,
        )
        group = work.group
        work.sent(chunk)
        actor.add(chunk)
        order = HandIn(
            chunk=chunk.number,
            requests=[for_wire(group.requests[i]) for i in indices],
            is_watched=group.is_watched,
            n_again=group.n_again,
            n_on_node=sum(
                other.link.node == actor.link.node
                for other in self._actors
                if other.link.state is not ActorState.FAILED
            ),
        )
        actor.orders.append(order)

    def _send_all(self) -> None:
        for actor in self._actors:
            self._send(actor)

    def _send(self, actor: Tracked) -> None:
        """Send orders to an actor, and request its next report."""
        generation = actor.generation
        if actor.orders and actor.is_ready:
            orders, actor.orders = actor.orders, []

            def arrived(error: BaseException | None) -> None:
                if error is None:
                    self._events.put(lambda: self._has_arrived(actor, orders))
                else:
                    self._events.put(lambda: self._has_failed(actor, generation, error))

            actor.link.order(generation, orders, arrived)
        if actor.chunks and actor.is_ready and not actor.is_polled:
            actor.is_polled = True
            actor.silence.begin()

            def then(report: Report, error: BaseException | None) -> None:
                def handle_report() -> None:
                    if error is None:
                        self._take_report(actor, generation, report)
                    else:
                        self._has_failed(actor, generation, error)

                self._events.put(handle_report)

            actor.link.poll(generation, then)

    # ---- outputs of actors ----

    def _take_report(self, actor: Tracked, generation: int, report: Report) -> None:
        if generation != actor.generation:
            return
        actor.is_polled = False
        actor.plan = report.plan or actor.plan
        n_batches = max(0, report.n_batches - actor.n_batches)
        actor.n_batches = report.n_batches
        self._count(actor, report, n_batches)
        for number, piece in report.pieces:
            chunk = actor.chunks.get(number)
            if chunk is not None and not chunk.work.group.is_over:
                chunk.work.grown(piece)
        for number, index, output, stats in report.outputs:
            chunk = actor.chunks.get(number)
            if chunk is not None:
                self._n_deaths = 0
                self._works.note(chunk.work)
                actor.answered(chunk, index)
                chunk.work.answered(chunk, index, output, stats, actor.link.number)
        for ended in report.ended:
            chunk = actor.remove(ended.chunk)
            if chunk is None:
                continue
            self._works.note(chunk.work)
            if ended.error is None:
                chunk.work.ended(chunk, ended)
            else:
                self._has_refused(actor, chunk.work, ended.error)
                chunk.work.refused(chunk)

    def _count(self, actor: Tracked, report: Report, n_batches: int) -> None:
        node = actor.link.node[0]
        n_slots = 0 if actor.plan is None else actor.plan.n_seq_max
        for number, counts in report.counts.items():
            if number in actor.chunks:
                actor.chunks[number].counts = counts
        for work in {chunk.work for chunk in actor.chunks.values()}:
            work.batches(actor.link.number, n_batches, n_slots, node)
            work.count()

    def _has_arrived(self, actor: Tracked, orders: Sequence[HandIn | Change]) -> None:
        for order in orders:
            chunk = actor.chunks.get(order.chunk)
            if chunk is not None:
                chunk.has_arrived = True

    def _has_failed(self, actor: Tracked, generation: int, error: BaseException) -> None:
        """Handle an actor that died or rejected an order."""
        if generation != actor.generation:
            return
        chunks = actor.forget()
        if not isinstance(error, Death):
            for work in {chunk.work for chunk in chunks}:
                self._has_refused(actor, work, error)
            error = Death(str(error), is_crash=False)
        for work in {chunk.work for chunk in chunks}:
            work.died(actor.link.number)
            self._works.note(work)
        for chunk in chunks:
            if not chunk.work.group.is_over:
                chunk.work.lost(
                    chunk,
                    str(error),
                    is_crash=error.is_crash,
                    was_alone=len(chunks) == 1,
                )
        self._n_deaths += bool(chunks)
        if self._n_deaths >= _MOST_DEATHS:
            reason = f"{self._n_deaths} actors died one after the other: {error}"
            for work in self._works:
                self._end(work, ContextError(reason))
        actor.link.restart(generation)

    def _has_refused(self, actor: Tracked, work: GroupWork, error: BaseException) -> None:
        """Handle an actor that cannot run a group, usually for lack of memory."""
        number = actor.link.number
        if number not in work.refusals and not work.group.is_over:
            work.refusals[number] = error
            warn_of(actor.link, "does not answer these prompts", error)

    def _end_some(self) -> None:
        """End groups that finished, were cancelled too long ago, or cannot run."""
        for work in self._works.take_changed():
            if work.group.open and not work.is_through:
                self._works.update(work)
            else:
                work.cancel_rest()
                self._end(work, None)
        for work in self._works.late(_CANCEL_S):
            work.cancel_rest()
            self._end(work, None)
        for one in self._works.of_each_kind():
            if self._why_nobody(one) is None:
                continue
            for work in self._works.of_kind(one):
                error = self._why_nobody(work)
                if error is not None:  # an actor may have become ready meanwhile
                    self._end(work, error)

    def _end(self, work: GroupWork, error: BaseException | None) -> None:
        if not self._works.remove(work):
            return
        try:
            self._change_all(work, "give_up")
            if error is not None:
                for chunk in work.chunks.values():
                    self._actors[chunk.actor].remove(chunk.number)
            work.count()
            work.group.plan = self.plan
        except BaseException as problem:
            work.group.end(problem)  # nobody else knows the group
            raise
        work.group.end(error)

    def _end_all(self) -> None:
        error = ContextClosedError("the herd was closed while it generated")
        for work in self._works:
            self._end(work, error)

    def _why_nobody(self, work: GroupWork) -> BaseException | None:
        """Return the error if no actor can ever run a group; None otherwise."""
        links = [
            actor.link for actor in self._actors if actor.link.number not in work.refusals
        ]
        states = {link.state for link in links}
        if ActorState.READY in states:
            return None
        if ActorState.STARTING not in states:
            first = next(iter(work.refusals.values()), None)
            error = self._actors[0].link.error
            return first or ContextError(f"no actor can be started: {error}")
        since_s = max(link.changed_s for link in links)
        if monotonic() - since_s <= self._patience_s:
            return None
        return ClusterError(
            f"there has been no actor for {self._patience_s:.0f} s: check that a node "
            "has free resources for one"
        )
