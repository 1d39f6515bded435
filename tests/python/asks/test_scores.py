"""Results of scoring calls, compared with numbers computed by hand."""

from __future__ import annotations

import math

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.engine.core.errors import Failure

NAN = math.nan


def results(probs: list[list[float]]) -> lh.ClassifyResults:
    values = np.array(probs, dtype=float).reshape(-1, 3)
    failed = np.isnan(values).any(axis=1)
    return lh.ClassifyResults(
        names=("a", "b", "c"),
        probs=values,
        logprobs=np.log(np.maximum(values * 0.5, 1e-300)),
        normalize="sum",
        errors=["too long" if each else None for each in failed],
        finish_reasons=["error" if each else "stop" for each in failed],
        stats=lh.Stats(),
    )


def test_rows_say_what_they_should() -> None:
    found = results([[0.5, 0.25, 0.25], [NAN] * 3, [0.0, 0.0, 1.0]])
    assert found.labels == ["a", None, "c"]
    assert found.prob.tolist()[::2] == [0.5, 1.0]
    assert found.margin.tolist()[::2] == [0.25, 1.0]
    assert found.entropy[0] == pytest.approx(1.5 * math.log(2))
    assert found.entropy[2] == 0
    assert found.coverage[::2] == pytest.approx([0.5, 0.5])
    for column in (found.prob, found.margin, found.entropy, found.coverage):
        assert np.isnan(column[1])
    assert len(found) == 3
    assert "3 prompts, 3 labels, 1 failed" in repr(found)


def test_no_prompts_are_no_rows() -> None:
    found = results([[0.5, 0.5, 0.0]])
    empty = lh.ClassifyResults(
        names=found.names,
        probs=found.probs[:0],
        logprobs=found.logprobs[:0],
        normalize="sum",
        errors=[],
        finish_reasons=[],
        stats=lh.Stats(),
    )
    assert empty.labels == []
    assert empty.margin.shape == empty.entropy.shape == empty.coverage.shape == (0,)


def test_perplexity_by_hand() -> None:
    found = lh.PerplexityResults(
        tokens=[[1, 2, 3], []],
        token_logprobs=[np.log([0.5, 0.125]), None],
        errors=[None, "empty"],
        finish_reasons=["stop", "error"],
        stats=lh.Stats(),
    )
    # 1 / sqrt(0.5 * 0.125) = 4
    assert found.perplexity[0] == pytest.approx(4.0)
    assert np.isnan(found.perplexity[1])
    assert found.n_tokens == [2, 0]
    assert found.logprob[0] == pytest.approx(math.log(0.0625))


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
    one = lh.Continuation(text=" x", tokens=[4], token_logprobs=np.log([0.5]))
    found = lh.ScoreResults(
        continuations=[[one, one], None],
        n_given=[2, 1],
        errors=[None, "bad"],
        finish_reasons=["stop", "error"],
        stats=lh.Stats(),
    )
    rows = found.to_pandas()
    assert rows["prompt"].tolist() == [0, 0, 1]
    assert rows["error"].dropna().to_dict() == {2: "bad"}
    assert found.logprob == [[math.log(0.5)] * 2, None]
    assert "2 prompts, 1 failed" in repr(found)
    texts = lh.PerplexityResults(
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
    one = lh.Continuation(text=" x", tokens=[4], token_logprobs=np.log([0.5]))
    tables = [
        lh.ScoreResults(
            continuations=each,
            n_given=[1] * len(each),
            errors=[None if found else Failure("bad", "failed") for found in each],
            finish_reasons=["stop" if found else "error" for found in each],
            stats=lh.Stats(),
        ).to_pandas()
        for each in ([[one]], [None], [[one], None], [])
    ]
    assert [len(table) for table in tables] == [1, 1, 2, 0]
    for table in tables:
        assert table.dtypes.to_dict() == tables[0].dtypes.to_dict()
