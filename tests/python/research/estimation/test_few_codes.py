"""Tests of intervals from few codes, and from codes without any error."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.research.estimation import few_codes
from llamaherd.research.estimation.fitting import FitSettings
from llamaherd.research.estimation.fitting_means import fit_means
from llamaherd.research.estimation.gold_use import GoldUsed
from llamaherd.research.statistics.dsl import Problem
from scipy.stats import norm
from thorough import sized

N = 1000


def used(rows: np.ndarray, n_texts: int) -> GoldUsed:
    return GoldUsed(
        rows=rows,
        codes=[],
        probs=np.full(len(rows), len(rows) / n_texts),
        strata=np.zeros(len(rows), dtype=int),
        is_even=True,
        design="simple",
    )


def shares(
    label: np.ndarray, code: np.ndarray, rows: np.ndarray, target: str = "population"
) -> dict[str, lh.Estimate]:
    n_texts = len(label)
    settings = FitSettings(
        gold=used(rows, n_texts), methods=("dsl", "ppi", "gold"), level=0.95,
        target=target,
    )  # fmt: skip
    groups = np.zeros(n_texts, dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = fit_means([("a", label, code[rows])], "share", groups, [""], settings)
    return {row.method: row for row in found.rows}


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
        found = shares(label, code, rows, "texts")
        for method in held:
            row = found[method]
            assert row.high > row.low
            held[method] += row.low <= code.mean() <= row.high
    assert min(held.values()) / draws > 0.95 - 3 * np.sqrt(0.95 * 0.05 / draws)


def test_no_error_among_the_codes() -> None:
    label, rows = np.arange(N) % 2.0, np.arange(0, N, 20)
    rows[::2] += 1
    found = shares(label, label, rows, "texts")
    # Wilson's limit for 0 errors of 50, for all texts without the drawn texts.
    z2 = norm.ppf(0.975) ** 2
    most = z2 / (50 + z2) * np.sqrt(1 - 50 / N)
    for method in ("dsl", "ppi"):
        assert found[method].low == pytest.approx(0.5 - most, rel=0.01)
        assert found[method].high == pytest.approx(0.5 + most, rel=0.01)
    assert found["gold"].high - found["gold"].low > 0.2
    # The population of these texts also varies in the share of the labels.
    wide = shares(label, label, rows)["dsl"]
    assert wide.std_error > found["dsl"].std_error
    none = shares(0 * label, 0 * label, rows)
    for row in none.values():
        assert (row.low, row.high) == (0, pytest.approx(z2 / (50 + z2), rel=0.01))
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
    found = lh.estimate(frame, code, **options)
    note = next(note for note in found.notes if "Wilson's limits" in note)
    assert note.endswith("the codes do not differ: dsl: a (all); ppi: a (all)")
    frame, code = data(20)
    found = lh.estimate(frame, code, **options)
    assert not any("wrong label" in note for note in found.notes)


def test_a_regression_without_an_error_has_no_standard_error_of_zero() -> None:
    frame, code = data(0, n_gold=200)
    options: dict[str, Any] = {"prob": "simple", "methods": ["dsl", "gold"]}
    found = lh.estimate(frame, code, "label == 'a' ~ x", target="texts", **options)
    assert all(
        np.isnan([row.std_error, row.low, row.high]).all() for row in found.by("dsl")
    )
    assert all(row.std_error > 0 for row in found.by("gold"))
    assert any("no coded text has a wrong label" in note for note in found.notes)
    everything = [*frame["label"]]
    found = lh.estimate(frame, everything, "label == 'a' ~ x", target="texts", **options)
    assert {row.std_error for row in found.by("dsl")} == {0}


def problem(strata: list[int], groups: list[int]) -> Problem:
    n = len(strata)
    x = (np.array(groups)[:, None] == np.arange(max(groups) + 1)).astype(float)
    return Problem(
        kind="ols", x_hat=x, y_hat=np.zeros(n), rows=np.arange(n), x=x, y=np.zeros(n),
        probs=np.full(n, 0.5), strata=np.array(strata),
    )  # fmt: skip


def test_degrees_of_freedom() -> None:
    made = problem([0] * 6, [0, 0, 0, 0, 1, 1])
    assert few_codes.freedom(made, 2) == 4
    assert few_codes.freedoms(made, 1).tolist() == [3, 1]
    # Two texts in each of three strata give three differences.
    made = problem([0, 0, 1, 1, 2, 2], [0] * 6)
    assert few_codes.freedom(made, 1) == 3
    assert few_codes.freedoms(made, 1).tolist() == [3]
    made = problem([0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 1, 1])
    assert few_codes.freedoms(made, 1).tolist() == [2, 1]
    made = problem([0] * 6, [0] * 6)
    clustered = dataclasses.replace(made, clusters=np.array([0, 0, 0, 1, 1, 2]))
    assert few_codes.freedom(clustered, 1) == 2
    assert few_codes.freedoms(clustered, 1).tolist() == [2]
    assert few_codes.together(np.array([1.0, 1.0]), np.array([4.0, 4.0])) == 8
    assert few_codes.together(np.array([1.0, 1.0]), np.array([np.inf, np.inf])) == np.inf


def test_a_note_reports_wilsons_limits_of_codes_alone() -> None:
    n = 300
    label = ["yes" if i % 10 == 0 else "no" for i in range(n)]
    for n_codes, expected in ((80, True), (n - 10, False)):
        codes = [label[i] if i < n_codes else None for i in range(n)]
        found = lh.estimate(
            {"label": label}, codes, outcome="yes", prob="simple", methods=["gold"]
        )
        assert any("Wilson's limits" in note for note in found.notes) == expected
