"""Distribution of a call's prompts among actors.

Prompts that share a prefix stay together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llamaherd.engine.schedule.shards import DepthFirst


class Pieces:
    """Prompts of a call, distributed to actors on demand (work stealing).

    Each actor has a share of the depth-first order and computes the share piece by
    piece. An actor whose share is empty takes the second half of the largest remaining
    share. Thus no actor waits for a slow one, and few groups with a shared prefix are
    divided.

    Args:
        line: All prompts in depth-first order.
        n_actors: Number of actors.

    Attributes:
        n_left: Number of prompts that no actor has taken yet.
    """

    def __init__(self, line: DepthFirst, n_actors: int) -> None:
        self._line = line
        n = len(line)
        share = line.cost(0, n) / n_actors
        first = 0
        # First position of each actor's share, and the position after the share's end.
        self._shares: list[tuple[int, int]] = []
        for k in range(1, n_actors):
            cut = line.cut(k * share, share / 4, first, n)
            self._shares.append((first, cut))
            first = cut
        self._shares.append((first, n))
        self.n_left = n

    def take(self, actor: int, n: int) -> list[int]:
        """Return up to n prompts for an actor; [] when no prompt is left."""
        first, last = self._shares[actor]
        if first == last:
            first, last = self._rest_of_another()
        end = min(first + n, last)
        self._shares[actor] = end, last
        self.n_left -= end - first
        return [int(i) for i in self._line.order[first:end]]

    def _rest_of_another(self) -> tuple[int, int]:
        sizes = [
            (self._line.cost(first, last), last - first) for first, last in self._shares
        ]
        largest = sizes.index(max(sizes))  # by prompts: costs can be 0
        first, last = self._shares[largest]
        cost = sizes[largest][0]
        middle = self._line.before[first] + cost / 2
        # The idle actor takes at least one prompt, even the only one that is left.
        cut = self._line.cut(middle, cost / 8, first, max(first, last - 1))
        self._shares[largest] = first, cut
        return cut, last
