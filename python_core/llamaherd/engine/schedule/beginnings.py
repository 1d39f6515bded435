"""Beginnings: how prompts continue earlier prompts.

A prompt continues a held prefix, or an ended prompt that keeps its KV cells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.engine.core.request import Request, n_common
from llamaherd.engine.schedule.client import Client, Continued

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from llamaherd.engine.core.outcome import Kept
    from llamaherd.engine.schedule.prefixes import PrefixCache, PrefixTree


_SMALL_LOSS = 1 / 16  # share of the continued tokens
_GAIN_TO_LOSS = 1 / 4


class KeptAnswers:
    """Prompts that have ended and keep their cells in their slots, least recent first.

    In a loop of single calls, and in a conversation, the next prompt takes over the cells
    of the last one and its answer; nothing is copied. A kept prompt is evicted before
    anything else, when another prompt needs its slot or cells, or runs at the same time.
    """

    def __init__(self) -> None:
        self._kept: dict[Client, Kept] = {}
        self._users: dict[Client, Client] = {}  # clients that wait to continue them

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def clients(self) -> list[Client]:
        """Kept prompts, least recent first."""
        return list(self._kept)

    def add(self, client: Client, kept: Kept) -> None:
        """Keep a prompt that has ended, or change what is kept of it."""
        self._kept[client] = kept

    def remove(self, client: Client) -> Kept:
        """Remove a prompt; a client that waits to continue it starts without it."""
        if client in self._users:
            self.leave(self._users[client])
        return self._kept.pop(client)

    def find(
        self, tokens: array[int], least: int, n_held: int, *, is_prefix: bool = False
    ) -> Continued | None:
        """Return the kept prompt to continue; None to continue a held prefix or nothing.

        The last of the tokens, int32[n], is computed. If no prefix will hold them, the
        kept prompt loses its other tokens, so it is continued only if this is worth it.
        """
        best: Continued | None = None
        for client, kept in self._kept.items():
            n = min(n_common(tokens, kept.tokens), len(tokens) - 1)
            n_lost = len(kept.tokens) - n
            is_worth = n_lost <= max(_SMALL_LOSS * n, (n - n_held) / _GAIN_TO_LOSS)
            if client in self._users or n < max(least, kept.least, n_held):
                continue
            if (is_worth or is_prefix) and (best is None or n >= best.n_tokens):
                best = Continued(client, n)
        return best

    def reserve(self, continued: Continued, user: Client) -> None:
        """Let a waiting client continue a kept prompt."""
        user.continued = continued
        self._users[continued.client] = user

    def reserve_roots(self, clients: Sequence[Client], least: int) -> None:
        """Let new prefixes without a parent start from the tokens of kept prompts."""
        for prefix in clients:
            if prefix.is_prefix and prefix.parent is None:
                tokens = prefix.request.tokens
                continued = self.find(tokens, least, 0, is_prefix=True)
                if continued is not None:
                    self.reserve(continued, prefix)

    def take(self, user: Client) -> Continued | None:
        """Remove and return the kept prompt that a client continues; None without one."""
        continued, user.continued = user.continued, None
        if continued is not None:
            del self._kept[continued.client], self._users[continued.client]
        return continued

    def leave(self, user: Client) -> None:
        """Record that a client does not continue a kept prompt any more."""
        if user.continued is not None:
            del self._users[user.continued.client]
            user.continued = None

    def make_way(
        self, n_slots: int, n_cells: float, *, is_alone: bool
    ) -> list[tuple[Client, int]]:
        """Evict the kept prompts that are in the way of a client that starts.

        If other clients run, kept prompts between them would divide their batches.
        """
        evicted: list[tuple[Client, int]] = []
        while True:
            is_due = not is_alone or n_cells > sum(n for _, n in evicted)
            victim = None
            if len(self._kept) > n_slots or is_due:
                victim = self.evict(even_used=len(self._kept) > n_slots)
            if victim is None:
                return evicted
            evicted.append(victim)

    def evict(self, *, even_used: bool = True) -> tuple[Client, int] | None:
        """Remove the least recent kept prompt; return it and the number of its own cells.

        The engine must release it. `even_used`: also one that a waiting client would
        continue.
        """
        free = (client for client in self._kept if client not in self._users)
        client = next(free, next(iter(self._kept), None) if even_used else None)
        if client is None:
            return None
        kept = self.remove(client)
        return client, len(kept.tokens) - kept.least % len(kept.tokens)


_MOST_NOTED = 32  # number of prompts of a call that are remembered for later calls


def with_beginnings(
    tree: PrefixTree,
    requests: Sequence[Request],
    cache: PrefixCache,
    *,
    least: int,
    max_depth: int,
    n_again: int = 0,
) -> PrefixTree:
    """Return the tree of a call below the beginnings that its prompts continue.

    Each root of the tree, and each prompt without a prefix, continues the longest known
    beginning. If the call has a single root and an earlier prompt shares a longer
    beginning, that is held, because later prompts may share it, too. A single prompt that
    continues an earlier one, as in a conversation, is held as a whole, another one up to
    `n_again`. A tree of the maximum depth gets no beginning.
    """
    roots = tree.roots
    room = max_depth - max(tree.depth, default=0)
    beginnings: list[list[int]] = []
    noted: list[tuple[array[int], bool]] = []
    for i, length in roots:
        prompt = requests[i].tokens
        tokens = prompt[:length] if length else prompt
        is_whole = length == len(prompt)
        is_known = length > 0 and cache.find(tokens, is_whole=is_whole) is not None
        needed: list[int] = []
        if len(roots) == 1:  # otherwise they would need many hold slots at once
            shared = cache.shared(tokens)
            n_later = len(prompt) if shared.continues else n_again
            needed = sorted({n_later, shared.n_tokens})
        if length:
            needed = [n for n in needed if n < length]
        else:  # the last token of a prompt is computed to obtain its logits
            needed = [min(n, len(prompt) - 1) for n in needed]
        beginnings.append(
            [] if is_known else _beginnings(tokens, needed, cache, least, room)
        )
        if len(noted) < _MOST_NOTED:
            noted.append((tokens, length == 0))
    for tokens, is_prompt in noted:
        cache.note(tokens, is_prompt=is_prompt)
    return tree.below(beginnings) if any(beginnings) else tree


def kept_for(
    requests: Sequence[Request], kept: KeptAnswers, cache: PrefixCache, least: int
) -> Continued | None:
    """Return the ended prompt that a single prompt continues; None to use prefixes."""
    if len(requests) > 1:
        return None
    tokens = requests[0].tokens
    prefix = cache.match(tokens)
    return kept.find(tokens, least, 0 if prefix is None else prefix.n_tokens)


def _beginnings(
    tokens: array[int], needed: Sequence[int], cache: PrefixCache, least: int, room: int
) -> list[int]:
    """Return the lengths of the beginnings that a root continues, ascending."""
    prefix = cache.match(tokens)
    lengths: list[int] = []
    depth = 0
    if prefix is not None and prefix.n_tokens >= least and prefix.depth <= room:
        lengths, depth = [prefix.n_tokens], prefix.depth
    for n in needed:
        if n - (lengths[-1] if lengths else 0) >= least and depth < room:
            lengths.append(n)
            depth += 1
    return lengths
