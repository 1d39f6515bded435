"""Tests of agreement of numbers, against published values, scipy and krippendorff."""

from __future__ import annotations

import math

import krippendorff
import numpy as np
import pytest
from llamaherd.coding.statistics.number_agreement import number_agreement
from scipy import stats

# Shrout and Fleiss, Psychological Bulletin 86, 1979, table 2: six targets, four judges.
JUDGES = [[9, 6, 8, 7, 10, 6], [2, 1, 4, 1, 5, 2], [5, 3, 6, 2, 6, 4], [8, 2, 8, 6, 9, 7]]
RNG = np.random.default_rng(3)
PEOPLE = RNG.integers(0, 11, 40).astype(float)
MODEL = np.clip(np.round(PEOPLE + RNG.normal(0.5, 2, 40)), 0, 10)


def test_icc_is_that_of_shrout_and_fleiss() -> None:
    agreement = number_agreement(JUDGES)
    assert agreement.icc.value == pytest.approx(0.2898, abs=5e-5)  # ICC(2,1) = .29
    assert (agreement.n, agreement.n_raters) == (6, 4)
    assert agreement.pearson is None
    assert list(agreement.measures) == ["icc", "alpha"]


@pytest.mark.parametrize("ratings", [JUDGES, [MODEL, PEOPLE]])
def test_alpha_is_that_of_krippendorff(ratings: list[list[float]]) -> None:
    expected = krippendorff.alpha(
        reliability_data=np.array(ratings, dtype=float), level_of_measurement="interval"
    )
    assert number_agreement(ratings).alpha.value == pytest.approx(expected)


def test_correlations_and_errors_are_those_of_scipy_and_numpy() -> None:
    pair = number_agreement([MODEL, PEOPLE])
    measures = {name: measure.value for name, measure in pair.measures.items()}
    away = MODEL - PEOPLE
    assert measures["pearson"] == pytest.approx(stats.pearsonr(MODEL, PEOPLE)[0])
    assert measures["spearman"] == pytest.approx(stats.spearmanr(MODEL, PEOPLE)[0])
    assert measures["rmse"] == pytest.approx(math.sqrt((away**2).mean()))
    assert measures["mae"] == pytest.approx(abs(away).mean())
    assert measures["bias"] == pytest.approx(away.mean())
    assert pair.limits == pytest.approx(
        (away.mean() - 1.96 * away.std(ddof=1), away.mean() + 1.96 * away.std(ddof=1))
    )
    low, high = stats.pearsonr(MODEL, PEOPLE).confidence_interval()
    assert pair.pearson is not None
    assert (pair.pearson.low, pair.pearson.high) == pytest.approx((low, high), abs=0.07)
    assert pair.bias is not None
    reach = stats.t.ppf(0.975, 39) * away.std(ddof=1) / math.sqrt(40)
    assert pair.bias.high - pair.bias.value == pytest.approx(reach)


@pytest.mark.parametrize("name", ["pearson", "spearman", "icc", "alpha", "rmse"])
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_are_those_of_the_derivatives_by_weights(
    name: str, weighted: bool
) -> None:
    """The derivatives are those of small changes of each weight."""
    scale = math.log if name == "rmse" else math.atanh
    w = RNG.uniform(1, 4, 40) if weighted else np.ones(40)
    measure = number_agreement([MODEL, PEOPLE], unit_weights=w).measures[name]
    influences = []
    for i in range(40):
        moved = [
            number_agreement(
                [MODEL, PEOPLE], unit_weights=w * (1 + sign * 1e-5 * (np.arange(40) == i))
            )
            for sign in (1, -1)
        ]
        one, other = (scale(agreement.measures[name].value) for agreement in moved)
        influences.append((one - other) / 2e-5)
    spread = math.sqrt(40 / 39 * (np.array(influences) ** 2).sum())
    reach = (scale(measure.high) - scale(measure.low)) / 2
    kurtosis = stats.kurtosis(influences, fisher=False)
    df = 2 / (kurtosis / 40 - 37 / (40 * 39))  # 2 s^4 / Var(s^2)
    df = min(df, w.sum() ** 2 / (w**2).sum() - 1)
    assert reach == pytest.approx(stats.t.ppf(0.975, df) * spread, rel=1e-4)


@pytest.mark.parametrize("name", ["pearson", "spearman", "icc", "alpha", "rmse", "mae"])
def test_a_weight_counts_as_often_as_a_unit(name: str) -> None:
    times = RNG.integers(1, 4, 40)
    weighted = number_agreement([MODEL, PEOPLE], unit_weights=times.tolist())
    repeated = number_agreement([np.repeat(MODEL, times), np.repeat(PEOPLE, times)])
    one, other = weighted.measures[name], repeated.measures[name]
    # ICC and alpha correct for the number of units, which weights do not change.
    assert one.value == pytest.approx(other.value, abs=0.01)
    assert one.high - one.low > other.high - other.low


@pytest.mark.parametrize("name", ["pearson", "icc", "rmse"])
def test_intervals_hold_where_numbers_are_at_the_ends_of_a_scale(name: str) -> None:
    rng = np.random.default_rng(11)

    def rated(n: int) -> np.ndarray:
        right = rng.choice([0.0, 3.0, 7.0, 10.0], n, p=[0.4, 0.2, 0.2, 0.2])
        error = rng.normal(0, 1.5, n) * (rng.random(n) < 0.5)
        return np.stack([right, np.clip(np.round(right + error), 0, 10)])

    truth = number_agreement(rated(200_000)).measures[name].value
    inside = 0
    for _ in range(300):
        measure = number_agreement(rated(60)).measures[name]
        inside += measure.low <= truth <= measure.high
    assert inside >= 276  # 92%, where 95% is expected: 2.4 standard errors


def test_missing_and_degenerate_numbers() -> None:
    nan = math.nan
    agreement = number_agreement([[1, 2, nan, 4, 5], [1, nan, 3, 4, 6]])
    assert agreement.n == 3
    constant = number_agreement([[1, 1, 1, 1], [1, 2, 3, 4]])
    assert constant.pearson is not None
    assert math.isnan(constant.pearson.value)
    assert math.isnan(constant.pearson.low)
    equal = number_agreement([[1, 2, 3], [1, 2, 3]])
    assert equal.icc.value == pytest.approx(1)
    assert math.isnan(equal.icc.low)
    assert equal.rmse is not None
    assert equal.rmse.value == 0
    few = number_agreement([[1.0], [2.0]])
    assert few.n == 1
    assert math.isnan(few.icc.value)
    assert few.bias is not None
    assert few.bias.value == -1
    empty = number_agreement(np.empty((2, 0)))
    assert empty.n == 0
    assert math.isnan(empty.icc.value)


def test_wrong_ratings_are_refused() -> None:
    with pytest.raises(ValueError, match="ratings must be numbers of two raters"):
        number_agreement([[1.0, 2.0]])
    with pytest.raises(ValueError, match="unit_weights"):
        number_agreement([[1.0, 2.0], [1.0, 2.0]], unit_weights=[1.0])
