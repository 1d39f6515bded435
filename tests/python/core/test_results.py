"""Requests, their results and pieces of text, and the argument `thinking`."""

from __future__ import annotations

import copy
import dataclasses
import math
import sys
from array import array
from dataclasses import dataclass, replace
from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd import Result, Results, Stats
from llamaherd.calls.api.running import none_answered
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.run.call import find_copies
from llamaherd.engine.core.outcome import Stripped, TextPiece
from llamaherd.engine.core.request import Request, ThoughtStage, TokenTree, too_long
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.core.thinking import DEFAULT_BUDGET, MOST_TOKENS, checked_thinking
from same_results import same_results

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
    one = replace(PLAIN, tokens=array("i", [1]))
    assert too_long(one, 9, "fit here").startswith("the prompt has 1 token; with")
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
    ("value", "expected"),
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
def test_each_form_of_the_argument_becomes_one(value: object, expected: object) -> None:
    assert checked_thinking("thinking", value) == expected
    assert GenerateOptions(thinking=value, chat=True).thinking == expected


@pytest.mark.parametrize(
    ("value", "kind", "why"),
    [
        ("on", TypeError, "thinking must be None, True, False, a number of tokens or"),
        (1.5, TypeError, "thinking must be None, True, False"),
        (-1, ValueError, "thinking must be between 0 and"),
        (MOST_TOKENS + 1, ValueError, "thinking must be between 0 and"),
        ({"budgte": 3}, TypeError, "no field 'budgte' .*did you mean 'budget'"),
        ({"budget": -3}, ValueError, r"thinking\['budget'\] must be between 0 and"),
        ({"end": " "}, ValueError, r"thinking\['end'\] must not be empty"),
        ({"end": "a\0b"}, ValueError, r"thinking\['end'\] must not contain a NUL"),
    ],
)
def test_other_values_are_refused(value: object, kind: type, why: str) -> None:
    with pytest.raises(kind, match=why) as raised:
        checked_thinking("thinking", value)
    assert raised.value.argument == "thinking"


def test_the_fields_of_thinking_are_checked() -> None:
    with pytest.raises(TypeError, match="budget must be an integer"):
        lh.Thinking(budget="many")
    with pytest.raises(ValueError, match="start must not be empty"):
        lh.Thinking(start="")
    with pytest.raises(TypeError, match="message must be a text"):
        lh.Thinking(message=None)


def result(index: int, error: str | None = None) -> Result:
    return Result(
        index=index,
        text=None if error else f"text {index}",
        tokens=[1, 2],
        finish_reason="error" if error else "stop",
        complete=error is None,
        error=error,
        n_prompt_tokens=3,
        n_reused_tokens=0,
        seed=7,
    )


@pytest.fixture
def results() -> Results:
    rows = [result(0), result(1, "too long"), result(2)]
    return Results(rows, Stats(n_prompts=3, n_failed=1))


def test_results_are_a_sequence_with_columns(results: Results) -> None:
    assert len(results) == 3
    assert [result.index for result in results] == [0, 1, 2]
    assert results.complete == [True, False, True]
    assert results[-1].text == "text 2"
    assert [result.index for result in results[1:]] == [1, 2]
    assert results.texts == ["text 0", None, "text 2"]
    assert results.errors == [None, "too long", None]
    assert results.finish_reasons == ["stop", "error", "stop"]
    assert results[0].n_generated_tokens == 2
    assert repr(results) == "<Results: 2 of 3 prompts answered, 1 failed>"


def test_a_notebook_shows_results_as_a_table(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [dataclasses.replace(result, text="<b>") for result in results]
    html = Results(rows, results.stats)._repr_html_() or ""
    assert html.startswith("<p>&lt;Results: 3 of 3 prompts answered, 1 failed&gt;</p>")
    assert "<td>too long</td>" in html
    assert "&lt;b&gt;" in html
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert results._repr_html_() is None


def thought(text: str | None, n: int, *, complete: bool | None) -> dict[str, object]:
    return {
        "thinking": text,
        "n_thinking_tokens": n,
        "thinking_complete": complete,
    }


def test_tables_have_columns_of_thoughts_where_there_could_be_some() -> None:
    thoughts = [
        thought("I see.", 4, complete=True),
        thought(None, 0, complete=None),
        thought("", 9, complete=False),
    ]
    rows = [dataclasses.replace(result(i), **fields) for i, fields in enumerate(thoughts)]
    results = Results(rows, Stats(n_prompts=3), has_thoughts=True)
    frame = results.to_pandas()
    names = ["text", "thinking", "n_thinking_tokens", "thinking_complete", "error"]
    assert list(frame) == names
    assert frame["n_thinking_tokens"].tolist() == [4, 0, 9]
    assert frame["thinking_complete"].dtype == "boolean"
    assert frame["thinking_complete"].tolist() == [True, pd.NA, False]
    table = results.to_arrow()
    assert table.column_names == names
    assert table.column("thinking_complete").to_pylist() == [True, None, False]
    assert str(table.schema.field("n_thinking_tokens").type) == "int64"
    assert results.thinking == ["I see.", None, ""]
    # One prompt failed before its thought, another one after its thought.
    failed = [
        result(0, "too long"),
        dataclasses.replace(result(1, "no JSON"), **thought("Hm.", 3, complete=True)),
    ]
    broken = Results(failed, Stats(n_prompts=2), has_thoughts=True)
    assert broken.to_arrow()["n_thinking_tokens"].to_pylist() == [None, 3]
    assert broken.to_pandas()["n_thinking_tokens"].tolist() == [pd.NA, 3]
    assert broken.to_arrow()["thinking"].to_pylist() == [None, "Hm."]
    assert broken.n_thinking_tokens == [0, 3]
    without = Results(rows, Stats(n_prompts=3))
    assert (
        list(without.to_pandas()) == without.to_arrow().column_names == ["text", "error"]
    )


def test_results_cannot_be_changed(results: Results) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        results[0].text = "x"
    with pytest.raises(dataclasses.FrozenInstanceError):
        results.stats.n_prompts = 5
    with pytest.raises(TypeError):
        results[0] = result(0)


def test_statistics_are_one_line() -> None:
    stats = Stats(n_prompts=5, n_failed=1, wall_s=1.5, n_slots=4, seed=9)
    text = str(stats)
    assert text.startswith("5 prompts (1 failed) in 1.50 s")
    assert "seed 9" in text
    assert "\n" not in text
    assert dataclasses.asdict(stats)["n_slots"] == 4


def test_samples_are_grouped_by_prompt() -> None:
    rows = [dataclasses.replace(result(i), sample=j) for i in range(3) for j in range(2)]
    out = Results(rows, Stats(n_prompts=3, n_samples=6), 2)
    assert len(out) == 3
    assert [result.sample for result in out] == [0, 0, 0]
    assert [[(r.index, r.sample) for r in samples] for samples in out.samples] == [
        [(i, 0), (i, 1)] for i in range(3)
    ]
    assert repr(out) == (
        "<Results: 6 of 6 samples (2 for each of 3 prompts) answered, 0 failed>"
    )
    assert str(out.stats).startswith("3 prompts x 2 samples (0 failed)")
    plain = Results(rows[::2], Stats())
    assert plain.samples == tuple((row,) for row in rows[::2])


def test_a_prompt_that_was_not_computed_says_so_in_tables() -> None:
    results = none_answered(2)
    assert results.errors == [None, None]
    table = results.to_pandas()
    assert table["error"].tolist() == ["not computed: the call ended before"] * 2
    assert results.to_arrow()["error"].to_pylist() == table["error"].tolist()


@dataclass(frozen=True)
class Value:
    """A result with a number."""

    value: float
    name: str = "x"


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        Value,
        lambda x: [Value(x), 1],
        lambda x: {"a": (Value(x), "text")},
    ],
)
def test_nan_equals_nan_at_any_depth(change: Any) -> None:
    assert same_results(change(math.nan), change(float("nan")))
    assert same_results(change(1.5), change(1.5))
    assert not same_results(change(1.5), change(math.nan))
    assert not same_results(change(1.5), change(2.5))


def test_results_of_different_forms_differ() -> None:
    assert not same_results(Value(1.0, "x"), Value(1.0, "y"))
    assert not same_results([1.0], [1.0, 2.0])
    assert not same_results({"a": 1.0}, {"b": 1.0})
    assert not same_results(Value(1.0), 1.0)
