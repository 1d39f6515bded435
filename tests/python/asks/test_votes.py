"""Votes of samples, compared with numbers computed by hand."""

from __future__ import annotations

import math

import pytest
from llamaherd import Result, Results, Stats, vote


def results(*prompts: list[str | None]) -> Results:
    """Return results with a sample for each text; None means a failed sample."""
    n = len(prompts[0])
    rows = [
        Result(
            index=i,
            sample=j,
            text=text,
            tokens=[],
            finish_reason="error" if text is None else "stop",
            complete=text is not None and not text.endswith("-"),
            error="why" if text is None else None,
            n_prompt_tokens=1,
            n_reused_tokens=0,
            seed=0,
        )
        for i, texts in enumerate(prompts)
        for j, text in enumerate(texts)
    ]
    return Results(rows, Stats(n_prompts=len(prompts), n_samples=len(rows)), n)


def test_the_most_frequent_label_wins() -> None:
    (one,) = vote(results(["no", " yes", "yes\n", None, "maybe"]))
    assert one.majority == "yes"
    assert one.agreement == 0.5
    assert dict(one.shares) == {"yes": 0.5, "no": 0.25, "maybe": 0.25}
    assert list(one.shares) == ["yes", "no", "maybe"]
    assert (one.n_votes, one.n_failed, one.is_tie) == (4, 1, False)


def test_of_equally_frequent_labels_the_one_that_came_first_wins() -> None:
    first, second = vote(results(["b", "a", "a", "b"], ["a", "b", "c", "d"]))
    assert (first.majority, first.agreement, first.is_tie) == ("b", 0.5, True)
    assert (second.majority, second.agreement, second.is_tie) == ("a", 0.25, True)


def test_without_an_answer_there_is_no_majority() -> None:
    (one,) = vote(results([None, None]))
    assert one.majority is None
    assert math.isnan(one.agreement)
    assert one.shares == {}
    assert (one.n_votes, one.n_failed, one.is_tie) == (0, 2, False)


def test_a_key_makes_labels_or_takes_the_vote() -> None:
    out = results(["12 apples", "12 pears", "1-"])
    (one,) = vote(out, lambda r: int(r.text.split()[0]) if r.complete else None)
    assert (one.majority, one.agreement, one.n_failed) == (12, 1.0, 1)


def test_only_results_have_votes() -> None:
    with pytest.raises(TypeError, match="results must be Results, not list"):
        vote([["a"]])
    with pytest.raises(TypeError, match="key must be a function of a result, not 'x'"):
        vote(results(["a"]), key="x")  # type: ignore[arg-type]
    assert vote(Results([], Stats())) == []
