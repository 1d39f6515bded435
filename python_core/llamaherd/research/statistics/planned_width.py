"""Width of the interval of a share that a simple sample is expected to give.

The interval is that of `estimate`. People and the model give the label equally often, and
each kind of error has the probability (1 - kappa) p (1 - p). The width is the mean over
the numbers of cases in the sample, of codes with the label for codes alone and of errors
of each kind for others, by three points of each number (Gauss-Hermite quadrature).
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.research.statistics import dsl, label_weight
from llamaherd.research.statistics.dsl import Problem
from llamaherd.research.statistics.influences import Influences
from llamaherd.research.statistics.intervals import normal_quantile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.research.statistics.sampling import Target

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
    """Return half the expected width of the interval of a share.

    Args:
        n: Number of coded texts.
        method: "gold", "dsl" or "ppi".
        share: Share of texts with the label, by people and by the model.
        kappa: Agreement of people and the model.
        population: Number of texts; None for infinitely many.
        target: See `Problem`.
        level: Confidence level.
    """
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
    if method == "ppi" and not problem.is_all_coded:
        plain = problem.target == "population"
        problem, found = (
            label_weight.simple_means(problem)
            if plain
            else (problem, label_weight.tuned_means(problem))
        )
    else:
        found = dsl.rectified(problem, 1.0 if method == "dsl" else 0.0)
    lam = found.lam if found.lams is None else found.lams
    influences = Influences.of(problem, lam, found.theta, np.ones((1, 1)))
    n_fitted = 2.0 if method == "ppi" else 1.0
    spread = influences.spread(np.diag(found.covariance), n_fitted, (0.0, 1.0), level)
    low, high, _ = spread.limits(found.theta, level)
    return float(min(high[0], 1.0) - max(low[0], 0.0)) / 2
