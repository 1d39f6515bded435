"""Tests of intervals from few codes, and from codes without any error."""

from __future__ import annotations

import dataclasses
import warnings
from itertools import product
from typing import Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.estimation.fitting import FitSettings
from llamaherd.coding.estimation.means import fit_means
from llamaherd.coding.gold.codes import Codes
from llamaherd.coding.statistics.dsl import Problem
from llamaherd.coding.statistics.influences import Influences
from scipy.stats import t
from thorough import sized

N = 1000
NUMBERS = ("estimate", "low", "high", "std_error", "df")


def used(rows: np.ndarray, n_texts: int) -> Codes:
    return Codes(
        rows=rows,
        columns=[],
        probs=np.full(len(rows), len(rows) / n_texts),
        strata=np.zeros(len(rows), dtype=int),
        design={"kind": "simple"},
    )


def shares(
    label: np.ndarray, code: np.ndarray, rows: np.ndarray, target: str = "population"
) -> dict[str, lh.types.Estimate]:
    n_texts = len(label)
    settings = FitSettings(
        gold=used(rows, n_texts), methods=("dsl", "ppi", "gold"), level=0.95,
        target=target,
    )  # fmt: skip
    groups = np.zeros(n_texts, dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimates = fit_means([("a", label, code[rows])], "share", groups, [""], settings)
    return {row.method: row for row in estimates.rows}


@pytest.mark.more(reason="repeats an estimate for many forms of the same data", cases=2)
@pytest.mark.more(reason="simulates studies: a fifth as many")
@pytest.mark.parametrize("n_gold", [15, 20, 30])
def test_intervals_from_few_codes_hold_the_truth(n_gold: int) -> None:
    """Coverage for a share of 0.3; the normal distribution has 85% at n = 10."""
    rng = np.random.default_rng(n_gold)
    draws, held = sized(120, 600), dict.fromkeys(("dsl", "ppi", "gold"), 0)
    for _ in range(draws):
        code = (rng.random(N) < 0.3).astype(float)
        label = np.where(rng.random(N) < 0.8, code, 1 - code)
        rows = np.sort(rng.choice(N, n_gold, replace=False))
        for method, row in shares(label, code, rows).items():
            held[method] += row.low <= 0.3 <= row.high
    error = 3 * np.sqrt(0.95 * 0.05 / draws)
    assert held["dsl"] / draws > 0.95 - error
    assert held["gold"] / draws > 0.95 - error
    assert held["ppi"] / draws > 0.93 - error


@pytest.mark.more(reason="simulates studies: a fifth as many")
@pytest.mark.parametrize("accuracy", [0.98, 0.995])
def test_intervals_about_these_texts_where_errors_are_rare(accuracy: float) -> None:
    """Without a bound, 13% of intervals had no width, and 86% had the true value."""
    rng = np.random.default_rng(3)
    draws, held = sized(60, 300), dict.fromkeys(("dsl", "ppi"), 0)
    for _ in range(draws):
        code = (rng.random(N) < 0.5).astype(float)
        label = np.where(rng.random(N) < accuracy, code, 1 - code)
        rows = np.sort(rng.choice(N, 100, replace=False))
        by_method = shares(label, code, rows, "texts")
        for method in held:
            row = by_method[method]
            assert row.high > row.low
            held[method] += row.low <= code.mean() <= row.high
    assert min(held.values()) / draws > 0.95 - 3 * np.sqrt(0.95 * 0.05 / draws)


def test_no_error_among_the_codes() -> None:
    label, rows = np.arange(N) % 2.0, np.arange(0, N, 20)
    rows[::2] += 1
    by_method = shares(label, label, rows, "texts")
    # One unseen error of 50 and its variance, for all texts without the drawn texts.
    far = (1 + t.ppf(0.975, 49)) / 50 * np.sqrt(1 - 50 / N)
    for method in ("dsl", "ppi"):
        assert by_method[method].low == pytest.approx(0.5 - far, rel=0.01)
        assert by_method[method].high == pytest.approx(0.5 + far, rel=0.01)
    assert by_method["gold"].high - by_method["gold"].low > 0.2
    # The population of these texts also varies in the share of the labels.
    wide = shares(label, label, rows)["dsl"]
    assert wide.std_error > by_method["dsl"].std_error
    none = shares(0 * label, 0 * label, rows)
    for row in none.values():
        assert (row.low, row.high) == (0, pytest.approx(3 / 50, rel=0.02))
    twice = shares(label, label, np.arange(N), "texts")["dsl"]
    assert (twice.low, twice.high) == (0.5, 0.5)


def data(n_wrong: int, n_gold: int = 100) -> tuple[dict[str, Any], list[str | None]]:
    label = ["a" if i % 2 else "b" for i in range(N)]
    code: list[str | None] = [*label[:n_gold], *[None] * (N - n_gold)]
    code[:n_wrong] = ["c"] * n_wrong
    return {"label": label, "x": [float(i % 7) for i in range(N)]}, code


@pytest.mark.filterwarnings("ignore:people gave labels")
def test_few_errors_are_warned_of() -> None:
    frame, code = data(3)
    options: dict[str, Any] = {"prob": "simple", "target": "texts", "outcome": "a"}
    with pytest.warns(
        UserWarning, match=r"Few coded texts have a wrong label for 'a' .* all \(1\)\)"
    ):
        lh.estimate(frame, code, **options)
    frame, code = data(0)
    estimates = lh.estimate(frame, code, **options)
    frame, code = data(20)
    estimates = lh.estimate(frame, code, **options)
    assert not any("wrong label" in note for note in estimates.notes)


def test_a_regression_without_an_error_has_no_standard_error_of_zero() -> None:
    frame, code = data(0, n_gold=200)
    options: dict[str, Any] = {"prob": "simple", "methods": ["dsl", "gold"]}
    fit = lh.estimate(frame, code, "label == 'a' ~ x", target="texts", **options)
    assert all(row.std_error > 0 for row in fit.rows)
    assert all(row.low < row.estimate < row.high for row in fit.rows)
    assert any("no coded text has a wrong label" in note for note in fit.notes)
    everything = [*frame["label"]]
    fit = lh.estimate(frame, everything, "label == 'a' ~ x", target="texts", **options)
    assert {row.std_error for row in fit.by("dsl")} == {0}


def problem(strata: list[int], groups: list[int]) -> Problem:
    n = len(strata)
    x = (np.array(groups)[:, None] == np.arange(max(groups) + 1)).astype(float)
    return Problem(
        kind="ols", x_hat=x, y_hat=np.zeros(n), rows=np.arange(n), x=x, y=np.zeros(n),
        probs=np.full(n, 0.5), strata=np.array(strata),
    )  # fmt: skip


def freedom(study: Problem, *ways: list[float]) -> list[float]:
    theta = np.zeros(study.x.shape[1])
    rows = np.array(ways) if ways else np.eye(len(theta))
    return Influences.of(study, 0.0, theta, rows).freedom(1.0).tolist()


def test_degrees_of_freedom() -> None:
    study = problem([0] * 8, [0, 0, 0, 0, 0, 1, 1, 1])
    assert freedom(study) == pytest.approx([4, 2])
    # The difference of groups has about Welch's degrees of freedom.
    welch = (1 / 5 + 1 / 3) ** 2 / (1 / 5**2 / 5 + 1 / 3**2 / 3)
    assert freedom(study, [-1, 1]) == pytest.approx([max(welch - 1, 4)])
    # Three texts in each of three strata give six differences.
    study = problem([0, 0, 0, 1, 1, 1, 2, 2, 2], [0] * 9)
    assert freedom(study) == pytest.approx([6])
    study = problem([0] * 6, [0] * 6)
    clustered = dataclasses.replace(study, clusters=np.array([0, 0, 1, 1, 2, 2]))
    assert freedom(clustered) == pytest.approx([2])
    # Clusters of unequal sizes count less.
    study = problem([0] * 40, [0] * 40)
    even = dataclasses.replace(study, clusters=np.arange(40) // 4)
    uneven = dataclasses.replace(study, clusters=np.minimum(np.arange(40) // 2, 9))
    assert freedom(even) == pytest.approx([9])
    assert freedom(uneven)[0] < 5


def test_a_regression_and_groups_agree() -> None:
    """The regression was over-confident where a group's codes showed no error."""
    rng = np.random.default_rng(7)
    n, n_gold = 3000, 200
    group = np.where(rng.random(n) < 0.06, "small", "large")
    label = rng.random(n) < 0.3
    code = np.where((group == "large") & (rng.random(n) < 0.1), ~label, label)
    names = np.array(["no", "yes"])
    frame = {"label": names[label.astype(int)].tolist(), "grp": group.tolist()}
    codes = [names[int(code[i])] if i < n_gold else None for i in range(n)]
    options: dict[str, Any] = {"prob": "simple", "methods": ["dsl", "gold"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        by = lh.estimate(frame, codes, outcome="yes", by="grp", **options)
        fit = lh.estimate(frame, codes, "label == 'yes' ~ grp", **options)
        alone = lh.estimate(frame, codes, outcome="yes", **options)
        one = lh.estimate(frame, codes, "label == 'yes' ~ 1", **options)
    for method in ("dsl", "gold"):
        difference, slope = by.by(method)[2], fit.by(method)[1]
        assert (difference.term, slope.term) == ("difference", "grp[T.small]")
        pairs = [(difference, slope), (alone.by(method)[0], one.by(method)[0])]
        for (mean, coefficient), name in product(pairs, NUMBERS):
            expected = pytest.approx(getattr(mean, name), rel=1e-9)
            assert getattr(coefficient, name) == expected, name
