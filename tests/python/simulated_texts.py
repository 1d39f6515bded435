"""Simulated texts with codes, labels, gold samples and estimates whose truth is known.

Each simulation draws 2,000 texts in two groups, with codes, and with labels that are
wrong more often in one group; one label in five is wrong. True values are computed from
the distribution of the texts, not from a sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from llamaherd.coding.estimation.fitting import FitSettings, fit_regression
from llamaherd.coding.estimation.formulas import Matrices
from llamaherd.coding.estimation.means import fit_means
from llamaherd.coding.gold.codes import Codes
from llamaherd.coding.statistics import dsl, sampling
from llamaherd.coding.statistics.regression import solve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.coding.estimation.estimates import Estimate
    from llamaherd.coding.statistics.regression import Kind
    from llamaherd.engine.core.arrays import Floats


N_TEXTS, N_GOLD, LEVEL = 2000, 200, 0.95
DESIGNS = ("simple", "stratified", "uncertainty")
SAMPLES = [(design, N_GOLD) for design in DESIGNS]
by_dsl, by_gold = (partial(dsl.rectified_estimate, lam=lam) for lam in (1.0, 0.0))
METHODS = ("naive", "gold", "ppi", "dsl")
AGES = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
GROUP_SHARE = 0.4
BETA = np.array([-0.6, 0.8, 0.5])  # log odds of the code: intercept, group, age
ON_CODE = np.array(
    [1.0, 0.5, 0.3]
)  # coefficients of an outcome that depends on the code: intercept, code, group


@dataclass(frozen=True, kw_only=True, eq=False)
class Texts:
    """Texts with human codes and labels of the model.

    Attributes:
        group: float64[n], 0 or 1.
        age: float64[n].
        code: float64[n], human code, 0 or 1.
        label: float64[n], label of the model, 0 or 1.
        confidence: float64[n], confidence of the model in the label.
        outcome: float64[n], a variable that depends on the code.
    """

    group: Floats
    age: Floats
    code: Floats
    label: Floats
    confidence: Floats
    outcome: Floats


def random_texts(rng: np.random.Generator, n: int) -> Texts:
    """Draw texts; the model's labels miss more codes in group 1."""
    group = (rng.random(n) < GROUP_SHARE).astype(float)
    age = rng.choice(AGES, n)
    code = (rng.random(n) < _code_prob(group, age)).astype(float)
    wrong = rng.random(n) < _error_prob(group, code)
    label = np.where(wrong, 1 - code, code)
    confidence = np.where(wrong, rng.beta(2, 2, n), rng.beta(5, 1.5, n))
    outcome = ON_CODE @ np.array([np.ones(n), code, group]) + rng.normal(0, 1, n)
    return Texts(
        group=group,
        age=age,
        code=code,
        label=label,
        confidence=confidence,
        outcome=outcome,
    )


def _code_prob(group: Floats, age: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-(BETA[0] + BETA[1] * group + BETA[2] * age))))


def _error_prob(group: Floats, code: Floats) -> Floats:
    return np.asarray(np.where(code == 1, 0.1 + 0.3 * group, 0.2 - 0.1 * group))


def truths() -> dict[str, Floats]:
    """Return the true value of each estimate, computed from the texts' distribution."""
    group, age = (axis.ravel() for axis in np.meshgrid([0.0, 1.0], AGES))
    weights = np.where(group == 1, GROUP_SHARE, 1 - GROUP_SHARE) / len(AGES)
    probs = _code_prob(group, age)
    x = np.column_stack([np.ones(len(group)), group, age])
    linear = solve("ols", x, probs, weights)
    share = [np.average(probs[group == g], weights=weights[group == g]) for g in (0, 1)]
    return {
        "mean": np.array([weights @ probs]),
        "difference": np.array([share[1] - share[0]]),
        "ols": linear[1:],
        "logit": BETA[1:],
        "covariate": ON_CODE[1:],
    }


def drawn(
    texts: Texts, design: str, rng: np.random.Generator, n_gold: int = N_GOLD
) -> sampling.Draw:
    """Draw a gold sample."""
    if design == "simple":
        return sampling.draw_simple(N_TEXTS, n_gold, rng)
    if design == "stratified":
        labels = texts.label.astype(int).tolist()
        return sampling.draw_stratified(labels, n_gold, rng, "equal")
    probs = sampling.inclusion_probs(1 - texts.confidence, n_gold, 0.3)
    return sampling.draw_unequal(probs, rng)


def problems(texts: Texts, draw: sampling.Draw) -> Iterator[tuple[str, dsl.Problem, Any]]:
    """Yield each estimate as its name, regression, and coefficients to evaluate."""
    ones = np.ones(N_TEXTS)
    groups = np.column_stack([ones, texts.group])
    both = np.column_stack([ones, texts.group, texts.age])

    def problem(
        kind: Kind, x_hat: Floats, y_hat: Floats, x: Floats, y: Floats
    ) -> dsl.Problem:
        return dsl.Problem(
            kind=kind,
            x_hat=x_hat,
            y_hat=y_hat,
            rows=draw.rows,
            x=x[draw.rows],
            y=y[draw.rows],
            probs=draw.probs,
            strata=draw.strata[draw.rows],
            all_probs=draw.all_probs,
            all_strata=draw.strata,
        )

    label, code = texts.label, texts.code
    for name, kind, x, columns in [
        ("mean", "ols", ones[:, None], slice(None)),
        ("difference", "ols", groups, slice(1, None)),
        ("ols", "ols", both, slice(1, None)),
        ("logit", "logit", both, slice(1, None)),
    ]:
        yield name, problem(kind, x, label, x, code), columns
    x_hat = np.column_stack([ones, label, texts.group])
    x = np.column_stack([ones, code, texts.group])
    outcome = texts.outcome
    yield "covariate", problem("ols", x_hat, outcome, x, outcome), slice(1, None)


def estimated(name: str, design: str, problem: dsl.Problem) -> list[Estimate]:
    """Return the estimates of `estimate` by all methods; [] if there is no solution."""
    gold = Codes(
        rows=problem.rows,
        columns=[],
        probs=problem.probs,
        strata=problem.strata,
        design={"kind": design},
        all_probs=problem.all_probs,
        all_strata=problem.all_strata,
    )
    settings = FitSettings(gold=gold, methods=METHODS, level=LEVEL, target="population")
    try:
        if name in {"mean", "difference"}:
            groups = problem.x_hat[:, -1].astype(int) * (name == "difference")
            names = [""] if name == "mean" else ["0", "1"]
            outcome = (name, problem.y_hat, problem.y)
            rows = fit_means([outcome], "share", groups, names, settings).rows
            return [row for row in rows if row.term == "difference" or name == "mean"]
        terms = [str(i) for i in range(problem.x.shape[1])]
        matrices = Matrices(
            x_hat=problem.x_hat,
            y_hat=problem.y_hat,
            x=problem.x,
            y=problem.y,
            terms=tuple(terms),
            outcome=name,
            has_label_right=name == "covariate",
        )
        rows = fit_regression(problem.kind, matrices, settings).rows
    except ValueError:
        return []
    return [row for row in rows if row.term != "0"]


def measured(
    n_draws: int, seed: int, samples: Sequence[tuple[str, int]] = SAMPLES
) -> dict[str, Any]:
    """Return coverage, bias and widths by method, sample and coefficient."""
    truth = truths()
    estimates: dict[tuple[str, int, str, str, int], list[Any]] = {}
    n_failed = dict.fromkeys([f"{design}, {n_gold}" for design, n_gold in samples], 0)
    for generator in np.random.default_rng(seed).spawn(n_draws):
        texts = random_texts(generator, N_TEXTS)
        for design, n_gold in samples:
            draw = drawn(texts, design, generator, n_gold)
            for name, problem, _ in problems(texts, draw):
                for row in estimated(name, design, problem):
                    i = int(row.term) - 1 if row.term.isdigit() else 0
                    if np.isnan(row.std_error):
                        n_failed[f"{design}, {n_gold}"] += i == 0
                        continue
                    key = (design, n_gold, name, row.method, i)
                    values = (row.low, row.high, row.estimate)
                    estimates.setdefault(key, []).append(values)
    rows = [
        _row(key, np.array(values), truth[key[2]][key[4]])
        for key, values in estimates.items()
    ]
    return {"n_failed": n_failed, "rows": rows}


def _row(
    key: tuple[str, int, str, str, int], values: Floats, truth: float
) -> dict[str, Any]:
    low, high, estimates = values.T
    design, n_gold, name, method, i = key
    return {
        "design": design,
        "n_gold": n_gold,
        "estimate": name,
        "coefficient": i,
        "method": method,
        "truth": float(truth),
        "bias": float(estimates.mean() - truth),
        "coverage": float(((low <= truth) & (truth <= high)).mean()),
        "width": float((high - low).mean()),
        "draws": len(estimates),
    }
