"""Queue of one call: its waiting clients, in the order in which they will start."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from llamaherd.engine.core.request import Request
from llamaherd.engine.schedule.client import Client, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.engine.schedule.prefix_cache import PrefixCache
    from llamaherd.engine.schedule.prefix_tree import PrefixTree

Heap = list[tuple[int, int, Client]]  # by rank, then by id

# Maximum number of prefixes of later calls that start before a prefix that needs several
# hold slots at once. The prefix is then skipped, and the next level is tried.
MOST_PASSED = 32


class Queue:
    """Clients of one call that may start, in their order.

    Args:
        call: Number of the call.
        clients: Prompts of the call, and prefixes that it computes, see `make_clients`.
        is_single: Whether the call is a single prompt, which continues prefixes of
            earlier prompts.

    Attributes:
        priority: Priority of the call; the highest is served first.
        turn: Time at which the call last received a slot, or else arrived; see `Turns`.
        is_listed: Whether the queue is in the heap of `Turns`.
        is_admitting: Whether new clients may start.
        n_passed: Number of prefixes of later calls that started while too few hold slots
            were free for a prefix of this call.
    """

    def __init__(
        self, call: int, clients: list[Client], *, is_single: bool = False
    ) -> None:
        self.call = call
        self.is_single = is_single
        self.clients = clients
        self.priority = max((c.priority for c in clients if not c.is_prefix), default=0)
        self.turn = (0, 0)
        self.is_listed = False
        self.is_admitting = True
        self.n_passed = 0
        self._prompts: Heap = []
        self._prefixes: dict[int, Heap] = {}  # heaps of prefixes, by number of levels
        self._ready: set[int] = set()  # ids of the clients in the heaps
        self._known: set[int] = {client.id for client in clients}

    @property
    def is_empty(self) -> bool:
        """Whether no client may start, even if more hold slots were free."""
        return not self._prompts and not any(self._prefixes.values())

    def adopt(self, prefix: Client) -> None:
        """Take over a prefix that another call was to compute."""
        prefix.call = self.call
        if prefix.id not in self._known:
            self._known.add(prefix.id)
            self.clients.append(prefix)

    def push(self, client: Client) -> None:
        """Add a client whose parent is held, or that has no parent."""
        if client.id in self._ready:
            return  # another call had taken the prefix over
        self._ready.add(client.id)
        item = (client.rank, client.id, client)
        if client.is_prefix:
            heappush(self._prefixes.setdefault(client.n_levels, []), item)
        else:
            heappush(self._prompts, item)

    def pop(self, heap: Heap) -> Client:
        """Remove and return the first client of one of the queue's heaps."""
        client = heappop(heap)[2]
        self._ready.discard(client.id)
        return client

    def head(self, n_free: float, n_hold: float) -> Heap:
        """Return the heap whose first client starts next; [] if no client can start.

        A prefix with d levels starts only when d hold slots are free, one per nested
        prefix. Otherwise two prefixes could each hold a slot that the other needs
        (deadlock). A prefix that can never start is returned, too, and a prefix that the
        prefixes of many later calls have passed. The caller skips them.
        """
        for n_levels, heap in list(self._prefixes.items()):
            self._send_back(heap)
            while heap and heap[0][2].n_levels != n_levels:  # it was extended
                self.push(self.pop(heap))
                self._send_back(heap)
        self._send_back(self._prompts)
        heaps = [self._prompts]
        is_late = n_free > 0 and self.n_passed >= MOST_PASSED
        heaps += [
            heap
            for depth, heap in self._prefixes.items()
            if depth <= n_free or depth > n_hold or is_late
        ]
        return min((h for h in heaps if h), key=lambda h: h[0][:2], default=[])

    def _send_back(self, heap: Heap) -> None:
        """Remove the clients at the top of a heap that cannot start.

        A client whose prefix was evicted waits for the prefix again. A prefix that no
        client needs any more is dropped, and so is one that another call computes.
        """
        while heap:
            client = heap[0][2]
            parent = client.parent
            if client.state is not State.WAITING or client.call != self.call:
                self.pop(heap)
            elif parent is None or parent.state in (State.HELD, State.ENDED):
                return
            else:
                parent.add_dependent(self.pop(heap), self.priority)


def make_clients(
    requests: Sequence[Request],
    indices: Sequence[int],
    tree: PrefixTree,
    cache: PrefixCache,
    ids: Iterator[int],
    *,
    call: int,
    max_cached_depth: int,
) -> list[Client]:
    """Create the clients of requests and of the prefixes that they share.

    Args:
        cache: Prefixes of all calls. The function reuses existing prefixes and inserts
            new ones.

    Returns:
        The new clients, each prefix before its children. Groups without a common prefix
        are ordered by the maximum length of their answers, longest first, so that no
        long answer runs alone at the end.
    """
    clients: list[Client] = []
    prefixes: list[Client] = []
    depths = tree.depth

    def add(client: Client) -> None:
        clients.append(client)
        if client.parent is not None:
            client.parent.n_unsubmitted += 1
            cache.use(client.parent)

    for i in tree.order:
        request = requests[i]
        # Nodes are numbered depth-first as well: create the nodes that start at this
        # prompt.
        while len(prefixes) <= tree.node_of[i]:
            k = len(prefixes)
            parent = prefixes[tree.parent[k]] if tree.parent[k] >= 0 else None
            of = requests[tree.prompt[k]].tokens
            tokens, is_whole = of[: tree.length[k]], tree.length[k] == len(of)
            prefix = cache.find(tokens, is_whole=is_whole)
            if prefix is None:
                prefix = Client(
                    id=next(ids),
                    call=call,
                    request=Request(
                        tokens=tokens,
                        max_tokens=0,
                        priority=request.priority,
                        is_whole=is_whole,
                    ),
                    parent=parent,
                    is_cached=depths[k] <= max_cached_depth,
                )
                cache.insert(prefix)
                add(prefix)
            prefixes.append(prefix)
        node = tree.node_of[i]
        parent = prefixes[node] if node >= 0 else None
        add(
            Client(
                id=next(ids), call=call, index=indices[i], request=request, parent=parent
            )
        )
    return _longest_first(clients)


def _longest_first(clients: Sequence[Client]) -> list[Client]:
    """Set `rank` in depth-first order; roots with the longest answers come first."""
    new = {client.id for client in clients}
    groups: list[list[Client]] = []
    for client in clients:
        if client.parent is None or client.parent.id not in new:
            groups.append([])
        groups[-1].append(client)
    groups.sort(key=lambda group: max(c.request.n_behind for c in group), reverse=True)
    ordered = [client for group in groups for client in group]
    for rank, client in enumerate(ordered):
        client.rank = rank
    return ordered
