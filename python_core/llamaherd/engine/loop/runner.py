"""Runner: carries out the actions of the scheduler on an engine."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from time import perf_counter
from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import (
    NO_CODE,
    Failure,
    NativeError,
    NoSpaceError,
    SamplerError,
)
from llamaherd.engine.core.outcome import CANCELLED, Finish, Output, RunOutcome, Status
from llamaherd.engine.loop.group import Group, call_tree, least_tokens
from llamaherd.engine.loop.open_groups import Delayed, OpenGroups, WatchedAnswers
from llamaherd.engine.loop.sizing import as_made, limits_of
from llamaherd.engine.loop.slot_times import SlotTimes, SlotWatch
from llamaherd.engine.memory.plan import MAX_DEPTH, MAX_HOLD, MOST_HOLD, Plan
from llamaherd.engine.schedule.beginnings import kept_for, with_beginnings
from llamaherd.engine.schedule.client import Client, State
from llamaherd.engine.schedule.engine import Action, Engine, Kind, is_guilty, isolate
from llamaherd.engine.schedule.prefixes import PrefixCache
from llamaherd.engine.schedule.queue import Queue, make_clients
from llamaherd.engine.schedule.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable


class Runner:
    """Runner of groups of requests on one engine. Only one thread at a time may use it.

    `n_waited` counts cells of calls for which the cache kept its layout and prefixes.
    """

    def __init__(
        self, engine: Engine, plan: Plan, *, keeps_prefixes: bool = True
    ) -> None:
        self.engine = engine
        self.plan = as_made(plan, engine)
        self.groups = OpenGroups()
        self._keeps = keeps_prefixes
        self._ids = count()
        self._numbers = count()
        self._n_lost = 0
        self.n_batches = 0
        self.n_waited = 0
        self.is_draining = False
        self._forget_all()

    def _forget_all(self) -> None:
        self._cache = PrefixCache()
        self._scheduler = Scheduler(limits_of(self.plan), self._cache)
        self._live: dict[int, Client] = {}  # clients in the engine, by id
        self._watched = WatchedAnswers(self.engine)
        self._is_short = False  # whether the last batch found too few cells
        self.delayed = Delayed()
        self._slots: SlotWatch | None = None  # None without a reader

    @property
    def n_running(self) -> int:
        """Number of running prompts."""
        return self._scheduler.n_running

    @property
    def longest_fork(self) -> int:
        """Maximum number of tokens after a running prompt that continues a prefix."""
        running = (c for c in self._live.values() if c.state is State.RUNNING)
        return max((c.request.n_behind for c in running if c.parent), default=0)

    @property
    def n_prefixes(self) -> int:
        """Number of held prefixes."""
        return len(self._cache.held)

    def n_continued(self, group: Group) -> int:
        """Return the number of tokens with which a group continues earlier ones."""
        tokens = group.requests[0].tokens
        kept = self._scheduler.kept.find(tokens, 1, 0, is_prefix=True)
        n_kept = 0 if kept is None else kept.n_tokens
        prefix = self._cache.match(tokens)
        return max(n_kept, prefix.n_tokens if prefix and prefix.is_held else 0)

    @property
    def n_hold_target(self) -> int:
        """Number of hold slots to plan, doubled if evicted prefixes were needed again."""
        n = max(MAX_HOLD, self.plan.n_hold)
        return min(MOST_HOLD, 2 * n) if self._cache.n_again >= n else n

    def slot_times(self) -> SlotTimes:
        """Return the times of the slots; the first call begins the measurement."""
        if self._slots is None:
            self._slots = SlotWatch(self.engine.times, perf_counter)
        self._slots.look(c for c in self._live.values() if c.state is State.RUNNING)
        return self._slots.times

    def ignore_slots(self) -> None:
        """End the measurement of the slots."""
        self._slots = None

    # ---- groups ----

    def drop(self, group: Group, error: BaseException | None = None) -> None:
        """End a group; started requests return the tokens generated so far."""
        if group.number not in self.groups:
            return
        for client in self._scheduler.remove(group.number):
            if client.is_prefix:
                self._release(client)
                continue
            self.engine.end(client.id, Finish.CANCELLED, "")
            output = self.engine.get(client.id)
            self._watched.send(client.id)
            self._release(client)
            group.ended(client.index, output, perf_counter())
        self.groups.remove(group)  # last, so that `fail_all` can still end the group
        self._close_group(group, error)

    def fail_all(self, reason: str, error: BaseException | None = None) -> None:
        """End all groups and reset the engine."""
        groups, self.groups = list(self.groups.values()), OpenGroups()
        failed = Output(finish=Finish.ERROR, message=reason)
        for group in groups:
            try:
                for i in list(group.open) if error is None else ():
                    group.ended(i, failed, perf_counter())
                self._close_group(group, error)
            except BaseException as problem:  # noqa: BLE001 - ends the group
                if not group.is_over:
                    group.end(problem)
        self._start_afresh()

    def _start_afresh(self) -> None:
        self._forget_all()
        self.engine.reset()

    def _close_group(self, group: Group, error: BaseException | None) -> None:
        """Close a group; cancel its requests that have not ended."""
        try:
            group.plan = self.plan
            group.counts = self.engine.counts(group.number)
            self.engine.forget(group.number)
            if error is None:
                for i in list(group.open):
                    group.ended(i, CANCELLED, perf_counter())
        except BaseException as problem:
            group.end(problem)  # nobody else knows the group
            raise
        group.end(error)

    def add(self, group: Group) -> None:
        """Queue the requests of a group that can run."""
        plan = group.plan = self.plan
        number = group.number = next(self._numbers)
        self.groups.add(group)
        indices = [] if group.is_cancelled else group.fitting(plan)
        requests = [group.requests[i] for i in indices]
        if group.is_stopping or group.is_cancelled or not requests:
            self._end_if_over(group)
            return
        is_whole = len(requests) == len(group.requests)
        least = least_tokens(requests)
        continued = kept_for(requests, self._scheduler.kept, self._cache, least)
        depth = 0 if continued else min(plan.n_hold, MAX_DEPTH)
        tree = group.tree if is_whole and group.tree else call_tree(requests)
        tree = tree.limited(depth)
        if self._keeps:
            tree = with_beginnings(
                tree,
                requests,
                self._cache,
                least=least,
                max_depth=depth,
                n_again=group.n_again,
            )
        max_cached_depth = MAX_DEPTH if self._keeps else 0
        if plan.kv_layout == "unified" and not group.is_alone:  # others would fill it
            max_cached_depth = min(max_cached_depth, tree.n_common)
        clients = make_clients(
            requests,
            indices,
            tree,
            self._cache,
            self._ids,
            call=number,
            max_cached_depth=max_cached_depth,
        )
        if continued is not None:
            self._scheduler.kept.reserve(continued, clients[0])
        else:
            self._scheduler.kept.reserve_roots(clients, least)
        self._scheduler.add(Queue(number, clients, is_single=group.is_alone))

    # ---- sizes ----

    def resize(self, plan: Plan) -> None:
        """Continue all requests, and what a covering cache can keep, in another size."""
        running = self._scheduler.running
        if plan.kv_layout != self.plan.kv_layout or self.plan.shrinks_to(plan):
            paused, needed = self._scheduler.paused_clients, self._cache.needed
            self.delayed.note([*running, *paused, *needed])
        for client in running:
            client.n_saved = self.engine.pause(client.id)
            self._leave(client)
            self._scheduler.pause(client)
        if not plan.covers(self.plan):
            self._lose_kept()
        try:
            self.engine.resize(plan.n_ctx, plan.n_sequences, plan.kv_layout)
            self.plan = as_made(plan, self.engine)
        finally:
            self._scheduler.resized(limits_of(self.plan))
            self._lose_kept(is_all=False)
            self._cache.n_again = 0
            self.n_waited = 0
            surplus = self._scheduler.surplus_prefixes()
            for prefix in surplus:
                self._release(prefix)
            self._scheduler.lost(surplus)

    def _lose_kept(self, *, is_all: bool = True) -> None:
        """Release kept prompts and held prefixes, or (not is_all) those without cells."""
        for client in self._scheduler.kept.clients:
            kept = None if is_all else self.engine.kept(client.id)
            if kept is None:
                self._scheduler.kept.remove(client)
                self._release(client)
            else:
                self._scheduler.kept.add(client, kept)
        for prefix in self._cache.held:
            if is_all or self.engine.get(prefix.id).finish is not Finish.NONE:
                self._release(prefix)
                self._scheduler.lost([prefix])

    # ---- steps ----

    def run_slice(self) -> None:
        """Start waiting clients and run steps until a listener must be notified."""
        actions: list[Action] = []
        # Otherwise the client that was just paused would resume at once, and no client
        # would make progress.
        may_start = not self._is_short or not self._scheduler.running_ids
        if may_start and not self.is_draining:
            actions = self._scheduler.admit(self.engine.n_cells_taken())
        self._is_short = False
        for action in actions:
            self._apply(action)
        outcome = self.engine.run(max_time_ms=self._watched.slice_ms(self.n_running))
        self.n_batches += outcome.n_steps
        self._settle(outcome.events)
        self._watched.send_all()
        for group in self.groups.counted:
            group.counts = self.engine.counts(group.number)
        if outcome.status is Status.REFUSED:
            self._settle_refusal(outcome)
        elif outcome.is_idle and not actions:
            self._close_groups_that_stop()
        if outcome.status is not Status.OK:
            self._look_for_lost_states()

    def _look_for_lost_states(self) -> None:
        """Compute held prefixes again whose recurrent states a failed batch has lost."""
        n_lost = self.engine.counts().n_lost
        if n_lost > self._n_lost:
            self._n_lost = n_lost
            self._lose_kept()

    def _settle_refusal(self, outcome: RunOutcome) -> None:
        """Handle a batch that was refused because of its content or for lack of cells."""
        if not is_guilty(outcome):
            self._is_short = True
            self._apply(self._scheduler.make_room(), outcome.message)
            return
        running = [c for c in self._live.values() if c.state is State.RUNNING]
        for call in {client.call for client in running}:
            if call in self.groups:
                self.groups[call].n_fallbacks += 1
        self._settle(isolate(self.engine, self._scheduler.running_ids))
        self.n_batches = self.engine.counts().n_batches

    def _close_groups_that_stop(self) -> None:
        stuck = [group for group in self.groups.values() if group.n_running == 0]
        for group in stuck:
            self._end_if_over(group)
        if stuck and all(group.number in self.groups for group in stuck):
            raise RuntimeError("some clients neither run nor may start")

    def stop(self, group: Group) -> None:
        """Start no more requests of a group; running requests finish."""
        self._scheduler.stop(group.number)
        self._end_if_over(group)

    def watch(self, group: Group) -> None:
        """Start to send new parts of the answer of a group to its listener."""
        for client in self._live.values():
            if client.call == group.number and not client.is_prefix:
                self._watched.add(client.id, group)

    def _apply(self, action: Action, reason: str = "") -> None:
        client = action.client
        if action.kind is Kind.SUBMIT:
            self._submit(action)
        elif action.kind is Kind.RESUME:
            self._resume(client)
        elif action.kind is Kind.PAUSE:
            self._pause(client)
        elif action.kind is Kind.RELEASE:
            self._release(client)
        elif action.kind is Kind.RAISE:
            self.engine.set_priority(client.id, client.priority)
        else:
            text = f"the KV cache is too small for the prompt, even alone: {reason}"
            self.engine.end(client.id, Finish.ERROR, text)
            self._settle([client.id], Failure(text, "too_long"))

    def _submit(self, action: Action) -> None:
        client = action.client
        group = self.groups[client.call]
        try:
            self.engine.submit(
                client.id,
                client.request,
                action.fork_from,
                n_fork=action.n_fork,
                keep=self._keeps and len(group.requests) == 1,
                call=client.call,
                may_draft=group.may_draft,
                is_watched=group.is_watched,
            )
        except (ValueError, NativeError) as error:
            code = "constraint" if isinstance(error, SamplerError) else NO_CODE
            reason = Failure(str(error), code)
            self._finish(client, Output(finish=Finish.ERROR, message=reason))
            return
        finally:
            if action.n_fork and action.fork_from is not None:
                self._release(self._live[action.fork_from])
        self._live[client.id] = client
        self._enter(client)
        if not client.is_prefix:
            group.n_running += 1
            group.started(client.index, perf_counter())
            if group.is_watched:
                self._watched.add(client.id, group)

    def _pause(self, client: Client) -> None:
        self._leave(client)
        client.n_saved = self.engine.pause(client.id)

    def _enter(self, client: Client) -> None:
        if self._slots is not None:
            self._slots.enter(client)

    def _leave(self, client: Client) -> None:
        if self._slots is not None:
            self._slots.leave(client.id)

    def _resume(self, client: Client) -> None:
        try:
            self.engine.resume(client.id)
            self._enter(client)
        except NoSpaceError as error:
            self._scheduler.pause(client)
            if not self._scheduler.running_ids:
                self._apply(self._scheduler.make_room(), str(error))

    def _settle(self, events: Iterable[int], reason: Failure | None = None) -> None:
        for id_ in events:
            client = self._live[id_]
            if client.is_prefix:
                self._settle_prefix(client)
                continue
            output = self.engine.get(id_)
            if reason is not None:
                output = replace(output, message=reason)
            if output.finish is not Finish.NONE:  # otherwise the event is its first token
                self._watched.send(id_)
                self._keep_or_release(client)
                self.groups[client.call].n_running -= 1
                self._finish(client, output)

    def _keep_or_release(self, client: Client) -> None:
        """Keep the cells of an ended prompt, if it ran alone, for the next prompt."""
        kept = self.engine.kept(client.id) if self._scheduler.is_alone(client) else None
        if kept is None:
            self._release(client)
            return
        self._leave(client)
        self._watched.discard(client.id)
        self._scheduler.kept.add(client, kept)

    def _settle_prefix(self, prefix: Client) -> None:
        """Inform the scheduler that a prefix is held or has failed."""
        output = self.engine.get(prefix.id)
        first = prefix.first_waiting()
        if first is not None:
            self.groups[first.call].charge(first.index, output.cost)
        if prefix.call not in self.groups:  # the call of the prefix has ended
            self.engine.forget(prefix.call)
        if output.finish is Finish.NONE:
            self._leave(prefix)
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

    def _release(self, client: Client) -> None:
        self._leave(client)
        del self._live[client.id]
        self._watched.discard(client.id)
        self.engine.release(client.id)
