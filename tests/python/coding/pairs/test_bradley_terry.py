"""Tests of Bradley-Terry strengths: other software, simulations, and designs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import statsmodels.api as sm
from llamaherd.coding.pairs.bradley_terry import (
    Pairs,
    first_pairs,
    fit_strengths,
    next_pairs,
    random_pairs,
)
from llamaherd.coding.pairs.design import ComparedPair, PairDesign
from scipy.optimize import minimize

if TYPE_CHECKING:
    from llamaherd.coding.pairs.design import Design
    from llamaherd.engine.core.arrays import Floats


def compared(true: Floats, m: int, design: Design, seed: int, noise: float = 5) -> Any:
    """Return pairs of objects, and random shares of wins with given means."""
    rng = np.random.default_rng(seed)
    drawn = PairDesign(len(true), m, design, seed)
    while pairs := drawn.next():
        p = np.array([1 / (1 + np.exp(true[j] - true[i])) for i, j in pairs])
        y = np.clip(rng.beta(p * noise, (1 - p) * noise), 1e-9, 1 - 1e-9)
        odds = np.log(y) - np.log1p(-y)
        drawn.take(
            [
                ComparedPair(
                    first=i,
                    second=j,
                    round=drawn.round,
                    forward=d,
                    backward=d,
                    coverage=1,
                )
                for (i, j), d in zip(pairs, odds.tolist(), strict=True)
            ]
        )
    return drawn.pairs, np.array([result.prob for result in drawn.results])


@pytest.mark.parametrize("n_won", [0, 2, 4])
def test_sure_results_of_a_cycle_have_finite_strengths(n_won: int) -> None:
    first = np.arange(8)
    won = (first >= 8 - n_won).astype(float)
    assert np.isfinite(
        fit_strengths(Pairs(first, np.roll(first, -1), 8), won).strengths
    ).all()


def of_pairs(pairs: Pairs) -> Floats:
    """Return covariates of a logistic regression without the first object."""
    rows = np.arange(len(pairs))
    x = np.zeros((len(pairs), pairs.n))
    x[rows, pairs.first], x[rows, pairs.second] = 1, -1
    return x[:, 1:]


@pytest.mark.parametrize("noise", [5, 1])
def test_strengths_and_errors_equal_those_of_other_software(noise: float) -> None:
    true = np.random.default_rng(1).normal(0, 1.2, 8)
    pairs, y = compared(true, 20, "random", 1, noise)
    x = of_pairs(pairs)
    other = sm.GLM(y, x, family=sm.families.Binomial()).fit(tol=1e-12)
    fit = fit_strengths(pairs, y)
    assert fit.is_converged
    assert fit.df == 20 - 7
    phi = other.pearson_chi2 / 13
    assert fit.dispersion == pytest.approx(phi)

    # Negative penalized quasi-likelihood, which scipy minimizes.
    def loss(theta: Floats) -> float:
        odds = x @ theta
        p = 1 / (1 + np.exp(-odds))
        value = (y * odds - np.logaddexp(0, odds)).sum()
        information = (x.T * (p * (1 - p))) @ x
        return -float(value + min(phi, 1) / 2 * np.linalg.slogdet(information)[1])

    theta = minimize(loss, other.params, method="BFGS", options={"gtol": 1e-9}).x
    theirs = np.concatenate([[0], theta])
    np.testing.assert_allclose(fit.strengths, theirs - theirs.mean(), atol=1e-5)
    assert np.abs(fit.strengths).max() < np.abs(other.params - other.params.mean()).max()
    # Errors of differences from the first object do not depend on the constraint: they
    # equal HC3 errors by the definition, at the reduced estimates.
    from_first = Pairs(np.zeros(7, dtype=int), np.arange(1, 8), 8)
    p = 1 / (1 + np.exp(-x @ (fit.strengths[1:] - fit.strengths[0])))
    bread = np.linalg.inv((x.T * (p * (1 - p))) @ x)
    plain = np.diag(bread)
    np.testing.assert_allclose(from_first.variances(fit.information), plain, rtol=1e-6)
    h = np.einsum("ij,jk,ik->i", x, bread, x) * p * (1 - p)
    meat = (x.T * ((y - p) / (1 - h)) ** 2) @ x
    sandwich = np.diag(bread @ meat @ bread)
    variances = from_first.variances(fit.covariance)
    np.testing.assert_allclose(variances, sandwich, rtol=1e-6)


@pytest.mark.parametrize("wins", [0, 3, 10])
def test_two_objects_have_the_share_of_jeffreys(wins: int) -> None:
    """Reduced log-odds of k wins in m pairs are log((k + 1/2) / (m - k + 1/2))."""
    y = np.array([1.0] * wins + [0.0] * (10 - wins))
    pairs = Pairs(np.zeros(10, dtype=int), np.ones(10, dtype=int), 2)
    fit = fit_strengths(pairs, y)
    if wins in {0, 10}:  # results do not vary: there is no bias to reduce
        assert fit.dispersion == pytest.approx(0, abs=1e-3)
        return
    assert fit.dispersion == pytest.approx(10 / 9, rel=1e-4)
    expected = np.log((wins + 0.5) / (10 - wins + 0.5))
    assert fit.strengths[0] - fit.strengths[1] == pytest.approx(expected, abs=1e-4)


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_strengths_are_not_exaggerated() -> None:
    """The slope of fitted on true strengths is near 1; without correction it is 1.10."""
    slopes, of_maximum = [], []
    for seed in range(40):
        true = np.random.default_rng(seed).normal(0, 1.5, 20)
        pairs, y = compared(true, 120, "random", seed, 2)
        ours = fit_strengths(pairs, y).strengths
        x = of_pairs(pairs)
        theirs = sm.GLM(y, x, family=sm.families.Binomial()).fit().params
        theirs = np.concatenate([[0], theirs])
        true -= true.mean()
        slopes.append(ours @ true / (true @ true))
        of_maximum.append(theirs @ true / (true @ true))
    assert np.mean(slopes) == pytest.approx(1, abs=0.03)
    assert np.mean(of_maximum) > 1.06


def test_wins_alone_give_finite_strengths() -> None:
    cycle = Pairs(np.array([0, 1, 2]), np.array([1, 2, 0]), 3)
    fit = fit_strengths(cycle, np.array([1.0, 1.0, 0.0]))
    assert fit.is_converged
    assert np.isfinite(fit.strengths).all()
    assert list(np.argsort(-fit.strengths)) == [0, 1, 2]
    alone = fit_strengths(Pairs(np.array([0]), np.array([1]), 2), np.array([0.75]))
    assert alone.strengths[0] - alone.strengths[1] == pytest.approx(np.log(3))
    assert alone.df == 0
    assert np.isnan(alone.covariance).all()


def test_parts_are_found_and_the_largest_is_first() -> None:
    pairs = Pairs(np.array([0, 3, 4]), np.array([1, 4, 5]), 7)
    assert pairs.components.tolist() == [1, 1, 2, 0, 0, 0, 3]
    nothing = np.array([], dtype=int)
    assert Pairs(nothing, nothing, 2).components.tolist() == [0, 1]


@pytest.mark.parametrize("n", [2, 3, 8])
def test_the_start_connects_all_objects(n: int) -> None:
    pairs = first_pairs(n, np.random.default_rng(3))
    assert len(pairs) == (1 if n == 2 else n)
    assert not Pairs(*np.array(pairs).T, n).components.any()


def test_the_next_pairs_are_new_close_and_disjoint() -> None:
    true = np.linspace(-6, 6, 12)
    rng = np.random.default_rng(1)
    pairs = first_pairs(12, rng)
    cycle = Pairs(*np.array(pairs).T, 12)
    fit = fit_strengths(cycle, 1 / (1 + np.exp(-cycle.odds(true))))
    known = {(min(p), max(p)) for p in pairs}
    drawn = next_pairs(fit, known, 5, rng)
    assert len(drawn) == 5
    assert not known & {(min(p), max(p)) for p in drawn}
    assert len({i for pair in drawn for i in pair}) == 10
    far = np.mean([abs(true[i] - true[j]) for i, j in random_pairs(12, known, 6, rng)])
    assert np.mean([abs(true[i] - true[j]) for i, j in drawn]) < far


def test_a_design_draws_each_pair_once_and_ends() -> None:
    pairs, again, other = (
        compared(np.zeros(6), 15, "adaptive", seed)[0] for seed in (4, 4, 5)
    )
    first, second = pairs.first.tolist(), pairs.second.tolist()
    assert len({frozenset(pair) for pair in zip(first, second, strict=True)}) == 15
    assert first == again.first.tolist()
    assert first != other.first.tolist()


@pytest.mark.more(
    reason="simulates studies or compares with other packages on many samples", cases=1
)
@pytest.mark.parametrize("design", ["adaptive", "random"])
def test_intervals_cover_the_strengths(design: Design) -> None:
    """benchmarks/coverage.py has the exact table; this test finds large errors."""
    hits = []
    for seed in range(60):
        true = np.random.default_rng(seed).normal(0, 1.2, 12)
        true -= true.mean()
        fit = fit_strengths(*compared(true, 48, design, seed))
        errors = np.sqrt(np.diag(fit.covariance))
        hits.append(np.abs(fit.strengths - true) < 2.03 * errors)  # t quantile, 37 df
    assert 0.9 < np.mean(hits) < 0.98


def test_the_variance_of_a_mean_over_pairs_counts_common_objects() -> None:
    path = Pairs(np.arange(4), np.arange(1, 5), 5)
    alike = path.variance_of_mean(np.array([1.0, 1, -1, -1]))
    apart = path.variance_of_mean(np.array([1.0, -1, 1, -1]))
    assert alike == pytest.approx((4 + 2) / 16 * 4 / 3)
    assert apart == pytest.approx(4 / 16 * 4 / 3)  # not less than for independent pairs
