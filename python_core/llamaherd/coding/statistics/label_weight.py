"""Weights of the labels by power tuning (PPI++), and the width of an interval to expect.

Power tuning chooses the weight that gives a mean the least variance. n texts have a code
Y and a prediction f; N other texts have only a prediction. The estimate weights
predictions by their usefulness:

    theta = mean of Y + lam (mean of f over the N texts - mean of f over the n texts),

with lam in [0, 1]. lam = 0 uses only the codes. The best lam is estimated, so that
asymptotically the interval is never wider than with codes alone.

`half_width` is the width of the interval of a share that a simple sample is expected to
give. The interval is that of `estimate`. People and the model give the label equally
often, and each kind of error has the probability (1 - kappa) p (1 - p). The width is the
mean over the numbers of cases in the sample, of codes with the label for codes alone and
of errors of each kind for others, by three points of each number (Gauss-Hermite
quadrature).

Sources: Angelopoulos, Duchi, Zrnic, "PPI++: Efficient Prediction-Powered Inference", 2023
(arXiv 2311.01453), section 6; Zrnic, Candes, "Active Statistical Inference", 2024 (arXiv
2403.03208), for unequal probabilities.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.coding.statistics.dsl import (
    Problem,
    bread_at,
    meat_at,
    rectified_estimate,
    solution_at,
)
from llamaherd.coding.statistics.influences import Influences
from llamaherd.coding.statistics.intervals import normal_quantile
from llamaherd.coding.statistics.regression import Estimated, FitError, sandwich

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.coding.statistics.sampling import Target
    from llamaherd.engine.core.arrays import Floats


def best_lam(y: Floats, y_hat: Floats, y_hat_others: Floats) -> float:
    """Return the weight of the predictions in a simple random sample."""
    both = np.concatenate([y_hat, y_hat_others])
    spread = float(np.var(both, ddof=1)) * (1 + len(y) / len(y_hat_others))
    shared = float(np.mean((y - y.mean()) * (y_hat - y_hat.mean())))
    return float(np.clip(shared / spread, 0, 1)) if spread > 0 else 0.0


def tuned_means(problem: Problem) -> Estimated:
    """Estimate means in groups, each with the lam that minimizes its own variance.

    The equation of a group contains only the texts of this group. A group on which the
    model is accurate therefore gets a larger lam than the other groups.
    """
    theta = solution_at(problem, 1.0)
    bread = bread_at(problem, 1.0, theta)
    # Factors that do not depend on lam, so that each variance is a parabola in lam.
    n, p = problem.x.shape
    factors = np.sqrt((n - 1) / max(n - p, 1) / (1 - problem.stratum_leverage))
    none, half, full = (
        np.diag(sandwich(bread, meat_at(problem, lam, theta, factors)))
        for lam in (0.0, 0.5, 1.0)
    )
    square = 2 * (none - 2 * half + full)
    slope = full - none - square
    best = -slope / (2 * np.where(square > 0, square, 1.0))
    ends = (full < none).astype(np.float64)
    lam = np.where(square > 0, np.clip(best, 0, 1), ends)
    estimated = rectified_estimate(problem, lam)
    one = float(lam[0]) if len(lam) == 1 else float("nan")
    return replace(estimated, lam=one, lams=np.asarray(lam))


def simple_means(problem: Problem) -> tuple[Problem, Estimated]:
    """Fit each group's mean by PPI++, with its coded texts as a simple random sample.

    The estimate is that of `rectified_estimate` with the weight lam / (1 - share of coded
    texts) of the labels. The number of codes of a group is taken as given. The mean of a
    group whose texts are all coded is that of its codes.
    """
    is_known = problem.all_coded
    others = np.ones(len(problem.y_hat), dtype=bool)
    others[problem.rows] = False
    if not others.any():
        raise FitError("all texts have codes: no code remains to be predicted")
    shares = problem.x.sum(axis=0) / problem.x_hat.sum(axis=0)
    hat = problem.y_hat[problem.rows]
    lams = np.zeros(len(shares))
    for g in np.flatnonzero(~is_known):
        coded, uncoded = problem.x[:, g] == 1, others & (problem.x_hat[:, g] == 1)
        lams[g] = best_lam(problem.y[coded], hat[coded], problem.y_hat[uncoded])
    strata = problem.x_hat @ np.arange(1, len(shares) + 1)
    all_probs = np.where(strata > 0, problem.x_hat @ shares, 1.0)
    by_group = replace(
        problem,
        probs=all_probs[problem.rows],
        strata=strata[problem.rows].astype(np.int64),
        all_probs=all_probs,
        all_strata=None,
        outside=None,
    )
    scaled = lams / np.where(is_known, 1.0, 1 - shares)
    estimated = rectified_estimate(by_group, scaled)
    lam = float(lams[0]) if len(lams) == 1 else float("nan")
    return by_group, replace(estimated, lam=lam, lams=scaled)


def by_codes(
    method: str, problem: Problem, ways: Floats, *, is_plain: bool
) -> tuple[Estimated, Influences]:
    """Estimate by "dsl", "ppi" or "gold"; `is_plain`: by the original form of PPI++."""
    if method == "ppi":
        problem, estimated = (
            simple_means(problem) if is_plain else (problem, tuned_means(problem))
        )
    else:
        estimated = rectified_estimate(problem, 1.0 if method == "dsl" else 0.0)
    lam = estimated.lam if estimated.lams is None else estimated.lams
    return estimated, Influences.of(problem, lam, estimated.theta, ways)


_TIMES = 10  # most texts per code; the variance of more texts is known
_POINTS = ((-(3**0.5), 1 / 6), (0.0, 2 / 3), (3**0.5, 1 / 6))  # of a normal variable


def half_width(  # noqa: PLR0917 - numbers of one design
    n: int,
    method: Literal["dsl", "ppi", "gold"],
    share: float,
    kappa: float,
    population: int | None,
    target: Target,
    level: float,
) -> float:
    """Return half the expected width of the interval of a share."""
    n_texts, scale, of_texts = population or _TIMES * n, 1.0, 0.0
    if population is None or population > _TIMES * n:
        # The draw's part of the variance has the factor 1 - n / N.
        others = 0.0 if population is None else 1 / population
        n_texts, scale = _TIMES * n, (1 - n * others) / (1 - 1 / _TIMES)
        z = normal_quantile(level)
        of_texts = z**2 * share * (1 - share) * others if target == "population" else 0.0
        target = "texts"
    mean = 0.0
    for weight, counts in _samples(n, method, share, kappa):
        y = np.repeat([0.0, 0.0, 1.0, 1.0], counts)
        labels = np.repeat([0.0, 1.0, 0.0, 1.0], counts)
        y_hat = np.zeros(n_texts)
        y_hat[: n + max(round(share * n_texts) - int(labels.sum()), 0)] = 1.0
        y_hat[:n] = labels
        problem = Problem(
            kind="ols",
            x_hat=np.ones((n_texts, 1)),
            y_hat=y_hat,
            rows=np.arange(n),
            x=np.ones((n, 1)),
            y=y,
            probs=np.full(n, n / n_texts),
            strata=np.zeros(n, dtype=np.int64),
            target=target,
            all_probs=np.full(n_texts, n / n_texts),
        ).with_certainty()
        mean += weight * _half(problem, method, level)
    return float(np.sqrt(mean**2 * scale + of_texts))


def _samples(
    n: int, method: str, share: float, kappa: float
) -> Iterator[tuple[float, list[int]]]:
    """Yield samples: weights, and numbers of texts by code, then by label."""

    def count(prob: float, z: float) -> int:
        number = round(n * prob + z * np.sqrt(n * prob * (1 - prob)))
        return int(min(max(number, 0), n))

    if method == "gold":
        for z, weight in _POINTS:
            yield weight, [n - count(share, z), 0, 0, count(share, z)]
        return
    error = (1 - kappa) * share * (1 - share)
    for (one, of_one), (other, of_other) in product(_POINTS, _POINTS):
        missed, false = count(error, one), count(error, other)
        n_ones = min(max(count(share, 0.0), missed), n - false)
        counts = [n - n_ones - false, false, missed, n_ones - missed]
        yield of_one * of_other, counts


def _half(problem: Problem, method: str, level: float) -> float:
    used = "gold" if method == "ppi" and problem.is_all_coded else method
    is_plain = problem.target == "population"
    estimated, influences = by_codes(used, problem, np.ones((1, 1)), is_plain=is_plain)
    n_fitted = 2.0 if method == "ppi" else 1.0
    spread = influences.spread(np.diag(estimated.covariance), n_fitted, (0.0, 1.0), level)
    low, high, _ = spread.limits(estimated.theta, level)
    return float(min(high[0], 1.0) - max(low[0], 0.0)) / 2
