"""Tests of limits that include errors which few codes could show."""

from __future__ import annotations

from typing import Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.research.statistics import (
    cohen_kappa,
    counts,
    gwet_ac1,
    krippendorff_alpha,
    unseen,
)
from scipy.stats import binomtest

N, N_CODES = 4000, 100


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval", "ratio"])
def test_coefficients_of_a_table_are_those_of_codes(scale: Any) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        k = int(rng.integers(2, 5))
        codes = rng.integers(0, k, (2, 40))
        codes[0, :k] = codes[1, :k] = np.arange(k)
        weights = rng.uniform(0.2, 5, 40)
        table = np.bincount(codes[0] * k + codes[1], weights, minlength=k * k)
        apart = np.abs(np.subtract.outer(np.arange(k), np.arange(k))).astype(float)
        values = list(range(1, k + 1))
        found = unseen.coefficients(table.reshape(1, k, k), apart, scale, values, 40)[0]
        rows = (codes + 1).tolist()
        kappa = cohen_kappa(*rows, unit_weights=weights)
        quadratic = cohen_kappa(*rows, weights="quadratic", unit_weights=weights)
        alpha = krippendorff_alpha(rows, scale=scale, unit_weights=weights, n_bootstrap=0)
        ac1 = gwet_ac1(rows, unit_weights=weights)
        wanted = {
            coefficient.name: coefficient.value
            for coefficient in (kappa, quadratic, alpha, ac1)
        }
        assert found == pytest.approx([wanted[name] for name in unseen.names(scale)])


def test_equal_weights_and_many_errors_move_no_limit() -> None:
    rng = np.random.default_rng(1)
    given, gold = rng.integers(0, 2, (2, 200))
    even = np.ones(200)
    assert unseen.distances(given, gold, even, 2, 0.95, unseen.f1_scores) is None
    # Products of a weight and its reciprocal are equal but for rounding.
    weights = rng.uniform(1, 9, 200)
    rounded = weights / 3 * (3 / weights)
    assert np.ptp(rounded) > 0
    gold = given.copy()
    assert unseen.distances(given, gold, rounded, 2, 0.95, unseen.f1_scores) is None
    gold = rng.integers(0, 2, 200)
    uneven = rng.uniform(1, 5, 200)
    assert unseen.distances(given, gold, uneven, 2, 0.95, unseen.f1_scores) is None


def test_the_unit_of_weights_does_not_matter() -> None:
    rng = np.random.default_rng(2)
    given = rng.integers(0, 3, 60)
    gold = np.where(rng.random(60) < 0.9, given, 0)
    weights = rng.uniform(1, 9, 60)
    one, other = (
        unseen.distances(given, gold, unit * weights, 3, 0.95, unseen.f1_scores)
        for unit in (1.0, 250.0)
    )
    assert one is not None
    assert other is not None
    np.testing.assert_allclose(one, other)
    assert (one[0] > 0).all()


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_intervals_of_a_rare_label_hold() -> None:
    """Before, 95% intervals of all three coefficients held in half of the samples."""
    rng = np.random.default_rng(0)
    gold = rng.random(N) < 0.03
    given = np.where(gold, rng.random(N) < 0.8, rng.random(N) < 0.01)
    names = np.array(["no", "yes"])
    data = {
        "text": [f"text {i}" for i in range(N)],
        "label": names[given.astype(int)].tolist(),
    }
    codes = names[gold.astype(int)].tolist()
    truth = {
        "kappa": cohen_kappa(data["label"], codes).value,
        "alpha": krippendorff_alpha([data["label"], codes], n_bootstrap=0).value,
        "ac1": gwet_ac1([data["label"], codes]).value,
    }
    held = dict.fromkeys(truth, 0)
    n_draws = 40
    for seed in range(n_draws):
        drawn = lh.gold_sample(
            data, 2 * N_CODES, by="label", allocation="equal", text="text", label="label",
            seed=seed,
        )  # fmt: skip
        found = lh.validate(
            data, drawn.with_codes([codes[row] for row in drawn.rows]), n_bootstrap=200
        )
        for each in found.model_agreement[1:]:
            held[each.name] += each.low <= truth[each.name] <= each.high
    assert min(held.values()) / n_draws >= 0.875


@pytest.mark.parametrize(("k", "n"), [(0, 50), (1, 40), (7, 200), (40, 40)])
def test_a_total_with_equal_weights_has_wilsons_limits(k: int, n: int) -> None:
    weight = 20.0
    found = counts.total(np.full(k, weight), weight, n * weight, 0.95)
    wanted = binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert found.high / (n * weight) == pytest.approx(wanted.high)
    assert found.low / (n * weight) == pytest.approx(wanted.low)


def test_a_ratio_is_fiellers_where_limits_are_symmetric() -> None:
    above = counts.ConfidenceLimits(value=3.0, low=2.0, high=4.0)
    below = counts.ConfidenceLimits(value=10.0, low=8.0, high=12.0)
    found = counts.ratio(above, below)
    for each in (found.low, found.high):  # (3 - r 10)^2 = 1 + r^2 4
        assert (3 - each * 10) ** 2 == pytest.approx(1 + 4 * each**2)
    none = counts.ConfidenceLimits(value=0.0, low=0.0, high=0.0)
    assert counts.ratio(above, none).high == np.inf
