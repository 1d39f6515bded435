"""The clients of one call, those that wait in the order in which they start."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from llamaherd.core.request import Request
from llamaherd.schedule.client import Client, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.schedule.prefix_cache import PrefixCache
    from llamaherd.schedule.prefix_tree import PrefixTree

Heap = list[tuple[int, int, Client]]  # by place, then by id


class Queue:
    """What of one call may start, and in which order.

    Args:
        call: Its number.
        clients: Prompts and the prefixes that are computed for them, see `make_clients`.

    Attributes:
        priority: Calls with a higher one go first.
        turn: When it had a slot last, or came; see `Scheduler`.
        is_listed: Whether the scheduler looks at it.
        is_admitting: Whether anything new may start.
    """

    def __init__(self, call: int, clients: list[Client]) -> None:
        self.call = call
        self.clients = clients
        self.priority = max((c.priority for c in clients if not c.is_prefix), default=0)
        self.turn = (0, 0)
        self.is_listed = False
        self.is_admitting = True
        self._prompts: Heap = []
        self._prefixes: dict[int, Heap] = {}  # by height

    @property
    def is_empty(self) -> bool:
        """Whether nothing may start, now or when there are more places for prefixes."""
        return not self._prompts and not any(self._prefixes.values())

    def push(self, client: Client) -> None:
        """What it continues is held, or nothing."""
        item = (client.place, client.id, client)
        if client.is_prefix:
            heappush(self._prefixes.setdefault(client.height, []), item)
        else:
            heappush(self._prompts, item)

    def head(self, n_places: float) -> Heap:
        """The heap whose first client is the next one to start; [] if none can.

        A prefix may start if there is a place for each level of prefixes that continue
        it, too: then the youngest can always be continued, and no two wait for each
        other.

        Args:
            n_places: Prefixes that may come to be there.
        """
        for height, heap in list(self._prefixes.items()):
            _send_back(heap)
            while heap and heap[0][2].height != height:  # it is continued by another one
                self.push(heappop(heap)[2])
                _send_back(heap)
        _send_back(self._prompts)
        heaps = [self._prompts]
        heaps += [heap for height, heap in self._prefixes.items() if height <= n_places]
        return min((h for h in heaps if h), key=lambda h: h[0][:2], default=[])


def _send_back(heap: Heap) -> None:
    """Takes clients off a heap's head whose prefix was evicted, to come again.

    And prefixes that nobody needs any more.
    """
    while heap:
        client = heap[0][2]
        parent = client.parent
        if client.state is State.ENDED:
            heappop(heap)
        elif parent is None or parent.state in (State.HELD, State.ENDED):
            return
        else:
            parent.waiting.append(heappop(heap)[2])


def make_clients(
    requests: Sequence[Request],
    indices: Sequence[int],
    tree: PrefixTree,
    cache: PrefixCache,
    ids: Iterator[int],
    *,
    call: int,
    stays: int,
) -> list[Client]:
    """Clients for requests and for the prefixes that they share.

    Args:
        requests: The prompts that the tree was built from.
        indices: The place of each of them in its call.
        tree: The prefixes of `requests`.
        cache: Prefixes that are there already are used; new ones are put into it.
        ids: Where new ids come from.
        call: Number of the call.
        stays: Depth down to which prefixes may stay when nobody needs them.

    Returns:
        All that are new, a prefix before what continues it. Of those that share nothing,
        the one that may have the longest answer is first, so that none is left for the
        end.
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
        # Prefixes are numbered depth-first, too: these are the ones that start here.
        while len(prefixes) <= tree.node_of[i]:
            k = len(prefixes)
            parent = prefixes[tree.parent[k]] if tree.parent[k] >= 0 else None
            of = requests[tree.prompt[k]].tokens
            wanted = Request(
                tokens=of[: tree.length[k]],
                max_tokens=0,
                priority=request.priority,
                is_whole=tree.length[k] == len(of),
            )
            prefix = cache.find(wanted)
            if prefix is None:
                prefix = Client(
                    id=next(ids),
                    call=call,
                    request=wanted,
                    parent=parent,
                    stays=depths[k] <= stays,
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
    """Sets `place`. The order is depth-first still, but for that of the roots."""
    new = {client.id for client in clients}
    groups: list[list[Client]] = []
    for client in clients:
        if client.parent is None or client.parent.id not in new:
            groups.append([])
        groups[-1].append(client)
    groups.sort(key=lambda group: max(c.request.max_tokens for c in group), reverse=True)
    ordered = [client for group in groups for client in group]
    for place, client in enumerate(ordered):
        client.place = place
    return ordered
