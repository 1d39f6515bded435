"""Requests: number of cells, and requests that can never fit."""

from __future__ import annotations

from array import array
from dataclasses import replace

from llamaherd.calls.run.call import find_copies
from llamaherd.engine.core.request import Request, ThoughtStage, TokenTree, too_long
from llamaherd.engine.core.sampling import SamplingParams

OPEN = ThoughtStage(budget=20, is_open=True, end=(7,), after=(8, 8), closing=(5, 6, 7, 8))
# white space and the marker come before the budget
CLOSED = replace(OPEN, is_open=False, start=(3, 4))
PLAIN = Request(tokens=array("i", [1, 2, 3]), max_tokens=10)


def test_a_thought_takes_cells_for_its_budget_and_its_closing_tokens() -> None:
    assert OPEN.n_cells == 20 + 3 + 1 + 4
    assert CLOSED.n_cells == 2 + 2 + OPEN.n_cells
    assert replace(OPEN, after=(8,) * 6).n_cells == 20 + 3 + 1 + 6
    assert (PLAIN.n_behind, PLAIN.n_cells) == (10, 13)
    thinking = replace(PLAIN, thought=OPEN)
    assert (thinking.n_behind, thinking.n_cells) == (38, 41)


def test_a_prompt_with_a_thought_that_cannot_fit_says_what_to_lower() -> None:
    assert not too_long(PLAIN, 13, "fit here")
    thinking = replace(PLAIN, thought=OPEN)
    assert not too_long(thinking, 41, "fit here")
    assert too_long(thinking, 40, "fit here") == (
        "the prompt has 3 tokens; with an answer (up to 10) and a thought (up to 28) "
        "that is 41, more than the 40 that fit here: shorten the prompt, or lower the "
        "limit of its thought or of its answer"
    )
    assert "thought" not in too_long(PLAIN, 12, "fit here")
    tree = TokenTree(array("i", [1, 2]), array("i", [-1, 0]), 2)
    scored = replace(thinking, tree=tree, max_tokens=2)
    assert too_long(scored, 32, "fit here") == (
        "the prompt, its thought (up to 28) and its longest continuation have 33 tokens, "
        "more than the 32 that fit here: shorten them"
    )


def test_equal_prompts_are_computed_once_unless_their_thoughts_are_drawn() -> None:
    warm = SamplingParams(temperature=0.6)
    greedy = [replace(PLAIN, thought=OPEN) for _ in range(2)]
    assert find_copies(greedy) == {1: 0}
    drawn = [replace(PLAIN, thought=replace(OPEN, sampling=warm)) for _ in range(2)]
    assert find_copies(drawn) == {}
    assert find_copies([PLAIN, greedy[0]]) == {}
