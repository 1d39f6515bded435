"""Which prefixes prompts share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrefixTree:
    """Prefixes that at least two children (prompts or longer prefixes) continue.

    Nodes are numbered depth-first, so that a parent's number is less than its children's.

    Attributes:
        order: [n_prompts] Prompts in depth-first order.
        node_of: [n_prompts] Node that prompt i continues; -1: none.
        parent: [n_nodes] Parent of node k; -1: none.
        length: [n_nodes] Tokens of node k, from the first token on.
        prompt: [n_nodes] A prompt that starts with node k.
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
