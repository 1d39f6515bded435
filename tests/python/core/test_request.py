"""Requests, pieces of text, and the argument `thinking`."""

from __future__ import annotations

import copy
from array import array
from dataclasses import replace

import llamaherd as lh
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.run.call import find_copies
from llamaherd.engine.core.outcome import Stripped, TextPiece
from llamaherd.engine.core.request import Request, ThoughtStage, TokenTree, too_long
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.core.thinking import DEFAULT_BUDGET, MOST_TOKENS, checked_thinking

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


def test_a_piece_is_text_with_a_kind() -> None:
    piece = TextPiece("a", "thinking")
    assert piece == "a"
    assert piece.kind == copy.copy(piece).kind == "thinking"
    assert TextPiece("b").kind == "answer"


@given(st.lists(st.text(alphabet=" \n\ta\u00e9\u3000", max_size=4)))
def test_parts_are_those_of_the_stripped_text(parts: list[str]) -> None:
    text = Stripped()
    new = [text.add(part) for part in parts]
    for n in range(len(parts) + 1):  # also after each part
        assert "".join(new[:n]) == "".join(parts[:n]).strip()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, None),
        (False, False),
        (True, lh.Thinking(budget=DEFAULT_BUDGET)),
        (0, lh.Thinking(budget=0)),
        (1, lh.Thinking(budget=1)),
        (np.int64(7), lh.Thinking(budget=7)),
        (lh.Thinking(end="</t>"), lh.Thinking(end="</t>")),
        (lh.Thinking(9, "<t>", "</t>"), lh.Thinking(budget=9, start="<t>", end="</t>")),
        ({"budget": 3, "start": "<t>"}, lh.Thinking(budget=3, start="<t>")),
        ({}, lh.Thinking()),
    ],
)
def test_each_form_of_the_argument_becomes_one(value: object, wanted: object) -> None:
    assert checked_thinking("thinking", value) == wanted
    assert GenerateOptions(thinking=value, chat=True).thinking == wanted


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        ("on", TypeError, "thinking must be None, True, False, a number of tokens or"),
        (1.5, TypeError, "thinking must be None, True, False"),
        (-1, ValueError, "thinking must be between 0 and"),
        (MOST_TOKENS + 1, ValueError, "thinking must be between 0 and"),
        ({"budgte": 3}, TypeError, "no field 'budgte' .*did you mean 'budget'"),
        ({"budget": -3}, ValueError, r"thinking\['budget'\] must be between 0 and"),
        ({"end": " "}, ValueError, r"thinking\['end'\] must not be blank"),
    ],
)
def test_other_values_are_refused(value: object, kind: type, why: str) -> None:
    with pytest.raises(kind, match=why) as raised:
        checked_thinking("thinking", value)
    assert raised.value.argument == "thinking"


def test_the_fields_of_thinking_are_checked() -> None:
    with pytest.raises(TypeError, match="budget must be an integer"):
        lh.Thinking(budget="many")
    with pytest.raises(ValueError, match="start must not be blank"):
        lh.Thinking(start="")
    with pytest.raises(TypeError, match="message must be a text"):
        lh.Thinking(message=None)
