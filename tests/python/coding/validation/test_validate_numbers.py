"""Tests of validations of labels that are numbers."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from llamaherd.coding.plots.description import Line, Points
from llamaherd.coding.plots.plot import plot_of
from llamaherd.coding.statistics.number_agreement import number_agreement
from plotted import the

RNG = np.random.default_rng(5)
N = 60
TRUTH = RNG.integers(0, 11, N)
MODEL = np.clip(TRUTH + RNG.integers(-2, 4, N), 0, 10)
BOOK = lh.Codebook("How angry?", lh.number_scale(0, 10))


@dataclass
class Rated:
    """The fields of a result of `annotate` for a scale that validations use."""

    labels: list[str | None]
    probs: Any = None
    names: tuple[str, ...] = BOOK.names
    codebook: lh.Codebook = BOOK
    frame: dict[str, list[Any]] = field(default_factory=dict)


def test_a_scale_is_compared_by_its_numbers() -> None:
    checks = lh.validate(Rated([str(x) for x in MODEL]), TRUTH.tolist())
    assert checks.scale == "interval"
    expected = number_agreement([MODEL, TRUTH])
    assert checks.numbers == expected
    assert checks.numbers_of_people is None
    parts = {row[1]: row[3] for row in checks.rows() if row[0] == "numbers"}
    assert parts == {name: measure.value for name, measure in expected.measures.items()}
    alpha = {a.name: a.value for a in checks.model_agreement}["alpha"]
    assert expected.alpha.value == pytest.approx(alpha)  # computed in another way
    page = repr(checks)
    assert "ICC(2,1), absolute agreement" in page
    assert "limits of agreement: " in page
    assert not any("fewer than 10 texts" in warning for warning in checks.warnings)
    json.dumps(checks.to_dict(), default=str)


def test_the_expected_value_counts_where_it_is_known() -> None:
    probs = RNG.dirichlet(np.ones(11), N)
    probs[3] = math.nan
    labels = [None if i == 3 else str(p.argmax()) for i, p in enumerate(probs)]
    checks = lh.validate(Rated(labels, probs), TRUTH.tolist())
    expected = number_agreement([probs @ np.arange(11), TRUTH])
    assert checks.numbers == expected
    assert expected.n == N - 1


def test_several_people_count_by_their_mean_and_among_themselves() -> None:
    other = np.where(np.arange(N) < 40, TRUTH + 1, -1)
    codes = {"a": TRUTH.tolist(), "b": [int(x) if x >= 0 else None for x in other]}
    checks = lh.validate(pd.DataFrame({"x": MODEL}), codes, label="x", scale="interval")
    mean = np.where(other >= 0, (TRUTH + other) / 2, TRUTH)
    assert checks.numbers == number_agreement([MODEL, mean])
    assert checks.numbers_of_people is not None
    assert checks.numbers_of_people.n == 40
    assert checks.numbers_of_people.bias is not None
    assert checks.numbers_of_people.bias.value == -1
    assert "between people" in repr(checks)


def test_texts_count_by_their_inclusion_probabilities() -> None:
    data = pd.DataFrame({"text": [f"t{i}" for i in range(N)], "x": MODEL + 0.5})
    weights = np.where(np.arange(N) < 30, 0.2, 0.8)
    gold = lh.gold_sample(data, 30, prob=weights.tolist(), text="text", label="x", seed=1)
    gold = gold.with_codes([int(TRUTH[i]) for i in gold.rows])
    checks = lh.validate(data, gold, label="x")
    assert checks.scale == "interval"  # the numbers have fractions
    rows = gold.rows
    expected = number_agreement(
        [MODEL[rows] + 0.5, TRUTH[rows]], unit_weights=1 / gold.probs
    )
    assert checks.numbers == expected


@pytest.mark.parametrize(
    ("labels", "scale", "is_compared"),
    [
        (["1", "2", "3", "2"], None, False),
        (["1", "2", "3", "2"], "ordinal", True),
        ([1.5, 2, 3, 2], None, True),
        (["low", "low", "high", "high"], "nominal", False),
        ([True, False, True, True], "nominal", False),
    ],
)
def test_what_is_compared_by_numbers(
    labels: list[Any], scale: Any, is_compared: bool
) -> None:
    names = None if scale != "ordinal" else ["1", "2", "3"]
    checks = lh.validate(labels, labels, scale=scale, labels=names)
    assert (checks.numbers is not None) == is_compared


def test_a_bland_altman_plot_shows_the_limits() -> None:
    checks = lh.validate(Rated([str(x) for x in MODEL]), TRUTH.tolist())
    plot = plot_of(checks, "numbers")
    assert checks.numbers is not None
    assert checks.numbers.limits is not None
    bias = (MODEL - TRUTH).mean()
    lines = [mark.y for mark in plot.marks if isinstance(mark, Line)]
    ends = [bias, *checks.numbers.limits]
    assert lines == [pytest.approx([end, end]) for end in ends]
    points = the(plot, Points)
    assert sum(round(size**2) for size in points.size) == N
    ax = lh.plot(checks, kind="numbers")
    assert ax.get_ylabel() == "model minus people"
    assert len(ax.collections[0].get_offsets()) == len(points.x)  # type: ignore[arg-type]
    nominal = lh.validate(["a", "b"] * 5, ["a", "b"] * 5)
    with pytest.raises(
        ValueError, match="the labels are not numbers of an ordered scale"
    ):
        lh.plot(nominal, kind="numbers")


def test_numbers_that_no_label_has_are_not_misspelt() -> None:
    """1.5 is written almost like 15, and -10 almost like 10."""
    labels, codes = range(-20, 20), [number + 0.5 for number in range(-20, 19)] + [-20]
    frame = pd.DataFrame({"text": [f"Text {i}." for i in range(40)], "label": labels})
    gold = lh.gold_sample(frame, 40, text="text", label="label", seed=1)
    gold = gold.with_codes([codes[row] for row in gold.rows], coder="anna")
    for checks in (lh.validate(frame, gold), lh.validate(frame, codes)):
        assert checks.scale == "interval"
        assert checks.numbers is not None
        assert checks.numbers.bias.value == pytest.approx(
            np.mean(np.subtract(labels, codes))
        )
    rows = lh.estimate(frame, gold, methods=["dsl"]).rows
    assert rows[0].estimate == pytest.approx(np.mean(codes))
