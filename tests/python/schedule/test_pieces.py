from __future__ import annotations

from array import array
from random import Random
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st
from llamaherd.engine.schedule.shards import DepthFirst, Pieces

Prompts: TypeAlias = "list[array[int]]"

prompts_ = st.lists(
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


@given(prompts_, st.integers(1, 5), st.randoms(use_true_random=False))
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
