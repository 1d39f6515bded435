"""Tests of identities that hold for comparisons of pairs and of probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from llamaherd.coding.pairs.bradley_terry import Pairs, fit_strengths
from llamaherd.coding.statistics.calibration import (
    brier_score,
    calibration_error,
    coverage_curve,
)

N = 60
RNG = np.random.default_rng(3)
TRUE = RNG.integers(0, 3, N)
WEIGHTS = RNG.uniform(0.5, 2, N)
ORDER = RNG.permutation(N)


def test_strengths_depend_only_on_who_won_against_whom() -> None:
    n = 12
    pairs = np.array([(i, j) for i in range(n) for j in range(i + 1, n)])
    first, second = pairs[RNG.choice(len(pairs), 40, replace=False)].T
    shares = RNG.beta(2, 2, 40)
    expected = fit_strengths(Pairs(first, second, n), shares)
    mixed, names = RNG.permutation(40), RNG.permutation(n)
    unmoved = np.arange(n)
    for (one, other, wins), at, sign in (
        ((first[mixed], second[mixed], shares[mixed]), unmoved, 1),
        ((second, first, 1 - shares), unmoved, 1),
        ((first, second, 1 - shares), unmoved, -1),
        ((names[first], names[second], shares), names, 1),
    ):
        fit = fit_strengths(Pairs(one, other, n), wins)
        np.testing.assert_allclose(
            sign * fit.strengths[at], expected.strengths, atol=1e-8
        )
        np.testing.assert_allclose(
            fit.covariance[np.ix_(at, at)], expected.covariance, atol=1e-8
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
    expected = of(rows, 1.0, [0, 1, 2])
    for args in (
        (ORDER, 1.0, [0, 1, 2]),
        (rows, 7.0, [2, 0, 1]),
        (np.concatenate([rows, rows[:5]]), 1.0, [0, 1, 2]),
    ):
        np.testing.assert_allclose(of(*args), expected, atol=1e-9)
