"""Design-based supervised learning: valid estimates from imperfect labels.

Every text has the model's label D^; a sample with inclusion probabilities pi also has a
human code D. Let psi be the terms of the estimating equation that would be solved if all
codes were known. DSL solves instead

    sum_i lam psi(D^_i) + R_i / pi_i (psi(D_i) - lam psi(D^_i)) = 0,

with R_i = 1 for coded texts, else 0. Over draws of the sample, the expectation of this
sum is the sum of psi(D_i), for any D^ and any lam, however wrong the labels are. lam = 1
is DSL; lam = 0 uses only the gold sample, weighted by 1 / pi; power tuning chooses the
lam with the smallest variance. The labels may be on either side of a regression. D^ may
be any number, such as a probability. Labels need no cross-fitting if they are fixed
before people code and come from a model that never saw the codes. If a head was fitted on
codes, its predictions must be cross-fitted: a coded text is predicted by a head that did
not see the text's code, every other text by the mean of these heads. With such
predictions, the expectation over draws is the same (see
`llamaherd.research.statistics.heads`).

Standard errors come from the sandwich estimator. For samples of a fixed size, Hajek's
variance within strata replaces the part of the variance that is due to the draw; for
independent draws (no strata given) the sandwich is not changed.

Sources: Egami, Hinck, Stewart, Wei, "Using Imperfect Surrogates for Downstream Inference:
Design-based Supervised Learning for Social Science Applications of Large Language
Models", 2023 (arXiv 2306.04746), for labels as the outcome; the same authors, "Using
Large Language Model Annotations for the Social Sciences", working paper, 2024, for labels
on either side; Angelopoulos, Duchi, Zrnic, "PPI++", 2023 (arXiv 2311.01453); Zrnic,
Candes, "Active Statistical Inference", 2024 (arXiv 2403.03208), for unequal pi; Hajek,
"Asymptotic theory of rejective sampling with varying probabilities", 1964.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics.counts import satterthwaite
from llamaherd.research.statistics.draw_variance import hajek
from llamaherd.research.statistics.regression import (
    Estimated,
    FitError,
    fitted,
    information,
    sandwich,
    scores,
)

if TYPE_CHECKING:
    from llamaherd.research.statistics.draw_variance import Outside
    from llamaherd.research.statistics.regression import Kind
    from llamaherd.research.statistics.sampling import Floats, Ints, Target


_MOST_LEVERAGE = 0.9  # upper bound of leverages, so that terms stay finite


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawing:
    """Draws of several waves, each conditional on the waves before it.

    Attributes:
        scale: float64[n], weight of each code's term in its own wave.
        left: float64[n], 1 - inclusion probability in the code's wave.
    """

    scale: Floats
    left: Floats

    def of(self, rows: Ints) -> Drawing:
        """Return the scales of some of the codes."""
        return Drawing(scale=self.scale[rows], left=self.left[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """Regression with labels as outcome or covariates; for a mean, x is a column of ones.

    Attributes:
        kind: "ols" or "logit".
        x_hat: float64[N, p], covariates with the model's labels.
        y_hat: float64[N], outcomes with the model's labels.
        rows: int64[n], rows of the coded texts.
        x: float64[n, p], covariates of the coded texts, with the codes.
        y: float64[n], outcomes of the coded texts, with the codes.
        probs: float64[n], inclusion probabilities of the coded texts.
        strata: int64[n], strata, each with a fixed number of draws; None if texts were
            drawn independently.
        clusters: int64[N], clusters of dependent texts; None if all texts are
            independent.
        target: "population": estimates describe the population from which these texts are
            a sample; "texts": estimates describe these texts.
        all_probs: float64[N], inclusion probabilities of all texts; None if unknown.
        all_strata: int64[N], strata of all texts; None if unknown.
        has_leverage: True to scale the variance terms of codes by their leverage, as HC3
            does.
        slack: Largest distance from the code at which a prediction is counted as right; 0
            for labels.
        weights: float64[N], survey weights of all texts; None for equal weights.
        drawing: Terms of the draw's variance if 1 / probs is a combined weight of several
            waves, see `Drawing`; None for a sample that was drawn in a single wave.
        outside: Codes of texts that are not among these texts; None if there are none.
    """

    kind: Kind
    x_hat: Floats
    y_hat: Floats
    rows: Ints
    x: Floats
    y: Floats
    probs: Floats
    strata: Ints | None = None
    clusters: Ints | None = None
    target: Target = "population"
    all_probs: Floats | None = None
    all_strata: Ints | None = None
    has_leverage: bool = False
    slack: float = 0.0
    weights: Floats | None = None
    drawing: Drawing | None = None
    outside: Outside | None = None

    @property
    def survey(self) -> Floats:
        """Survey weights of all texts, float64[N]; 1 if there are no weights."""
        return np.ones(len(self.y_hat)) if self.weights is None else self.weights

    @property
    def code_weights(self) -> Floats:
        """Weights of the codes, float64[n]: survey weight / inclusion probability."""
        return np.asarray(self.survey[self.rows] / self.probs)

    @property
    def drawn_terms(self) -> tuple[Floats, Floats]:
        """Scales and weights of codes in the variance of the draw, float64[n] each."""
        if self.drawing is None:
            return 1 / self.probs, 1 - self.probs
        return self.drawing.scale, self.drawing.left

    @property
    def of_all_texts(self) -> tuple[Floats, Ints]:
        """Return inclusion probabilities and strata, float64[N] and int64[N].

        If the inclusion probabilities and strata are known only for coded texts, all
        other texts get the lowest inclusion probability of a coded text.
        """
        n_texts = len(self.y_hat)
        probs, strata = self.all_probs, self.all_strata
        if probs is None:
            probs = np.full(n_texts, self.probs.min())
            probs[self.rows] = self.probs
        if strata is None:
            strata = np.zeros(n_texts, dtype=np.int64)
        return probs, strata

    @property
    def is_all_coded(self) -> bool:
        """Return True if every text has a code."""
        return len(self.y) == len(self.y_hat)


def dsl(problem: Problem) -> Estimated:
    """Estimate from all labels, corrected by the codes.

    Raises:
        FitError: The equation has no solution.
    """
    return rectified(problem, 1.0)


def gold_alone(problem: Problem) -> Estimated:
    """Estimate from the codes alone, weighted by 1 / pi.

    Raises:
        FitError: The equation has no solution.
    """
    return rectified(problem, 0.0)


def naive(problem: Problem) -> Estimated:
    """Estimate from the labels as if they were right, with robust standard errors.

    Raises:
        FitError: The equation has no solution.
    """
    v = problem.survey
    theta = fitted(problem.kind, problem.x_hat, problem.y_hat, v)
    terms = scores(problem.kind, problem.x_hat, problem.y_hat, theta) * v[:, None]
    n_texts, p = problem.x_hat.shape
    more = 0 if problem.clusters is None else 1
    meat = _clustered(terms, problem.clusters) * (n_texts - more) / max(n_texts - p, 1)
    bread = information(problem.kind, problem.x_hat, v, theta)
    return Estimated(theta=theta, covariance=sandwich(bread, meat))


def rectified(problem: Problem, lam: float | Floats) -> Estimated:
    """Estimate with a given lam; one for each group as in `tuned_means`, float64[p].

    Raises:
        FitError: The equation has no solution.
    """
    theta = solution_at(problem, lam)
    bread, meat = bread_at(problem, lam, theta), meat_at(problem, lam, theta)
    covariance = sandwich(bread, meat)
    if not (np.diag(covariance) >= 0).all():
        raise FitError(
            "the gold sample is too small for its design: a variance is negative"
        )
    df = _freedom(problem, lam, theta, bread)
    one = float(lam) if np.ndim(lam) == 0 else float("nan")
    return Estimated(theta=theta, covariance=covariance, lam=one, df=df)


def _freedom(
    problem: Problem, lam: float | Floats, theta: Floats, bread: Floats
) -> Floats | None:
    """Return Satterthwaite's degrees of freedom of each coefficient, float64[p].

    The variance component of each stratum has as many degrees of freedom as the stratum
    has codes, minus one. Return None if there are no strata, only one stratum, or
    clusters.
    """
    strata = problem.strata
    if strata is None or problem.clusters is not None or np.ptp(strata) == 0:
        return None
    scale, left = problem.drawn_terms
    hat = lam * scores(problem.kind, problem.x_hat, problem.y_hat, theta)
    own = scores(problem.kind, problem.x, problem.y, theta) - hat[problem.rows]
    own *= (problem.survey[problem.rows] * scale)[:, None]
    terms = np.linalg.solve(bread, own.T).T
    names, sizes = np.unique(strata, return_counts=True)
    df = np.asarray(sizes - 1, dtype=np.float64)
    parts = np.array(
        [
            np.diag(
                hajek(
                    terms[strata == h],
                    left[strata == h],
                    strata[strata == h],
                    problem.outside,
                )
            )
            for h in names
        ]
    )
    return np.array([satterthwaite(part, df, 0.0) for part in parts.T])


def _stacked(problem: Problem, lam: float | Floats) -> tuple[Floats, Floats, Floats]:
    """Stack the rows of the equation: labels, codes, and labels that codes replace."""
    x_hat, y_hat, rows = problem.x_hat, problem.y_hat, problem.rows
    inverse = problem.code_weights
    if not np.any(lam):
        return problem.x, problem.y, inverse
    own = np.asarray(np.full(len(y_hat), lam) if np.ndim(lam) == 0 else x_hat @ lam)
    x = np.concatenate([x_hat, problem.x, x_hat[rows]])
    y = np.concatenate([y_hat, problem.y, y_hat[rows]])
    weights = np.concatenate([own * problem.survey, inverse, -own[rows] * inverse])
    return x, y, weights


def solution_at(problem: Problem, lam: float | Floats) -> Floats:
    """Return the coefficients with a given lam, float64[p].

    Raises:
        FitError: The equation has no solution.
    """
    x, y, weights = _stacked(problem, lam)
    return fitted(problem.kind, x, y, weights)


def bread_at(problem: Problem, lam: float | Floats, theta: Floats) -> Floats:
    """Return the derivative of the equation's left side, float64[p, p]."""
    x, _, weights = _stacked(problem, lam)
    return information(problem.kind, x, weights, theta)


def meat_at(problem: Problem, lam: float | Floats, theta: Floats) -> Floats:
    """Return the variance of the equation's left side, float64[p, p]."""
    kind, rows, probs = problem.kind, problem.rows, problem.probs[:, None]
    v = problem.survey[:, None]
    terms = lam * scores(kind, problem.x_hat, problem.y_hat, theta) * v
    change = scores(kind, problem.x, problem.y, theta) * v[rows] - terms[rows]
    if problem.has_leverage:
        change *= jackknife(problem, lam, theta)[:, None]
    terms[rows] += change / probs
    n, p = change.shape
    small = n / max(n - p, 1)  # correction for the number of fitted coefficients
    if problem.has_leverage:
        small = 1.0
    whole = _clustered(terms, problem.clusters)
    if problem.clusters is not None:
        return np.asarray(whole * small)
    independent = (change * ((1 - probs) / probs**2)).T @ change
    drawn = independent * small
    if problem.strata is not None:
        scale, left = problem.drawn_terms
        drawn = hajek(change * scale[:, None], left, problem.strata, problem.outside)
        drawn *= small * max(n - 1, 1) / n
    if problem.target == "texts":
        return np.asarray(drawn)
    texts = whole - independent
    if np.linalg.eigvalsh(texts + drawn).min() < 0:  # occurs by chance in small samples
        return np.asarray(whole * small)
    return np.asarray(texts + drawn)


def jackknife(problem: Problem, lam: float | Floats, theta: Floats) -> Floats:
    """Return the jackknife's factors 1 / (1 - h) of the codes' terms, float64[n].

    h is the leverage of a coded text: the influence of the text's weight in the fit on
    the text's own term. The leverage is 0 if no covariate is a label and lam is 1,
    because DSL's correction then does not depend on the coefficients.

    Source: MacKinnon, White, "Some heteroskedasticity-consistent covariance matrix
    estimators with improved finite sample properties", J. Econometrics 29, 1985.
    """
    inverse = np.linalg.pinv(bread_at(problem, lam, theta))
    hat = problem.x_hat[problem.rows]
    own = np.einsum("ij,jk,ik->i", problem.x, inverse, problem.x)
    own -= lam * np.einsum("ij,jk,ik->i", hat, inverse, hat)
    return np.asarray(1 / (1 - np.clip(own * problem.code_weights, 0, _MOST_LEVERAGE)))


def _clustered(terms: Floats, clusters: Ints | None) -> Floats:
    """Return the sum of squared terms.

    With clusters, the terms of each cluster are added before they are squared.
    """
    if clusters is None:
        return np.asarray(terms.T @ terms)
    sums = np.zeros((int(clusters.max()) + 1, terms.shape[1]))
    np.add.at(sums, clusters, terms)
    n = len(sums)
    return np.asarray(sums.T @ sums) * (n / max(n - 1, 1))
