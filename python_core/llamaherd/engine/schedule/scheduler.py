"""Scheduler: decides when each client runs. The loop executes its actions.

Calls receive free slots in turn, so a new call gets the next slot even while another
call runs. Within a call, prompts start in depth-first order of its prefix tree, so that
few prefixes are held at once; groups without a common prefix start with the longest
answers. Each prefix is a separate client. Its children wait until the prefix is held
and then fork from it. Calls share equal prefixes.

Admission is optimistic: it considers the cells for prompts, not the cells that answers
may need later. When no cells are free, the newest client is paused. A paused client
resumes before any new client starts, when enough cells are free. The oldest client is
never paused for lack of cells, so at least one client always makes progress. A client
is also paused if a client of a higher priority needs its slot.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llamaherd.engine.schedule.beginnings import KeptAnswers
from llamaherd.engine.schedule.client import Client, State
from llamaherd.engine.schedule.engine import Action, Kind, Limits, in_order
from llamaherd.engine.schedule.priorities import PausedClients, RaisedPrefixes
from llamaherd.engine.schedule.queue import Heap, PrefixOwners, Queue, Turns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llamaherd.engine.schedule.prefixes import PrefixCache

HEADROOM = 16  # free cells per running client that must remain for answers


class Scheduler:
    """State machine of all clients of a context."""

    def __init__(self, limits: Limits, cache: PrefixCache) -> None:
        self._limits = limits
        self._cache = cache
        self._turns = Turns()
        self._owners = PrefixOwners(self._turns)
        self._paused = PausedClients()
        self._raised = RaisedPrefixes(self._paused)
        self._running: dict[int, Client] = {}
        self._n_slots_used = 0
        self._n_hold_used = 0  # prefixes that are running, held or paused
        self.kept = KeptAnswers()  # ended prompts that keep their cells
        self._n_admitted = 0
        self._has_new_call = False  # whether a call of several prompts was added

    # ---- state ----

    @property
    def running(self) -> list[Client]:
        """Clients in the next batch, oldest first."""
        return sorted(self._running.values(), key=_age)

    @property
    def running_ids(self) -> list[int]:
        """Ids of the clients in the next batch, oldest first."""
        return [client.id for client in self.running]

    @property
    def paused_clients(self) -> list[Client]:
        """Paused clients."""
        return list(self._paused)

    def is_alone(self, client: Client) -> bool:
        """Return whether only this client runs, and none is paused."""
        return not self._paused and self._running.keys() == {client.id}

    @property
    def n_running(self) -> int:
        """Number of running prompts."""
        return self._n_slots_used

    # ---- calls ----

    def add(self, queue: Queue) -> None:
        """Add a call."""
        self._turns.add(queue)
        self._has_new_call |= not queue.is_single
        for client in tuple(queue.clients):
            self._raised.raise_for(client)
            self._owners.take_over(client, queue)
            self._owners.await_prefix(client)

    def stop(self, call: int) -> None:
        """Start no more clients of a call; running clients finish."""
        if call not in self._turns:
            return
        queue = self._turns[call]
        queue.is_admitting = False
        for prefix in tuple(queue.clients):
            self._owners.leave_to_others(prefix, call)

    def may_start(self, call: int) -> bool:
        """Whether clients of a call may still start."""
        return self._turns.may_start(call)

    def remove(self, call: int) -> list[Client]:
        """Remove a call, except prefixes in use; return the clients to release."""
        queue = self._turns.remove(call)
        leaving: list[Client] = []
        if queue is None:
            return leaving
        for client in queue.clients:
            if client.is_prefix or client.state is State.ENDED:
                continue
            if client.state is State.WAITING:
                self.kept.leave(client)
                leaving += self._abandon(client)
            else:
                self._take_out(client)
                leaving.append(client)
            client.state = State.ENDED
        for prefix in queue.clients:
            self._owners.leave_to_others(prefix, call)
        return leaving

    def resized(self, limits: Limits) -> None:
        """Store the limits of a resized engine; its clients are paused or lost."""
        self._limits = limits

    # ---- decisions ----

    def admit(self, n_cells_taken: int) -> list[Action]:
        """Return actions that start, resume or raise clients, in order of execution."""
        cells = self._limits.n_cells
        free = math.inf if cells is None else cells - n_cells_taken
        actions = self._raised.actions()
        free += self._clear_pool(actions)
        while True:
            client, heap = self._next()
            if self._has_skipped_prefix(client, heap):
                continue
            if client is None or not self._has_slot(client, actions):
                break
            is_paused = client.state is State.PAUSED
            is_full = self._n_hold_used == self._limits.n_hold
            if client.is_prefix and is_full and not is_paused:
                free += self._evict(actions, for_another=True)
            free += self._make_way(client, free, actions)
            source, reused = client.source()
            need = max(client.n_saved, client.n_tokens) - reused
            if not self._fits(client, need, free):
                if not self._cache.n_idle:
                    break
                free += self._evict(actions)
                continue
            free -= need
            if is_paused:
                self._paused.pop()
                self._start(client)
                actions.append(Action(Kind.RESUME, client))
                continue
            self._turns[client.call].pop(heap)
            self._start(client)
            if client.is_prefix:
                self._turns.had_hold_slot(client.call)
            else:
                self._turns.had_slot(client.call)
            n_fork = reused if self.kept.take(client) else 0
            fork_from = source.id if source else None
            actions.append(Action(Kind.SUBMIT, client, fork_from, n_fork))
            self._release_if_idle(client.parent, actions)
        return actions if math.isfinite(free) else in_order(actions)

    def make_room(self) -> Action:
        """After a batch found no free cells, decide which client releases its cells."""
        kept = self.kept.evict()
        if kept is not None:
            return Action(Kind.RELEASE, kept[0])
        prefix = self._cache.evict()
        if prefix is not None:
            self._n_hold_used -= 1
            return Action(Kind.RELEASE, prefix)
        clients = self.running
        if len(clients) > 1:
            self.pause(clients[-1])
            return Action(Kind.PAUSE, clients[-1])
        client = clients[0] if clients else next(iter(self._paused))
        if self._cache.needed and not client.is_prefix:
            return self._give_up_held()
        # A prefix fails, and its children start without it: if a held prefix were
        # released instead, two prefixes could replace each other forever.
        return Action(Kind.FAIL, client)

    # ---- events ----

    def held(self, prefix: Client) -> None:
        """Record that a prefix is held, so that its children may start."""
        del self._running[prefix.id]
        prefix.state = State.HELD
        self._make_children_ready(prefix)
        if prefix.n_unsubmitted == 0:
            self._cache.release(prefix)

    def ended(self, client: Client) -> None:
        """Record that a client ended. Children of a failed prefix start without it."""
        self._take_out(client)
        client.state = State.ENDED
        if client.is_prefix:
            self._cache.remove(client)
            self._make_children_ready(client)

    def lost(self, prefixes: Iterable[Client]) -> None:
        """Record that the engine lost prefixes; the needed ones will be recomputed."""
        for prefix in prefixes:
            self._n_hold_used -= 1
            if prefix.n_unsubmitted == 0:
                self._cache.remove(prefix)
            else:
                self._send_to_wait(prefix)

    def surplus_prefixes(self) -> list[Client]:
        """Remove the newest paused prefixes without hold slots, for release."""
        prefixes = sorted((c for c in self._paused if c.is_prefix), key=_age)
        surplus = prefixes[
            max(0, len(prefixes) + self._limits.n_hold - self._n_hold_used) :
        ]
        for prefix in surplus:
            self._paused.remove(prefix)
            prefix.n_saved = 0
        return surplus

    def pause(self, client: Client) -> None:
        """Record that a running client is paused, by the scheduler or the engine."""
        self._stop(client)
        client.state = State.PAUSED
        self._paused.add(client)

    # ---- internal: the next client ----

    def _next(self) -> tuple[Client | None, Heap]:
        """Return the next client to start, and its heap ([] if it is paused)."""
        heap = self._turns.next(self._n_hold_free, self._limits.n_hold)
        waiting = heap[0][2] if heap else None
        paused = self._paused.first
        if paused is None:
            return waiting, heap
        if waiting is None or waiting.priority <= paused.priority:
            return paused, []
        return waiting, heap

    @property
    def _n_hold_free(self) -> int:
        """Number of hold slots that are free or can be freed."""
        return self._limits.n_hold - self._n_hold_used + self._cache.n_idle

    def _has_slot(self, client: Client, actions: list[Action]) -> bool:
        """Return whether a slot is free; pause a client of lower priority if needed.

        A prefix uses no slot and pauses no client, but its prompts must be able to get
        one.
        """
        if self._n_slots_used < self._limits.n_slots:
            return True
        prompts = (c for c in self._running.values() if not c.is_prefix)
        last = min(prompts, key=lambda c: (c.priority, -c.age), default=None)
        if last is None or last.priority >= client.priority:
            return False
        if client.is_prefix:
            return True
        if any(action.client is last for action in actions):
            return False  # a client just started is not paused
        self.pause(last)
        actions.append(Action(Kind.PAUSE, last))
        return True

    def _fits(self, client: Client, need: int, free: float) -> bool:
        """Return whether enough cells are free. A client alone may always start."""
        if not self._running or math.isinf(free):
            return True
        answers = sum(min(HEADROOM, c.request.n_behind) for c in self._running.values())
        headroom = answers + min(HEADROOM, client.request.n_behind)
        return need + headroom <= free

    def _clear_pool(self, actions: list[Action]) -> int:
        """Evict prefixes that a new call does not continue from an unused pool.

        Otherwise each step would read their cells; a single prompt leaves them. Returns
        the number of cells that become free.
        """
        is_due, self._has_new_call = self._has_new_call, False
        is_pool = self._limits.n_cells is not None
        free = 0
        if is_due and is_pool and not self._running and not self._paused:
            while (kept := self.kept.evict(even_used=False)) is not None:
                actions.append(Action(Kind.RELEASE, kept[0]))
                free += kept[1]
            while self._cache.n_idle:
                free += self._evict(actions)
        return free

    # ---- internal: transitions ----

    def _start(self, client: Client) -> None:
        if client.age < 0:
            client.age = self._n_admitted
            self._n_admitted += 1
        if client.is_prefix:
            self._n_hold_used += client.state is State.WAITING
        else:
            self._n_slots_used += 1
        client.state = State.RUNNING
        self._running[client.id] = client

    def _stop(self, client: Client) -> None:
        del self._running[client.id]
        self._n_slots_used -= not client.is_prefix

    def _take_out(self, client: Client) -> None:
        """Remove a client from the running or the paused clients."""
        if client.state is State.PAUSED:
            self._paused.remove(client)
        else:
            self._stop(client)
        self._n_hold_used -= client.is_prefix

    def _abandon(self, client: Client) -> list[Client]:
        """Abandon a client; return the prefixes that only it needs, for release."""
        prefix = client.parent
        if prefix is None:
            return []
        prefix.n_unsubmitted -= 1
        prefix.dependents.pop(client, None)
        if prefix.n_unsubmitted > 0:
            return []
        leaving: list[Client] = []
        if prefix.state is State.HELD:
            self._cache.release(prefix)
        elif prefix.state is State.WAITING:
            self.kept.leave(prefix)
            self._cache.remove(prefix)
            leaving = self._abandon(prefix)
        elif prefix.state is not State.ENDED:
            self._take_out(prefix)
            self._cache.remove(prefix)
            leaving = [prefix]
        return leaving

    def _release_if_idle(self, prefix: Client | None, actions: list[Action]) -> None:
        """Make a prefix idle or drop it, if all its children have forked."""
        if prefix is None:
            return
        prefix.n_unsubmitted -= 1
        if prefix.n_unsubmitted > 0 or prefix.state is not State.HELD:
            return
        if prefix.is_cached:
            self._cache.release(prefix)
        else:
            self._cache.remove(prefix)
            self._n_hold_used -= 1
            actions.append(Action(Kind.RELEASE, prefix))

    def _evict(self, actions: list[Action], *, for_another: bool = False) -> int:
        """Evict an idle prefix and return the number of its cells."""
        prefix = self._cache.evict(for_another=for_another)
        if prefix is None:
            return 0
        self._n_hold_used -= 1
        actions.append(Action(Kind.RELEASE, prefix))
        return prefix.n_tokens

    def _make_way(self, client: Client, free: float, actions: list[Action]) -> int:
        """Evict the kept prompts in the way of a client; return the number of cells."""
        needs_slot = not client.is_prefix and client.continued is None
        n_slots = self._limits.n_slots - self._n_slots_used - needs_slot
        n_missing = client.n_tokens + HEADROOM - free
        evicted = self.kept.make_way(n_slots, n_missing, is_alone=not self._running)
        actions += [Action(Kind.RELEASE, kept) for kept, _ in evicted]
        return sum(n_cells for _, n_cells in evicted)

    def _has_skipped_prefix(self, client: Client | None, heap: Heap) -> bool:
        """Skip a prefix that gets too few hold slots; return whether one was skipped.

        To evict a held prefix for it would not help: both could replace each other
        forever.
        """
        is_idle = not self._running and not self._paused
        if client is None and is_idle and self._turns.has_any:
            heap = self._turns.next(math.inf)
        elif not heap or heap[0][2].n_levels <= self._n_hold_free:
            return False
        queue = self._turns[heap[0][2].call]
        prefix = queue.pop(heap)
        queue.n_passed = 0
        parent = prefix.parent
        children = [c for c in prefix.dependents if c.state is State.WAITING]
        for child in children:
            child.parent = parent
        if parent is not None:
            parent.n_unsubmitted += len(children)
        self.kept.leave(prefix)
        self._abandon(prefix)
        self._cache.remove(prefix)
        self._make_children_ready(prefix)
        return True

    def _give_up_held(self) -> Action:
        """Release the held prefix whose children start last; it is recomputed later."""
        prefix = max(self._cache.needed, key=lambda client: (client.call, client.rank))
        self._n_hold_used -= 1
        self._send_to_wait(prefix)
        return Action(Kind.RELEASE, prefix)

    def _send_to_wait(self, prefix: Client) -> None:
        """Make a prefix wait again, because its remaining children still need it."""
        prefix.state = State.WAITING
        if prefix.parent is not None:
            prefix.parent.n_unsubmitted += 1
            self._cache.use(prefix.parent)
        self._owners.send_to_wait(prefix)

    def _make_children_ready(self, prefix: Client) -> None:
        for child in prefix.take_dependents():
            if child.state is State.WAITING:  # it may have been abandoned
                self._turns.make_ready(child)


def _age(client: Client) -> int:
    return client.age
