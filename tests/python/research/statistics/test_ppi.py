"""Tests of PPI++ against the authors' program, on data as in its examples."""

from __future__ import annotations

import dataclasses

import numpy as np
import ppi_py
import pytest
import statsmodels.api as sm
from llamaherd.research.statistics import ppi
from llamaherd.research.statistics.regression import FitError

# Sizes as in the tests of ppi-python.
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
def test_least_squares_is_the_sum_of_two_fits(
    n: int, n_others: int, lam: float | None
) -> None:
    """Estimates equal ppi-python's; covariances equal the sum of two statsmodels fits."""
    samples, arrays = regression("ols", n, n_others)
    found = ppi.ppi_ols(samples, lam)
    wanted = ppi_py.ppi_ols_pointestimate(*arrays, lam=found.lam)
    np.testing.assert_allclose(found.theta, wanted, atol=1e-9)
    missed = samples.y - found.lam * samples.y_hat
    own = sm.OLS(missed, samples.x).fit(cov_type="HC0").cov_params()
    hat = found.lam * samples.y_hat_others
    other = sm.OLS(hat, samples.x_others).fit(cov_type="HC0").cov_params()
    # ppi_ols divides variances by n - 1, HC0 divides by n.
    summed = own * n / (n - 1) + other * n_others / (n_others - 1)
    np.testing.assert_allclose(found.covariance, summed, rtol=1e-8)


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_with_equal_coefficients_ppi_python_has_the_same_intervals() -> None:
    """Both formulas are then equal in large samples, apart from the Hessian."""
    samples, arrays = regression("ols", 5000, 20_000)
    same = dataclasses.replace(
        samples, y_hat=samples.y_hat + 1, y_hat_others=samples.y_hat_others + 1
    )
    arrays[2], arrays[4] = same.y_hat, same.y_hat_others
    low, high = ppi_py.ppi_ols_ci(*arrays, alpha=0.1)
    width = np.diff(ppi.ppi_ols(same).interval(0.9), axis=0)[0]
    np.testing.assert_allclose(width, high - low, rtol=0.03)


def test_least_squares_of_a_constant_is_the_mean() -> None:
    samples, _ = regression("ols", 80, 400)
    found = ppi.ppi_ols(
        dataclasses.replace(samples, x=samples.x[:, :1], x_others=samples.x_others[:, :1])
    )
    mean = ppi.ppi_mean(samples.y, samples.y_hat, samples.y_hat_others)
    assert found.lam == pytest.approx(mean.lam, rel=0.02)
    assert found.theta == pytest.approx(mean.theta, abs=0.02)
    assert found.std_errors == pytest.approx(mean.std_errors, rel=0.02)


def test_the_best_weight_has_the_smallest_variance() -> None:
    samples, _ = regression("ols", 300, 900)
    best = ppi.ppi_ols(samples)
    weights = np.linspace(0, 1, 41)
    sums = [np.trace(ppi.ppi_ols(samples, w).covariance) for w in weights]
    assert best.lam == pytest.approx(weights[np.argmin(sums)], abs=0.15)
    assert np.trace(best.covariance) <= min(sums) * 1.1


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
def test_labels_with_another_slope_do_not_widen_the_interval() -> None:
    """Standard errors equal the spread over draws; ppi-python's are a third too large."""
    thetas, errors, theirs = [], [], []
    for seed in range(150):
        rng = np.random.default_rng(seed)

        def drawn(size: int, rng: np.random.Generator = rng) -> list[np.ndarray]:
            x = np.column_stack([np.ones(size), rng.normal(size=size)])
            noise = rng.normal(size=size)
            return [
                x,
                x @ [0, 1] + noise,
                x @ [0, -1.5] + noise + rng.normal(0, 0.3, size),
            ]

        (x, y, y_hat), (others, _, y_hat_others) = drawn(100), drawn(400)
        found = ppi.ppi_ols(
            ppi.Samples(x=x, y=y, y_hat=y_hat, x_others=others, y_hat_others=y_hat_others)
        )
        thetas.append(found.theta[1])
        errors.append(found.std_errors[1])
        low, high = ppi_py.ppi_ols_ci(x, y, y_hat, others, y_hat_others, alpha=0.1)
        theirs.append((high - low)[1] / 2 / 1.6449)
    assert np.mean(errors) == pytest.approx(np.std(thetas), rel=0.15)
    assert np.mean(theirs) > 1.25 * np.mean(errors)


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(("n", "n_others"), SIZES)
@pytest.mark.parametrize("lam", [None, 0.4, 1])
def test_logistic_regression(n: int, n_others: int, lam: float | None) -> None:
    samples, arrays = regression("logit", n, n_others)
    options = {"ftol": 1e-15, "gtol": 1e-12}  # ppi-python itself stops at 1e-5
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
