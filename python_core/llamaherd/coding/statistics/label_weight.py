"""Other weights of the labels than that of DSL: power tuning (PPI++), and codes alone.

Power tuning chooses the weight that gives a mean the least variance. n texts have a code
Y and a prediction f; N other texts have only a prediction. The estimate weights
predictions by their usefulness:

    theta = mean of Y + lam (mean of f over the N texts - mean of f over the n texts),

with lam in [0, 1]. lam = 0 uses only the codes. The best lam is estimated, so that
asymptotically the interval is never wider than with codes alone.

Codes alone are compared by the number of them that would give the same variance. Suppose
that people code k times as many texts, by the same design: each inclusion probability pi
becomes min(k pi, 1). The variance of an estimate by codes alone is then

    V(k) = fixed + sum_j parts_j max(1 / k - pi_j, 0),

where (1 - pi_j) parts_j is the part of the draw's variance that comes from codes with the
inclusion probability pi_j. Texts that are all coded, with pi_j = 1, add no variance if k
is at least 1, and add some if fewer texts are coded. Each stratum therefore has its own
finite population correction, and the variance of an estimate of a group depends only on
the strata of this group. `fixed` is the variance that remains if all texts are coded:
that of the texts as a sample of a population, and 0 if estimates describe the texts
themselves. For one simple random sample of n of N texts, V(k) is proportional to 1 / (k
n) for the population, and to 1 / (k n) - 1 / N for the texts.

`half_width` is the width of the interval of a share that a simple sample is expected to
give. The interval is that of `estimate`. People and the model give the label equally
often, and each kind of error has the probability (1 - kappa) p (1 - p). The width is the
mean over the numbers of cases in the sample, of codes with the label for codes alone and
of errors of each kind for others, by three points of each number (Gauss-Hermite
quadrature).

Sources: Angelopoulos, Duchi, Zrnic, "PPI++: Efficient Prediction-Powered Inference", 2023
(arXiv 2311.01453), section 6; Zrnic, Candes, "Active Statistical Inference", 2024 (arXiv
2403.03208), for unequal probabilities. Cochran, "Sampling Techniques", 3rd ed., 1977,
section 5.3, for strata; Hajek, "Asymptotic theory of rejective sampling with varying
probabilities", 1964, for unequal probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.coding.statistics.dsl import (
    Centred,
    Problem,
    bread_at,
    leverage_factors,
    meat_at,
    rectified,
    solution_at,
)
from llamaherd.coding.statistics.influences import Influences
from llamaherd.coding.statistics.intervals import normal_quantile
from llamaherd.coding.statistics.regression import FitError, sandwich, scores

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.coding.statistics.regression import Estimated
    from llamaherd.coding.statistics.sampling import Floats, Target

    Key = tuple[str, str, str]  # outcome, term, group


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
    found = rectified(problem, lam)
    one = float(lam[0]) if len(lam) == 1 else float("nan")
    return replace(found, lam=one, lams=np.asarray(lam))


def simple_means(problem: Problem) -> tuple[Problem, Estimated]:
    """Fit each group's mean by PPI++, with its coded texts as a simple random sample.

    The estimate is that of `rectified` with the weight lam / (1 - share of coded
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
        own, rest = problem.x[:, g] == 1, others & (problem.x_hat[:, g] == 1)
        lams[g] = best_lam(problem.y[own], hat[own], problem.y_hat[rest])
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
    found = rectified(by_group, scaled)
    lam = float(lams[0]) if len(lams) == 1 else float("nan")
    return by_group, replace(found, lam=lam, lams=scaled)


def by_codes(
    method: str, problem: Problem, ways: Floats, *, is_plain: bool
) -> tuple[Estimated, Influences]:
    """Estimate by "dsl", "ppi" or "gold"; `is_plain`: by the original form of PPI++."""
    if method == "ppi":
        problem, found = (
            simple_means(problem) if is_plain else (problem, tuned_means(problem))
        )
    else:
        found = rectified(problem, 1.0 if method == "dsl" else 0.0)
    lam = found.lam if found.lams is None else found.lams
    return found, Influences.of(problem, lam, found.theta, ways)


_HALVINGS = 60  # bisection of k on the log scale, to about 15 digits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VarianceParts:
    """Variance of an estimate by codes alone, as multiples of its variance at k = 1."""

    fixed: float  # Part that remains if all texts are coded
    probs: Floats  # float64[c], distinct inclusion probabilities of codes
    # float64[c], parts of codes with these probabilities, for 1 / k - pi = 1
    parts: Floats

    def ratio(self, k: float) -> float:
        """Return V(k) / V(1)."""
        return self.fixed + float(self.parts @ np.maximum(1 / k - self.probs, 0))

    @property
    def can_fall(self) -> bool:
        """True if more codes reduce the variance."""
        return bool((self.parts[self.probs < 1] > 0).any())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodesAlone:
    """Variances by codes alone, as functions of the number of codes."""

    n_codes: int  # Number of codes
    probs: Floats  # float64[c], distinct inclusion probabilities of all texts
    counts: Floats  # float64[c], numbers of texts with these probabilities
    # Parts of each estimate's variance, by outcome, term and group
    variances: dict[Key, VarianceParts] = field(default_factory=dict)

    def and_of(self, other: CodesAlone) -> CodesAlone:
        """Return these variances together with those of other estimates."""
        return replace(self, variances={**self.variances, **other.variances})

    def needed(self, key: Key, ratio: float) -> float:
        """Return the number of codes with which V is `ratio` times the variance.

        The number is at most the number of texts. It is NaN for an unknown estimate, and
        if more codes do not change V, because all texts of a group are coded.
        """
        parts = self.variances.get(key)
        if parts is None or not parts.can_fall:
            return float("nan")
        # At k = low, V is too large; at k = high, all texts are coded.
        low, high = min(1 / ratio, 1.0) / 2, 1 / float(self.probs.min())
        if parts.ratio(high) >= ratio:
            return self._codes(high)
        while parts.ratio(low) < ratio:
            low /= 2
        for _ in range(_HALVINGS):
            middle = float(np.sqrt(low * high))
            is_high = parts.ratio(middle) < ratio
            low, high = (low, middle) if is_high else (middle, high)
        return self._codes(high)

    def _codes(self, k: float) -> float:
        """Return the number of codes if each inclusion probability is min(k pi, 1)."""
        more = self.counts @ np.minimum(k * self.probs, 1)
        found = self.n_codes * float(more / (self.counts @ self.probs))
        return min(found, float(self.counts.sum()))


def codes_alone(problem: Problem, ways: dict[Key, Floats]) -> CodesAlone:
    """Return variances by codes alone as functions of the number of codes."""
    probs, counts = np.unique(problem.of_all_texts[0], return_counts=True)
    theta = solution_at(problem, 0.0)
    bread = bread_at(problem, 0.0, theta)
    covariance = sandwich(bread, meat_at(problem, 0.0, theta))
    terms = scores(problem.kind, problem.x, problem.y, theta)
    terms *= problem.survey[problem.rows, None]
    terms *= leverage_factors(problem, 0.0, theta)[:, None]
    terms = np.asarray(np.linalg.solve(bread, terms.T).T, dtype=np.float64)
    variances = {}
    for key, way in ways.items():
        whole = float(way @ covariance @ way)
        if whole > 0:
            variances[key] = _parts(problem, terms @ way, whole)
    return CodesAlone(
        n_codes=len(problem.y),
        probs=probs,
        counts=counts.astype(np.float64),
        variances=variances,
    )


def _parts(problem: Problem, terms: Floats, whole: float) -> VarianceParts:
    """Divide the variance of one estimate."""
    if problem.clusters is not None:  # more codes of the same clusters
        return VarianceParts(fixed=0.0, probs=np.zeros(1), parts=np.ones(1))
    if problem.strata is None:
        left = 1 - problem.probs
        each = (terms / problem.probs) ** 2
    else:
        scale, left = problem.drawn_terms
        each = _within_strata(problem, terms * scale, left)
    drawn = float(left @ each)
    if drawn <= 0:  # all texts of the group are coded
        return VarianceParts(fixed=1.0, probs=np.zeros(0), parts=np.zeros(0))
    whole_or_drawn = drawn if problem.target == "texts" else max(whole, drawn)
    rates, at = np.unique(1 - left, return_inverse=True)
    return VarianceParts(
        fixed=1 - drawn / whole_or_drawn,
        probs=rates,
        parts=np.bincount(at.ravel(), each) / whole_or_drawn,
    )


def _within_strata(problem: Problem, terms: Floats, left: Floats) -> Floats:
    """Return each code's part of Hajek's variance divided by 1 - pi, float64[n].

    See `hajek`. In a stratum that was drawn completely all codes count alike.
    """
    strata, outside = problem.strata, problem.outside
    assert strata is not None  # noqa: S101 - callers have strata
    plain = Centred.of(terms[:, None], left, strata, outside)
    is_full = plain.left + plain.more <= 0
    if is_full.any():
        left = np.where(is_full[plain.at], 1.0, left)
        if outside is not None:
            full = np.isin(outside.strata, strata[is_full[plain.at]])
            outside = replace(outside, left=np.where(full, 1.0, outside.left))
        plain = Centred.of(terms[:, None], left, strata, outside)
    # codes outside the part have the same probabilities as those of the stratum
    rest = plain.more * plain.means[:, 0] ** 2 / np.maximum(plain.left, 1e-300)
    return np.asarray(plain.away[:, 0] ** 2 + rest[plain.at])


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
    found, influences = by_codes(used, problem, np.ones((1, 1)), is_plain=is_plain)
    n_fitted = 2.0 if method == "ppi" else 1.0
    spread = influences.spread(np.diag(found.covariance), n_fitted, (0.0, 1.0), level)
    low, high, _ = spread.limits(found.theta, level)
    return float(min(high[0], 1.0) - max(low[0], 0.0)) / 2
