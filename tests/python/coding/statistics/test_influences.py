"""Numbers of codes that t intervals of skewed numbers need."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.estimation.notes import note_on_skew
from llamaherd.coding.statistics import dsl
from llamaherd.coding.statistics.dsl import Problem
from llamaherd.coding.statistics.influences import Influences
from scipy import stats


def problem_of(
    y: np.ndarray, hat: np.ndarray, rows: np.ndarray, target: Any = "population"
) -> Problem:
    """Return the mean of all texts, by the codes of a simple sample."""
    n_texts, probs = len(y), np.full(len(y), len(rows) / len(y))
    return Problem(
        kind="ols",
        x_hat=np.ones((n_texts, 1)),
        y_hat=hat,
        rows=rows,
        x=np.ones((len(rows), 1)),
        y=y[rows],
        probs=probs[rows],
        strata=np.zeros(len(rows), dtype=np.int64),
        all_probs=probs,
        target=target,
    )


def influences(study: Problem, lam: float = 0.0) -> Influences:
    return Influences.of(study, lam, dsl.solution_at(study, lam), np.ones((1, 1)))


@pytest.mark.parametrize("n_texts", [60, 300, 6000])
def test_codes_alone_need_as_many_as_by_cochrans_rule(n_texts: int) -> None:
    y = np.random.default_rng(1).lognormal(size=n_texts)
    study = problem_of(y, np.zeros(n_texts), np.arange(50))
    needed = influences(study).codes_needed()
    assert needed == pytest.approx([25 * stats.skew(y[:50], bias=False) ** 2])


@pytest.mark.more(
    reason="simulates studies or compares with other packages on many samples", cases=1
)
@pytest.mark.parametrize("target", ["population", "texts"])
@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_the_third_moment_is_that_of_the_estimates(lam: float, target: Any) -> None:
    rng = np.random.default_rng(2)
    n_texts, n, n_draws = 80, 30, 20_000
    y = rng.gamma(0.2, size=(n_draws, n_texts))
    hat = 0.5 * y + rng.gamma(0.2, size=(n_draws, n_texts))
    codes, rest = y[:, :n], hat[:, :n]  # the texts are exchangeable
    estimates = lam * hat.mean(axis=1) + (codes - lam * rest).mean(axis=1)
    estimates -= 0.2 if target == "population" else y.mean(axis=1)
    moments = []
    for i in range(3000):
        study = problem_of(y[i], hat[i], np.arange(n), target)
        moments.append(np.concatenate(influences(study, lam).moments()))
    third, _, variance, _ = np.mean(moments, axis=0)
    variance *= n / (n - 1)
    assert variance == pytest.approx(estimates.var(), rel=0.06)
    skew = third * n**2 / (n - 1) / (n - 2) / variance**1.5
    assert skew == pytest.approx(stats.skew(estimates), abs=0.07)


@pytest.mark.parametrize("n", [100, 270])
@pytest.mark.parametrize("lam", [0.0, 1.0])
def test_the_covariance_with_the_variance_is_that_of_samples(lam: float, n: int) -> None:
    rng = np.random.default_rng(5)
    n_texts, n_draws = 300, 4000
    y = (rng.random(n_texts) < 0.1).astype(float)
    hat = np.where(rng.random(n_texts) < 0.5, y, 0.0)
    rest = y - lam * hat
    samples = np.empty((n_draws, 2))
    for i in range(n_draws):
        rows = rng.permutation(n_texts)[:n]
        samples[i] = rest[rows].mean(), rest[rows].var(ddof=1) * (1 - n / n_texts) / n
    covariance = np.cov(samples.T)[0, 1]
    rows = np.sort(rng.permutation(n_texts)[:n])
    _, joint, _, _ = influences(problem_of(y, hat, rows, "texts"), lam).moments()
    assert joint == pytest.approx(covariance, rel=0.35)


def test_a_sum_of_clusters_is_one_number() -> None:
    y = np.random.default_rng(3).lognormal(size=240)
    study = problem_of(y, np.zeros(240), np.arange(240))
    single = influences(study).codes_needed()
    alone = replace(study, clusters=np.arange(240))
    assert influences(alone).codes_needed() == pytest.approx(single)
    four = replace(study, clusters=np.arange(240) // 4)
    assert (influences(four).codes_needed() != single).all()


def test_two_values_and_constant_values_need_no_more() -> None:
    y = np.arange(200) % 50 == 0
    study = problem_of(y.astype(float), np.zeros(200), np.arange(100))
    assert np.isnan(influences(study).codes_needed()).all()
    whole = problem_of(np.arange(40.0), np.zeros(40), np.arange(40), "texts")
    assert influences(whole).codes_needed().tolist() == [0]


def test_the_note_names_method_group_and_numbers() -> None:
    needed = {"gold": np.array([700.0, 20.0]), "dsl": np.array([30.0, 40.0])}
    (note,) = note_on_skew("score", ["a", "b"], np.array([60.0, 29.0]), needed)
    assert "gold: a (60 codes, about 700 needed)." in note
    assert "dsl" not in note  # a group of 29 codes has a note of its own
    assert "b (" not in note
    assert (
        note_on_skew("score", [""], np.array([60.0]), {"gold": np.array([np.nan])}) == []
    )


def notes_of(values: np.ndarray, **options: Any) -> list[str]:
    """Return the notes on skewness of a mean by 100 of 400 codes."""
    rng = np.random.default_rng(4)
    data = {
        "label": (values * rng.uniform(0.1, 1, 400)).round(6).tolist(),  # too low
        "group": ["ab"[i % 2] for i in range(400)],
        "x": rng.normal(size=400).tolist(),
    }
    codes = [float(values[i]) if i % 4 < 2 else None for i in range(400)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimates = lh.estimate(data, codes, prob="simple", label="label", **options)
    return [note for note in estimates.notes if "so skewed" in note]


@pytest.mark.more(
    reason="simulates studies or compares with other packages on many samples", cases=1
)
@pytest.mark.parametrize(
    "options", [{"outcome": "mean"}, {"by": "group"}, {"formula": "label ~ x"}]
)
def test_means_of_heavy_tails_are_told(options: dict[str, Any]) -> None:
    """With the normal distribution no method has too few codes, with lognormal all."""
    rng = np.random.default_rng(5)
    assert notes_of(10 + rng.normal(size=400).round(6), **options) == []
    (note,) = notes_of(rng.lognormal(0, 1.5, 400).round(6), **options)
    methods = ("dsl", "gold") if "formula" in options else ("dsl", "ppi", "gold")
    assert all(f"{method}: " in note for method in methods)
    assert notes_of(rng.lognormal(0, 1.5, 400).round(6), outcome="median") == []


def test_only_the_skewed_group_is_named() -> None:
    rng = np.random.default_rng(6)
    values = np.where(
        np.arange(400) % 2, rng.lognormal(0, 1.5, 400), rng.normal(10, 1, 400)
    )
    (note,) = notes_of(values.round(6), by="group")
    assert "b (100 codes" in note
    assert "a (" not in note


@pytest.mark.parametrize(
    ("size", "n_seen", "weight", "is_told"),
    [
        (10.0, 0, 1.0, True),
        (10.0, 2, 1.0, False),
        (0.0, 0, 1.0, False),
        (10.0, 0, 1e-6, False),  # survey weights: these texts do not count
    ],
)
def test_extreme_labels_without_codes_are_told(
    size: float, n_seen: int, weight: float, *, is_told: bool
) -> None:
    """Codes alone do not show a tail that by chance they have not."""
    rng = np.random.default_rng(7)
    values = 10 + rng.normal(size=600)
    labels = values + rng.normal(size=600) / 2
    labels[100 - n_seen : 112 - n_seen] += size  # the first 100 have codes
    weights = np.ones(600)
    weights[100 - n_seen : 112 - n_seen] = weight
    codes = [*values[:100].tolist(), *[None] * 500]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fit = lh.estimate(
            {"label": labels.tolist()},
            codes,
            outcome="mean",
            prob="simple",
            weights=weights.tolist(),
        )
    assert any("few of the extreme ones" in note for note in fit.notes) == is_told


def test_three_equal_codes_of_a_group_show_no_difference() -> None:
    """Unseen cases of a small group had the mean size of those of all texts."""
    group = np.repeat(["large", "small"], [570, 30])
    codes = ["yes" if i % 3 == 0 else "no" for i in range(100)] + ["no"] * 3
    rows = [*range(100), 570, 571, 572]
    column: list[str | None] = [None] * 600
    for row, code in zip(rows, codes, strict=True):
        column[row] = code
    data = {"label": ["yes", "no"] * 300, "group": group.tolist()}
    data["p"] = np.where(group == "large", 100 / 570, 0.1).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimates = lh.estimate(
            data, column, outcome="yes", by="group", prob="p", methods=["gold"]
        )
    (row,) = [row for row in estimates.rows if row.term == "difference"]
    assert row.estimate == pytest.approx(-0.34)
    assert row.low < -0.34 < 0 < row.high


def test_an_unseen_case_on_a_slope_has_not_the_most_extreme_covariates() -> None:
    """It had, so that few texts with extreme covariates made intervals wide."""
    rng = np.random.default_rng(2)
    n_texts, rows = 2000, np.arange(200)
    y = (rng.random(n_texts) < 0.3).astype(np.float64)
    sizes = {}
    for far in (0.0, 30.0):
        x = np.column_stack([np.ones(n_texts), rng.choice([-1.0, 1.0], n_texts)])
        x[-20:, 1] += far  # not coded
        study = replace(problem_of(y, y, rows), x_hat=x, x=x[rows])
        effects = Influences.of(study, 1.0, dsl.solution_at(study, 1.0), np.eye(2))
        (case, _) = effects.cases((0.0, 1.0), 0.95)
        pull = np.abs(x[:, 1] - x[:, 1].mean()) / ((x[:, 1] - x[:, 1].mean()) ** 2).sum()
        usual = np.sqrt((pull**2).mean()) * n_texts / len(rows)
        sizes[far] = case.size[1] / usual
    assert sizes[0.0] == pytest.approx(1, rel=0.05)
    assert sizes[30.0] == pytest.approx(1, abs=0.5)  # of the farthest: 9
