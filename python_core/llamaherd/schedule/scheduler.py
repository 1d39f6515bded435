"""Which client runs when. Decisions only: the loop carries them out.

Free slots go to calls in turn: to the one that has not had any for the longest time, so
that whoever comes while another call runs has the next one. Within a call prompts start
in a depth-first order of its prefix tree, so that few prefixes are held at once; of what
shares nothing, the longest answers come first. Each prefix is a client of its own; what
continues it waits until it is held and forks from it. Calls that start with the same
prefix share it.

Admission is optimistic: it looks at the cells that prompts take, not at those that
answers may come to take. When cells run out after all, the newest client is paused and
comes back, before any new one, when there is room. The oldest is never paused for that,
so that there is always progress. A client also gives way to one of a higher priority.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from llamaherd.schedule.client import Client, State
from llamaherd.schedule.decision import Action, Kind, Limits
from llamaherd.schedule.turns import Turns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llamaherd.schedule.prefix_cache import PrefixCache
    from llamaherd.schedule.queue import Heap, Queue

HEADROOM = 16  # cells for each client's answer without which nobody new is admitted


class Scheduler:
    """Moves clients through their states.

    Args:
        limits: What there is to schedule on.
        cache: The prefixes.
    """

    def __init__(self, limits: Limits, cache: PrefixCache) -> None:
        self._limits = limits
        self._cache = cache
        self._turns = Turns()
        self._paused: list[tuple[int, int, Client]] = []  # by priority, then by age
        self._running: dict[int, Client] = {}
        self._n_slots_used = 0
        self._n_hold_used = 0  # prefixes that run, are held or paused
        self._n_admitted = 0

    # ---- what is there ----

    @property
    def running_ids(self) -> list[int]:
        """Clients that take part in the next batch, oldest first."""
        return [client.id for client in self._by_age()]

    @property
    def n_running(self) -> int:
        """Prompts that run."""
        return self._n_slots_used

    # ---- calls come and go ----

    def add(self, queue: Queue) -> None:
        """Takes a call in."""
        self._turns.add(queue)
        for client in queue.clients:
            self._await_prefix(client)

    def stop(self, call: int) -> None:
        """Lets what runs of a call finish, and starts nothing new."""
        if call in self._turns:
            self._turns[call].is_admitting = False

    def may_start(self, call: int) -> bool:
        """Whether something of a call still may start."""
        return call in self._turns and self._turns[call].is_admitting

    def remove(self, call: int) -> list[Client]:
        """Forgets a call. Returns those of its clients that the engine must release.

        Prefixes that others wait for, or that may be of use later, stay.
        """
        queue = self._turns.remove(call)
        leaving: list[Client] = []
        if queue is None:
            return leaving
        for client in queue.clients:
            if client.is_prefix or client.state is State.ENDED:
                continue
            if client.state is State.WAITING:
                leaving += self._no_longer_needs(client)
            else:
                self._take_out(client)
                leaving.append(client)
            client.state = State.ENDED
        for prefix in queue.clients:
            if prefix.state is State.WAITING and prefix.call == call:  # a prefix
                self._hand_over(prefix)
        return leaving

    def resized(self, limits: Limits) -> None:
        """The engine has other sizes now; all that it held is gone, or paused."""
        self._limits = limits

    # ---- decisions ----

    def admit(self, n_cells_taken: int) -> list[Action]:
        """Decides who starts or comes back now, in this order.

        Args:
            n_cells_taken: Cells in use or about to be taken by prompts.
        """
        cells = self._limits.n_cells
        free = math.inf if cells is None else cells - n_cells_taken
        actions: list[Action] = []
        while True:
            if self._cache.n_idle and self._is_pool_to_be_cleared():
                free += self._evict(actions)
                continue
            client, heap = self._next()
            if client is None and self._is_stuck():
                self._do_without_one()
                continue
            if client is None or not self._has_slot(client, actions):
                return actions
            is_paused = client.state is State.PAUSED
            is_full = self._n_hold_used == self._limits.n_hold
            if client.is_prefix and is_full and not is_paused:
                free += self._evict(actions, for_another=True)
            source = None if is_paused else client.fork_source()
            reused = source.n_tokens if source else 0
            need = max(client.n_saved, client.n_tokens) - reused
            if not self._fits(client, need, free):
                if not self._cache.n_idle:
                    return actions
                free += self._evict(actions)
                continue
            free -= need
            if is_paused:
                heappop(self._paused)
                self._start(client)
                actions.append(Action(Kind.RESUME, client))
                continue
            heappop(heap)
            self._start(client)
            if not client.is_prefix:  # which takes no slot
                self._turns.had_slot(client.call)
            actions.append(Action(Kind.SUBMIT, client, source.id if source else None))
            self._release_if_idle(client.parent, actions)

    def make_room(self) -> Action:
        """Decides who gives way when a batch found no KV cells."""
        prefix = self._cache.evict()
        if prefix is not None:
            self._n_hold_used -= 1
            return Action(Kind.RELEASE, prefix)
        clients = self._by_age()
        if len(clients) > 1:
            self._pause(clients[-1])
            return Action(Kind.PAUSE, clients[-1])
        if self._cache.needed:
            return self._give_up_held()
        return Action(Kind.FAIL, clients[0] if clients else self._paused[0][2])

    # ---- what happened ----

    def paused(self, client: Client, n_saved: int) -> None:
        """The engine has saved so many cells of a client."""
        client.n_saved = n_saved

    def not_resumed(self, client: Client) -> None:
        """There was no room for a client's cells after all."""
        self._pause(client)

    def held(self, prefix: Client) -> None:
        """A prefix is computed: what continues it may start."""
        del self._running[prefix.id]
        prefix.state = State.HELD
        self._make_children_ready(prefix)
        if prefix.n_unsubmitted == 0:
            self._cache.release(prefix)

    def ended(self, client: Client) -> None:
        """A client ended, well or not. What continues a failed prefix does without it."""
        self._take_out(client)
        client.state = State.ENDED
        if client.is_prefix:
            self._cache.remove(client)
            self._make_children_ready(client)

    def lost(self, prefixes: Iterable[Client]) -> None:
        """Held prefixes are gone, with the engine's memory; computed anew if needed."""
        for prefix in prefixes:
            self._n_hold_used -= 1
            if prefix.n_unsubmitted == 0:
                self._cache.remove(prefix)
            else:
                self._send_to_wait(prefix)

    def pause_all(self) -> list[Client]:
        """Everybody that runs gives way, to come back later. Returns them, by age."""
        clients = self._by_age()
        for client in clients:
            self._pause(client)
        return clients

    # ---- inside: who is next ----

    def _next(self) -> tuple[Client | None, Heap]:
        """Who would start next, if there is room, and where it waits if not paused."""
        heap = self._turns.next(
            self._limits.n_hold - self._n_hold_used + self._cache.n_idle
        )
        waiting = heap[0][2] if heap else None
        paused = self._paused[0][2] if self._paused else None
        if paused is None:
            return waiting, heap
        if waiting is None or waiting.priority <= paused.priority:
            return paused, []
        return waiting, heap

    def _has_slot(self, client: Client, actions: list[Action]) -> bool:
        """Whether there is a slot, if need be that of a client of lower priority.

        A prefix takes none, but is computed only where what continues it would get one.
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
            return False  # it is about to start: next time
        self._pause(last)
        actions.append(Action(Kind.PAUSE, last))
        return True

    def _fits(self, client: Client, need: int, free: float) -> bool:
        """Whether there is room; alone a client always tries."""
        if not self._running or math.isinf(free):
            return True
        answers = sum(min(HEADROOM, c.request.max_tokens) for c in self._running.values())
        headroom = answers + min(HEADROOM, client.request.max_tokens)
        return need + headroom <= free

    def _is_stuck(self) -> bool:
        """Whether all that may start are prefixes, and there are too few places."""
        return not self._running and not self._paused and self._turns.has_any

    def _is_pool_to_be_cleared(self) -> bool:
        """Whether a pool is to be begun anew, so that equal calls find equal pools."""
        is_idle = not self._running and not self._paused
        return self._limits.n_cells is not None and is_idle

    # ---- inside: from state to state ----

    def _by_age(self) -> list[Client]:
        return sorted(self._running.values(), key=lambda client: client.age)

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

    def _pause(self, client: Client) -> None:
        self._stop(client)
        client.state = State.PAUSED
        heappush(self._paused, (-client.priority, client.age, client))

    def _take_out(self, client: Client) -> None:
        """It neither runs nor is paused any more."""
        if client.state is State.PAUSED:
            self._paused.remove((-client.priority, client.age, client))
            heapify(self._paused)
        else:
            self._stop(client)
        self._n_hold_used -= client.is_prefix

    def _no_longer_needs(self, client: Client) -> list[Client]:
        """A waiting client is given up, and what is computed for it alone.

        Returns:
            Prefixes that the engine must release.
        """
        prefix = client.parent
        if prefix is None:
            return []
        prefix.n_unsubmitted -= 1
        if prefix.n_unsubmitted > 0:
            return []
        leaving: list[Client] = []
        if prefix.state is State.HELD:
            self._cache.release(prefix)
        elif prefix.state is State.WAITING:
            self._cache.remove(prefix)
            leaving = self._no_longer_needs(prefix)
        elif prefix.state is not State.ENDED:
            self._take_out(prefix)
            self._cache.remove(prefix)
            leaving = [prefix]
        return leaving

    def _release_if_idle(self, prefix: Client | None, actions: list[Action]) -> None:
        """What it means that one more client has forked from a prefix."""
        if prefix is None:
            return
        prefix.n_unsubmitted -= 1
        if prefix.n_unsubmitted > 0 or prefix.state is not State.HELD:
            return
        if prefix.stays:
            self._cache.release(prefix)
        else:
            self._cache.remove(prefix)
            self._n_hold_used -= 1
            actions.append(Action(Kind.RELEASE, prefix))

    def _evict(self, actions: list[Action], *, for_another: bool = False) -> int:
        """An idle prefix gives its place up. Returns the number of its cells."""
        prefix = self._cache.evict(for_another=for_another)
        if prefix is None:
            return 0
        self._n_hold_used -= 1
        actions.append(Action(Kind.RELEASE, prefix))
        return prefix.n_tokens

    def _do_without_one(self) -> None:
        """The next prefix is not computed; what continues it continues its parent.

        Were a held one given up for it, two might give way to each other for ever.
        """
        prefix = heappop(self._turns.next(math.inf))[2]
        parent = prefix.parent
        children = [c for c in prefix.waiting if c.state is State.WAITING]
        for child in children:
            child.parent = parent
        if parent is not None:
            parent.n_unsubmitted += len(children)
        self._no_longer_needs(prefix)
        self._cache.remove(prefix)
        self._make_children_ready(prefix)

    def _give_up_held(self) -> Action:
        """The held prefix whose turn is last is computed again later."""
        prefix = max(self._cache.needed, key=lambda client: (client.call, client.place))
        self._n_hold_used -= 1
        self._send_to_wait(prefix)
        return Action(Kind.RELEASE, prefix)

    def _send_to_wait(self, prefix: Client) -> None:
        """A held prefix is computed again later, for those that have yet to fork."""
        prefix.state = State.WAITING
        if prefix.parent is not None:
            prefix.parent.n_unsubmitted += 1
            self._cache.use(prefix.parent)
        if prefix.call in self._turns:
            self._await_prefix(prefix)
        else:
            self._hand_over(prefix)

    def _hand_over(self, prefix: Client) -> None:
        """A prefix is left behind by its call: another one that needs it computes it."""
        for queue in self._turns.queues:
            for client in queue.clients:
                if client.parent is prefix and client.state is State.WAITING:
                    prefix.call = queue.call
                    queue.clients.append(prefix)
                    self._hand_over_ready(prefix)
                    return

    def _hand_over_ready(self, prefix: Client) -> None:
        """It is ready, or waits for its own prefix, which may be left behind as well."""
        parent = prefix.parent
        if parent is None or _is_there(parent):
            self._turns.make_ready(prefix)
            return
        if prefix not in parent.waiting:
            parent.waiting.append(prefix)
        if parent.state is State.WAITING and parent.call not in self._turns:
            self._hand_over(parent)

    def _await_prefix(self, client: Client) -> None:
        """A waiting client is ready, or will be when its prefix is."""
        parent = client.parent
        if parent is None or _is_there(parent):
            self._turns.make_ready(client)
        else:
            parent.waiting.append(client)

    def _make_children_ready(self, prefix: Client) -> None:
        children, prefix.waiting = prefix.waiting, []
        for child in children:
            if child.state is State.WAITING:  # others were given up meanwhile
                self._turns.make_ready(child)


def _is_there(prefix: Client | None) -> bool:
    """Whether what continues a prefix may start, with it or without."""
    return prefix is None or prefix.state in (State.HELD, State.ENDED)
