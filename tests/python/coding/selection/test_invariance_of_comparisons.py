"""Tests of identities that hold for comparisons of models, pairs and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from llamaherd.coding.pairs import bradley_terry
from llamaherd.coding.selection import measures as paired
from llamaherd.coding.statistics import brier_score, calibration_error, coverage_curve

N = 60
RNG = np.random.default_rng(3)
TRUE = RNG.integers(0, 3, N)
WEIGHTS = RNG.uniform(0.5, 2, N)
STRATA = RNG.integers(0, 2, N)
ORDER = RNG.permutation(N)


def one_hot(codes: np.ndarray) -> np.ndarray:
    return np.eye(3, dtype=bool)[codes]


GIVEN = [
    (
        one_hot(np.where(RNG.random(N) < right, TRUE, RNG.integers(0, 3, N))),
        RNG.random(N) < 0.95,
    )
    for right in (0.9, 0.8, 0.7)
]


def compared(found: paired.Paired) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([[each.value, each.low, each.high] for each in found.values])
    differences = [[d.value, d.low, d.high, d.differ] for d in found.differences]
    return values, np.array(differences)


@pytest.mark.parametrize("adjust", ["none", "bonferroni"])
@pytest.mark.parametrize("measure", paired.LABEL_MEASURES)
def test_models_are_compared_whatever_the_order_of_texts_and_labels(
    measure: Any, adjust: Any
) -> None:
    def of(given: Any, should: Any, weights: Any, strata: Any) -> Any:
        units = paired.UnitCodes(should=should, weights=weights, strata=strata)
        return compared(paired.compare(given, units, measure, adjust=adjust))

    values, differences = of(GIVEN, one_hot(TRUE), WEIGHTS, STRATA)
    mixed = [(has[ORDER], is_given[ORDER]) for has, is_given in GIVEN]
    labels = [2, 0, 1]
    renamed = [(has[:, labels], is_given) for has, is_given in GIVEN]
    for args in (
        (mixed, one_hot(TRUE)[ORDER], WEIGHTS[ORDER], STRATA[ORDER]),
        (GIVEN, one_hot(TRUE), WEIGHTS * 9, 1 - STRATA),
        (renamed, one_hot(TRUE)[:, labels], WEIGHTS, STRATA),
    ):
        other, apart = of(*args)
        np.testing.assert_allclose(other[:, 0], values[:, 0], atol=1e-9)
        np.testing.assert_allclose(apart, differences, atol=1e-6)


@pytest.mark.parametrize("measure", paired.LABEL_MEASURES)
def test_two_models_that_change_places_have_the_negative_difference(measure: Any) -> None:
    units = paired.UnitCodes(should=one_hot(TRUE), weights=WEIGHTS, strata=STRATA)
    one = compared(paired.compare(GIVEN[:2], units, measure))[1][0]
    other = compared(paired.compare(GIVEN[1::-1], units, measure))[1][0]
    np.testing.assert_allclose(
        one, [-other[0], -other[2], -other[1], other[3]], atol=1e-9
    )


def test_errors_of_numbers_have_any_unit() -> None:
    right = RNG.normal(5, 2, N)
    given = [
        right + RNG.normal(bias, spread, N)
        for bias, spread in ((0, 0.5), (1, 1), (-1, 2))
    ]

    def of(times: float, order: Any = slice(None)) -> Any:
        units = paired.UnitNumbers(
            numbers=(right * times + 3 * times)[order],
            weights=WEIGHTS[order],
            strata=STRATA[order],
            ends=(-10 * times, 30 * times),
        )
        numbers = [(each * times + 3 * times)[order] for each in given]
        values, differences = compared(paired.compare_numbers(numbers, units))
        return values / times, differences[:, :3] / times

    values, differences = of(1.0)
    for other, apart in (of(100.0), of(1e-6), of(1.0, ORDER)):
        np.testing.assert_allclose(other, values, rtol=1e-6)
        np.testing.assert_allclose(apart, differences, rtol=1e-5)


def test_strengths_depend_only_on_who_won_against_whom() -> None:
    n = 12
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    first, second = pairs[RNG.choice(len(pairs), 40, replace=False)].T
    shares = RNG.beta(2, 2, 40)
    wanted = bradley_terry.fit_strengths(first, second, shares, n)
    mixed, names = RNG.permutation(40), RNG.permutation(n)
    same = np.arange(n)
    for args, at, sign in (
        ((first[mixed], second[mixed], shares[mixed]), same, 1),
        ((second, first, 1 - shares), same, 1),
        ((first, second, 1 - shares), same, -1),
        ((names[first], names[second], shares), names, 1),
    ):
        found = bradley_terry.fit_strengths(*args, n)
        np.testing.assert_allclose(
            sign * found.strengths[at], wanted.strengths, atol=1e-8
        )
        np.testing.assert_allclose(
            found.covariance[np.ix_(at, at)], wanted.covariance, atol=1e-8
        )


def test_probabilities_are_judged_whatever_the_order_and_unit_of_weights() -> None:
    probs = RNG.dirichlet(np.ones(3), N)
    sure, right = probs.max(axis=1), probs.argmax(axis=1) == TRUE

    def of(rows: Any, times: float, labels: list[int]) -> np.ndarray:
        w = WEIGHTS[rows] * times
        if len(w) > N:
            w[N:] = 0  # repeated texts without weight
        at = np.argsort(labels)
        brier = brier_score(
            probs[rows][:, labels], at[TRUE[rows]].tolist(), unit_weights=w
        )
        error = calibration_error(sure[rows], right[rows], unit_weights=w)
        curve = coverage_curve(sure[rows], right[rows], unit_weights=w)
        half = curve.accuracy[len(curve.accuracy) // 2]
        return np.array(
            [brier.value, brier.low, brier.high, error.ece, error.overconfidence, half]
        )

    rows = np.arange(N)
    wanted = of(rows, 1.0, [0, 1, 2])
    for args in (
        (ORDER, 1.0, [0, 1, 2]),
        (rows, 7.0, [2, 0, 1]),
        (np.concatenate([rows, rows[:5]]), 1.0, [0, 1, 2]),
    ):
        np.testing.assert_allclose(of(*args), wanted, atol=1e-9)
