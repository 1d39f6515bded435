"""Tests of codebooks for numbers: compared on "select", frozen, evaluated once."""

from __future__ import annotations

import math
from dataclasses import replace

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.plots.plot import plot_of
from llamaherd.coding.selection import evaluation

SCALE = lh.number_scale(0, 4)
BOOK = lh.Codebook("How angry?", type="scale", scale=SCALE)
OTHER = lh.Codebook("Rate the anger of the text.", type="scale", scale=SCALE)
DATA = {"text": [f"Text {i} says {'this' if i % 3 else 'that'}" for i in range(60)]}
NAMES = ["0", "1", "2", "3", "4"]


@pytest.fixture
def gold(monkeypatch: pytest.MonkeyPatch) -> lh.GoldSample:
    """Return a sample coded by two people, who often disagree."""
    monkeypatch.setattr(evaluation, "_OPENED", {})
    sample = lh.gold_sample(DATA, 60, text="text", names=NAMES, seed=1)
    anna = [NAMES[row % 5] for row in sample.rows]
    ben = [NAMES[row % 4] for row in sample.rows]
    sample = sample.with_codes({"anna": anna, "ben": ben})
    return lh.gold_split(sample, 0, 1 / 2, 1 / 2, seed=2)


def mean_codes(ids: tuple[str, ...]) -> np.ndarray:
    rows = np.array([int(key) - 1 for key in ids])
    return (rows % 5 + rows % 4) / 2


def test_errors_of_expected_values(gold: lh.GoldSample, context: lh.Context) -> None:
    tried = {"one": BOOK, "other": OTHER}
    ranking = lh.compare_codebooks(DATA, tried, gold, context)
    assert ranking.measure == "mae"  # the default for scales
    assert ranking.n == 30  # includes texts on which two coders differ
    texts = {"text": [DATA["text"][int(key) - 1] for key in ranking.ids]}
    errors = []
    for book, candidate in zip((BOOK, OTHER), ranking.candidates, strict=True):
        coded = lh.annotate(texts, "text", book, context)
        expected = np.array(coded.frame["mean"], dtype=float)
        errors.append(abs(expected - mean_codes(ranking.ids)).mean())
        assert candidate.value.value == pytest.approx(errors[-1])
    assert ranking.best == int(np.argmin(errors))
    worse = 1 - ranking.best
    difference = ranking.to_best(worse)
    assert difference is not None
    assert difference.value == pytest.approx(errors[worse] - errors[ranking.best])
    assert difference.value > 0
    verdict = "worse" if difference.low > 0 else "cannot be told apart"
    assert ranking.verdict(worse) == verdict
    assert "is too low, because it was chosen" in ranking.conclusion.replace("\n", " ")
    plot = plot_of(ranking)
    assert "smaller is better" in (plot.panels[0] if plot.panels else plot.x.title)
    assert lh.types.CodebookComparison.from_json(ranking.to_json()) == ranking


def test_the_choice_is_evaluated(gold: lh.GoldSample, context: lh.Context) -> None:
    tried = {"one": BOOK, "other": OTHER}
    ranking = lh.compare_codebooks(None, tried, gold, context, measure="mae")
    assert ranking.best == int(np.nanargmin([c.value.value for c in ranking.candidates]))
    choice = lh.types.CodebookChoice.from_json(lh.best_codebook(ranking).to_json())
    first = lh.evaluate_codebook(choice, gold, context)
    assert first.validation.numbers is not None
    assert first.value == first.validation.numbers.mae
    assert "mean absolute error" in str(first)
    assert first.is_first
    coded = lh.annotate(DATA, "text", tried[choice.name], context)
    paragraph = str(lh.methods_text(coded, evaluation=first))
    assert "by their mean absolute error on one part" in " ".join(paragraph.split())


def test_worse_is_a_larger_error(gold: lh.GoldSample, context: lh.Context) -> None:
    far = lh.Codebook("Always 4.", type="scale", scale=SCALE)
    ranking = lh.compare_codebooks(None, {"far": far, "one": BOOK}, gold, context)
    pair = ranking.differences[0]
    assert ranking.best == (0 if pair.value < 0 else 1)
    unknown = replace(pair, value=3.0, low=math.nan, high=math.nan)
    without = replace(ranking, differences=(unknown,))
    assert without.tied == (0, 1)
    assert without.pairs()[0]["verdict"] == "cannot be told apart"
    assert "cannot be told apart" in str(without)


def test_measures_must_fit(gold: lh.GoldSample, context: lh.Context) -> None:
    with pytest.raises(lh.BadArgumentError, match="not for a scale; take 'mae'"):
        lh.compare_codebooks(None, BOOK, gold, context, measure="accuracy")
    labels = lh.Codebook("Which?", ["a", "b"])
    sample = lh.gold_sample(DATA, 60, text="text", names=["a", "b"], seed=1)
    sample = lh.gold_split(sample.with_codes(["a", "b"] * 30), 0, 1 / 2, 1 / 2)
    with pytest.raises(lh.BadArgumentError, match="for labels that are numbers"):
        lh.compare_codebooks(None, labels, sample, context, measure="mae")
    numbers = lh.Codebook("How angry?", NAMES, type="ordinal")
    ranking = lh.compare_codebooks(None, numbers, gold, context, measure="mae")
    assert ranking.candidates[0].value.value > 0
    with pytest.raises(lh.BadArgumentError, match=r"measure must be .*'mae', not 'rmse'"):
        lh.compare_codebooks(None, numbers, gold, context, measure="rmse")  # type: ignore[arg-type]
    labelled = lh.compare_codebooks(None, numbers, gold, context)
    assert labelled.measure == "accuracy"
