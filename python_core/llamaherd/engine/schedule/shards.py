"""Division of a call among several machines or tasks.

A machine computes a prefix once for all of its prompts. In the depth-first order of the
tree of tokens, prompts that share a prefix are adjacent. If this order is cut into
shares, only prefixes whose prompts are on both sides of a cut are computed twice. The
plan depends only on the prompts, so every machine computes the same plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.schedule.keys import Keys

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

# Maximum distance of a cut from the position for equal shares, relative to a share.
_TOLERANCE = 0.01


class DepthFirst:
    """Prompts in depth-first order of the tree of their tokens, with their costs.

    The unit of cost is a computed token. A token of a prefix that adjacent prompts share
    is counted for the first of these prompts.

    Args:
        prompts: Prompts, each an int32[n_tokens]; read one at a time.
        n_answer: Number of tokens that an answer costs: one number, or one per prompt.
        order: Indices of the prompts in depth-first order; None computes them.

    Attributes:
        order: int64[n_prompts], indices of the prompts; equal prompts in the given order.
        shared: int64[n_prompts], number of tokens that the prompt at position k shares
            with the previous prompt.
        costs: int64[n_prompts], number of tokens computed for the prompt at position k.

    Raises:
        ValueError: `n_answer` does not have one element per prompt.
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
        own = np.broadcast_to(answers, len(keys))
        self.costs: NDArray[np.int64] = (keys.lengths + own)[self.order] - self.shared

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
        """Return the position near a given cost where a cut costs fewest tokens.

        Args:
            near: Desired total cost of the prompts before the cut.
            within: Maximum difference from `near`.
            low: Smallest allowed position.
            high: Largest allowed position; len(self) is the position after the last
                prompt.
        """
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
    def imbalance(self) -> float:
        """Cost of the largest shard relative to the mean, minus 1."""
        total = sum(self.costs)
        return max(self.costs) * len(self.costs) / total - 1 if total else 0.0

    @property
    def lost(self) -> float:
        """Number of tokens computed again because of cuts, relative to `n_unique`."""
        return sum(self.costs) / self.n_unique - 1 if self.n_unique else 0.0


def plan_shards(
    prompts: Iterable[array[int]],
    n_shards: int,
    n_answer: int | Sequence[int] = 0,
) -> Shards:
    """Divide prompts into shards of about equal cost, cutting few shared prefixes.

    Args:
        prompts: Prompts, each an int32[n_tokens]; read one at a time.
        n_shards: Number of shards, at least 1; some are empty if there are fewer prompts.
        n_answer: Number of tokens that an answer costs: one number, or one per prompt.

    Raises:
        ValueError: `n_shards` is less than 1, or `n_answer` does not have one element per
            prompt.
    """
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
