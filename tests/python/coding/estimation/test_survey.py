"""Tests of survey weights, against statsmodels and formulas."""

from __future__ import annotations

from typing import Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

# The samples are small, so estimate() warns.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N = 300
RNG = np.random.default_rng(2)
CODE = RNG.choice(["no", "yes"], N, p=[0.6, 0.4])
DATA = pd.DataFrame(
    {
        "id": range(N),
        "label": np.where(RNG.random(N) < 0.25, "no", CODE),
        "age": RNG.normal(size=N),
        "w": RNG.choice([0.5, 1.0, 4.0], N),
    }
)
YES, HAT = CODE == "yes", (DATA["label"] == "yes").to_numpy()
W = DATA["w"].to_numpy()


def gold(n: int = 100, **options: Any) -> lh.GoldSample:
    drawn = lh.gold_sample(DATA, n, label="label", id="id", seed=3, **options)
    return drawn.with_codes(CODE[drawn.rows].tolist())


def test_regressions_are_those_of_weighted_least_squares() -> None:
    estimates = lh.estimate(DATA, gold(), "label == 'yes' ~ age", weights="w")
    x = sm.add_constant(DATA["age"].to_numpy())
    fit = sm.WLS(HAT.astype(float), x, weights=W).fit(cov_type="HC1")
    naive = estimates.by("naive")
    assert [row.estimate for row in naive] == pytest.approx(fit.params)
    assert [row.std_error for row in naive] == pytest.approx(fit.bse)


def test_shares_are_weighted_by_both() -> None:
    sample = gold()
    at = sample.rows
    estimates = lh.estimate(DATA, sample, outcome="yes", weights=W.tolist())
    by = {row.method: row.estimate for row in estimates.rows}
    v = W[at] / sample.probs
    assert by["gold"] == pytest.approx(v @ YES[at] / v.sum())
    correction = v @ (1.0 * YES[at] - HAT[at]) / W.sum()
    assert by["dsl"] == pytest.approx(W @ HAT / W.sum() + correction)
    assert by["naive"] == pytest.approx(W @ HAT / W.sum())


def test_the_variance_is_that_of_a_weighted_mean_if_all_are_coded() -> None:
    estimates = lh.estimate(
        DATA, CODE.tolist(), outcome="yes", weights="w", prob="simple", methods=["gold"]
    )
    p = W @ YES / W.sum()
    variance = ((W * (YES - p)) ** 2).sum() / W.sum() ** 2
    assert estimates.rows[0].std_error == pytest.approx(np.sqrt(variance))


@pytest.mark.parametrize("unit", [1e-9, 1000.0, 1e9])
@pytest.mark.parametrize("formula", [None, "label == 'yes' ~ age"])
def test_their_scale_does_not_matter(formula: str | None, unit: float) -> None:
    sample = gold()
    options: dict[str, Any] = {} if formula is None else {"model": "logit"}
    one, other = (
        lh.estimate(DATA, sample, formula, weights=(times * W).tolist(), **options)
        for times in (1.0, unit)
    )
    assert one.notes == other.notes
    for a, b in zip(one.rows, other.rows, strict=True):
        assert (a.estimate, a.low, a.high) == pytest.approx((b.estimate, b.low, b.high))


def test_equal_weights_are_none() -> None:
    sample = gold()
    equal = lh.estimate(DATA, sample, weights=[2.0] * N, methods=["dsl", "gold"])
    plain = lh.estimate(DATA, sample, methods=["dsl", "gold"])
    for a, b in zip(equal.rows, plain.rows, strict=True):
        assert (a.estimate, a.low, a.high) == pytest.approx((b.estimate, b.low, b.high))


def test_texts_of_weight_0_are_left_out() -> None:
    sample = gold()
    weights = np.where(DATA["age"] > 0, 1.0, 0.0)
    estimates = lh.estimate(DATA, sample, outcome="yes", weights=weights.tolist())
    part = lh.estimate(DATA[DATA["age"] > 0], sample, outcome="yes")
    assert estimates.n_texts == int(weights.sum())
    for one, other in zip(estimates.by("dsl"), part.by("dsl"), strict=True):
        assert one.estimate == pytest.approx(other.estimate)


@pytest.mark.parametrize("by", [None, "label"])
def test_few_large_weights_are_named(by: str | None) -> None:
    sample = gold(by=by)
    for sigma, is_warned in ((0.3, False), (1.5, True)):
        weights = np.exp(np.random.default_rng(1).normal(0, sigma, N)).tolist()
        notes = lh.estimate(DATA, sample, outcome="yes", weights=weights).notes
        unequal = [note for note in notes if "very unequal weights: 100 codes" in note]
        assert bool(unequal) == is_warned
        assert all("large survey weights more often" in note for note in unequal)


def test_accuracy_is_weighted_too() -> None:
    sample = gold()
    validation = lh.validate(DATA, sample, label="label", weights="w")
    v = W[sample.rows] / sample.probs
    right = (YES == HAT)[sample.rows]
    assert validation.accuracy.accuracy.value == pytest.approx(v @ right / v.sum())
    assert validation.is_weighted
    alone = lh.validate(DATA, CODE.tolist(), label="label", weights="w")
    assert alone.accuracy.accuracy.value == pytest.approx(W @ (YES == HAT) / W.sum())


def test_samples_are_drawn_by_weights() -> None:
    sample = gold(30, prob="weights", weights="w", floor=0.0)
    assert sample.all_probs == pytest.approx(30 * W / W.sum())
    assert sample.design["kind"] == "weights"
    estimates = lh.estimate(DATA, sample, outcome="yes", weights="w", methods=["gold"])
    assert estimates.rows[0].estimate == pytest.approx(YES[sample.rows].mean())


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ([1.0] * (N - 1), "300 values"),
        ([-1.0] + [1.0] * (N - 1), "at least 0, not -1"),
        ([1e-300] * N, "maximum between"),
        ([1e300] + [1.0] * (N - 1), "maximum between"),
        ([None] + [1.0] * (N - 1), "at least 0, not missing"),
        ([0.0] * N, "above 0"),
        ("size", "size"),
    ],
)
def test_what_is_no_weight_is_refused(weights: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        lh.estimate(DATA, gold(), weights=weights)
    with pytest.raises(ValueError, match=match):
        lh.validate(DATA, gold(), label="label", weights=weights)


def test_weights_are_for_their_design() -> None:
    with pytest.raises(ValueError, match="weights"):
        lh.gold_sample(DATA, 10, label="label", weights="w")
    with pytest.raises(ValueError, match="survey weights"):
        lh.gold_sample(DATA, 10, label="label", prob="weights")
