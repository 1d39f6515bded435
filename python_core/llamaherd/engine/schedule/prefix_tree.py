"""Tree of the prefixes that prompts share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Tree of prefixes, each with at least two children: prompts or longer prefixes.

    Nodes are numbered depth-first; a parent has a smaller number than its children.

    Attributes:
        order: [n_prompts] Prompts in depth-first order.
        node_of: [n_prompts] Node that prompt i continues; -1 if the prompt continues no
            node.
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
        """Roots of the tree, and prompts that continue no node, in depth-first order.

        Each is the index of a prompt and the length of the root, 0 for a whole prompt.
        """
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
        order: list[int] = []
        node_of = [-1] * sum(map(len, indices_of))
        parent: list[int] = []
        length: list[int] = []
        prompt: list[int] = []
        renumbered: list[int] = []

        def add(above: int, n_tokens: int, i: int) -> int:
            parent.append(above)
            length.append(n_tokens)
            prompt.append(indices_of[i][0])
            return len(parent) - 1

        for i in self.order:
            for k in range(len(renumbered), self.node_of[i] + 1):  # new nodes
                above = renumbered[self.parent[k]] if self.parent[k] >= 0 else -1
                renumbered.append(add(above, self.length[k], self.prompt[k]))
            node = renumbered[self.node_of[i]] if self.node_of[i] >= 0 else -1
            if len(indices_of[i]) > 1 and (node >= 0 or lengths[i] >= n_least):
                node = add(node, lengths[i], i)
            for index in indices_of[i]:
                node_of[index] = node
            order += indices_of[i]
        return PrefixTree(
            order=order, node_of=node_of, parent=parent, length=length, prompt=prompt
        )

    def below(self, lengths: Sequence[Sequence[int]]) -> PrefixTree:
        """Return the tree with further nodes above its roots."""
        parent: list[int] = []
        length: list[int] = []
        prompt: list[int] = []
        node_of = [-1] * len(self.node_of)
        renumbered: list[int] = []
        left = iter(lengths)

        def add(above: int, n_tokens: int, i: int) -> int:
            parent.append(above)
            length.append(n_tokens)
            prompt.append(i)
            return len(parent) - 1

        def add_above(i: int) -> int:
            above = -1
            for n_tokens in next(left):
                above = add(above, n_tokens, i)
            return above

        for i in self.order:
            for k in range(len(renumbered), self.node_of[i] + 1):  # new nodes
                old = self.parent[k]
                above = renumbered[old] if old >= 0 else add_above(self.prompt[k])
                renumbered.append(add(above, self.length[k], self.prompt[k]))
            node = self.node_of[i]
            node_of[i] = renumbered[node] if node >= 0 else add_above(i)
        return PrefixTree(
            order=self.order, node_of=node_of, parent=parent, length=length, prompt=prompt
        )

    def limited(self, max_depth: int) -> PrefixTree:
        """Return the tree without the nodes deeper than `max_depth`.

        Their children continue the nearest ancestor that remains.
        """
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
