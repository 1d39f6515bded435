"""Which prompts are computed together, where several machines or tasks share a call.

What prompts begin with alike is computed once by whoever has them all. In depth-first
order of the tree of their tokens such prompts stand side by side, so that shares cut from
this order lose only what is shared across a cut. The same prompts give the same plan on
every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.schedule.keys import Keys

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

# How far from an even share a cut may be, as a part of that share, to lose less.
_TOLERANCE = 0.01


class DepthFirst:
    """Prompts in depth-first order of the tree of their tokens, and what each costs.

    The unit of cost is a token that is computed: one that several prompts in a row begin
    with alike is computed for the first of them.

    Args:
        prompts: Each an int32[n_tokens]; taken one after another.
        n_answer: Tokens that an answer costs beside its prompt: of all, or of each.
        order: The prompts' numbers in such an order, where it is known already.

    Attributes:
        order: int64[n_prompts], the prompts' numbers; equal ones as they came.
        shared: int64[n_prompts], tokens that the prompt in place k shares with the one
            before it.
        costs: int64[n_prompts], tokens that it adds to that one.

    Raises:
        ValueError: `n_answer` has not as many elements as there are prompts.
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
            raise ValueError(
                f"n_answer must have one element per prompt ({len(keys)}), "
                f"not {len(answers)}"
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
        """int64[n_prompts + 1], cost of all that stands before place k."""
        return np.concatenate([[0], np.cumsum(self.costs, dtype=np.int64)])

    def cost(self, first: int, last: int) -> int:
        """Of the places from `first` to `last`, that one not, computed by themselves."""
        if first >= last:
            return 0
        return int(self.before[last] - self.before[first] + self.shared[first])

    def cut(self, near: float, within: float, low: int, high: int) -> int:
        """The place, next to a given cost from the start, where a cut loses least.

        Args:
            near: Cost of what is to stand before the cut.
            within: By how much it may differ from that.
            low: The first place that it may be.
            high: The last one; all prompts: after the last of them.
        """
        inner = self.before[low : high + 1]
        first, last = np.searchsorted(inner, [near - within, near + within])
        nearest = min(int(np.searchsorted(inner, near)), len(inner) - 1)
        if nearest > 0 and near - inner[nearest - 1] < inner[nearest] - near:
            nearest -= 1
        places = low + np.arange(min(first, nearest), max(last, nearest + 1))
        lost = np.append(self.shared, 0)[places]
        best = np.lexsort((np.abs(self.before[places] - near), lost))[0]
        return int(places[best])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """Prompts, divided.

    Attributes:
        members: For each shard int64[n], the numbers of its prompts, ascending.
        costs: For each shard the tokens that it computes.
        n_unique: Tokens that one machine would compute for all of them.
    """

    members: list[NDArray[np.int64]]
    costs: list[int]
    n_unique: int

    @property
    def imbalance(self) -> float:
        """By how much the largest shard is above the mean, as a part of that."""
        total = sum(self.costs)
        return max(self.costs) * len(self.costs) / total - 1 if total else 0.0

    @property
    def lost(self) -> float:
        """Tokens that are computed again because of the cuts, as a part of `n_unique`."""
        return sum(self.costs) / self.n_unique - 1 if self.n_unique else 0.0


def plan_shards(
    prompts: Iterable[array[int]],
    n_shards: int,
    n_answer: int | Sequence[int] = 0,
) -> Shards:
    """Divides prompts so that each shard costs about the same and little is lost.

    Args:
        prompts: Each an int32[n_tokens]; taken one after another.
        n_shards: 1 or more; some are empty where there are fewer prompts.
        n_answer: Tokens that an answer costs beside its prompt: of all, or of each.

    Raises:
        ValueError: `n_shards` is less than 1; `n_answer` has not one for each prompt.
    """
    if n_shards < 1:
        raise ValueError(f"n_shards must be at least 1, not {n_shards}")
    line = DepthFirst(prompts, n_answer)
    n, total = len(line), line.cost(0, len(line))
    cuts = [0]
    for k in range(1, n_shards):  # from the start each, so that errors do not add up
        share = total / n_shards
        cuts.append(line.cut(k * share, _TOLERANCE * share, cuts[-1], n))
    cuts.append(n)
    return Shards(
        members=[np.sort(line.order[a:b]) for a, b in pairwise(cuts)],
        costs=[line.cost(a, b) for a, b in pairwise(cuts)],
        n_unique=total,
    )
