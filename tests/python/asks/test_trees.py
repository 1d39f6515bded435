"""Probabilities of continuations in a tree, compared with numbers computed by hand."""

from __future__ import annotations

import math
from array import array

import pytest
from llamaherd.calls.asks.scoring import Continuations


def of(*each: list[int]) -> Continuations:
    return Continuations([array("i", tokens) for tokens in each])


def test_what_begins_alike_shares_nodes() -> None:
    made = of([1], [1, 2], [1, 3], [4])
    assert made.tree.tokens.tolist() == [1, 2, 3, 4]
    assert made.tree.parents.tolist() == [-1, 0, 0, -1]
    assert made.tree.depth == 2
    assert made.equal is None
    assert of([1], [2, 3], [1], [2, 3]).equal == (0, 2)


def test_a_continuation_ends_where_none_goes_on() -> None:
    made = of([1], [1, 2], [1, 3], [4])
    scores = [math.log(p) for p in (0.5, 0.25, 0.5, 0.125)]
    probs = [math.exp(made.logprob(i, scores)) for i in range(4)]
    # The first token has probability 1/2; after it, two longer ones have 1/4 and 1/2.
    assert probs == pytest.approx([0.5 * 0.25, 0.5 * 0.25, 0.5 * 0.5, 0.125])


@pytest.mark.parametrize("rest", [1e-12, 0.0, -6e-8])
def test_rounding_leaves_no_end_without_a_probability(rest: float) -> None:
    made = of([1], [1, 2])
    scores = [math.log(0.5), math.log(1 - rest)]
    assert made.logprob(0, scores) == pytest.approx(math.log(0.5 * 1e-7))
