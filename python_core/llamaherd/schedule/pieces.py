"""What of a call is handed out next, to whom: prompts that begin alike stay together."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llamaherd.schedule.shards import DepthFirst


class Pieces:
    """Prompts that are handed out as somebody is free, some at a time.

    Everybody has a share that is cut from the depth-first order, and gets it piece by
    piece. Whoever is through with it gets the later half of the largest share that is
    left: so shares fall in size, nobody waits for somebody slow, and little is cut.

    Args:
        line: All prompts, in depth-first order.
        n_actors: How many there are.
    """

    def __init__(self, line: DepthFirst, n_actors: int) -> None:
        self._line = line
        n = len(line)
        share = line.cost(0, n) / n_actors
        first = 0
        # Of each the first place, and that after the last.
        self._shares: list[tuple[int, int]] = []
        for k in range(1, n_actors):
            cut = line.cut(k * share, share / 4, first, n)
            self._shares.append((first, cut))
            first = cut
        self._shares.append((first, n))
        self.n_left = n

    def take(self, actor: int, n: int) -> list[int]:
        """Numbers of up to n prompts for one of the actors; none: all are handed out."""
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
        largest = sizes.index(max(sizes))  # prompts without tokens cost nothing
        first, last = self._shares[largest]
        cost = sizes[largest][0]
        middle = self._line.before[first] + cost / 2
        # At least one place for whoever comes; all of them if there is but one.
        cut = self._line.cut(middle, cost / 8, first, max(first, last - 1))
        self._shares[largest] = first, cut
        return cut, last
