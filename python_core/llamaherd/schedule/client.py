"""A request's life: what the scheduler moves around."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from llamaherd.core.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.schedule.prefix_tree import PrefixTree


class State(Enum):
    """Where a client is in its life."""

    WAITING = auto()
    RUNNING = auto()
    PAUSED = auto()
    HELD = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False, kw_only=True)
class Client:
    """A request on its way through the scheduler.

    Attributes:
        id: The prompt's index; prefixes are numbered after all prompts.
        request: What the engine is given.
        parent: The prefix that it continues.
        place: Rank in which it may start.
        depth: Of a prefix: number of prefixes on its path, itself included.
        waiting: Of a prefix: children that cannot start before it is held.
        n_unsubmitted: Of a prefix: children that have not been submitted.
        age: When it was admitted first, among all.
        n_saved: Cells that it had when it was paused.
    """

    id: int
    request: Request
    parent: Client | None = None
    place: int = 0
    depth: int = 0
    waiting: list[Client] = field(default_factory=list)
    n_unsubmitted: int = 0
    state: State = State.WAITING
    age: int = -1
    n_saved: int = 0

    @property
    def is_prefix(self) -> bool:
        """Whether it exists only to be forked from."""
        return self.request.max_tokens == 0

    @property
    def key(self) -> bytes:
        """Its tokens, to find it again by."""
        return self.request.tokens.tobytes()

    @property
    def n_tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.request.tokens)

    def fork_source(self) -> Client | None:
        """The longest prefix it starts with that is held now."""
        prefix = self.parent
        while prefix is not None and prefix.state is not State.HELD:
            prefix = prefix.parent
        return prefix


# Prefixes that stay held between calls, by their tokens, least recently used first.
Kept = dict[bytes, Client]


def make_clients(
    requests: Sequence[Request],
    ids: Sequence[int],
    tree: PrefixTree,
    first_prefix: int,
    *,
    kept: Kept,
    n_hold: int,
) -> list[Client]:
    """Clients for requests and for the prefixes that they share.

    Args:
        requests: The prompts that the tree was built from.
        ids: Id of each of them.
        tree: The prefixes of `requests`.
        first_prefix: Id of the first prefix; the others follow.
        kept: Prefixes that are held already. Those that the prompts start with again are
            taken out of it and used, as far as that leaves places for deeper ones.
        n_hold: Prefixes that may be there at once.

    Returns:
        All clients, a prefix before what continues it. Of those that share nothing, the
        one that may have the longest answer is first, so that none is left for the end.
    """
    clients: list[Client] = []
    prefixes: list[Client] = []
    n_free = n_hold - max(tree.depth, default=0) + 1

    def add(client: Client) -> None:
        clients.append(client)
        if client.parent is not None:
            client.parent.waiting.append(client)
            client.parent.n_unsubmitted += 1

    for i in tree.order:
        # Prefixes are numbered depth-first, too: these are the ones that start here.
        while len(prefixes) <= tree.node_of[i]:
            k = len(prefixes)
            parent = prefixes[tree.parent[k]] if tree.parent[k] >= 0 else None
            tokens = requests[tree.prompt[k]].tokens[: tree.length[k]]
            prefix = Client(
                id=first_prefix + k,
                request=Request(tokens=tokens, max_tokens=0),
                parent=parent,
                depth=1 if parent is None else parent.depth + 1,
            )
            if parent is None and n_free > 0 and prefix.key in kept:
                prefix.id, prefix.state = kept.pop(prefix.key).id, State.HELD
                n_free -= 1
            prefixes.append(prefix)
            add(prefix)
        node = tree.node_of[i]
        parent = prefixes[node] if node >= 0 else None
        add(Client(id=ids[i], request=requests[i], parent=parent))
    return _longest_first(clients)


def _longest_first(clients: Sequence[Client]) -> list[Client]:
    """Sets `place`. The order is depth-first still, but for that of the roots."""
    groups: list[list[Client]] = []
    for client in clients:
        if client.parent is None:
            groups.append([])
        groups[-1].append(client)
    groups.sort(key=lambda group: max(c.request.max_tokens for c in group), reverse=True)
    ordered = [client for group in groups for client in group]
    for place, client in enumerate(ordered):
        client.place = place
    return ordered
