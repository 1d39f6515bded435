"""Settings and rows shared by estimates of means and of regressions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.research.estimation import few_codes, notes
from llamaherd.research.estimation.estimates import Estimate, Method
from llamaherd.research.estimation.few_errors import Reach
from llamaherd.research.statistics import dsl, ppi, tuning
from llamaherd.research.statistics.dsl import Problem
from llamaherd.research.statistics.intervals import (
    LEVEL,
    NO_LIMITS,
    student_quantile,
    within,
)
from llamaherd.research.statistics.regression import Estimated, FitError, check_rank

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.statistics.codes_alone import CodesAlone
    from llamaherd.research.statistics.regression import Kind
    from llamaherd.research.statistics.sampling import Floats, Ints, Target

NO_OTHERS = "all texts have codes: no code remains to be predicted"


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """Rows of a result, their covariances, and notes; see `Estimates`.

    Attributes:
        rows: Rows of the result.
        covariances: Covariance matrices by outcome and method.
        notes: Notes for the user.
        limits: Smallest and largest possible value of a share or mean.
        alone: Variances by codes alone for other numbers of codes; None if unknown.
    """

    rows: list[Estimate]
    covariances: dict[tuple[str, str], Floats]
    notes: list[str]
    limits: tuple[float, float] = NO_LIMITS
    alone: CodesAlone | None = None

    def limits_of(self, term: str) -> tuple[float, float]:
        """Return the limits of a row."""
        is_difference = term == "difference"
        return limits_of_difference(self.limits) if is_difference else self.limits


def limits_of_difference(limits: tuple[float, float]) -> tuple[float, float]:
    """Return the limits of a difference of two values that have the same limits."""
    low, high = limits
    return (low - high, high - low)


@dataclass(frozen=True, kw_only=True, eq=False)
class FitSettings:
    """Settings shared by all estimates of a call.

    Attributes:
        gold: The codes.
        methods: Methods.
        level: Confidence level.
        target: See `Problem`.
        clusters: See `Problem`.
        are_probs: True if predictions are probabilities, or computed from probabilities.
        weights: float64[N], survey weights with mean 1; None for equal weights.
    """

    gold: GoldUsed
    methods: Sequence[Method]
    level: float
    target: Target
    clusters: Ints | None = None
    are_probs: bool = False
    weights: Floats | None = None

    def problem(
        self, kind: Kind, x_hat: Floats, y_hat: Floats, x: Floats, y: Floats
    ) -> Problem:
        """Build the regression problem from covariates and outcomes."""
        return Problem(
            kind=kind,
            x_hat=x_hat,
            y_hat=y_hat,
            rows=self.gold.rows,
            x=x,
            y=y,
            probs=self.gold.probs,
            strata=self.gold.strata,
            clusters=self.clusters,
            target=self.target,
            all_probs=self.gold.all_probs,
            all_strata=self.gold.all_strata,
            slack=float(np.ptp([*y, *y_hat])) / 2 if self.are_probs else 0.0,
            weights=self.weights,
            drawing=self.gold.drawing,
            outside=self.gold.outside,
        )

    @property
    def is_plain(self) -> bool:
        """True if the sample meets the assumptions of the original PPI++."""
        is_even = self.gold.is_even and self.weights is None
        return is_even and self.target == "population" and self.clusters is None

    @property
    def notes_of_ppi(self) -> list[str]:
        """Return notes about the method "ppi"."""
        if "ppi" not in self.methods or self.is_plain:
            return []
        if not self.gold.is_even:
            return [notes.WEIGHTED]
        if self.weights is not None:
            return [notes.SURVEY]
        return [notes.TEXTS if self.target == "texts" else notes.CLUSTERS]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MethodFit:
    """Coefficients by one method.

    Attributes:
        theta: float64[p], coefficients.
        covariance: float64[p, p], covariances of the coefficients.
        lam: See `Estimated`.
        df: float64[p], degrees of freedom of the intervals.
        wider: Amounts that few observed errors add to the intervals, see `few_errors`.
        needed: float64[p], numbers of codes that the skewness requires, see `skewness`;
            NaN if unknown.
    """

    theta: Floats
    covariance: Floats
    lam: float
    df: Floats
    wider: Reach
    needed: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNames:
    """Names of one estimate in the result, and the limits of its possible values."""

    outcome: str
    term: str
    group: str
    method: Method
    limits: tuple[float, float] = NO_LIMITS


def estimated_by(method: Method, problem: Problem, settings: FitSettings) -> Estimated:
    """Estimate the coefficients of a problem by one method."""
    if method == "naive":
        return dsl.naive(problem)
    # Fail if a group has no codes: its labels could not be corrected.
    check_rank(problem.x, np.ones(len(problem.y)))
    if method == "dsl":
        return dsl.dsl(problem)
    if method == "gold":
        return dsl.gold_alone(problem)
    n, p = problem.x.shape
    if not settings.is_plain:
        return widened(tuning.tuned(problem), np.full(p, (n - p) / max(n - p - 1, 1)))
    samples = ppi_samples(problem)
    fit = ppi.ppi_ols if problem.kind == "ols" else ppi.ppi_logit
    factors = np.full(p, (n - 1) / max(n - p - 1, 1))
    if problem.has_leverage:
        factors = factors * _of_leverage(problem)
    return widened(fit(samples), factors)


def _of_leverage(problem: Problem) -> Floats:
    """Return the ratios of the HC3 to the HC1 variances by codes alone, float64[p]."""
    wide = np.diag(dsl.gold_alone(problem).covariance)
    usual = np.diag(dsl.gold_alone(replace(problem, has_leverage=False)).covariance)
    ratio = np.divide(wide, usual, out=np.ones_like(wide), where=usual > 0)
    return np.asarray(np.maximum(ratio, 1.0))


def of_labels(problem: Problem, found: Estimated) -> MethodFit:
    """Add normal intervals, or intervals by Student's t if there are clusters."""
    p = len(found.theta)
    df = np.inf
    if problem.clusters is not None:
        df = max(len(np.unique(problem.clusters)) - 1.0, 1.0)
    return MethodFit(
        theta=found.theta,
        covariance=found.covariance,
        lam=found.lam,
        df=np.full(p, df),
        wider=Reach(below=np.zeros(p), above=np.zeros(p)),
        needed=np.full(p, np.nan),
    )


def widened(found: Estimated, factors: Floats) -> Estimated:
    """Return estimates with variances corrected for the number of fitted parameters.

    The original PPI++ divides by the number of codes, although lam is a fitted parameter,
    too.
    """
    roots = np.sqrt(factors)
    return replace(found, covariance=found.covariance * np.outer(roots, roots))


def ppi_samples(problem: Problem) -> ppi.Samples:
    """Return the coded texts as a simple random sample, and all other texts."""
    others = np.ones(len(problem.y_hat), dtype=bool)
    others[problem.rows] = False
    if not others.any():
        raise FitError(NO_OTHERS)
    return ppi.Samples(
        x=problem.x,
        y=problem.y,
        y_hat=problem.y_hat[problem.rows],
        x_others=problem.x_hat[others],
        y_hat_others=problem.y_hat[others],
    )


def tried(
    method: str,
    by: Callable[[], MethodFit],
    found_notes: list[str],
    terms: Sequence[str],
) -> MethodFit | None:
    """Return an estimate, or None and record a note on the failure."""
    try:
        return by()
    except FitError as error:
        columns = notes.first_of(
            f"{i}: {term or 'all'}" for i, term in enumerate(terms, 1)
        )
        found_notes.append(f"{method} gives no estimate: {error} (columns {columns})")
        return None


def filled_row(
    row: RowNames, found: MethodFit | None, weights: Floats, level: float
) -> Estimate:
    """Return the `Estimate` (row of the result) for a weighted sum of coefficients."""
    value = std_error = low = high = lam = float("nan")
    df = float("inf")
    if found is not None:
        used = np.flatnonzero(weights)  # coefficients with weight 0 may be NaN
        weights, matrix = weights[used], found.covariance[np.ix_(used, used)]
        value = float(weights @ found.theta[used])
        whole = covariance_of(found, len(found.theta), level)[np.ix_(used, used)]
        std_error = float(np.sqrt(weights @ whole @ weights))
        df = few_codes.together(weights**2 * np.diag(whole), found.df[used])
        reach = student_quantile(level, df) ** 2 * float(weights @ matrix @ weights)
        below, above = found.wider.of(used, weights)
        low, high = within(
            value - math.sqrt(reach + below),
            value + math.sqrt(reach + above),
            *row.limits,
        )
        lam = found.lam if row.method == "ppi" else lam
    return Estimate(
        outcome=row.outcome,
        term=row.term,
        group=row.group,
        method=row.method,
        estimate=value,
        std_error=std_error,
        low=low,
        high=high,
        lam=lam,
        df=df,
    )


def found_of(
    rows: list[Estimate],
    covariances: dict[tuple[str, str], Floats],
    found_notes: list[str],
    limits: tuple[float, float] = NO_LIMITS,
    alone: CodesAlone | None = None,
) -> Found:
    """Assemble a result; raise an error if no method gives an estimate."""
    if all(np.isnan(row.estimate) for row in rows):
        raise ArgumentError(
            f"no method gives an estimate: {'; '.join(found_notes)}", code="no_estimate"
        )
    return Found(
        rows=rows,
        covariances=covariances,
        notes=notes.warned(found_notes),
        limits=limits,
        alone=alone,
    )


def covariance_of(found: MethodFit | None, p: int, level: float = LEVEL) -> Floats:
    """Return the covariances, enlarged where few errors widened the intervals."""
    if found is None:
        return np.full((p, p), np.nan)
    more = (found.wider.below + found.wider.above) / 2
    if not more.any():
        return found.covariance
    far = np.array([student_quantile(level, each) for each in found.df])
    return np.asarray(found.covariance + np.diag(more / far**2))


def unit_vector(i: int, p: int) -> Any:  # noqa: ANN401 - Floats
    """Return row i of the identity matrix, float64[p]."""
    return np.eye(p)[i]
