"""Prefixes whose KV cells are there, or will be, for whoever starts with them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from llamaherd.schedule.client import State

if TYPE_CHECKING:
    from array import array

    from llamaherd.core.request import Request
    from llamaherd.schedule.client import Client

_HEAD = 8  # tokens; no prefix has fewer, but those that are whole prompts
_MAX_GONE = 64  # prefixes that are remembered after they gave their places up
_MAX_SEEN = 32  # prompts that are remembered, of those that start alike


class PrefixCache:
    """The prefixes of all calls, within a call, between calls and between callers.

    A prefix that clients have yet to fork from stays. One that nobody needs now stays,
    too, until its place is needed: the least recently used one goes first.

    Attributes:
        n_again: Prefixes that came again after they had given their places up.
    """

    def __init__(self) -> None:
        self._prefixes: dict[bytes, list[Client]] = {}  # by their first tokens
        self._idle: dict[int, Client] = {}  # least recently used first
        self._gone: deque[int] = deque(maxlen=_MAX_GONE)  # hashes of their tokens
        self.n_again = 0
        self._seen: dict[bytes, deque[array[int]]] = {}  # prompts, by their first tokens

    @property
    def n_idle(self) -> int:
        """Held prefixes that nobody needs now."""
        return len(self._idle)

    @property
    def held(self) -> list[Client]:
        """Those that are computed."""
        every = (p for prefixes in self._prefixes.values() for p in prefixes)
        return [prefix for prefix in every if prefix.state is State.HELD]

    @property
    def needed(self) -> list[Client]:
        """Held prefixes that clients have yet to fork from."""
        return [prefix for prefix in self.held if prefix.id not in self._idle]

    def match(self, tokens: array[int]) -> Client | None:
        """The longest prefix that a prompt continues, whether computed yet or not.

        Args:
            tokens: int32[n], the prompt. Its last token is never part of the prefix.
        """
        best: Client | None = None
        for prefix in self._prefixes.get(_head(tokens), ()):
            n = prefix.n_tokens
            if n < len(tokens) and (best is None or n > best.n_tokens):
                best = prefix if prefix.request.tokens == tokens[:n] else best
        return best

    def find(self, wanted: Request) -> Client | None:
        """A prefix of exactly the tokens of another one, and with logits if that is."""
        for prefix in self._prefixes.get(_head(wanted.tokens), ()):
            is_enough = prefix.request.is_whole or not wanted.is_whole
            if is_enough and prefix.request.tokens == wanted.tokens:
                return prefix
        return None

    def insert(self, prefix: Client) -> None:
        """Takes a prefix in that is to be computed."""
        self.n_again += _hash(prefix) in self._gone
        self._prefixes.setdefault(_head(prefix.request.tokens), []).append(prefix)

    def use(self, prefix: Client) -> None:
        """Somebody is to fork from it: it is not evicted before."""
        self._idle.pop(prefix.id, None)

    def release(self, prefix: Client) -> None:
        """Nobody needs it now; it may stay until its place is needed."""
        self._idle[prefix.id] = prefix

    def evict(self, *, for_another: bool = False) -> Client | None:
        """Takes out the one that was not used for the longest time, if there is any.

        Args:
            for_another: Whether another prefix is to have its place.
        """
        if not self._idle:
            return None
        prefix = self._idle.pop(next(iter(self._idle)))
        self.remove(prefix)
        if for_another:
            self._gone.append(_hash(prefix))
        return prefix

    def remove(self, prefix: Client) -> None:
        """Takes a prefix out whose cells are gone, or will never be there."""
        prefix.state = State.ENDED
        self._idle.pop(prefix.id, None)
        head = _head(prefix.request.tokens)
        others = [p for p in self._prefixes.get(head, ()) if p is not prefix]
        if others:
            self._prefixes[head] = others
        else:
            self._prefixes.pop(head, None)

    def shared(self, tokens: array[int]) -> int:
        """Tokens that a prompt has in common with one that came before, and remembers it.

        At least one token of the prompt is not counted, see `match`.
        """
        head = _head(tokens)
        seen = self._seen.setdefault(head, deque(maxlen=_MAX_SEEN))
        most = max((_n_common(tokens, other) for other in seen), default=0)
        seen.append(tokens)
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]
        return min(most, len(tokens) - 1)


def _head(tokens: array[int]) -> bytes:
    return tokens[:_HEAD].tobytes()


def _hash(prefix: Client) -> int:
    return hash(prefix.request.tokens.tobytes())


def _n_common(a: array[int], b: array[int]) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
