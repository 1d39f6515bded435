"""Carries out the scheduler's decisions on an engine, for all groups of requests."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

from llamaherd.core.errors import NativeError, NoSpaceError
from llamaherd.core.outcome import Finish, Output, Status
from llamaherd.core.request import too_long
from llamaherd.memory.plan import MAX_DEPTH, MAX_HOLD, MOST_HOLD
from llamaherd.run.answers import CANCELLED
from llamaherd.run.prefixes import call_tree, single_tree
from llamaherd.schedule.client import State
from llamaherd.schedule.decision import Kind, Limits
from llamaherd.schedule.fallback import is_guilty, isolate
from llamaherd.schedule.prefix_cache import PrefixCache
from llamaherd.schedule.queue import Queue, make_clients
from llamaherd.schedule.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llamaherd.core.outcome import RunOutcome
    from llamaherd.memory.plan import Plan
    from llamaherd.run.group import Group
    from llamaherd.schedule.client import Client
    from llamaherd.schedule.decision import Action
    from llamaherd.schedule.engine import Engine

_SLICE_MS = 50  # after which progress is told
_WATCHED_MS = 25  # after which new text is
_FEW = 4  # answers, all of them watched, that nobody else waits for
_EACH_STEP_MS = 1


class Runner:
    """Runs groups of requests on one engine. One thread at a time.

    Args:
        engine: Has no requests.
        plan: What it was made for.

    Attributes:
        engine: It is.
        plan: The sizes that it has now.
        groups: Those that have not ended, by number.
        n_batches: That were decoded so far.
    """

    def __init__(self, engine: Engine, plan: Plan) -> None:
        self.engine = engine
        self.plan = _as_made(plan, engine)
        self.groups: dict[int, Group] = {}
        self._ids = count()
        self._numbers = count()
        self._n_lost = 0
        self.n_batches = 0
        self._forget_all()

    def _forget_all(self) -> None:
        self._cache = PrefixCache()
        self._scheduler = Scheduler(_limits(self.plan), self._cache)
        self._live: dict[int, Client] = {}  # what the engine knows
        self._watched: dict[int, Group] = {}  # those of them whose answers are watched
        self._is_short = False  # the last batch found no cells

    @property
    def n_running(self) -> int:
        """Prompts that run now."""
        return self._scheduler.n_running

    @property
    def n_prefixes(self) -> int:
        """Prefixes that are held now."""
        return len(self._cache.held)

    @property
    def n_places_wanted(self) -> int:
        """Places for prefixes: twice as many where those that there are do not do."""
        n = max(MAX_HOLD, self.plan.n_hold)
        return min(MOST_HOLD, 2 * n) if self._cache.n_again >= n else n

    # ---- groups come and go ----

    def drop(self, group: Group, error: BaseException | None = None) -> None:
        """Ends a group. What has started keeps the tokens that it has."""
        if group.number not in self.groups:
            return
        for client in self._scheduler.remove(group.number):
            if client.is_prefix:
                self._release(client)
                continue
            self.engine.end(client.id, Finish.CANCELLED, "")
            output = self.engine.get(client.id)
            self._tell(client.id, self._watched.get(client.id))
            self._release(client)
            group.ended(client.index, output, perf_counter())
        del self.groups[group.number]  # not before: if all fails it must be told, too
        self._close_group(group, error)

    def fail_all(self, reason: str, error: BaseException | None = None) -> None:
        """Ends all groups and starts afresh.

        Args:
            reason: What those of their requests that have not ended fail with.
            error: What the groups end with instead, if given.

        Raises:
            NativeError: The engine is of no use any more.
        """
        groups, self.groups = list(self.groups.values()), {}
        failed = Output(finish=Finish.ERROR, message=reason)
        for group in groups:
            for i in list(group.open) if error is None else ():
                group.ended(i, failed, perf_counter())
            self._close_group(group, error)
        self._start_afresh()

    def rest(self) -> None:
        """There is no group. Prefixes whose states were lost are of no use any more."""
        n_lost = self.engine.counts().n_lost
        if n_lost > self._n_lost:
            self._start_afresh()
            self._n_lost = n_lost

    def _start_afresh(self) -> None:
        self._forget_all()
        self.engine.reset()

    def _close_group(self, group: Group, error: BaseException | None) -> None:
        """What never started, or was given up, is cancelled."""
        group.plan = self.plan
        group.counts = self.engine.counts(group.number)
        self.engine.forget(group.number)
        if error is None:
            for i in list(group.open):
                group.ended(i, CANCELLED, perf_counter())
        group.end(error)

    def add(self, group: Group) -> None:
        """Has what can be run of a group wait for its turn."""
        plan = group.plan = self.plan
        number = group.number = next(self._numbers)
        self.groups[number] = group
        indices = self._fitting(group, plan)
        requests = [group.requests[i] for i in indices]
        if group.is_stopping or group.is_cancelled or not requests:
            self._end_if_over(group)
            return
        stays = MAX_DEPTH
        if group.is_alone:
            tree = single_tree(requests[0], self._cache, plan.n_hold)
        else:
            is_whole = len(requests) == len(group.requests)
            tree = group.tree if is_whole and group.tree else call_tree(requests)
            tree = tree.limited(min(plan.n_hold, MAX_DEPTH))
            if plan.kv_layout == "unified":  # it then lies where it lay before
                stays = int(tree.n_shared > 0)
        clients = make_clients(
            requests, indices, tree, self._cache, self._ids, call=number, stays=stays
        )
        self._scheduler.add(Queue(number, clients))

    def _fitting(self, group: Group, plan: Plan) -> list[int]:
        """Requests that there is room for; the others fail."""
        capacity = min(plan.capacity, plan.n_ctx_seq - plan.n_spare)
        fitting = []
        for i, request in enumerate(group.requests):
            problem = request.problem or too_long(
                request, capacity, "one prompt may have (see n_ctx)"
            )
            if problem:
                rejected = Output(finish=Finish.ERROR, message=problem, is_rejected=True)
                group.ended(i, rejected, perf_counter())
            else:
                fitting.append(i)
        return fitting

    # ---- sizes ----

    def resize(self, plan: Plan) -> None:
        """Everybody is paused, and goes on in a cache of another size.

        Raises:
            ContextError: There is not enough memory; the cache is as large as before.
        """
        for client in self._scheduler.pause_all():
            self._scheduler.paused(client, self.engine.pause(client.id))
        held = self._cache.held
        for prefix in held:
            self._release(prefix)
        self._scheduler.lost(held)
        try:
            self.engine.resize(plan.n_ctx, plan.n_sequences, plan.kv_layout)
            self.plan = _as_made(plan, self.engine)
        finally:
            self._scheduler.resized(_limits(self.plan))
            self._cache.n_again = 0

    # ---- steps ----

    def run_slice(self) -> None:
        """Admits, and runs steps until there is something to tell.

        Raises:
            NativeError: The engine failed in a way that no prompt is to blame for.
        """
        actions: list[Action] = []
        # Who has just given way would come back at once, and nobody get on.
        if not self._is_short or not self._scheduler.running_ids:
            actions = self._scheduler.admit(self.engine.n_cells_taken())
        self._is_short = False
        for action in actions:
            self._apply(action)
        outcome = self.engine.run(max_time_ms=self._slice_ms)
        self.n_batches = self.engine.counts().n_batches
        self._settle(outcome.events)
        self._tell_all()
        if outcome.status is Status.REFUSED:
            self._settle_refusal(outcome)
        elif outcome.is_idle and not actions:
            self._close_groups_that_stop()

    @property
    def _slice_ms(self) -> int:
        """How long steps may go on before what is new is told."""
        if not self._watched:
            return _SLICE_MS
        is_few = self.n_running == len(self._watched) <= _FEW
        return _EACH_STEP_MS if is_few else _WATCHED_MS

    def _settle_refusal(self, outcome: RunOutcome) -> None:
        """A batch was refused, for what is in it or for want of cells."""
        if not is_guilty(outcome):
            self._is_short = True
            self._apply(self._scheduler.make_room(), outcome.message)
            return
        running = [c for c in self._live.values() if c.state is State.RUNNING]
        for call in {client.call for client in running} & self.groups.keys():
            self.groups[call].n_fallbacks += 1
        self._settle(isolate(self.engine, self._scheduler.running_ids))

    def _tell_all(self) -> None:
        for id_, group in self._watched.items():
            self._tell(id_, group)
        for group in self.groups.values():
            if group.is_counted:
                group.counts = self.engine.counts(group.number)

    def _close_groups_that_stop(self) -> None:
        stuck = [group for group in self.groups.values() if group.n_running == 0]
        for group in stuck:
            self._end_if_over(group)
        if stuck and all(group.number in self.groups for group in stuck):
            raise RuntimeError("clients are left that neither run nor may start")

    def stop(self, group: Group) -> None:
        """Lets what runs of a group finish, and starts nothing new."""
        self._scheduler.stop(group.number)
        self._end_if_over(group)

    def watch(self, group: Group) -> None:
        """From now on the listener is told of what is new of a group's answer."""
        for client in self._live.values():
            if client.call == group.number and not client.is_prefix:
                self._watched[client.id] = group

    def _apply(self, action: Action, reason: str = "") -> None:
        client = action.client
        if action.kind is Kind.SUBMIT:
            self._submit(client, action.fork_from)
        elif action.kind is Kind.RESUME:
            self._resume(client)
        elif action.kind is Kind.PAUSE:
            self._scheduler.paused(client, self.engine.pause(client.id))
        elif action.kind is Kind.RELEASE:
            self._release(client)
        else:
            message = f"the KV cache is too small for it, even alone: {reason}"
            self.engine.end(client.id, Finish.ERROR, message)
            self._settle([client.id])

    def _submit(self, client: Client, fork_from: int | None) -> None:
        group = self.groups[client.call]
        try:
            self.engine.submit(
                client.id,
                client.request,
                fork_from,
                call=client.call,
                may_draft=group.may_draft,
                is_watched=group.is_watched,
            )
        except (ValueError, NativeError) as error:  # such as a bad grammar
            self._finish(client, Output(finish=Finish.ERROR, message=str(error)))
            return
        self._live[client.id] = client
        if not client.is_prefix:
            group.n_running += 1
            group.started(client.index, perf_counter())
            if group.is_watched:
                self._watched[client.id] = group

    def _resume(self, client: Client) -> None:
        try:
            self.engine.resume(client.id)
        except NoSpaceError as error:
            self._scheduler.not_resumed(client)
            if not self._scheduler.running_ids:
                self._apply(self._scheduler.make_room(), str(error))

    def _settle(self, events: Iterable[int]) -> None:
        for id_ in events:
            client = self._live[id_]
            if client.is_prefix:
                self._settle_prefix(client)
                continue
            output = self.engine.get(id_)
            if output.finish is not Finish.NONE:  # else it is its first token
                self._tell(id_, self._watched.get(id_))
                self._release(client)
                self.groups[client.call].n_running -= 1
                self._finish(client, output)

    def _settle_prefix(self, prefix: Client) -> None:
        """A prefix is held, or has failed."""
        output = self.engine.get(prefix.id)
        first = first_waiting(prefix)
        if first is not None:
            self.groups[first.call].charge(first.index, output.cost)
        if prefix.call not in self.groups:  # it has outlived its call
            self.engine.forget(prefix.call)
        if output.finish is Finish.NONE:
            self._scheduler.held(prefix)
        else:
            self._release(prefix)
            self._scheduler.ended(prefix)

    def _finish(self, client: Client, output: Output) -> None:
        self._scheduler.ended(client)
        if client.is_prefix:
            return
        group = self.groups[client.call]
        group.ended(client.index, output, perf_counter())
        self._end_if_over(group)

    def _end_if_over(self, group: Group) -> None:
        may_start = self._scheduler.may_start(group.number)
        if not group.open or (group.n_running == 0 and not may_start):
            self.drop(group)

    def _tell(self, id_: int, group: Group | None) -> None:
        """Hands out what is new of an answer."""
        if group is None:
            return
        piece = self.engine.read(id_, *group.n_read)
        if (piece.n_bytes, piece.n_tokens) != group.n_read:
            group.n_read = (piece.n_bytes, piece.n_tokens)
            group.listener.on_piece(piece)

    def _release(self, client: Client) -> None:
        del self._live[client.id]
        self._watched.pop(client.id, None)
        self.engine.release(client.id)


def _as_made(plan: Plan, engine: Engine) -> Plan:
    """With the sizes as libllama rounded them."""
    return replace(plan, n_ctx=engine.n_ctx, n_ctx_seq=engine.n_ctx_seq)


def _limits(plan: Plan) -> Limits:
    is_pool = plan.kv_layout == "unified"
    return Limits(
        n_slots=plan.n_seq_max,
        n_hold=plan.n_hold,
        n_cells=plan.n_ctx if is_pool else None,
    )


def first_waiting(prefix: Client) -> Client | None:
    """The first prompt that waits for a prefix, or for one that continues it."""
    for child in prefix.waiting:
        found = first_waiting(child) if child.is_prefix else child
        if found is not None and found.state is State.WAITING:
            return found
    return None
