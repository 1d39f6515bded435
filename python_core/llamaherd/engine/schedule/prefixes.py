"""Prefixes: the tree of the prefixes that prompts of a call share, and their cache.

A prefix is a token sequence whose KV cells several prompts share.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from llamaherd.engine.core.request import n_common
from llamaherd.engine.schedule.client import Client, State

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Tree of prefixes, each with at least two children: prompts or longer prefixes.

    Nodes are numbered depth-first; a parent has a smaller number than its children.

    Attributes:
        order: [n_prompts] Prompts in depth-first order.
        node_of: [n_prompts] Node that prompt i continues; -1 for none.
        parent: [n_nodes] Parent of node k; -1 for a root.
        length: [n_nodes] Number of tokens from the start of the prompt to node k.
        prompt: [n_nodes] Index of a prompt that starts with the tokens of node k.
    """

    order: list[int]
    node_of: list[int]
    parent: list[int]
    length: list[int]
    prompt: list[int]

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.parent)

    @property
    def depth(self) -> list[int]:
        """[n_nodes] Depth of node k; 1 for a root."""
        depth: list[int] = []
        for parent in self.parent:
            depth.append(1 if parent < 0 else depth[parent] + 1)
        return depth

    @property
    def roots(self) -> list[tuple[int, int]]:
        """Prompts, each with the length of its root or 0, in depth-first order."""
        roots: list[tuple[int, int]] = []
        n_nodes = 0
        for i in self.order:
            if self.node_of[i] < 0:
                roots.append((i, 0))
            new = range(n_nodes, self.node_of[i] + 1)  # nodes that start at this prompt
            roots += ((self.prompt[k], self.length[k]) for k in new if self.parent[k] < 0)
            n_nodes += len(new)
        return roots

    @property
    def n_common(self) -> int:
        """Number of nested nodes, from a root downwards, that all prompts continue."""
        n = 0
        while n < self.n_nodes and self.parent.count(n - 1) == 1:
            if n - 1 in self.node_of:
                break
            n += 1
        return n

    @property
    def n_shared(self) -> int:
        """Number of tokens of the prefix that all prompts share; 0 if they share none."""
        is_one = self.parent.count(-1) == 1 and -1 not in self.node_of
        return self.length[0] if is_one else 0

    def with_equals(
        self, indices_of: Sequence[Sequence[int]], lengths: Sequence[int], n_least: int
    ) -> PrefixTree:
        """Return the tree of all prompts; equal prompts share a node of all tokens."""

        def below(i: int, node: int) -> int:
            is_shared = len(indices_of[i]) > 1 and (node >= 0 or lengths[i] >= n_least)
            return lengths[i] if is_shared else 0

        return self._grow(indices_of, lambda _: (), below)

    def below(self, lengths: Iterable[Sequence[int]]) -> PrefixTree:
        """Return the tree with further nodes above its roots, in depth-first order."""
        left = iter(lengths)
        indices_of = [[i] for i in range(len(self.node_of))]
        return self._grow(indices_of, lambda _: next(left), lambda *_: 0)

    def _grow(
        self,
        indices_of: Sequence[Sequence[int]],
        above: Callable[[int], Sequence[int]],
        below: Callable[[int, int], int],
    ) -> PrefixTree:
        """Return the tree with more prompts and nodes.

        `indices_of` has the new prompts in place of each prompt; `above` the lengths of
        nested nodes above the root of prompt i; `below` that of a node below its node, or
        0.
        """
        order: list[int] = []
        node_of = [-1] * sum(map(len, indices_of))
        parent: list[int] = []
        length: list[int] = []
        prompt: list[int] = []
        renumbered: list[int] = []

        def add(node: int, n_tokens: int, i: int) -> int:
            parent.append(node)
            length.append(n_tokens)
            prompt.append(indices_of[i][0])
            return len(parent) - 1

        def renumber(node: int, i: int) -> int:
            if node >= 0:
                return renumbered[node]
            for n_tokens in above(i):
                node = add(node, n_tokens, i)
            return node

        for i in self.order:
            for k in range(len(renumbered), self.node_of[i] + 1):  # new nodes
                node = renumber(self.parent[k], self.prompt[k])
                renumbered.append(add(node, self.length[k], self.prompt[k]))
            node = renumber(self.node_of[i], i)
            if n_below := below(i, node):
                node = add(node, n_below, i)
            for index in indices_of[i]:
                node_of[index] = node
            order += indices_of[i]
        return PrefixTree(
            order=order, node_of=node_of, parent=parent, length=length, prompt=prompt
        )

    def limited(self, max_depth: int) -> PrefixTree:
        """Return the tree without the nodes deeper than `max_depth`."""
        depth = self.depth
        kept = [-1] * self.n_nodes  # new number of node or ancestor
        nodes: list[int] = []
        for k, parent in enumerate(self.parent):
            if depth[k] <= max_depth:
                kept[k] = len(nodes)
                nodes.append(k)
            elif parent >= 0:
                kept[k] = kept[parent]
        if len(nodes) == self.n_nodes:
            return self
        return PrefixTree(
            order=self.order,
            node_of=[kept[k] if k >= 0 else -1 for k in self.node_of],
            parent=[kept[self.parent[k]] if self.parent[k] >= 0 else -1 for k in nodes],
            length=[self.length[k] for k in nodes],
            prompt=[self.prompt[k] for k in nodes],
        )


_HEAD = 8  # minimum number of tokens of a prefix, except prefixes that are whole prompts
_MAX_GONE = 64  # number of evicted prefixes that are remembered
_MAX_SEEN = 32  # number of prompts remembered for each head (the first tokens)


class Shared(NamedTuple):
    """What a prompt shares with earlier prompts.

    `continues`: the earlier prompt is a prefix of it, and no other shares as many tokens.
    """

    n_tokens: int
    continues: bool


class PrefixCache:
    """Prefixes of all calls of a context.

    A prefix is pinned as long as a client will still fork from it, then idle and held
    until its slot is needed; the least recently used is evicted first. `n_again` counts
    prefixes that were inserted again after an eviction.
    """

    def __init__(self) -> None:
        self._prefixes: dict[bytes, list[Client]] = {}  # by head
        self._idle: dict[int, Client] = {}  # least recently used first
        self._gone: deque[int] = deque(maxlen=_MAX_GONE)  # hashes of evicted prefixes
        self.n_again = 0
        # Prompts by head, and whether they are whole.
        self._seen: dict[bytes, deque[tuple[array[int], bool]]] = {}

    @property
    def n_idle(self) -> int:
        """Number of held prefixes that no client needs now."""
        return len(self._idle)

    @property
    def held(self) -> list[Client]:
        """Held prefixes, both pinned and idle."""
        every = (p for prefixes in self._prefixes.values() for p in prefixes)
        return [prefix for prefix in every if prefix.state is State.HELD]

    @property
    def needed(self) -> list[Client]:
        """Pinned prefixes: held prefixes from which a client will still fork."""
        return [prefix for prefix in self.held if prefix.id not in self._idle]

    def match(self, tokens: array[int]) -> Client | None:
        """Return the longest known prefix of a prompt, never the whole prompt."""
        best: Client | None = None
        for prefix in self._prefixes.get(_head(tokens), ()):
            n = prefix.n_tokens
            if n < len(tokens) and (best is None or n > best.n_tokens):
                best = prefix if prefix.request.tokens == tokens[:n] else best
        return best

    def find(self, tokens: array[int], *, is_whole: bool) -> Client | None:
        """Return the prefix with these tokens, or None."""
        for prefix in self._prefixes.get(_head(tokens), ()):
            is_enough = prefix.request.is_whole or not is_whole
            if is_enough and prefix.request.tokens == tokens:
                return prefix
        return None

    def insert(self, prefix: Client) -> None:
        """Add a prefix that will be computed."""
        self.n_again += _hash(prefix) in self._gone
        self._prefixes.setdefault(_head(prefix.request.tokens), []).append(prefix)

    def use(self, prefix: Client) -> None:
        """Pin a prefix from which a client will fork."""
        self._idle.pop(prefix.id, None)

    def release(self, prefix: Client) -> None:
        """Make a prefix idle, because no client needs it now."""
        self._idle[prefix.id] = prefix

    def evict(self, *, for_another: bool = False) -> Client | None:
        """Remove and return the least recently used idle prefix; None if none is idle."""
        if not self._idle:
            return None
        prefix = self._idle.pop(next(iter(self._idle)))
        self.remove(prefix)
        if for_another:
            self._gone.append(_hash(prefix))
        return prefix

    def remove(self, prefix: Client) -> None:
        """Remove a prefix whose KV cells are gone or will not be computed."""
        prefix.state = State.ENDED
        self._idle.pop(prefix.id, None)
        head = _head(prefix.request.tokens)
        others = [p for p in self._prefixes.get(head, ()) if p is not prefix]
        if others:
            self._prefixes[head] = others
        else:
            self._prefixes.pop(head, None)

    def shared(self, tokens: array[int]) -> Shared:
        """Return what a prompt shares with earlier prompts, see `note`."""
        most, continues = 0, False
        for other, is_prompt in self._seen.get(_head(tokens), ()):
            # Most prompts share no more than an earlier one: a single comparison.
            if tokens[: most + 1] == other[: most + 1] and most < len(tokens):
                n = n_common(tokens, other)
                continues = is_prompt and n == len(other) > most
                most = n
            elif continues and tokens[:most] == other[:most]:
                continues = False  # the earlier prompt was continued in several ways
        return Shared(most, continues)

    def note(self, tokens: array[int], *, is_prompt: bool) -> None:
        """Remember the tokens of a prompt, or of a prefix of a call, for `shared`."""
        head = _head(tokens)
        seen = self._seen.setdefault(head, deque(maxlen=_MAX_SEEN))
        seen.append((tokens, is_prompt))
        if len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]


def _head(tokens: array[int]) -> bytes:
    return tokens[:_HEAD].tobytes()


def _hash(prefix: Client) -> int:
    return hash(prefix.request.tokens.tobytes())
