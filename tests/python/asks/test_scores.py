"""Probabilities of labels, trees of tokens, votes."""

from __future__ import annotations

import math
from array import array

import llamaherd as lh
import numpy as np
import pytest
from llamaherd import Result, Results, Stats, vote
from llamaherd.calls.asks.scoring import Continuations
from llamaherd.engine.core.errors import Failure

NAN = math.nan


def results(probs: list[list[float]]) -> lh.types.ClassifyResults:
    values = np.array(probs, dtype=float).reshape(-1, 3)
    failed = np.isnan(values).any(axis=1)
    return lh.types.ClassifyResults(
        names=("a", "b", "c"),
        probs=values,
        logprobs=np.log(np.maximum(values * 0.5, 1e-300)),
        normalize="sum",
        errors=["too long" if is_failed else None for is_failed in failed],
        finish_reasons=["error" if is_failed else "stop" for is_failed in failed],
        stats=lh.Stats(),
    )


def test_rows_say_what_they_should() -> None:
    labelled = results([[0.5, 0.25, 0.25], [NAN] * 3, [0.0, 0.0, 1.0]])
    assert labelled.labels == ["a", None, "c"]
    assert labelled.prob.tolist()[::2] == [0.5, 1.0]
    assert labelled.margin.tolist()[::2] == [0.25, 1.0]
    assert labelled.entropy[0] == pytest.approx(1.5 * math.log(2))
    assert labelled.entropy[2] == 0
    assert labelled.coverage[::2] == pytest.approx([0.5, 0.5])
    for column in (labelled.prob, labelled.margin, labelled.entropy, labelled.coverage):
        assert np.isnan(column[1])
    assert len(labelled) == 3
    assert "3 prompts, 3 labels, 1 failed" in repr(labelled)


def test_no_prompts_are_no_rows() -> None:
    labelled = results([[0.5, 0.5, 0.0]])
    empty = lh.types.ClassifyResults(
        names=labelled.names,
        probs=labelled.probs[:0],
        logprobs=labelled.logprobs[:0],
        normalize="sum",
        errors=[],
        finish_reasons=[],
        stats=lh.Stats(),
    )
    assert empty.labels == []
    assert empty.margin.shape == empty.entropy.shape == empty.coverage.shape == (0,)


def test_perplexity_by_hand() -> None:
    perplexities = lh.types.PerplexityResults(
        tokens=[[1, 2, 3], []],
        token_logprobs=[np.log([0.5, 0.125]), None],
        errors=[None, "empty"],
        finish_reasons=["stop", "error"],
        stats=lh.Stats(),
    )
    # 1 / sqrt(0.5 * 0.125) = 4
    assert perplexities.perplexity[0] == pytest.approx(4.0)
    assert np.isnan(perplexities.perplexity[1])
    assert perplexities.n_tokens == [2, 0]
    assert perplexities.logprob[0] == pytest.approx(math.log(0.0625))


def test_data_frames_have_a_column_for_each_label() -> None:
    frame = results([[0.5, 0.25, 0.25], [NAN] * 3]).to_pandas()
    assert list(frame) == [
        "label", "prob", "margin", "entropy", "coverage", "p_a", "p_b", "p_c", "error",
    ]  # fmt: skip
    assert frame["label"].cat.categories.tolist() == ["a", "b", "c"]
    assert frame["label"].dropna().tolist() == ["a"]
    assert frame["error"].dropna().tolist() == ["too long"]
    assert frame["p_b"][0] == 0.25


def test_data_frames_of_continuations_have_a_row_for_each() -> None:
    one = lh.types.Continuation(text=" x", tokens=[4], token_logprobs=np.log([0.5]))
    scores = lh.types.ScoreResults(
        continuations=[[one, one], None],
        n_given=[2, 1],
        errors=[None, "bad"],
        finish_reasons=["stop", "error"],
        stats=lh.Stats(),
    )
    rows = scores.to_pandas()
    assert rows["prompt"].tolist() == [0, 0, 1]
    assert rows["error"].dropna().to_dict() == {2: "bad"}
    assert scores.logprob == [[math.log(0.5)] * 2, None]
    assert "2 prompts, 1 failed" in repr(scores)
    texts = lh.types.PerplexityResults(
        tokens=[[1, 2]],
        token_logprobs=[np.log([0.5])],
        errors=[None],
        finish_reasons=["stop"],
        stats=lh.Stats(),
    )
    assert list(texts.to_pandas()) == ["perplexity", "logprob", "n_tokens", "error"]
    assert "1 text, 0 failed" in repr(texts)


def test_types_of_columns_do_not_depend_on_the_results() -> None:
    answered = results([[0.5, 0.25, 0.25]])
    failed, none = results([[NAN] * 3]), results([])
    assert len(none.to_pandas()) == 0
    for other in (failed, none):
        assert other.to_pandas().dtypes.to_dict() == answered.to_pandas().dtypes.to_dict()
    one = lh.types.Continuation(text=" x", tokens=[4], token_logprobs=np.log([0.5]))
    tables = [
        lh.types.ScoreResults(
            continuations=rows,
            n_given=[1] * len(rows),
            errors=[None if scored else Failure("bad", "failed") for scored in rows],
            finish_reasons=["stop" if scored else "error" for scored in rows],
            stats=lh.Stats(),
        ).to_pandas()
        for rows in ([[one]], [None], [[one], None], [])
    ]
    assert [len(table) for table in tables] == [1, 1, 2, 0]
    for table in tables:
        assert table.dtypes.to_dict() == tables[0].dtypes.to_dict()


def of(*continuations: list[int]) -> Continuations:
    return Continuations([array("i", tokens) for tokens in continuations])


def test_steps_are_the_paths_to_nodes_with_children() -> None:
    assert of([1], [2]).n_paths == 0
    assert of([1, 2], [1, 3], [4]).n_paths == 1
    assert of([1, 2, 3], [1, 2, 4], [5, 6], [7, 8]).n_paths == 3


def test_what_begins_alike_shares_nodes() -> None:
    continuations = of([1], [1, 2], [1, 3], [4])
    assert continuations.tree.tokens.tolist() == [1, 2, 3, 4]
    assert continuations.tree.parents.tolist() == [-1, 0, 0, -1]
    assert continuations.tree.depth == 2
    assert continuations.equal is None
    assert of([1], [2, 3], [1], [2, 3]).equal == (0, 2)


def test_a_continuation_ends_where_none_goes_on() -> None:
    continuations = of([1], [1, 2], [1, 3], [4])
    scores = [math.log(p) for p in (0.5, 0.25, 0.5, 0.125)]
    probs = [math.exp(continuations.logprob(i, scores)) for i in range(4)]
    # The first token has probability 1/2; after it, two longer ones have 1/4 and 1/2.
    assert probs == pytest.approx([0.5 * 0.25, 0.5 * 0.25, 0.5 * 0.5, 0.125])


@pytest.mark.parametrize("rest", [1e-12, 0.0, -6e-8])
def test_rounding_leaves_no_end_without_a_probability(rest: float) -> None:
    continuations = of([1], [1, 2])
    scores = [math.log(0.5), math.log(1 - rest)]
    assert continuations.logprob(0, scores) == pytest.approx(math.log(0.5 * 1e-7))


def sampled_results(*prompts: list[str | None]) -> Results:
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
    (one,) = vote(sampled_results(["no", " yes", "yes\n", None, "maybe"]))
    assert one.majority == "yes"
    assert one.agreement == 0.5
    assert dict(one.shares) == {"yes": 0.5, "no": 0.25, "maybe": 0.25}
    assert list(one.shares) == ["yes", "no", "maybe"]
    assert (one.n_votes, one.n_failed, one.is_tie) == (4, 1, False)


def test_of_equally_frequent_labels_the_one_that_came_first_wins() -> None:
    first, second = vote(sampled_results(["b", "a", "a", "b"], ["a", "b", "c", "d"]))
    assert (first.majority, first.agreement, first.is_tie) == ("b", 0.5, True)
    assert (second.majority, second.agreement, second.is_tie) == ("a", 0.25, True)


def test_without_an_answer_there_is_no_majority() -> None:
    (one,) = vote(sampled_results([None, None]))
    assert one.majority is None
    assert math.isnan(one.agreement)
    assert one.shares == {}
    assert (one.n_votes, one.n_failed, one.is_tie) == (0, 2, False)


def test_a_key_makes_labels_or_takes_the_vote() -> None:
    out = sampled_results(["12 apples", "12 pears", "1-"])
    (one,) = vote(out, lambda r: int(r.text.split()[0]) if r.complete else None)
    assert (one.majority, one.agreement, one.n_failed) == (12, 1.0, 1)


def test_only_results_have_votes() -> None:
    with pytest.raises(TypeError, match="results must be Results, not list"):
        vote([["a"]])
    with pytest.raises(TypeError, match="key must be a function of a result, not 'x'"):
        vote(sampled_results(["a"]), key="x")  # type: ignore[arg-type]
    assert vote(Results([], Stats())) == []
