"""Log-probabilities of the tokens of whole prompts, with the most likely alternatives."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.calls.asks.requests import too_long_for
from llamaherd.calls.asks.trees import Continuations
from llamaherd.engine.core.request import Request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.results import Result
    from llamaherd.engine.model.model import Model

# Prompts whose first tokens are equal are computed as one tree. With fewer equal
# tokens, computing the prompts in parallel is faster.
_LEAST_SHARED = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptScores:
    """Log-probabilities of a prompt of n tokens.

    Attributes:
        tokens: The n tokens.
        logprobs: Natural logarithm of the probability of each token but the first, given
            the tokens before it.
        top: For each of these tokens the most likely alternatives, most likely first: a
            map from token id to log-probability.
        ranks: Rank of each of these tokens among all tokens; the most likely token has 1.
        following: The most likely tokens after the prompt, as a map from token id to
            log-probability.
        n_reused: Number of tokens whose computation was shared with another prompt.
    """

    tokens: list[int]
    logprobs: list[float]
    top: list[dict[int, float]]
    ranks: list[int]
    following: dict[int, float]
    n_reused: int = 0


class ScoredPrompts:
    """Requests for the log-probabilities of prompts.

    Args:
        model: Model that will run the requests.
        prompts: int32[n], tokens of each prompt, at least one.
        n_top: Number of alternatives.

    Attributes:
        requests: Requests, each for prompts with the same beginning.
    """

    def __init__(self, model: Model, prompts: Sequence[array[int]], n_top: int) -> None:
        self._prompts = prompts
        self._groups: dict[tuple[int, ...], list[int]] = {}
        for i, tokens in enumerate(prompts):
            is_long = len(tokens) > _LEAST_SHARED
            key = tuple(tokens[:_LEAST_SHARED]) if is_long else (-1, i)
            self._groups.setdefault(key, []).append(i)
        # A last node, whose token is arbitrary, makes the engine compute the logits after
        # a prompt.
        self._trees = [
            Continuations([array("i", [*prompts[i][1:], 0]) for i in group])
            for group in self._groups.values()
        ]
        self.requests = [
            _request(model, prompts[group[0]], each, n_top)
            for group, each in zip(self._groups.values(), self._trees, strict=True)
        ]

    def of_results(self, results: Sequence[Result]) -> list[PromptScores | Result]:
        """Return the scores of each prompt, or the result of a failed prompt."""
        found: dict[int, PromptScores | Result] = {}
        groups = self._groups.values()
        for group, each, result in zip(groups, self._trees, results, strict=True):
            n_before = 0
            for j, i in enumerate(group):
                logprobs, top, ranks = result.logprobs, result.top_logprobs, result.ranks
                if logprobs is None or top is None or ranks is None:
                    found[i] = result
                    continue
                nodes = each.nodes(j)
                found[i] = PromptScores(
                    tokens=list(self._prompts[i]),
                    logprobs=[logprobs[node] for node in nodes[:-1]],
                    top=[top[node] for node in nodes[:-1]],
                    ranks=[ranks[node] for node in nodes[:-1]],
                    following=top[nodes[-1]],
                    n_reused=1 + sum(n < n_before for n in nodes[:-1]) if n_before else 0,
                )
                n_before = max(n_before, 1 + max(nodes))
        return [found[i] for i in range(len(self._prompts))]


def _request(
    model: Model, prompt: array[int], each: Continuations, n_top: int
) -> Request:
    tree = each.tree
    request = Request(
        tokens=prompt[:1], max_tokens=max(1, tree.depth), tree=tree, logprobs=n_top
    )
    problem = too_long_for(model, request)
    if not problem:
        return request
    return Request(tokens=prompt, max_tokens=1, problem=problem)
