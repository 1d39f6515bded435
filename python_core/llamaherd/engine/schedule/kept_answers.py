"""Ended prompts that keep their KV cells, so that the next prompt continues them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.engine.schedule.client import Continued
from llamaherd.engine.schedule.prefix_cache import n_common

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from llamaherd.engine.core.outcome import Kept
    from llamaherd.engine.schedule.client import Client

_SMALL_LOSS = 1 / 16  # share of the continued tokens
_GAIN_TO_LOSS = 1 / 4


class KeptAnswers:
    """Prompts that have ended and keep their cells in their slots, least recent first.

    In a loop of single calls, and in a conversation, the next prompt starts with tokens
    of the last prompt and its answer. It takes over the cells: nothing is copied, and
    only the other tokens are computed. A prefix copies the cells. A kept prompt is
    evicted before anything else, when another prompt needs its slot or its cells, or runs
    at the same time.
    """

    def __init__(self) -> None:
        self._kept: dict[Client, Kept] = {}
        self._users: dict[Client, Client] = {}  # clients that wait to continue them

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def has_free(self) -> bool:
        """Whether there is a kept prompt that no client will continue."""
        return len(self._users) < len(self._kept)

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

        Args:
            tokens: int32[n], the prompt or prefix. Its last token is computed.
            least: Minimum number of tokens to continue.
            n_held: Number of tokens of the longest held prefix of the prompt.
            is_prefix: Whether a prefix will hold the tokens. Otherwise the kept prompt
                loses its other tokens, so it is continued only if this is worth it.
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

        Args:
            n_slots: Number of slots for kept prompts, beside the client.
            n_cells: Number of cells that are missing.
            is_alone: Whether no other client runs. Otherwise kept prompts between the
                running ones would divide their batches.

        Returns: See `evict`.
        """
        evicted: list[tuple[Client, int]] = []
        while True:
            is_due = not is_alone or n_cells > sum(n for _, n in evicted)
            found = None
            if len(self._kept) > n_slots or is_due:
                found = self.evict(even_used=len(self._kept) > n_slots)
            if found is None:
                return evicted
            evicted.append(found)

    def evict(self, *, even_used: bool = True) -> tuple[Client, int] | None:
        """Remove a kept prompt, the least recent first; None if there is none.

        Args:
            even_used: Whether to evict a prompt that a waiting client would continue, if
                there is no other.

        Returns:
            The client, which the engine must release, and the number of its own cells.
        """
        free = (client for client in self._kept if client not in self._users)
        client = next(free, next(iter(self._kept), None) if even_used else None)
        if client is None:
            return None
        kept = self.remove(client)
        return client, len(kept.tokens) - kept.least % len(kept.tokens)
