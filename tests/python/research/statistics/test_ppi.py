"""PPI++ against the authors' own program, on data made as in its examples."""

from __future__ import annotations

import numpy as np
import ppi_py
import pytest
from llamaherd.research.statistics import ppi
from llamaherd.research.statistics.regression import FitError

# Of its tests: sizes, and how predictions are off.
SIZES = [(100, 2000), (300, 900), (60, 5000)]


def close(found: ppi.Estimated, limits: tuple[np.ndarray, np.ndarray]) -> None:
    low, high = found.interval(0.9)
    np.testing.assert_allclose(low, limits[0], rtol=0, atol=1e-6)
    np.testing.assert_allclose(high, limits[1], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("n", "n_others"), SIZES)
@pytest.mark.parametrize("lam", [None, 0, 0.4, 1])
def test_the_mean(n: int, n_others: int, lam: float | None) -> None:
    rng = np.random.default_rng(n)
    y = rng.normal(0, 1, n)
    y_hat = y + rng.normal(-2, 0.5, n)
    others = rng.normal(0, 1, n_others) + rng.normal(-2, 0.5, n_others)
    found = ppi.ppi_mean(y, y_hat, others, lam)
    wanted = ppi_py.ppi_mean_pointestimate(y, y_hat, others, lam=lam)
    assert found.theta == pytest.approx(np.ravel(wanted), abs=1e-9)
    close(found, ppi_py.ppi_mean_ci(y, y_hat, others, alpha=0.1, lam=lam))


def regression(
    kind: str, n: int, n_others: int, error: float = 0.5
) -> tuple[ppi.Samples, list[np.ndarray]]:
    rng = np.random.default_rng(n)
    theta = np.array([-0.5, 1.0, 0.3])

    def drawn(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        x = np.column_stack([np.ones(size), rng.normal(size=(size, 2))])
        if kind == "ols":
            y = x @ theta + rng.normal(size=size)
            return x, y, y + rng.normal(-1, error, size)
        y = (rng.random(size) < 1 / (1 + np.exp(-x @ theta))).astype(float)
        return x, y, np.where(rng.random(size) < error / 2, 1 - y, y)

    x, y, y_hat = drawn(n)
    x_others, _, y_hat_others = drawn(n_others)
    samples = ppi.Samples(
        x=x, y=y, y_hat=y_hat, x_others=x_others, y_hat_others=y_hat_others
    )
    return samples, [x, y, y_hat, x_others, y_hat_others]


@pytest.mark.parametrize(("n", "n_others"), SIZES)
@pytest.mark.parametrize("lam", [None, 0, 0.4, 1])
@pytest.mark.slow(reason="simulates studies")
def test_least_squares(n: int, n_others: int, lam: float | None) -> None:
    samples, arrays = regression("ols", n, n_others)
    close(ppi.ppi_ols(samples, lam), ppi_py.ppi_ols_ci(*arrays, alpha=0.1, lam=lam))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(("n", "n_others"), SIZES)
@pytest.mark.parametrize("lam", [None, 0.4, 1])
def test_logistic_regression(n: int, n_others: int, lam: float | None) -> None:
    samples, arrays = regression("logit", n, n_others)
    options = {"ftol": 1e-15, "gtol": 1e-12}  # its own stop at 1e-5
    limits = ppi_py.ppi_logistic_ci(
        *arrays, alpha=0.1, lam=lam, optimizer_options=options
    )
    close(ppi.ppi_logit(samples, lam), limits)


def test_predictions_without_worth_leave_the_codes_alone() -> None:
    rng = np.random.default_rng(1)
    y = rng.normal(size=200)
    found = ppi.ppi_mean(y, -y, rng.normal(size=1000))
    assert found.lam == 0
    assert found.theta == pytest.approx([y.mean()])
    same = ppi.ppi_mean(y, np.zeros(200), np.zeros(1000))
    assert (same.lam, same.theta[0]) == (0, pytest.approx(y.mean()))


def test_good_predictions_make_the_interval_shorter() -> None:
    good, _ = regression("logit", 300, 3000, error=0.1)
    assert ppi.ppi_logit(good).lam > 0.5
    alone = ppi.ppi_logit(good, 0.0)
    assert (ppi.ppi_logit(good).std_errors < 0.8 * alone.std_errors).all()


def test_what_has_no_solution_is_said() -> None:
    samples, _ = regression("ols", 100, 200)
    double = np.column_stack([samples.x, samples.x[:, 1]])
    with pytest.raises(FitError, match="linearly dependent"):
        ppi.ppi_ols(
            ppi.Samples(
                x=double,
                y=samples.y,
                y_hat=samples.y_hat,
                x_others=np.ones((5, 4)),
                y_hat_others=np.zeros(5),
            )
        )
