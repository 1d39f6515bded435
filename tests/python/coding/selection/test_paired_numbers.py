"""Tests of numbers of several raters, compared with the right numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from llamaherd.coding.gold.size import gold_size
from llamaherd.coding.selection.measures import UnitNumbers, compare_numbers
from llamaherd.coding.statistics.number_agreement import number_agreement
from statsmodels.stats.power import TTestPower


def rated(rng: np.random.Generator, n: int, spreads: tuple[float, ...]) -> Any:
    """Return right numbers, and numbers with errors that have a shared part."""
    truth = rng.normal(5, 2, n)
    shared = rng.normal(0, 0.5, n)
    return truth, [truth + shared + rng.normal(0, spread, n) for spread in spreads]


def units(truth: Any, weights: Any = None) -> UnitNumbers:
    n = len(truth)
    return UnitNumbers(
        numbers=truth,
        weights=np.ones(n) if weights is None else weights,
        strata=np.zeros(n, dtype=np.int64),
        ends=(0.0, 10.0),
    )


def test_values_are_those_of_validate() -> None:
    rng = np.random.default_rng(1)
    truth, given = rated(rng, 60, (0.5, 1.0))
    w = rng.uniform(1, 9, 60)
    found = compare_numbers(given, units(truth, w))
    for own, value in zip(given, found.values, strict=True):
        assert value == number_agreement([own, truth], unit_weights=w).mae
        assert value.value == pytest.approx(np.average(abs(own - truth), weights=w))
    (pair,) = found.differences
    assert pair.value == pytest.approx(found.values[0].value - found.values[1].value)
    assert pair.low < pair.value < pair.high
    assert pair.differ == pytest.approx(1)


def test_the_difference_of_mean_errors_is_a_paired_t_test() -> None:
    rng = np.random.default_rng(3)
    truth, given = rated(rng, 40, (0.5, 1.0))
    (pair,) = compare_numbers(given, units(truth)).differences
    apart = abs(given[0] - truth) - abs(given[1] - truth)
    # scipy.stats.ttest_rel has the same interval; the t quantile with 39 degrees of
    # freedom is 2.0227
    reach = 2.022691 * apart.std(ddof=1) / math.sqrt(40)
    assert (pair.low, pair.high) == pytest.approx(
        (apart.mean() - reach, apart.mean() + reach), rel=1e-6
    )


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_intervals_hold_for_correlated_raters() -> None:
    rng = np.random.default_rng(4)
    one, other = (math.sqrt(0.25 + spread**2) for spread in (0.6, 0.9))
    wanted = (one - other) * math.sqrt(2 / math.pi)
    draws = 600
    inside = 0
    for _ in range(draws):
        truth, given = rated(rng, 120, (0.6, 0.9))
        (pair,) = compare_numbers(given, units(truth)).differences
        inside += pair.low <= wanted <= pair.high
    assert 0.92 < inside / draws < 0.98  # 0.95 is expected, with the standard error 0.009


def test_simultaneous_intervals_are_wider() -> None:
    truth, given = rated(np.random.default_rng(6), 80, (0.5, 0.6, 0.7, 0.8))
    each = compare_numbers(given, units(truth), adjust="none")
    together = compare_numbers(given, units(truth), adjust="bonferroni")
    for one, other in zip(each.differences, together.differences, strict=True):
        assert other.low < one.low
        assert one.high < other.high
    assert together.values == each.values


def test_a_missing_number_is_the_farther_end() -> None:
    truth = np.array([1.0, 9.0, 5.0, 4.0])
    found = compare_numbers([np.array([1.0, np.nan, 5.0, np.nan])], units(truth))
    assert found.values[0].value == pytest.approx((9 + 6) / 4)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_units_show_no_difference(n: int) -> None:
    """Two units gave intervals of width 0, and one unit a warning of numpy."""
    truth = np.array([1.0, 3.0, 4.0])[:n]
    given = [np.array([1.0, 2.0, 3.0])[:n], np.array([2.0, 1.0, 0.0])[:n]]
    (pair,) = compare_numbers(given, units(truth)).differences
    assert not pair.is_clear or pair.low < pair.high
    if n == 1:
        assert math.isnan(pair.high)
    several = compare_numbers([*given, truth], units(truth))
    assert not any(each.low == each.high != 0 for each in several.differences)


def test_a_difference_without_variance_has_no_limits() -> None:
    truth = np.arange(1.0, 9.0)
    given = [truth + 1, truth]
    (pair,) = compare_numbers(given, units(truth)).differences
    assert abs(pair.value) >= 1
    assert math.isnan(pair.low)
    assert not pair.is_clear


@pytest.mark.parametrize(("compare", "spread"), [(0.5, 1.0), (0.1, 0.9), (1.0, 1.5)])
def test_size_equals_the_exact_size_of_a_t_test(compare: float, spread: float) -> None:
    exact = TTestPower().solve_power(compare / spread, power=0.8, alpha=0.05)
    size = gold_size(compare=compare, measure="mae", spread=spread)
    assert abs(size.gold - exact) <= 1.5
    exact = TTestPower().solve_power(compare / spread, power=0.9, alpha=0.05 / 10)
    size = gold_size(
        compare=compare, measure="mae", spread=spread, power=0.9, candidates=5
    )
    assert abs(size.gold - exact) <= 2.5


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_size_of_numbers_has_the_power_that_it_promises() -> None:
    """Spreads of errors are 1.5 and 1.8, their correlation is 0.6."""
    small, large, r = 1.5, 1.8, 0.6
    mean = 1.65
    apart = (large - small) * np.sqrt(2 / np.pi)
    size = gold_size(compare=apart, measure="mae", error=mean, correlation=r)
    assert str(size).splitlines()[1].startswith(f"  {size.gold} texts to compare on")
    found = []
    rng = np.random.default_rng(11)
    for _ in range(400):
        errors = rng.multivariate_normal([0, 0], [[1, r], [r, 1]], size.gold).T
        numbers = rng.normal(5, 2, size.gold)
        units = UnitNumbers(
            numbers=numbers,
            weights=np.ones(size.gold),
            strata=np.zeros(size.gold, dtype=np.int64),
            ends=(-100, 100),
        )
        given = [numbers + small * errors[0], numbers + large * errors[1]]
        found.append(compare_numbers(given, units).differences[0].high < 0)
    assert np.mean(found) == pytest.approx(0.8, abs=0.06)


def test_spread_of_numbers_is_that_of_the_differences() -> None:
    rng = np.random.default_rng(12)
    for r in (-0.5, 0.0, 0.8):
        errors = 2 * rng.multivariate_normal([0, 0], [[1, r], [r, 1]], 400_000).T
        size = gold_size(compare=0.1, measure="mae", error=2, correlation=r)
        assert size.spread == pytest.approx(
            np.std(np.diff(abs(errors), axis=0)), rel=0.01
        )


def test_sizes_of_numbers_refused() -> None:
    with pytest.raises(ValueError, match="error or spread must be given for mae"):
        gold_size(compare=0.2, measure="mae")
    with pytest.raises(ValueError, match="no effect with compare: it is for measure mae"):
        gold_size(compare=0.2, spread=1)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="measure must be one of 'accuracy', 'mae', not"):
        gold_size(compare=0.1, measure="rmse", spread=1)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="measure has no effect with width"):
        gold_size(0.1, measure="mae")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"width": 0.1, "power": 0.9}, "power has no effect with width: it is for comp"),
        ({"width": 0.1, "candidates": 3}, "candidates has no effect with width"),
        ({"width": 0.1, "differ": 0.1}, "differ has no effect with width"),
        ({"width": 0.1, "correlation": 0.2}, "correlation has no effect with width"),
        ({"compare": 0.1, "share": 0.2}, "share has no effect with compare: it is for w"),
        ({"compare": 0.1, "population": 500}, "population has no effect with compare"),
        ({"compare": 0.1, "target": "texts"}, "target has no effect with compare"),
        (
            {"compare": 0.1, "measure": "mae", "error": 1, "differ": 0.1},
            "differ has no effect with measure mae: it is for compare",
        ),
        (
            {"compare": 0.1, "measure": "mae", "spread": 1, "correlation": 0.2},
            "correlation has no effect without error",
        ),
    ],
)
def test_sizes_refuse_what_has_no_effect(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        gold_size(**options)
