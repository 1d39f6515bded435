"""Tests of numbers of several raters, compared with the right numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from llamaherd.research.statistics import paired_numbers
from llamaherd.research.statistics.gold_size import gold_size
from llamaherd.research.statistics.number_agreement import number_agreement
from llamaherd.research.statistics.paired_number_size import number_size
from llamaherd.research.statistics.paired_numbers import (
    NUMBER_MEASURES,
    NumberMeasure,
    UnitNumbers,
    compare_numbers,
)
from statsmodels.stats.power import TTestPower


def rated(rng: np.random.Generator, n: int, spreads: tuple[float, ...]) -> Any:
    """Return right numbers, and numbers with errors that have a shared part."""
    truth = rng.normal(5, 2, n)
    shared = rng.normal(0, 0.5, n)
    return truth, [truth + shared + rng.normal(0, spread, n) for spread in spreads]


def units(
    truth: Any, weights: Any = None, strata: Any = None
) -> paired_numbers.UnitNumbers:
    n = len(truth)
    return paired_numbers.UnitNumbers(
        numbers=truth,
        weights=np.ones(n) if weights is None else weights,
        strata=np.zeros(n, dtype=np.int64) if strata is None else strata,
        ends=(0.0, 10.0),
    )


def test_values_are_those_of_validate() -> None:
    rng = np.random.default_rng(1)
    truth, given = rated(rng, 60, (0.5, 1.0))
    w = rng.uniform(1, 9, 60)
    for measure in NUMBER_MEASURES:
        found = compare_numbers(given, units(truth, w), measure)
        for own, value in zip(given, found.values, strict=True):
            wanted = number_agreement([own, truth], unit_weights=w).measures[measure]
            assert value == wanted
        (pair,) = found.differences
        assert pair.value == pytest.approx(found.values[0].value - found.values[1].value)
        assert pair.low < pair.value < pair.high
        assert pair.differ == pytest.approx(1)
    error = abs(given[0] - truth)
    mae = compare_numbers(given, units(truth, w), "mae").values[0]
    assert mae.value == pytest.approx(np.average(error, weights=w))


@pytest.mark.parametrize("measure", NUMBER_MEASURES)
def test_influences_are_those_of_the_stratified_jackknife(measure: NumberMeasure) -> None:
    rng = np.random.default_rng(2)
    truth, (given,) = rated(rng, 31, (1.0,))
    w = rng.uniform(1, 5, 31)
    strata = np.array([3] * 12 + [1] * 18 + [7])  # the last stratum has one unit
    found = paired_numbers._Estimated.of(measure, given, units(truth, w, strata))

    def value(kept: Any, weights: Any) -> float:
        both = np.stack([given, truth])[:, kept]
        of = number_agreement(both, unit_weights=weights[kept]).measures
        return of[measure].value

    whole = value(np.ones(31, dtype=bool), w)
    assert found.value == pytest.approx(whole)
    for i in (0, 7, 29, 30):
        n = int((strata == strata[i]).sum())
        kept = np.arange(31) != i
        grown = np.where(strata == strata[i], w * n / max(n - 1, 1), w)
        share = (n - 1) / n if n > 1 else 1.0
        left = value(kept, grown)
        assert found.influence[i] == pytest.approx(share * (whole - left), abs=1e-12)
        if measure == "pearson":
            of_z = share * (math.atanh(whole) - math.atanh(left))
            assert found.of_z[i] == pytest.approx(of_z, abs=1e-12)


def test_limits_of_a_difference_of_correlations_are_zous() -> None:
    truth, given = rated(np.random.default_rng(5), 40, (0.5, 1.0))
    (pair,) = compare_numbers(given, units(truth), "pearson").differences
    made = [paired_numbers._Estimated.of("pearson", g, units(truth)) for g in given]
    cov = np.cov([each.of_z for each in made]) * 40  # n^2 / n of the influences / n
    spread = np.sqrt(np.diag(cov))
    c = cov[0, 1] / (spread[0] * spread[1])
    r = [each.value for each in made]
    low = [
        math.tanh(math.atanh(x) - 2.022691 * s) for x, s in zip(r, spread, strict=True)
    ]
    high = [
        math.tanh(math.atanh(x) + 2.022691 * s) for x, s in zip(r, spread, strict=True)
    ]
    a, b = r[0] - low[0], high[1] - r[1]
    assert pair.low == pytest.approx(
        r[0] - r[1] - math.sqrt(a**2 + b**2 - 2 * c * a * b), rel=1e-6
    )
    a, b = high[0] - r[0], r[1] - low[1]
    assert pair.high == pytest.approx(
        r[0] - r[1] + math.sqrt(a**2 + b**2 - 2 * c * a * b), rel=1e-6
    )


def test_perfect_and_constant_numbers_have_no_infinite_limits() -> None:
    truth, (given,) = rated(np.random.default_rng(7), 20, (0.5,))
    perfect, constant = 2 * truth + 1, np.full(20, 3.0)
    found = compare_numbers([perfect, given, perfect], units(truth), "pearson")
    assert np.isfinite([(d.low, d.high) for d in found.differences]).all()
    assert (found.differences[1].low, found.differences[1].high) == (0, 0)
    none = compare_numbers([constant, given], units(truth), "pearson").differences[0]
    assert math.isnan(none.value)


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_intervals_of_correlations_hold_for_few_skewed_numbers() -> None:
    """Linearized intervals contained it in 90%; docs/selection.md has the table."""
    rng = np.random.default_rng(8)
    inside, draws = 0, 1000
    for _ in range(draws):
        truth = np.round(10 * rng.beta(1.2, 2.5, 30))
        shared = 0.7 * rng.normal(size=30)
        given = []
        for shift, slope, size in ((0.5, 0.9, 1.0), (1.2, 0.75, 1.2)):
            error = shared + 0.7 * rng.normal(size=30)
            linear = shift + slope * truth + size * error * (0.6 + 0.1 * truth)
            given.append(np.clip(linear, 0, 10))
        (pair,) = compare_numbers(given, units(truth), "pearson").differences
        inside += pair.low <= 0.90292 - 0.82445 <= pair.high
    assert 0.925 < inside / draws < 0.975


def test_the_difference_of_mean_errors_is_a_paired_t_test() -> None:
    rng = np.random.default_rng(3)
    truth, given = rated(rng, 40, (0.5, 1.0))
    (pair,) = compare_numbers(given, units(truth), "mae").differences
    apart = abs(given[0] - truth) - abs(given[1] - truth)
    # scipy.stats.ttest_rel has the same interval; the t quantile with 39 degrees of
    # freedom is 2.0227
    reach = 2.022691 * apart.std(ddof=1) / math.sqrt(40)
    assert (pair.low, pair.high) == pytest.approx(
        (apart.mean() - reach, apart.mean() + reach), rel=1e-6
    )


def expected_difference(measure: NumberMeasure) -> float:
    """Return the difference for error spreads of 0.6 and 0.9, with 0.5 shared."""
    variances = [0.25 + spread**2 for spread in (0.6, 0.9)]
    if measure == "pearson":
        one, other = (2 / math.sqrt(4 + each) for each in variances)
    else:
        one, other = map(math.sqrt, variances)
    return (one - other) * (math.sqrt(2 / math.pi) if measure == "mae" else 1)


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
@pytest.mark.parametrize("measure", NUMBER_MEASURES)
def test_intervals_hold_for_correlated_raters(measure: NumberMeasure) -> None:
    rng = np.random.default_rng(4)
    wanted = expected_difference(measure)
    draws = 600
    inside = 0
    for _ in range(draws):
        truth, given = rated(rng, 120, (0.6, 0.9))
        (pair,) = compare_numbers(given, units(truth), measure).differences
        inside += pair.low <= wanted <= pair.high
    assert 0.92 < inside / draws < 0.98  # 0.95 is expected, with the standard error 0.009


def test_simultaneous_intervals_are_wider() -> None:
    truth, given = rated(np.random.default_rng(6), 80, (0.5, 0.6, 0.7, 0.8))
    each = compare_numbers(given, units(truth), adjust="none")
    together = compare_numbers(given, units(truth), adjust="bonferroni")
    assert together.critical > each.critical
    assert together.values == each.values


def test_a_missing_number_is_the_farther_end() -> None:
    truth = np.array([1.0, 9.0, 5.0, 4.0])
    found = compare_numbers([np.array([1.0, np.nan, 5.0, np.nan])], units(truth), "mae")
    assert found.values[0].value == pytest.approx((9 + 6) / 4)


def test_undefined_values_are_nan() -> None:
    truth = np.array([1.0, 2.0, 3.0])
    equal = compare_numbers([truth, np.ones(3)], units(truth), "pearson")
    assert math.isnan(equal.values[1].value)
    assert math.isnan(equal.differences[0].value)
    perfect = compare_numbers([truth, truth], units(truth), "rmse")
    assert perfect.differences[0].value == 0


def test_a_unit_that_determines_a_correlation_has_no_limits() -> None:
    """Without the first unit, the correlation is undefined, and its influence unknown."""
    truth = np.array([9.0, *[5.0] * 19])
    rng = np.random.default_rng(1)
    given = [truth + rng.normal(0, 0.5, 20), truth + rng.normal(0, 1, 20)]
    for raters in (given, [*given, given[0]], [each * 1e-5 for each in given]):
        for found in compare_numbers(raters, units(truth), "pearson").differences:
            assert math.isfinite(found.value)
            assert math.isnan(found.low)
            assert math.isnan(found.high)
            assert not found.is_clear
    rest = np.array([9.0, 1.0, *[5.0] * 18])
    one_rater = np.array([9.0, *[5.0] * 19]) + 1e-9  # undefined for one rater only
    both = compare_numbers([*given, one_rater], units(rest), "pearson")
    assert [math.isnan(each.low) for each in both.differences] == [False, True, True]
    assert math.isfinite(both.critical)


@pytest.mark.parametrize("measure", NUMBER_MEASURES)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_units_show_no_difference(measure: NumberMeasure, n: int) -> None:
    """Two units gave intervals of width 0, and one unit a warning of numpy."""
    truth = np.array([1.0, 3.0, 4.0])[:n]
    given = [np.array([1.0, 2.0, 3.0])[:n], np.array([2.0, 1.0, 0.0])[:n]]
    (pair,) = compare_numbers(given, units(truth), measure).differences
    assert not pair.is_clear or pair.low < pair.high
    if n < 4 and measure == "pearson":
        assert math.isnan(pair.low)
    if n == 1:
        assert math.isnan(pair.high)
    several = compare_numbers([*given, truth], units(truth), measure)
    assert several.critical > 0
    assert not any(each.low == each.high != 0 for each in several.differences)


@pytest.mark.parametrize("measure", NUMBER_MEASURES)
def test_a_difference_without_variance_has_no_limits(measure: NumberMeasure) -> None:
    truth = np.arange(1.0, 9.0)
    given = [9 - truth if measure == "pearson" else truth + 1, truth]
    (pair,) = compare_numbers(given, units(truth), measure).differences
    assert abs(pair.value) >= 1
    assert math.isnan(pair.low)
    assert not pair.is_clear


@pytest.mark.parametrize(("compare", "spread"), [(0.5, 1.0), (0.1, 0.9), (1.0, 1.5)])
def test_size_equals_the_exact_size_of_a_t_test(compare: float, spread: float) -> None:
    exact = TTestPower().solve_power(compare / spread, power=0.8, alpha=0.05)
    size = gold_size(compare=compare, measure="mae", spread=spread)
    assert abs(size.gold - exact) <= 1.5
    exact = TTestPower().solve_power(compare / spread, power=0.9, alpha=0.05 / 10)
    size = number_size(compare, spread=spread, power=0.9, candidates=5)
    assert abs(size.gold - exact) <= 2.5


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
@pytest.mark.parametrize("measure", ["mae", "rmse"])
def test_size_of_numbers_has_the_power_that_it_promises(measure: Any) -> None:
    """Spreads of errors are 1.5 and 1.8, their correlation is 0.6."""
    small, large, r = 1.5, 1.8, 0.6
    mean = 1.65
    apart = (large - small) * (np.sqrt(2 / np.pi) if measure == "mae" else 1)
    size = gold_size(compare=apart, measure=measure, error=mean, correlation=r)
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
        found.append(compare_numbers(given, units, measure).differences[0].high < 0)
    assert np.mean(found) == pytest.approx(0.8, abs=0.06)


def test_spread_of_numbers_is_that_of_the_differences() -> None:
    rng = np.random.default_rng(12)
    for r in (-0.5, 0.0, 0.8):
        errors = 2 * rng.multivariate_normal([0, 0], [[1, r], [r, 1]], 400_000).T
        size = number_size(0.1, "mae", error=2, correlation=r)
        assert size.spread == pytest.approx(
            np.std(np.diff(abs(errors), axis=0)), rel=0.01
        )


def test_sizes_of_numbers_refused() -> None:
    with pytest.raises(ValueError, match="error or spread must be given for mae"):
        gold_size(compare=0.2, measure="mae")
    with pytest.raises(ValueError, match="spread is for the errors of numbers"):
        gold_size(compare=0.2, spread=1)  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="'rmse' needs compare"):
        gold_size(0.1, measure="rmse")  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"width": 0.1, "power": 0.9}, "power has no effect with width: it is for comp"),
        ({"width": 0.1, "candidates": 3}, "candidates has no effect with width"),
        ({"width": 0.1, "differ": 0.1}, "differ has no effect with width"),
        ({"width": 0.1, "correlation": 0.2}, "correlation has no effect without error"),
        ({"compare": 0.1, "share": 0.2}, "share has no effect with compare: it is for w"),
        ({"compare": 0.1, "population": 500}, "population has no effect with compare"),
        ({"compare": 0.1, "target": "texts"}, "target has no effect with compare"),
        (
            {"compare": 0.1, "measure": "mae", "error": 1, "differ": 0.1},
            "differ is for accuracies",
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
