"""Tests of estimates from wrong labels and a few codes."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
import simulated_texts as simulated
from llamaherd.coding.statistics import dsl, label_weight, sampling
from llamaherd.coding.statistics.regression import FitError, solve
from scipy.optimize import linprog
from simulated_texts import by_dsl, by_gold
from statsmodels.api import GLM, OLS, families
from thorough import sized


def problem(kind: str = "logit", design: str = "simple", seed: int = 0) -> dsl.Problem:
    rng = np.random.default_rng(seed)
    texts = simulated.random_texts(rng, simulated.N_TEXTS)
    draw = simulated.drawn(texts, design, rng)
    named = {name: fields for name, fields, _ in simulated.problems(texts, draw)}
    return named[kind]


@pytest.mark.parametrize("kind", ["ols", "logit"])
def test_regressions_of_labels_as_statsmodels_has_them(kind: str) -> None:
    case = problem(kind)
    fit = dsl.naive(case)
    if kind == "ols":
        expected = OLS(case.y_hat, case.x_hat).fit(cov_type="HC0")
    else:
        model = GLM(case.y_hat, case.x_hat, family=families.Binomial())
        expected = model.fit(cov_type="HC0", tol=1e-12)
    n, p = case.x_hat.shape
    errors = expected.bse * np.sqrt(n / (n - p))
    np.testing.assert_allclose(fit.theta, expected.params, atol=1e-7)
    np.testing.assert_allclose(fit.std_errors, errors, rtol=1e-6)


@pytest.mark.parametrize("kind", ["ols", "logit"])
def test_gold_alone_is_a_regression_of_the_codes(kind: str) -> None:
    case = problem(kind)
    fit = by_gold(case)
    family = families.Gaussian() if kind == "ols" else families.Binomial()
    expected = GLM(case.y, case.x, family=family).fit(cov_type="HC1", tol=1e-12)
    np.testing.assert_allclose(fit.theta, expected.params, atol=1e-7)
    np.testing.assert_allclose(fit.std_errors, expected.bse, rtol=0.02)
    if kind == "ols":  # about the texts of a population, of which few are coded
        rare = dataclasses.replace(case, probs=np.full(len(case.y), 1e-9), strata=None)
        exact = OLS(case.y, case.x).fit(cov_type="HC2")
        np.testing.assert_allclose(by_gold(rare).std_errors, exact.bse, rtol=1e-6)


@pytest.mark.parametrize("name", ["mean", "ols", "logit", "covariate"])
def test_with_all_texts_coded_it_is_the_estimate_by_the_codes(name: str) -> None:
    rng = np.random.default_rng(2)
    texts = simulated.random_texts(rng, simulated.N_TEXTS)
    n = simulated.N_TEXTS
    draw = sampling.Draw(
        rows=np.arange(n), all_probs=np.ones(n), strata=np.zeros(n, dtype=int)
    )
    named = {name: case for name, case, _ in simulated.problems(texts, draw)}
    case = named[name]
    expected = solve(case.kind, case.x, case.y, np.ones(n))
    for method in (by_dsl, by_gold):
        np.testing.assert_allclose(method(case).theta, expected, atol=1e-8)
    exact = dataclasses.replace(case, target="texts")
    np.testing.assert_allclose(by_dsl(exact).std_errors, 0, atol=1e-12)


def test_the_mean_by_hand() -> None:
    # Labels are 1, 1, 1, 0; texts 0 and 3 have the codes 0 and 0, each drawn with 1/2.
    # The mean label 3/4 is corrected by ((0 - 1) / (1/2) + 0) / 4.
    case = dsl.Problem(
        kind="ols",
        x_hat=np.ones((4, 1)),
        y_hat=np.array([1.0, 1, 1, 0]),
        rows=np.array([0, 3]),
        x=np.ones((2, 1)),
        y=np.zeros(2),
        probs=np.full(2, 0.5),
    )
    assert by_dsl(case).theta == pytest.approx([0.25])
    # The terms of the equation are -1.25, 0.75, 0.75, -0.25; their squares sum to 2.75.
    # The draw contributes 2 of this sum, (1 - 1/2) (-1)^2 / (1/2)^2. The draw's part is
    # multiplied by n / (n - 1) = 2.
    assert by_dsl(case).covariance[0, 0] == pytest.approx((0.75 + 2 * 2) / 16)
    # In a simple sample the draw's part is a mean's variance: (1 - 1/2) var(-1, 0) / 2.
    simple = dataclasses.replace(case, strata=np.zeros(2, dtype=int), target="texts")
    assert by_dsl(simple).covariance[0, 0] == pytest.approx(0.5 * 0.5 / 2)


def test_a_stratified_sample_has_the_textbooks_variance() -> None:
    case = problem("mean", "stratified")
    exact = dataclasses.replace(case, target="texts")
    variance = 0.0
    for h in np.unique(case.strata):
        codes, prob = case.y[case.strata == h], case.probs[case.strata == h][0]
        n_texts = len(codes) / prob
        variance += n_texts**2 * (1 - prob) * np.var(codes, ddof=1) / len(codes)
    fit = by_gold(exact).covariance[0, 0]
    assert fit == pytest.approx(variance / simulated.N_TEXTS**2, rel=1e-9)


def test_power_tuning_of_a_simple_sample_is_that_of_ppi() -> None:
    case = problem("mean")
    others = np.setdiff1d(np.arange(simulated.N_TEXTS), case.rows)
    by_ppi = label_weight.best_lam(case.y, case.y_hat[case.rows], case.y_hat[others])
    tuned = label_weight.tuned_means(case)
    # PPI includes only the labels of texts without a code, so its lam is N / (N - n)
    # times lam of DSL.
    assert by_ppi == pytest.approx(tuned.lam * 0.9, rel=0.05)


@pytest.mark.parametrize("design", ["simple", "stratified", "uncertainty"])
def test_the_best_lam_has_the_smallest_variance(design: str) -> None:
    case = problem("mean", design, 4)
    best = label_weight.tuned_means(case).covariance[0, 0]
    for lam in (0.0, 0.3, 0.6, 1.0):
        assert best < dsl.rectified_estimate(case, lam).covariance[0, 0] * 1.03


def in_groups(seed: int, design: str) -> dsl.Problem:
    """Return shares in two groups; labels are nearly always right in the first group."""
    rng = np.random.default_rng(seed)
    texts = simulated.random_texts(rng, simulated.N_TEXTS)
    right = rng.random(simulated.N_TEXTS) < np.where(texts.group == 1, 0.6, 0.95)
    texts = dataclasses.replace(texts, label=np.where(right, texts.code, 1 - texts.code))
    draw = simulated.drawn(texts, design, rng)
    x = (texts.group[:, None] == np.arange(2)).astype(float)
    return dsl.Problem(
        kind="ols",
        x_hat=x,
        y_hat=texts.label,
        rows=draw.rows,
        x=x[draw.rows],
        y=texts.code[draw.rows],
        probs=draw.probs,
        strata=draw.strata[draw.rows],
        all_probs=draw.all_probs,
        all_strata=draw.strata,
    )


@pytest.mark.parametrize("design", ["stratified", "uncertainty"])
def test_each_group_has_the_lam_of_its_own_smallest_variance(design: str) -> None:
    case = in_groups(5, design)
    best = label_weight.tuned_means(case)
    for lam in (0.0, 0.3, 0.6, 1.0):
        other = dsl.rectified_estimate(case, lam)
        by_group = dsl.rectified_estimate(case, np.full(2, lam))
        np.testing.assert_allclose(by_group.theta, other.theta)
        np.testing.assert_allclose(by_group.covariance, other.covariance)
        assert (best.std_errors < other.std_errors * 1.02).all()
    assert best.lams[0] > best.lams[1]  # labels of the first group are nearly all right
    assert np.isnan(best.lam)


def test_a_weight_for_each_group_is_a_fit_of_each_group() -> None:
    """Means of two groups with two weights are those of each group, also covariances."""
    case = in_groups(6, "stratified")
    both = dsl.rectified_estimate(case, np.array([0.9, 0.2]))
    for g, lam in enumerate((0.9, 0.2)):
        alone = dsl.rectified_estimate(case, lam)
        assert both.theta[g] == pytest.approx(alone.theta[g])
        assert both.covariance[g, g] == pytest.approx(alone.covariance[g, g])
    assert abs(both.covariance[0, 1]) < both.covariance[0, 0]


def test_clusters_make_intervals_wider() -> None:
    case = problem("mean")
    rng = np.random.default_rng(1)
    alone = dataclasses.replace(case, strata=None)
    clustered = dataclasses.replace(alone, clusters=np.arange(simulated.N_TEXTS))
    single, separate = by_dsl(alone).std_errors, by_dsl(clustered).std_errors
    assert separate == pytest.approx(single, rel=1e-2)
    # Speakers who repeat themselves: twenty texts each, sorted by label.
    sorted_ = np.argsort(np.argsort(case.y_hat + rng.random(simulated.N_TEXTS) / 2))
    wide = dataclasses.replace(alone, clusters=sorted_ // 20)
    assert (by_dsl(wide).std_errors > 1.1 * single).all()
    assert (dsl.naive(wide).std_errors > 2 * dsl.naive(alone).std_errors).all()


def test_what_has_no_solution_is_said() -> None:
    case = problem("logit")
    perfect = dataclasses.replace(case, y=(case.x[:, 1] > 0).astype(float))
    with pytest.raises(FitError, match=r"separated.*column [12] of the model"):
        by_gold(perfect)
    double = np.column_stack([case.x_hat, case.x_hat[:, 1]])
    with pytest.raises(FitError, match="linearly dependent"):
        dsl.naive(dataclasses.replace(case, x_hat=double))
    none = np.column_stack([case.x_hat, np.zeros(len(case.y_hat))])
    with pytest.raises(FitError, match="column 4 of the model is 0 everywhere"):
        dsl.naive(dataclasses.replace(case, x_hat=none))
    with pytest.raises(FitError, match="2 rows for 3 coefficients"):
        by_gold(
            dataclasses.replace(
                case, rows=case.rows[:2], x=case.x[:2], y=case.y[:2], probs=case.probs[:2]
            )
        )


@pytest.mark.parametrize("seed", range(8))
def test_large_log_odds_are_not_separated(seed: int) -> None:
    """A linear program shows without any threshold whether an outcome is separated."""
    rng = np.random.default_rng(seed)
    n = 60 if seed % 2 else 3000
    x = np.column_stack([np.ones(n), rng.lognormal(0, 1.2, n), rng.normal(size=n)])
    y = (rng.random(n) < 1 / (1 + np.exp(-x @ [-1.0, 0.9, 0.5]))).astype(float)
    if seed >= 6:  # only a few of the texts have this covariate
        x[:, 2] = np.arange(n) < 3
        y[:3] = 1
    sides = (2 * y - 1)[:, None] * x
    best = linprog(-sides.sum(axis=0), -sides, np.zeros(n), bounds=[(-1, 1)] * 3).fun
    if best < -1e-9:
        with pytest.raises(FitError, match=r"separated.*column 3 of"):
            solve("logit", x, y, np.ones(n))
        return
    fit = solve("logit", x, y, np.ones(n))
    expected = GLM(y, x, family=families.Binomial()).fit(tol=1e-12).params
    np.testing.assert_allclose(fit, expected, atol=1e-6)


@pytest.mark.long(
    reason="simulates studies or compares with other packages on many samples"
)
@pytest.mark.more(reason="simulates studies: a fifth as many")
def test_intervals_hold_the_truth_where_naive_ones_do_not() -> None:
    draws = sized(40, 200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        simulation = simulated.measured(draws, 3)
    assert set(simulation["n_failed"].values()) == {0}
    error = 4 * np.sqrt(0.95 * 0.05 / draws)
    valid = [row for row in simulation["rows"] if row["method"] != "naive"]
    assert {row["method"] for row in valid} == {"gold", "ppi", "dsl"}
    regressions = {"ols", "logit", "covariate"}
    assert not [r for r in valid if r["method"] == "ppi" and r["estimate"] in regressions]
    for row in valid:
        assert row["coverage"] == pytest.approx(0.95, abs=error), row
    naive = {
        row["estimate"]: row["coverage"]
        for row in simulation["rows"]
        if row["method"] == "naive" and row["coefficient"] == 0
    }
    assert naive.pop("mean") < 0.8
    assert set(naive) == {"difference", "ols", "logit", "covariate"}
    assert max(naive.values()) < 0.2


@pytest.mark.more(reason="simulates studies: a fifth as many")
@pytest.mark.parametrize("design", ["simple", "stratified", "uncertainty"])
def test_intervals_about_these_texts_hold_what_all_codes_would_give(design: str) -> None:
    rng = np.random.default_rng(11)
    texts = simulated.random_texts(rng, simulated.N_TEXTS)
    ones = np.ones((simulated.N_TEXTS, 1))
    groups = np.column_stack([ones, texts.group])
    truths = {
        "mean": solve("ols", ones, texts.code, ones[:, 0]),
        "difference": solve("ols", groups, texts.code, ones[:, 0])[1:],
    }
    draws = sized(60, 300)
    held = dict.fromkeys(truths, 0)
    for generator in rng.spawn(draws):
        draw = simulated.drawn(texts, design, generator)
        for name, case, which in simulated.problems(texts, draw):
            if name in truths:
                fit = by_dsl(dataclasses.replace(case, target="texts"))
                away = np.abs(fit.theta - truths[name][0]) / fit.std_errors
                held[name] += int(away[which][0] <= 1.96)
    for n in held.values():
        assert n / draws == pytest.approx(0.95, abs=4 * np.sqrt(0.95 * 0.05 / draws))
