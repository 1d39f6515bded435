"""Division of a call among several machines or tasks.

A machine computes a prefix once for all of its prompts. In the depth-first order of the
tree of tokens, prompts that share a prefix are adjacent. If this order is cut into
shares, only prefixes whose prompts are on both sides of a cut are computed twice. The
plan depends only on the prompts, so every machine computes the same plan.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.request import n_common

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


_CHUNK = 8192  # number of prompts whose common beginning is found together
_TOKEN_BYTES = 4


class Keys:
    """Bytes with the sort order of prompts' tokens. Common beginnings are stored once."""

    def __init__(self, prompts: Iterable[array[int]]) -> None:
        self._head = array("i")
        self._keys: list[bytes] = []
        left = iter(prompts)
        while chunk := list(islice(left, _CHUNK)):
            old = self._head if self._keys else chunk[0]
            n_head = min(n_common(prompt, old) for prompt in chunk)
            if n_head < len(old) and self._keys:
                dropped = _key(old[n_head:])
                self._keys = [dropped + key for key in self._keys]
            self._head = old[:n_head]
            self._keys += [_key(prompt[n_head:]) for prompt in chunk]

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """int64[n_prompts], number of tokens of each prompt."""
        n_bytes = np.fromiter(map(len, self._keys), dtype=np.int64, count=len(self))
        return np.asarray(n_bytes // _TOKEN_BYTES + len(self._head))

    def order(self) -> NDArray[np.int64]:
        """int64[n_prompts], indices of the prompts in sorted (stable) order."""
        order = sorted(range(len(self)), key=self._keys.__getitem__)
        return np.array(order, dtype=np.int64)

    def shared(self, order: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64[n_prompts], count of tokens shared with the previous key in `order`."""
        shared = np.zeros(len(self), dtype=np.int64)
        keys = (self._keys[i] for i in order)
        for k, (before, key) in enumerate(pairwise(keys), start=1):
            shared[k] = len(self._head) + n_common(before, key) // _TOKEN_BYTES
        return shared


def _key(tokens: array[int]) -> bytes:
    """Return bytes with the sort order of the tokens; swaps the bytes in `tokens`."""
    if sys.byteorder == "little":
        tokens.byteswap()
    return tokens.tobytes()


# Maximum distance of a cut from the position for equal shares, relative to a share.
_TOLERANCE = 0.01


class DepthFirst:
    """Prompts in depth-first order of the tree of their tokens, with their costs.

    The unit of cost is a computed token; a prefix that adjacent prompts share is counted
    for the first of them. Prompts, each an int32[n_tokens], are read one at a time;
    `n_answer` is the cost of all answers, or of each.

    Attributes:
        order: int64[n_prompts], indices of the prompts; equal prompts in the given order.
        shared: int64[n_prompts], number of tokens that the prompt at position k shares
            with the previous prompt.
        costs: int64[n_prompts], number of tokens computed for the prompt at position k.
    """

    def __init__(
        self,
        prompts: Iterable[array[int]],
        n_answer: int | Sequence[int] = 0,
        order: Sequence[int] | None = None,
    ) -> None:
        keys = Keys(prompts)
        answers = np.asarray(n_answer, dtype=np.int64)
        if answers.ndim and len(answers) != len(keys):
            raise ArgumentError(
                f"must have one element per prompt ({len(keys)}), not {len(answers)}",
                argument="n_answer",
                code="wrong_length",
            )
        self.order: NDArray[np.int64] = (
            keys.order() if order is None else np.array(order, dtype=np.int64)
        )
        self.shared: NDArray[np.int64] = keys.shared(self.order)
        n_answers = np.broadcast_to(answers, len(keys))
        self.costs: NDArray[np.int64] = (keys.lengths + n_answers)[
            self.order
        ] - self.shared

    def __len__(self) -> int:
        return len(self.order)

    @cached_property
    def before(self) -> NDArray[np.int64]:
        """int64[n_prompts + 1], total cost of the prompts before position k."""
        return np.concatenate([[0], np.cumsum(self.costs, dtype=np.int64)])

    def cost(self, first: int, last: int) -> int:
        """Return the cost of positions [first, last) in a separate shard."""
        if first >= last:
            return 0
        return int(self.before[last] - self.before[first] + self.shared[first])

    def cut(self, near: float, within: float, low: int, high: int) -> int:
        """Return the position near a given cost where a cut costs fewest tokens."""
        inner = self.before[low : high + 1]
        first, last = np.searchsorted(inner, [near - within, near + within])
        nearest = min(int(np.searchsorted(inner, near)), len(inner) - 1)
        if nearest > 0 and near - inner[nearest - 1] < inner[nearest] - near:
            nearest -= 1
        candidates = low + np.arange(min(first, nearest), max(last, nearest + 1))
        lost = np.append(self.shared, 0)[candidates]
        best = np.lexsort((np.abs(self.before[candidates] - near), lost))[0]
        return int(candidates[best])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """Division of prompts into shards.

    Attributes:
        members: For each shard an int64[n], the indices of its prompts, ascending.
        costs: For each shard, the number of tokens that it computes.
        n_unique: Number of tokens that a single machine would compute for all prompts.
    """

    members: list[NDArray[np.int64]]
    costs: list[int]
    n_unique: int

    @property
    def lost(self) -> float:
        """Number of tokens computed again because of cuts, relative to `n_unique`."""
        return sum(self.costs) / self.n_unique - 1 if self.n_unique else 0.0


def plan_shards(
    prompts: Iterable[array[int]],
    n_shards: int,
    n_answer: int | Sequence[int] = 0,
) -> Shards:
    """Divide prompts into shards of about equal cost, cutting few shared prefixes."""
    if n_shards < 1:
        raise ArgumentError(
            f"must be at least 1, not {n_shards}",
            argument="n_shards",
            code="out_of_range",
        )
    line = DepthFirst(prompts, n_answer)
    n, total = len(line), line.cost(0, len(line))
    cuts = [0]
    for k in range(1, n_shards):  # rounding errors do not add up
        share = total / n_shards
        cuts.append(line.cut(k * share, _TOLERANCE * share, cuts[-1], n))
    cuts.append(n)
    return Shards(
        members=[np.sort(line.order[a:b]) for a, b in pairwise(cuts)],
        costs=[line.cost(a, b) for a, b in pairwise(cuts)],
        n_unique=total,
    )


class Pieces:
    """Prompts of a call, distributed to actors on demand (work stealing).

    Each actor computes its share of the depth-first order piece by piece. An actor whose
    share is empty takes the second half of the largest remaining share: no actor waits
    for a slow one, and few groups with a shared prefix are divided. `n_left`: not taken
    yet.
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
