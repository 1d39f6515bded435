"""Tests of ridge heads, against scikit-learn; predictions do not use their own codes."""

from __future__ import annotations

import numpy as np
import pytest
from llamaherd.coding.statistics import heads
from sklearn.linear_model import LogisticRegression

RNG = np.random.default_rng(4)
N, K = 120, 3
CODES = RNG.integers(0, K, N)
X = RNG.normal(size=(N, 4)) + np.eye(K, 4)[CODES]
WEIGHTS = RNG.uniform(0.5, 3, N)


@pytest.mark.parametrize("penalty", [0.05, 1.0, 30.0])
def test_coefficients_are_those_of_scikit_learn(penalty: float) -> None:
    coefficients = heads.fit_heads(
        X, CODES, WEIGHTS[None], np.array([penalty]), n_labels=K, tolerance=1e-9
    )[0]
    other = LogisticRegression(C=1 / penalty, tol=1e-12, max_iter=10_000)
    other.fit(X, CODES, sample_weight=WEIGHTS)
    assert np.abs(coefficients[1:].T - other.coef_).max() < 1e-5
    assert heads.softmax(coefficients[0] + X @ coefficients[1:]) == pytest.approx(
        other.predict_proba(X), abs=1e-6
    )


def test_heads_fitted_together_are_those_fitted_alone() -> None:
    weights = np.array([WEIGHTS, np.where(np.arange(N) < 60, WEIGHTS, 0)])
    both = heads.fit_heads(
        X, CODES, weights, np.array([1.0, 0.1]), n_labels=K, tolerance=1e-9
    )
    alone = heads.fit_heads(
        X[:60],
        CODES[:60],
        WEIGHTS[None, :60],
        np.array([0.1]),
        n_labels=K,
        tolerance=1e-9,
    )
    assert both[1] == pytest.approx(alone[0], abs=1e-6)


def test_mean_probabilities_are_the_weighted_shares_of_the_codes() -> None:
    coefs = heads.fit_heads(X, CODES, WEIGHTS[None], np.array([5.0]), n_labels=K)[0]
    probs = heads.softmax(coefs[0] + X @ coefs[1:])
    shares = np.bincount(CODES, WEIGHTS) / WEIGHTS.sum()
    assert WEIGHTS @ probs / WEIGHTS.sum() == pytest.approx(shares, abs=1e-5)


def test_no_prediction_depends_on_its_own_code() -> None:
    folds = heads.deal_folds(range(N), [0] * N, 5, np.random.default_rng(1))
    changed = CODES.copy()
    part = folds == 2
    changed[part] = (CODES[part] + 1) % K

    def crossed(codes: np.ndarray) -> heads.Crossed:
        rng = np.random.default_rng(7)
        return heads.cross_fit([X], codes, WEIGHTS, folds, rng, n_labels=K)

    before, after = crossed(CODES), crossed(changed)
    assert (before.probs[folds == 0] != after.probs[folds == 0]).any()
    first = heads.best_head(
        [X[~part]], CODES[~part], WEIGHTS[~part], np.random.default_rng(3), n_labels=K
    )
    second = heads.best_head(
        [X[~part]], changed[~part], WEIGHTS[~part], np.random.default_rng(3), n_labels=K
    )
    assert (first.probs(X[part]) == second.probs(X[part])).all()
    for fold, head in enumerate(before.heads):
        held = folds == fold
        assert (before.probs[held] == head.probs(X[held])).all()


def test_folds_are_even_within_strata_and_keep_units_together() -> None:
    strata = [0] * 23 + [1] * 17
    folds = heads.deal_folds(range(40), strata, 5, np.random.default_rng(2))
    assert np.bincount(folds).tolist() == [8] * 5
    assert set(np.bincount(folds[:23])) <= {4, 5}
    assert set(np.bincount(folds[23:])) <= {3, 4}
    units = [i // 4 for i in range(40)]
    together = heads.deal_folds(units, [0] * 40, 5, np.random.default_rng(2))
    assert all(len(set(together[4 * i : 4 * i + 4])) == 1 for i in range(10))
    again = heads.deal_folds(units, [0] * 40, 5, np.random.default_rng(2))
    assert (together == again).all()


def test_components_keep_distances_and_have_unit_variance() -> None:
    vectors = RNG.normal(size=(50, 6)) * 3 + 10
    scaled = heads.components(vectors)
    total = np.sqrt(((vectors - vectors.mean(axis=0)) ** 2).sum() / 50)
    between = np.linalg.norm(vectors[:, None] - vectors, axis=2) / total
    assert np.linalg.norm(scaled[:, None] - scaled, axis=2) == pytest.approx(between)
    assert (scaled**2).sum() / 50 == pytest.approx(1)
    assert heads.components(RNG.normal(size=(300, 150))).shape == (300, 100)


def test_log_probabilities_of_certain_labels_are_finite() -> None:
    logs = heads.log_probs(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    assert np.isfinite(logs).all()
    assert logs.sum(axis=1) == pytest.approx(0)
    assert (heads.log_probs(np.full((4, 2), 0.5)) == 0).all()


def test_a_constant_vector_gives_no_component() -> None:
    scaled = heads.components(np.ones((5, 3)))
    assert np.isfinite(scaled).all()
    assert (scaled == 0).all()
