"""Tests of PPI++ against the authors' program, on data as in its examples."""

from __future__ import annotations

import llamaherd as lh
import numpy as np
import ppi_py
import pytest
from llamaherd.coding.statistics.label_weight import best_lam
from scipy.stats import t


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("n", "n_others"), [(100, 2000), (300, 900), (60, 5000)])
def test_the_mean(n: int, n_others: int) -> None:
    """Estimates equal ppi-python's, intervals have t with n - 2 degrees of freedom."""
    rng = np.random.default_rng(n)
    y = rng.normal(0, 1, n)
    y_hat = y + rng.normal(-2, 0.5, n)
    others = rng.normal(0, 1, n_others) + rng.normal(-2, 0.5, n_others)
    data = {"label": np.concatenate([y_hat, others]).tolist()}
    codes = [*y.tolist(), *[None] * n_others]
    options = {"prob": "simple", "outcome": "mean", "methods": ["ppi"]}
    row = lh.estimate(data, codes, **options).rows[0]
    expected = ppi_py.ppi_mean_pointestimate(y, y_hat, others)
    assert row.estimate == pytest.approx(float(np.ravel(expected)[0]), abs=1e-9)
    assert row.df == pytest.approx(n - 2)
    low, high = ppi_py.ppi_mean_ci(y, y_hat, others, alpha=0.05)
    width = float(np.ravel(high - low)[0]) / 1.959964 * t.ppf(0.975, n - 2)
    assert row.high - row.low == pytest.approx(width, rel=0.03)


def test_predictions_without_worth_leave_the_codes_alone() -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(size=200)
    assert best_lam(y, -y, rng.normal(size=1000)) == 0
    assert best_lam(y, np.zeros(200), np.zeros(1000)) == 0
    assert best_lam(y, y, rng.normal(size=1000)) > 0.7
