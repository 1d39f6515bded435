"""Bradley-Terry strengths: against other software, simulations, and their design."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import statsmodels.api as sm
from llamaherd.research.pairs.design import ComparedPair, PairDesign
from llamaherd.research.statistics.bradley_terry import (
    components,
    dyadic_variance,
    fit_strengths,
    spread,
)
from llamaherd.research.statistics.pair_design import (
    first_pairs,
    next_pairs,
    random_pairs,
)

if TYPE_CHECKING:
    from llamaherd.research.pairs.design import Design

    Floats = np.ndarray[Any, np.dtype[np.float64]]


def compared(true: Floats, m: int, design: Design, seed: int, noise: float = 5) -> Any:
    """Pairs of objects with strengths, and shares of wins around their probabilities."""
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
    first = np.array([each.first for each in drawn.results])
    second = np.array([each.second for each in drawn.results])
    return first, second, np.array([each.prob for each in drawn.results])


def test_strengths_and_errors_equal_those_of_a_logistic_regression() -> None:
    true = np.random.default_rng(1).normal(0, 1.2, 8)
    first, second, y = compared(true, 20, "random", 1)
    x = np.zeros((20, 8))
    x[np.arange(20), first], x[np.arange(20), second] = 1, -1
    model = sm.GLM(y, x[:, 1:], family=sm.families.Binomial())
    other = model.fit(tol=1e-12)
    found = fit_strengths(first, second, y, 8)
    theirs = np.concatenate([[0], other.params])
    np.testing.assert_allclose(found.strengths, theirs - theirs.mean(), atol=1e-7)
    assert found.is_converged
    assert found.df == 20 - 7
    assert found.dispersion == pytest.approx(other.pearson_chi2 / 13)
    # Errors of differences from the first do not depend on the constraint: the inverse
    # information is theirs, the sandwich that of their HC3 by the definition.
    zeros, others = np.zeros(7, dtype=int), np.arange(1, 8)
    plain = np.diag(other.cov_params()) / other.scale
    np.testing.assert_allclose(spread(found.information, zeros, others), plain, rtol=1e-6)
    p = other.fittedvalues
    bread = np.linalg.inv((x[:, 1:].T * (p * (1 - p))) @ x[:, 1:])
    h = np.einsum("ij,jk,ik->i", x[:, 1:], bread, x[:, 1:]) * p * (1 - p)
    meat = (x[:, 1:].T * ((y - p) / (1 - h)) ** 2) @ x[:, 1:]
    sandwich = np.diag(bread @ meat @ bread)
    own = spread(found.covariance, zeros, others)
    np.testing.assert_allclose(own, sandwich, rtol=1e-6)


def test_wins_alone_give_finite_strengths() -> None:
    first, second = np.array([0, 1, 2]), np.array([1, 2, 0])
    found = fit_strengths(first, second, np.array([1.0, 1.0, 0.0]), 3)
    assert found.is_converged
    assert np.isfinite(found.strengths).all()
    assert list(np.argsort(-found.strengths)) == [0, 1, 2]
    alone = fit_strengths(np.array([0]), np.array([1]), np.array([0.75]), 2)
    assert alone.strengths[0] - alone.strengths[1] == pytest.approx(np.log(3))
    assert alone.df == 0
    assert np.isnan(alone.covariance).all()


def test_parts_are_found_and_the_largest_is_first() -> None:
    first, second = np.array([0, 3, 4]), np.array([1, 4, 5])
    assert components(first, second, 7).tolist() == [1, 1, 2, 0, 0, 0, 3]
    assert components(np.array([], dtype=int), np.array([], dtype=int), 2).tolist() == [
        0,
        1,
    ]


@pytest.mark.parametrize("n", [2, 3, 8])
def test_the_start_connects_all_objects(n: int) -> None:
    pairs = first_pairs(n, np.random.default_rng(3))
    first, second = np.array(pairs).T
    assert len(pairs) == (1 if n == 2 else n)
    assert not components(first, second, n).any()


def test_the_next_pairs_are_new_close_and_disjoint() -> None:
    true = np.linspace(-6, 6, 12)
    rng = np.random.default_rng(1)
    pairs = first_pairs(12, rng)
    first, second = np.array(pairs).T
    y = 1 / (1 + np.exp(true[second] - true[first]))
    fit = fit_strengths(first, second, y, 12)
    known = {(min(p), max(p)) for p in pairs}
    drawn = next_pairs(fit, known, 5, rng)
    assert len(drawn) == 5
    assert not known & {(min(p), max(p)) for p in drawn}
    assert len({i for pair in drawn for i in pair}) == 10
    far = np.mean([abs(true[i] - true[j]) for i, j in random_pairs(12, known, 6, rng)])
    assert np.mean([abs(true[i] - true[j]) for i, j in drawn]) < far


def test_a_design_draws_each_pair_once_and_ends() -> None:
    first, second, _ = compared(np.zeros(6), 15, "adaptive", 4)
    assert len({frozenset(pair) for pair in zip(first, second, strict=True)}) == 15
    again = compared(np.zeros(6), 15, "adaptive", 4)
    assert first.tolist() == again[0].tolist()
    other = compared(np.zeros(6), 15, "adaptive", 5)
    assert first.tolist() != other[0].tolist()


@pytest.mark.parametrize("design", ["adaptive", "random"])
def test_intervals_cover_the_strengths(design: Design) -> None:
    """benchmarks/coverage_pairs.py has the table; this finds a gross error."""
    hits = []
    for seed in range(60):
        true = np.random.default_rng(seed).normal(0, 1.2, 12)
        true -= true.mean()
        found = fit_strengths(*compared(true, 48, design, seed), 12)
        errors = np.sqrt(np.diag(found.covariance))
        hits.append(np.abs(found.strengths - true) < 2.03 * errors)  # t, 37 df
    assert 0.9 < np.mean(hits) < 0.98


def test_the_variance_of_a_mean_over_pairs_counts_common_objects() -> None:
    pairs = [(i, j) for i, j in pairwise(range(5))]
    first, second = np.array(pairs).T
    alike = dyadic_variance(np.array([1.0, 1, -1, -1]), first, second, 5)
    apart = dyadic_variance(np.array([1.0, -1, 1, -1]), first, second, 5)
    assert alike == pytest.approx((4 + 2) / 16 * 4 / 3)
    assert apart == pytest.approx(4 / 16 * 4 / 3)  # not less than independent pairs
