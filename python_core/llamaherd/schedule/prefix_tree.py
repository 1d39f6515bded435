"""Which prefixes prompts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Prefixes that at least two children (prompts or longer prefixes) continue.

    Nodes are numbered depth-first, so that a parent's number is less than its children's.

    Attributes:
        order: [n_prompts] Prompts in depth-first order.
        node_of: [n_prompts] Node that prompt i continues; -1: none.
        parent: [n_nodes] Parent of node k; -1: none.
        length: [n_nodes] Tokens of node k, from the first token on.
        prompt: [n_nodes] A prompt that starts with node k, or is all of it.
    """

    order: list[int]
    node_of: list[int]
    parent: list[int]
    length: list[int]
    prompt: list[int]

    @property
    def n_nodes(self) -> int:
        """Number of prefixes."""
        return len(self.parent)

    @property
    def depth(self) -> list[int]:
        """[n_nodes] Nodes on the path to node k, itself included."""
        depth: list[int] = []
        for parent in self.parent:
            depth.append(1 if parent < 0 else depth[parent] + 1)
        return depth

    @property
    def n_shared(self) -> int:
        """Tokens of the prefix that all prompts continue; 0: there is none."""
        is_one = self.parent.count(-1) == 1 and -1 not in self.node_of
        return self.length[0] if is_one else 0

    def with_equals(
        self, places: Sequence[Sequence[int]], lengths: Sequence[int], n_least: int
    ) -> PrefixTree:
        """The tree of more prompts, some of which are equal: they share all of it.

        Args:
            places: For each prompt of this tree, where it and its equals are among all.
            lengths: Tokens of each prompt of this tree.
            n_least: Tokens from which on a prompt is held for its equals even if it
                shares nothing with others.
        """
        order: list[int] = []
        node_of = [-1] * sum(map(len, places))
        parent: list[int] = []
        length: list[int] = []
        prompt: list[int] = []
        renumbered: list[int] = []

        def add(above: int, n_tokens: int, i: int) -> int:
            parent.append(above)
            length.append(n_tokens)
            prompt.append(places[i][0])
            return len(parent) - 1

        for i in self.order:
            for k in range(len(renumbered), self.node_of[i] + 1):  # those that start here
                above = renumbered[self.parent[k]] if self.parent[k] >= 0 else -1
                renumbered.append(add(above, self.length[k], self.prompt[k]))
            node = renumbered[self.node_of[i]] if self.node_of[i] >= 0 else -1
            if len(places[i]) > 1 and (node >= 0 or lengths[i] >= n_least):
                node = add(node, lengths[i], i)
            for place in places[i]:
                node_of[place] = node
            order += places[i]
        return PrefixTree(
            order=order, node_of=node_of, parent=parent, length=length, prompt=prompt
        )

    def limited(self, max_depth: int) -> PrefixTree:
        """The same tree without nodes that lie deeper than `max_depth`.

        What continued them continues their nearest ancestor that is left.
        """
        depth = self.depth
        kept = [-1] * self.n_nodes  # new number of a node, or of that ancestor
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
