"""Results of scoring calls, compared with numbers computed by hand."""

from __future__ import annotations

import math
import sys
import types

import llamaherd as lh
import numpy as np
import pytest

NAN = math.nan


def results(probs: list[list[float]]) -> lh.ClassifyResults:
    values = np.array(probs)
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


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace pandas, which is optional, by a fake whose frames are dicts of columns."""
    pandas = types.ModuleType("pandas")
    pandas.Categorical = lambda values, categories: (list(values), categories)

    def data_frame(data: object, columns: object = None) -> object:
        return (
            data
            if columns is None
            else [dict(zip(columns, r, strict=True)) for r in data]
        )

    pandas.DataFrame = data_frame
    monkeypatch.setitem(sys.modules, "pandas", pandas)


@pytest.mark.usefixtures("frames")
def test_data_frames_have_a_column_for_each_label() -> None:
    frame = results([[0.5, 0.25, 0.25], [NAN] * 3]).to_pandas()
    assert list(frame) == [
        "label", "prob", "margin", "entropy", "coverage", "p_a", "p_b", "p_c", "error",
    ]  # fmt: skip
    assert frame["label"] == (["a", None], ["a", "b", "c"])
    assert frame["error"] == [None, "too long"]
    assert frame["p_b"][0] == 0.25


@pytest.mark.usefixtures("frames")
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
    assert [row["prompt"] for row in rows] == [0, 0, 1]
    assert [row["error"] for row in rows] == [None, None, "bad"]
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
