"""Shards of a call, and pieces that actors take."""

from __future__ import annotations

from array import array
from itertools import pairwise
from random import Random
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.engine.loop.group import find_prefixes
from llamaherd.engine.schedule import shards as keys
from llamaherd.engine.schedule.shards import DepthFirst, Pieces, plan_shards

Prompts: TypeAlias = "list[array[int]]"

prompts_ = st.lists(
    st.lists(st.integers(0, 3) | st.just(70_000), max_size=10).map(
        lambda tokens: array("i", tokens)
    ),
    max_size=25,
)


def n_in_trie(prompts: Prompts) -> int:
    return len({tuple(p[:n]) for p in prompts for n in range(1, len(p) + 1)})


def coded(n: int, n_head: int, seed: int = 1) -> Prompts:
    """Return prompts of a codebook and short texts, all different."""
    random = Random(seed)
    head = array("i", range(n_head))
    return [
        head + array("i", [random.randrange(1000) for _ in range(random.randint(5, 40))])
        for _ in range(n)
    ]


@given(prompts_, st.integers(1, 6), st.integers(0, 3))
def test_each_prompt_is_in_one_shard_that_costs_what_a_trie_has(
    prompts: Prompts, n_shards: int, n_answer: int
) -> None:
    shards = plan_shards(prompts, n_shards, n_answer)
    assert len(shards.members) == len(shards.costs) == n_shards
    members = [i for shard in shards.members for i in shard.tolist()]
    assert sorted(members) == list(range(len(prompts)))
    for shard, cost in zip(shards.members, shards.costs, strict=True):
        assert list(shard) == sorted(shard)
        texts = [prompts[i] for i in shard]
        assert cost == n_in_trie(texts) + n_answer * len(texts)
    assert shards.n_unique == n_in_trie(prompts) + n_answer * len(prompts)


@given(prompts_)
def test_the_order_is_that_of_the_prefix_tree(prompts: Prompts) -> None:
    line = DepthFirst(prompts)
    assert line.order.tolist() == find_prefixes(prompts, min_tokens=1).order


@given(prompts_, st.integers(1, 4), st.integers(0, 5))
def test_the_order_is_the_same_however_prompts_are_put_together(
    prompts: Prompts, n_together: int, n_head: int
) -> None:
    prompts = [array("i", range(n_head)) + prompt for prompt in prompts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "_CHUNK", n_together)
        line = DepthFirst(iter(prompts))
    order = sorted(range(len(prompts)), key=lambda i: prompts[i].tolist())
    assert line.order.tolist() == order
    shared = [
        sum(x[:n] == y[:n] for n in range(1, min(len(x), len(y)) + 1))
        for x, y in pairwise(prompts[i] for i in order)
    ]
    assert line.shared.tolist() == [0, *shared][: len(prompts)]
    lengths = [len(prompts[i]) for i in order]
    assert (line.costs + line.shared).tolist() == lengths


@given(prompts_, st.integers(1, 6), st.randoms(use_true_random=False))
def test_the_plan_does_not_depend_on_the_order_of_prompts(
    prompts: Prompts, n_shards: int, random: Random
) -> None:
    def divided(order: list[int]) -> list[list[tuple[int, ...]]]:
        shards = plan_shards([prompts[i] for i in order], n_shards)
        return [sorted(tuple(prompts[order[i]]) for i in m) for m in shards.members]

    order = list(range(len(prompts)))
    expected = divided(order)
    random.shuffle(order)
    assert divided(order) == expected


def test_shards_are_even_and_lose_little() -> None:
    prompts = coded(20_000, n_head=50)
    shards = plan_shards(prompts, 64, 4)
    assert max(shards.costs) * len(shards.costs) < 1.05 * sum(shards.costs)
    # Each shard except the first computes the beginning again.
    assert 63 * 50 <= shards.lost * shards.n_unique < 63 * 52


def test_cuts_fall_between_templates() -> None:
    random = Random(3)
    prompts = []
    for template in range(8):
        head = array("i", [10_000 + template] * 30)
        prompts += [
            head + array("i", [random.randrange(9999) for _ in range(20)])
            for _ in range(400)
        ]
    random.shuffle(prompts)
    shards = plan_shards(prompts, 8)
    assert shards.lost == 0
    assert all(len({prompts[i][0] for i in m}) == 1 for m in shards.members)


def test_the_largest_prompt_may_be_more_than_a_share() -> None:
    prompts = [array("i", [k] * n) for k, n in enumerate([5000, 10, 10, 10])]
    shards = plan_shards(prompts, 3)
    assert max(shards.costs) == 5000
    assert shards.lost == 0


def test_answers_may_cost_differently() -> None:
    prompts = [array("i", [k]) for k in range(100)]
    shards = plan_shards(prompts, 2, [0] * 50 + [99] * 50)
    assert [len(m) for m in shards.members] == [75, 25]


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="n_shards must be at least 1, not 0"):
        plan_shards([], 0)
    with pytest.raises(ValueError, match=r"n_answer must .* \(2\), not 1"):
        plan_shards([array("i", [1]), array("i", [2])], 1, [3])


def test_no_prompts_give_empty_shards() -> None:
    shards = plan_shards([], 3)
    assert [m.tolist() for m in shards.members] == [[], [], []]
    assert shards.lost == 0


def test_a_cut_is_the_place_that_loses_least_within_reach() -> None:
    heads = [array("i", [k, k, k]) for k in range(3)]
    prompts = [head + array("i", [k]) for head in heads for k in range(4)]
    line = DepthFirst(prompts)
    assert line.shared.tolist() == [0, 3, 3, 3] * 3
    assert line.before.tolist() == np.cumsum([0] + [4, 1, 1, 1] * 3).tolist()
    assert line.cut(8.0, within=2, low=0, high=12) == 4
    assert line.cut(9.0, within=0, low=0, high=12) == 5  # no other cut is possible
    assert line.cut(100.0, within=0, low=0, high=12) == 12
    assert line.cut(0.0, within=0, low=7, high=12) == 7
    costs = [line.cost(a, b) for a, b in pairwise([0, 4, 5, 12])]
    assert costs == [7, 4, 10 + 3]


piece_prompts = st.lists(
    st.lists(st.integers(0, 2), max_size=8).map(lambda tokens: array("i", tokens)),
    max_size=30,
)


def test_shares_fall_between_templates() -> None:
    random = Random(1)
    prompts = [
        array("i", [template] * 20 + [random.randrange(999) for _ in range(5)])
        for template in range(4)
        for _ in range(50)
    ]
    pieces = Pieces(DepthFirst(prompts), 4)
    for actor in range(4):
        taken = pieces.take(actor, 50)
        assert {prompts[i][0] for i in taken} == {actor}
    assert pieces.n_left == 0


@given(piece_prompts, st.integers(1, 5), st.randoms(use_true_random=False))
def test_each_prompt_is_handed_out_once(
    prompts: Prompts, n_actors: int, random: Random
) -> None:
    pieces = Pieces(DepthFirst(prompts), n_actors)
    taken: list[int] = []
    while pieces.n_left:
        new = pieces.take(random.randrange(n_actors), random.randint(1, 7))
        assert new  # while prompts are left, every actor receives some
        taken += new
        assert pieces.n_left == len(prompts) - len(taken)
    assert sorted(taken) == list(range(len(prompts)))
    assert pieces.take(0, 3) == []


def test_who_is_through_takes_half_of_the_largest_share() -> None:
    prompts = [array("i", [k]) for k in range(100)]
    pieces = Pieces(DepthFirst(prompts), 2)
    assert pieces.take(0, 1000) == list(range(50))
    assert pieces.take(1, 10) == list(range(50, 60))
    assert pieces.take(0, 1000) == list(range(80, 100))
    assert pieces.take(1, 1000) == list(range(60, 80))
    assert pieces.n_left == 0


def test_prompts_without_tokens_are_handed_out() -> None:
    pieces = Pieces(DepthFirst([array("i")]), 2)
    assert pieces.take(0, 1) == [0]
    pieces = Pieces(DepthFirst([array("i"), array("i")]), 3)
    assert sorted(pieces.take(0, 9) + pieces.take(0, 9)) == [0, 1]


def test_an_order_that_is_known_is_taken() -> None:
    prompts = [array("i", [2]), array("i", [1]), array("i", [1, 3])]
    line = DepthFirst(prompts, order=[1, 2, 0])
    assert line.order.tolist() == DepthFirst(prompts).order.tolist() == [1, 2, 0]
    assert line.shared.tolist() == [0, 1, 0]
