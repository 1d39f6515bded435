"""Continuations of a prompt as a tree of tokens, and their log-probabilities."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING

from llamaherd.engine.core.preparing import check_wanted
from llamaherd.engine.core.request import TokenTree

if TYPE_CHECKING:
    from collections.abc import Sequence

# Lower limit of the probability that no longer continuation follows. The probability is
# accurate to about 5e-8, so the logarithm of a smaller value is not meaningful; rounding
# may even yield 0.
_LEAST_REST = 1e-7


class Continuations:
    """Continuations of a prompt as a tree.

    Args:
        each: int32[n] tokens of each continuation, at least one.
    """

    def __init__(self, each: Sequence[array[int]]) -> None:
        self._nodes: dict[tuple[int, int], int] = {}  # by parent and token
        self._children: dict[int, list[int]] = {}
        self._paths: list[list[int]] = []
        for tokens in each:
            check_wanted()
            at = -1
            path = []
            for token in tokens:
                at = self._child(at, token)
                path.append(at)
            self._paths.append(path)

    def _child(self, parent: int, token: int) -> int:
        node = self._nodes.get((parent, token))
        if node is None:
            node = self._nodes[parent, token] = len(self._nodes)
            self._children.setdefault(parent, []).append(node)
        return node

    @property
    def tree(self) -> TokenTree:
        """Tree of tokens for the engine."""
        return TokenTree(
            tokens=array("i", [token for _, token in self._nodes]),
            parents=array("i", [parent for parent, _ in self._nodes]),
            depth=max(map(len, self._paths)),
        )

    @property
    def equal(self) -> tuple[int, int] | None:
        """Return the first two continuations with the same tokens; None if all differ."""
        first: dict[int, int] = {}
        for i, path in enumerate(self._paths):
            j = first.setdefault(path[-1], i)
            if j != i:
                return j, i
        return None

    def nodes(self, i: int) -> list[int]:
        """Return the nodes of continuation i."""
        return self._paths[i]

    def token_logprobs(self, i: int, scores: Sequence[float]) -> list[float]:
        """Return the log-probabilities of the tokens of continuation i."""
        return [scores[node] for node in self._paths[i]]

    def logprob(self, i: int, scores: Sequence[float]) -> float:
        """Return the log-probability that continuation i is generated and ends there.

        The error is about 1e-7 / P(the continuation ends there), see `_LEAST_REST`.
        """
        return sum(self.token_logprobs(i, scores)) + self._end_logprob(i, scores)

    def _end_logprob(self, i: int, scores: Sequence[float]) -> float:
        """Return the log-probability that no longer continuation follows."""
        longer = self._children.get(self._paths[i][-1])
        if longer is None:
            return 0.0
        rest = 1.0 - math.fsum(math.exp(scores[node]) for node in longer)
        return math.log(max(rest, _LEAST_REST))
