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
`llamaherd.coding.statistics.heads`).

Standard errors come from the sandwich estimator. For samples of a fixed size, Hajek's
variance within strata replaces the part of the variance that is due to the draw; for
independent draws (no strata given) the sandwich is not changed.

Sources: Egami, Hinck, Stewart, Wei, "Using Imperfect Surrogates for Downstream Inference:
Design-based Supervised Learning for Social Science Applications of Large Language
Models", 2023 (arXiv 2306.04746), for labels as the outcome; the same authors, "Using
Large Language Model Annotations for the Social Sciences", working paper, 2024, for labels
on either side; Angelopoulos, Duchi, Zrnic, "PPI++", 2023 (arXiv 2311.01453); Zrnic,
Candes, "Active Statistical Inference", 2024 (arXiv 2403.03208), for unequal pi; Hajek,
"Asymptotic theory of rejective sampling with varying probabilities", 1964, for the
variance of a draw of fixed size; for a part (domain) of the texts Särndal, Swensson,
Wretman, "Model Assisted Survey Sampling", 1992, section 10.3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding.statistics.regression import (
    Estimated,
    FitError,
    Kind,
    information,
    means,
    sandwich,
    scores,
    solve,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.statistics.sampling import Target
    from llamaherd.engine.core.arrays import Flags, Floats, Ints


_MOST_LEVERAGE = 0.9  # upper bound of leverages, so that terms stay finite


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outside:
    """Coded texts of the same draw that do not belong to the texts of an estimate.

    The sample has a fixed size, but the number of codes in a part of the texts is random.
    The variance of the draw therefore counts all codes of a stratum; codes outside the
    part have terms of 0.
    """

    strata: Ints  # int64[k], strata of these texts
    left: Floats  # float64[k], 1 - inclusion probability in the draw of the text

    def of(self, stratum: int) -> tuple[int, float]:
        """Return the number of these texts in a stratum, and the sum of their `left`."""
        in_stratum = self.strata == stratum
        return int(in_stratum.sum()), float(self.left[in_stratum].sum())


def join_outside(parts: Sequence[Outside | None]) -> Outside | None:
    """Join groups of texts outside an estimate; None if there are no such texts."""
    known = [part for part in parts if part is not None and len(part.strata)]
    if not known:
        return None
    return Outside(
        strata=np.concatenate([part.strata for part in known]),
        left=np.concatenate([part.left for part in known]),
    )


def centre_terms(
    terms: Floats, left: Floats, strata: Ints, outside: Outside | None
) -> tuple[Floats, Floats]:
    """Return terms of codes minus their means in the strata of a draw, float64[n, q].

    The means are weighted by `left`, 1 - inclusion probability. The mean is 0 in a
    stratum with one code, and where the whole stratum was drawn. The second result,
    float64[h, q], has for each stratum the root of the sum of squares of the codes
    outside, whose terms are 0.
    """
    names, at = np.unique(strata, return_inverse=True)
    others = [(0, 0.0) if outside is None else outside.of(int(h)) for h in names]
    n_more, more = np.array(others).reshape(-1, 2).T
    whole = np.bincount(at, left) + more
    has_mean = (np.bincount(at) + n_more > 1) & (whole > 0)
    sums = np.zeros((len(names), terms.shape[1]))
    np.add.at(sums, at, left[:, None] * terms)
    stratum_means = sums / np.where(has_mean, whole, np.inf)[:, None]
    return terms - stratum_means[at], stratum_means * np.sqrt(more)[:, None]


def hajek(
    terms: Floats, left: Floats, strata: Ints, outside: Outside | None = None
) -> Floats:
    """Return the variance of a sum of c_i / pi_i, for fixed sample sizes in strata.

        sum_h sum_i (1 - pi_i) (c_i / pi_i - mean)^2

    where the means are weighted by 1 - pi_i. For equal pi_i, and times n_h / (n_h - 1),
    this is exactly the variance of a stratified sample.
    """
    away, others = centre_terms(terms, left, strata, outside)
    return np.asarray((away * left[:, None]).T @ away + others.T @ others)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Drawing:
    """Draws of several waves, each conditional on the waves before it."""

    scale: Floats  # float64[n], weight of each code's term in its own wave
    left: Floats  # float64[n], 1 - inclusion probability in the code's wave

    def of(self, rows: Ints) -> Drawing:
        """Return the scales of some of the codes."""
        return Drawing(scale=self.scale[rows], left=self.left[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodedTexts:
    """The n texts with codes among N texts, and how they were drawn."""

    rows: Ints  # int64[n], rows of the coded texts
    probs: Floats  # float64[n], inclusion probabilities of the coded texts
    # int64[n], strata, each with a fixed number of draws; None if texts were drawn
    # independently
    strata: Ints | None = None
    # float64[N], inclusion probabilities of all texts; None if unknown
    all_probs: Floats | None = None
    all_strata: Ints | None = None  # int64[N], strata of all texts; None if unknown
    # Terms of the draw's variance if 1 / probs is a combined weight of several waves, see
    # `Drawing`; None for a sample that was drawn in a single wave
    drawing: Drawing | None = None
    # Codes of texts that are not among these texts; None if there are none
    outside: Outside | None = None

    @property
    def draw(self) -> dict[str, Any]:
        """These fields, for another object about the same draw."""
        return {name: getattr(self, name) for name in CodedTexts.__slots__}

    @property
    def drawn_terms(self) -> tuple[Floats, Floats]:
        """Scales and weights of codes in the variance of the draw, float64[n] each."""
        if self.drawing is None:
            return 1 / self.probs, 1 - self.probs
        return self.drawing.scale, self.drawing.left

    @property
    def n_outside(self) -> int:
        """Number of codes of the same draw that do not belong to these texts."""
        return 0 if self.outside is None else len(self.outside.strata)

    @property
    def n_strata(self) -> int:
        """Number of strata with codes."""
        return 1 if self.strata is None else len(np.unique(self.strata))

    @property
    def stratum_leverage(self) -> Floats:
        """1 / number of codes in the stratum of each code, float64[n]; 0 for one code."""
        n = len(self.rows)
        if self.strata is None:
            return np.full(n, 1 / max(n, 2))
        names, at = np.unique(self.strata, return_inverse=True)
        sizes = np.bincount(at).astype(np.float64)
        if self.outside is not None:
            sizes += [self.outside.of(int(h))[0] for h in names]
        return np.where(sizes > 1, 1 / sizes, 0.0)[at]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem(CodedTexts):
    """Regression with labels on either side; for a mean, x is a column of ones."""

    kind: Kind  # "ols" or "logit"
    x_hat: Floats  # float64[N, p], covariates with the model's labels
    y_hat: Floats  # float64[N], outcomes with the model's labels
    x: Floats  # float64[n, p], covariates of the coded texts, with the codes
    y: Floats  # float64[n], outcomes of the coded texts, with the codes
    # int64[N], clusters of dependent texts; None if all texts are independent
    clusters: Ints | None = None
    # "population": estimates describe the population from which these texts are a sample;
    # "texts": estimates describe these texts
    target: Target = "population"
    # Largest distance from the code at which a prediction is counted as right; 0 for
    # labels
    slack: float = 0.0
    # float64[N], survey weights of all texts; None for equal weights
    weights: Floats | None = None

    @property
    def survey(self) -> Floats:
        """Survey weights of all texts, float64[N]; 1 if there are no weights."""
        return np.ones(len(self.y_hat)) if self.weights is None else self.weights

    @property
    def code_weights(self) -> Floats:
        """Weights of the codes, float64[n]: survey weight / inclusion probability."""
        return np.asarray(self.survey[self.rows] / self.probs)

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

    def summed(self, of_texts: Floats, of_codes: Floats) -> Floats:
        """Return the sums of terms of texts and codes by cluster, float64[c, q]."""
        assert self.clusters is not None  # noqa: S101 - callers have clusters
        sums = np.zeros((int(self.clusters.max()) + 1, of_texts.shape[1]))
        np.add.at(sums, self.clusters, of_texts)
        np.add.at(sums, self.clusters[self.rows], of_codes)
        return sums

    @property
    def all_coded(self) -> Flags:
        """True for each column of covariates, a group, whose texts are all coded."""
        n_texts = (self.x_hat != 0).sum(axis=0)
        return np.asarray((n_texts > 0) & ((self.x != 0).sum(axis=0) == n_texts))

    @property
    def is_wrong(self) -> Flags:
        """True where prediction and code differ by more than `slack`, bool[n]."""
        return np.asarray(np.abs(self.y - self.y_hat[self.rows]) > self.slack)

    @property
    def n_errors(self) -> Ints:
        """Number of coded texts of each group with a wrong label, int64[p]."""
        return np.asarray(self.x[self.is_wrong].sum(axis=0), dtype=np.int64)

    def columns(self, used: Ints) -> Problem:
        """Return the regression on some of the covariates, such as groups."""
        return replace(self, x_hat=self.x_hat[:, used], x=self.x[:, used])

    def with_certainty(self) -> Problem:
        """Return the problem with certain texts in groups whose texts are all coded.

        The mean of such a group is the mean of its codes: no label counts, and the draw
        adds no variance, even if the texts were all drawn by chance. The estimate is
        conditional on the number of codes of the group, as after poststratification.

        Source: Holt, Smith, "Post stratification", J. R. Stat. Soc. A 142, 1979.
        """
        is_certain = (self.x[:, self.all_coded] != 0).any(axis=1)
        if not is_certain.any():
            return self
        all_probs, drawing = self.all_probs, self.drawing
        if all_probs is not None:
            all_probs = all_probs.copy()
            all_probs[self.rows[is_certain]] = 1.0
        if drawing is not None:
            drawing = Drawing(
                scale=np.where(is_certain, 1.0, drawing.scale),
                left=np.where(is_certain, 0.0, drawing.left),
            )
        probs = np.where(is_certain, 1.0, self.probs)
        return replace(self, probs=probs, all_probs=all_probs, drawing=drawing)

    @property
    def is_all_coded(self) -> bool:
        """Return True if every text has a code."""
        return len(self.y) == len(self.y_hat)


def naive(problem: Problem) -> Estimated:
    """Estimate from the labels as if they were right, with robust standard errors."""
    v = problem.survey
    theta = solve(problem.kind, problem.x_hat, problem.y_hat, v)
    terms = scores(problem.kind, problem.x_hat, problem.y_hat, theta) * v[:, None]
    n_texts, p = problem.x_hat.shape
    meat = terms.T @ terms * (n_texts / max(n_texts - p, 1))
    if problem.clusters is not None:
        sums = problem.summed(terms, np.zeros((len(problem.rows), p)))
        meat = sums.T @ sums * (len(sums) / max(len(sums) - 1, 1))
    bread = information(problem.kind, problem.x_hat, v, theta)
    return Estimated(theta=theta, covariance=sandwich(bread, meat))


def rectified_estimate(problem: Problem, lam: float | Floats) -> Estimated:
    """Estimate with a given lam; one for each group as in `tuned_means`, float64[p].

    1 is DSL, from all labels, corrected by the codes; 0 uses the codes alone.
    """
    theta = solution_at(problem, lam)
    bread, meat = bread_at(problem, lam, theta), meat_at(problem, lam, theta)
    covariance = sandwich(bread, meat)
    if not (np.diag(covariance) >= 0).all():
        raise FitError(
            "the gold sample is too small for its design: a variance is negative"
        )
    one = float(lam) if np.ndim(lam) == 0 else float("nan")
    return Estimated(theta=theta, covariance=covariance, lam=one)


def _stack_rows(problem: Problem, lam: float | Floats) -> tuple[Floats, Floats, Floats]:
    """Stack the rows of the equation: labels, codes, and labels that codes replace."""
    x_hat, y_hat, rows = problem.x_hat, problem.y_hat, problem.rows
    inverse = problem.code_weights
    if not np.any(lam):
        return problem.x, problem.y, inverse
    label_weights = np.asarray(
        np.full(len(y_hat), lam) if np.ndim(lam) == 0 else x_hat @ lam
    )
    x = np.concatenate([x_hat, problem.x, x_hat[rows]])
    y = np.concatenate([y_hat, problem.y, y_hat[rows]])
    weights = np.concatenate(
        [label_weights * problem.survey, inverse, -label_weights[rows] * inverse]
    )
    return x, y, weights


def solution_at(problem: Problem, lam: float | Floats) -> Floats:
    """Return the coefficients with a given lam, float64[p]."""
    x, y, weights = _stack_rows(problem, lam)
    return solve(problem.kind, x, y, weights)


def bread_at(problem: Problem, lam: float | Floats, theta: Floats) -> Floats:
    """Return the derivative of the equation's left side, float64[p, p]."""
    x, _, weights = _stack_rows(problem, lam)
    return information(problem.kind, x, weights, theta)


def meat_at(
    problem: Problem, lam: float | Floats, theta: Floats, factors: Floats | None = None
) -> Floats:
    """Return the variance of the equation's left side, float64[p, p].

    The terms of the codes are divided by the root of 1 - h, where h is the larger of the
    code's leverage and of 1 / n in its stratum. Means of groups then have exactly the
    unbiased variances of the textbook, and regressions those of HC2. Other factors of the
    codes' terms are `factors`, float64[n].
    """
    kind, rows, probs = problem.kind, problem.rows, problem.probs[:, None]
    v = problem.survey[:, None]
    terms = lam * scores(kind, problem.x_hat, problem.y_hat, theta) * v
    change = scores(kind, problem.x, problem.y, theta) * v[rows] - terms[rows]
    wide = (
        change
        * (leverage_factors(problem, lam, theta) if factors is None else factors)[:, None]
    )
    if problem.clusters is not None:
        sums = problem.summed(terms, wide / probs)
        n = len(sums)
        return np.asarray(sums.T @ sums) * (n / max(n - 1, 1))
    drawn = (wide * ((1 - probs) / probs**2)).T @ wide
    if problem.strata is not None:
        scale, left = problem.drawn_terms
        drawn = hajek(wide * scale[:, None], left, problem.strata, problem.outside)
    if problem.target == "texts":
        return np.asarray(drawn)
    terms[rows] += change / probs
    whole = terms.T @ terms
    texts = whole - (change * ((1 - probs) / probs**2)).T @ change
    if np.linalg.eigvalsh(texts + drawn).min() < 0:  # occurs by chance in small samples
        n, p = change.shape
        return np.asarray(whole * (n / max(n - p, 1)))
    return np.asarray(texts + drawn)


def leverage_factors(problem: Problem, lam: float | Floats, theta: Floats) -> Floats:
    """Return the factors 1 / sqrt(1 - h) of the codes' terms, float64[n].

    The leverage of a coded text is the influence of the text's weight in the fit on the
    text's own term. It is 0 if no covariate is a label and lam is 1, because DSL's
    correction then does not depend on the coefficients. A certain code has no factor.

    Source: MacKinnon, White, "Some heteroskedasticity-consistent covariance matrix
    estimators with improved finite sample properties", J. Econometrics 29, 1985 (HC2).
    """
    inverse = np.linalg.pinv(bread_at(problem, lam, theta))
    hat = problem.x_hat[problem.rows]
    weights = problem.code_weights
    if problem.kind == "logit":
        middle = means("logit", problem.x, theta)
        weights = weights * middle * (1 - middle)
    influence = np.einsum("ij,jk,ik->i", problem.x, inverse, problem.x)
    influence -= np.einsum("ij,jk,ik->i", lam * hat, inverse, hat)
    leverage = np.maximum(influence * weights, problem.stratum_leverage)
    return np.asarray(1 / np.sqrt(1 - np.clip(leverage, 0, _MOST_LEVERAGE)))
