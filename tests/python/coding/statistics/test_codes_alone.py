"""Numbers of codes with which codes alone would have a given variance."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.coding.statistics.dsl import Problem, gold_alone
from llamaherd.coding.statistics.label_weight import (
    codes_alone,
)

SIZES, DRAWN = (60, 600), (30, 60)  # half and a tenth of two strata
N, N_CODES = sum(SIZES), sum(DRAWN)
STRATA = np.repeat([0, 1], SIZES)
CODES = np.concatenate([np.arange(60) % 2, np.arange(600) % 5 == 0]).astype(float)
ROWS = np.concatenate([np.arange(30), 60 + np.arange(60)])
PROBS = np.repeat([30 / 60, 60 / 600], SIZES)


def problem_of(*, by_stratum: bool = False, target: Any = "texts") -> Problem:
    """Return the mean of all texts, or of each stratum, by codes of a stratified draw."""
    x = np.eye(2)[STRATA] if by_stratum else np.ones((N, 1))
    return Problem(
        kind="ols",
        x_hat=x,
        y_hat=np.zeros(N),
        rows=ROWS,
        x=x[ROWS],
        y=CODES[ROWS],
        probs=PROBS[ROWS],
        strata=STRATA[ROWS],
        all_probs=PROBS,
        all_strata=STRATA,
        target=target,
    )


def drawn_variance(k: float, rng: np.random.Generator, n_draws: int = 4000) -> float:
    """Return the variance of the stratified mean over draws of k times as many codes."""
    means = np.zeros(n_draws)
    for h, (size, n) in enumerate(zip(SIZES, DRAWN, strict=True)):
        own = CODES[h == STRATA]
        each = rng.permuted(np.tile(own, (n_draws, 1)), axis=1)
        means += size / N * each[:, : min(round(k * n), size)].mean(axis=1)
    return float(means.var())


def n_coded(k: float) -> float:
    """Return how many texts are coded if k times as many are drawn."""
    return sum(min(k * n, size) for size, n in zip(SIZES, DRAWN, strict=True))


@pytest.mark.parametrize("k", [0.5, 1.5, 3.0, 6.0])
def test_each_stratum_has_its_own_correction(k: float) -> None:
    """From k = 2 on, the first stratum is coded completely and has no variance."""
    rng = np.random.default_rng(1)
    found = codes_alone(problem_of(), {("y", "share", ""): np.ones(1)})
    ratio = drawn_variance(k, rng) / drawn_variance(1.0, rng)
    assert found.needed(("y", "share", ""), ratio) == pytest.approx(n_coded(k), rel=0.06)


@pytest.mark.parametrize(("h", "key"), [(0, "a"), (1, "b")])
def test_a_group_has_the_correction_of_its_own_strata(h: int, key: str) -> None:
    ways = {("y", "share", name): np.eye(2)[i] for i, name in enumerate("ab")}
    found = codes_alone(problem_of(by_stratum=True), ways)
    for k in (0.4, 1.0, 1.5):
        ratio = (1 / (k * DRAWN[h]) - 1 / SIZES[h]) / (1 / DRAWN[h] - 1 / SIZES[h])
        assert found.needed(("y", "share", key), ratio) == pytest.approx(n_coded(k))


def test_the_variance_of_a_population_keeps_the_part_between_strata() -> None:
    """It is fixed + sum W^2 S^2 / (k n): more codes do not reduce the first part."""
    made = problem_of(target="population")
    found = codes_alone(made, {("y", "share", ""): np.ones(1)})
    weights = np.array(SIZES) / N
    own = [CODES[ROWS][h == STRATA[ROWS]] for h in (0, 1)]
    mean = weights @ [each.mean() for each in own]
    between = sum(
        w * (each.mean() - mean) ** 2 for w, each in zip(weights, own, strict=True)
    )
    within = sum(
        w**2 * each.var(ddof=1) / n
        for w, each, n in zip(weights, own, DRAWN, strict=True)
    )
    whole = float(gold_alone(made).covariance[0, 0])
    assert whole == pytest.approx(between / N + within, rel=0.01)
    for k in (0.5, 1.5):
        ratio = (between / N + within / k) / (between / N + within)
        key = ("y", "share", "")
        assert found.needed(key, ratio) == pytest.approx(n_coded(k), rel=0.02)


def test_no_more_codes_than_texts_are_needed() -> None:
    found = codes_alone(problem_of(), {("y", "share", ""): np.ones(1)})
    assert found.needed(("y", "share", ""), 1e-12) == pytest.approx(N)
    whole = codes_alone(problem_of(target="population"), {("y", "", ""): np.ones(1)})
    assert whole.needed(("y", "", ""), 1e-12) == pytest.approx(N)
    assert math.isnan(found.needed(("y", "share", "other"), 1.0))


def test_a_simple_sample_has_the_two_known_formulas() -> None:
    rows = np.arange(0, N, 6)
    simple = replace(
        problem_of(),
        rows=rows,
        x=np.ones((len(rows), 1)),
        y=CODES[rows],
        probs=np.full(len(rows), 1 / 6),
        strata=np.zeros(len(rows), dtype=np.int64),
        all_probs=np.full(N, 1 / 6),
        all_strata=np.zeros(N, dtype=np.int64),
    )
    n, key = len(rows), ("y", "share", "")
    here = codes_alone(simple, {key: np.ones(1)})
    there = codes_alone(replace(simple, target="population"), {key: np.ones(1)})
    for ratio in (0.3, 1.0, 2.5):
        wanted = 1 / (1 / N + (1 / n - 1 / N) * ratio)
        assert here.needed(key, ratio) == pytest.approx(wanted)
        assert there.needed(key, ratio) == pytest.approx(n / ratio, rel=0.01)


@pytest.mark.parametrize("target", ["texts", "population"])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("fixed_size", [False, True])
def test_the_parts_are_those_of_the_variance(
    target: str, *, clustered: bool, fixed_size: bool
) -> None:
    """At k = 1, whatever the design, the number is the number of codes."""
    if clustered and target == "texts":
        target = "population"
    made = replace(
        problem_of(by_stratum=True, target=target),
        strata=STRATA[ROWS] if fixed_size else None,
        clusters=np.arange(N) % 30 if clustered else None,
        weights=1 + np.arange(N) % 3 / 2,
    )
    key = ("y", "difference", "b - a")
    found = codes_alone(made, {key: np.array([-1.0, 1.0])})
    assert found.variances[key].ratio(1.0) == pytest.approx(1)
    assert found.needed(key, 1.0) == pytest.approx(N_CODES)


@pytest.mark.filterwarnings("ignore:.*code more texts:UserWarning")
def test_quantiles_and_regressions_have_a_worth() -> None:
    rng = np.random.default_rng(3)
    code = rng.normal(size=400)
    data = {
        "label": (code + rng.normal(size=400) / 2).round(4),
        "x": rng.normal(size=400),
        "group": ["ab"[i // 8 % 2] for i in range(400)],
    }
    codes = [code[i].round(4) if i % 4 == 0 else None for i in range(400)]
    options: dict[str, Any] = {"prob": "simple", "label": "label"}
    for found in (
        lh.estimate(data, codes, outcome="median", by="group", **options),
        lh.estimate(data, codes, "label ~ x", **options),
    ):
        assert found.gold_worth("gold") == pytest.approx(100)
        assert 0 < found.gold_worth("dsl") <= 400


@pytest.mark.parametrize("seed", range(20))
def test_no_number_of_codes_is_needed_if_all_texts_of_a_group_are_coded(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    n_of = {"a": 60, "b": 20, "c": 12}
    groups = np.repeat(list(n_of), [200, 20, 12])
    labels = rng.choice(["yes", "no"], len(groups)).tolist()
    data = {"label": labels, "group": groups.tolist()}
    gold = lh.gold_sample(data, 92, "group", allocation=n_of, seed=seed)
    gold = gold.with_codes(rng.choice(["yes", "no"], 92).tolist())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = lh.estimate(data, gold, by="group")
        assert str(found)
        whole = {"label": labels[:40]}
        codes = rng.choice(["yes", "no"], 40).tolist()
        every = lh.estimate(whole, codes, prob="simple")
    assert str(every)
    assert math.isnan(every.gold_worth("dsl"))
