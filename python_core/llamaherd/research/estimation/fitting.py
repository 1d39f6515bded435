"""Estimates by all methods from matrices, shared by the Python and R interfaces."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.research.estimation import few_codes, few_errors, notes
from llamaherd.research.estimation.estimates import Estimate, Method
from llamaherd.research.estimation.few_errors import Reach
from llamaherd.research.statistics import dsl, ppi
from llamaherd.research.statistics.dsl import Problem
from llamaherd.research.statistics.intervals import student_quantile, within
from llamaherd.research.statistics.regression import Estimated, FitError, check_rank

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.research.estimation.formulas import Matrices
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.statistics.regression import Kind
    from llamaherd.research.statistics.sampling import Floats, Ints, Target

_NO_OTHERS = "all texts have codes: there is none whose code is to be predicted"


@dataclass(frozen=True, kw_only=True, eq=False)
class Found:
    """Rows of a result, their covariances, and notes; see `Estimates`."""

    rows: list[Estimate]
    covariances: dict[tuple[str, str], Floats]
    notes: list[str]


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
class _Fit:
    """Coefficients by one method.

    Attributes:
        theta: float64[p], coefficients.
        covariance: float64[p, p], covariances of the coefficients.
        lam: See `Estimated`.
        df: float64[p], degrees of freedom of the intervals.
        wider: Amounts that few observed errors add to the intervals, see `few_errors`.
    """

    theta: Floats
    covariance: Floats
    lam: float
    df: Floats
    wider: Reach


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """Names of one estimate in the result, and the limits of its possible values."""

    outcome: str
    term: str
    group: str
    method: Method
    limits: tuple[float, float] = (-np.inf, np.inf)


def fit_regression(kind: Kind, made: Matrices, settings: FitSettings) -> Found:
    """Fit a regression by all methods.

    Raises:
        ValueError: No method gives an estimate.
    """
    if len({*made.y_hat.tolist(), *made.y.tolist()}) == 1:
        raise ArgumentError(
            f"the left side {made.outcome!r} is {made.y[0]:g} for all labels and codes: "
            "check the spelling of its label",
            argument="formula",
            code="constant_outcome",
            form="{name}: {problem}",
        )
    _check_finite(made)
    if kind == "logit":
        _check_binary(made, are_probs=settings.are_probs)
    n_gold, p = made.x.shape
    found_notes = [*settings.notes_of_ppi, *notes.few_coefficients(n_gold, p)]
    methods = list(settings.methods)
    if made.has_label_right and "ppi" in methods:
        methods.remove("ppi")
        found_notes = [note for note in found_notes if note != notes.WEIGHTED] + [
            notes.RIGHT
        ]
    problem = settings.problem(kind, made.x_hat, made.y_hat, made.x, made.y)
    problem = replace(problem, has_leverage=kind == "ols")
    found_notes += notes.few_errors(made.outcome, problem, settings.gold.names)
    found_notes += [*notes.few_heavy(problem), *notes.few_clusters(problem)]
    if kind == "logit":
        found_notes += notes.few_events(made.y, problem.code_weights, p)
    rows: list[Estimate] = []
    covariances: dict[tuple[str, str], Floats] = {}
    for method in methods:
        by = partial(_coefficients_by, method, problem, settings)
        found = _tried(method, by, found_notes, made.terms)
        covariances[made.outcome, method] = _covariance(found, p)
        for i, term in enumerate(made.terms):
            row = _Row(outcome=made.outcome, term=term, group="", method=method)
            rows.append(_filled(row, found, _unit(i, p), settings.level))
    if kind == "ols" and not all(np.isnan(row.estimate) for row in rows):
        found_notes += notes.high_leverage(problem)
    return _found(rows, covariances, found_notes)


def fit_means(
    outcomes: Sequence[tuple[str, Floats, Floats]],
    term: str,
    groups: Ints,
    names: Sequence[str],
    settings: FitSettings,
) -> Found:
    """Estimate means of outcomes in groups, and differences from the first group.

    Args:
        outcomes: For each outcome its name, its values by the labels, float64[N], and its
            values by the codes, float64[n].
        term: "share" or "mean".
        groups: int64[N], the group of each text.
        names: Names of the groups.
        settings: Settings shared by all estimates.

    Raises:
        ValueError: No method gives an estimate.
    """
    x_hat = (groups[:, None] == np.arange(len(names))).astype(np.float64)
    x = x_hat[settings.gold.rows]
    found_notes = [*settings.notes_of_ppi, *notes.few_groups(names, x.sum(axis=0))]
    bounds = []
    rows: list[Estimate] = []
    covariances: dict[tuple[str, str], Floats] = {}
    for outcome, y_hat, y in outcomes:
        problem = settings.problem("ols", x_hat, y_hat, x, y)
        found_notes += [*notes.few_heavy(problem), *notes.few_clusters(problem)]
        found_notes += notes.rare_label(outcome, y) if term == "share" else []
        found_notes += notes.rare_errors(outcome, names, problem, settings.gold.names)
        span = 1.0 if term == "share" else float(np.ptp([*y_hat, *y])) or np.nan
        for method in settings.methods:
            by = partial(_mean_by, method, problem, settings, span)
            found = _tried(method, by, found_notes, names)
            if found is not None:
                bounds.append(notes.unseen(problem, outcome, method, names, found.wider))
            covariances[outcome, method] = _covariance(found, len(names), settings.level)
            rows += _rows_of_means(
                outcome, term, names, method=method, found=found, level=settings.level
            )
    found_notes += [*notes.by_the_rule(bounds), *notes.beyond(rows)]
    return _found(rows, covariances, found_notes)


def _rows_of_means(
    outcome: str,
    term: str,
    names: Sequence[str],
    *,
    method: Method,
    found: _Fit | None,
    level: float,
) -> list[Estimate]:
    """Return a row for each group, and one for each difference from the first."""
    p = len(names)
    limits = (0.0, 1.0) if term == "share" else (-np.inf, np.inf)
    rows = [
        _filled(
            _Row(outcome=outcome, term=term, group=name, method=method, limits=limits),
            found,
            _unit(i, p),
            level,
        )
        for i, name in enumerate(names)
    ]
    most = limits[1]
    for i, name in enumerate(names[1:], start=1):
        row = _Row(
            outcome=outcome,
            term="difference",
            group=f"{name} - {names[0]}",
            method=method,
            limits=(-most, most),
        )
        rows.append(_filled(row, found, _unit(i, p) - _unit(0, p), level))
    return rows


def _by(method: Method, problem: Problem, settings: FitSettings) -> Estimated:
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
        return _widened(dsl.tuned(problem), np.full(p, (n - p) / max(n - p - 1, 1)))
    samples = _samples(problem)
    fit = ppi.ppi_ols if problem.kind == "ols" else ppi.ppi_logit
    factors = np.full(p, (n - 1) / max(n - p - 1, 1))
    if problem.has_leverage:
        factors = factors * _of_leverage(problem)
    return _widened(fit(samples), factors)


def _of_leverage(problem: Problem) -> Floats:
    """Return the ratios of the HC3 to the HC1 variances by codes alone, float64[p]."""
    wide = np.diag(dsl.gold_alone(problem).covariance)
    usual = np.diag(dsl.gold_alone(replace(problem, has_leverage=False)).covariance)
    ratio = np.divide(wide, usual, out=np.ones_like(wide), where=usual > 0)
    return np.asarray(np.maximum(ratio, 1.0))


def _coefficients_by(method: Method, problem: Problem, settings: FitSettings) -> _Fit:
    """Fit coefficients; covariances are NaN if the codes show no variance."""
    found = _by(method, problem, settings)
    if method == "naive":
        return _of_labels(problem, found)
    p = problem.x.shape[1]
    covariance = found.covariance
    if few_codes.has_none(np.diag(covariance)).any() and not problem.is_all_coded:
        covariance = np.full((p, p), np.nan)
    df = np.full(p, few_codes.freedom(problem, p + (method == "ppi")))
    if found.df is not None:
        df = np.minimum(df, found.df)
    return _Fit(
        theta=found.theta,
        covariance=covariance,
        lam=found.lam,
        df=df,
        wider=Reach(below=np.zeros(p), above=np.zeros(p)),
    )


def _mean_by(
    method: Method, problem: Problem, settings: FitSettings, span: float
) -> _Fit:
    """Fit group means; groups with fewer than two codes get NaN.

    Intervals are widened where a few codes show too few errors to estimate an error rate
    (see `few_errors`). `span` is the largest difference of two outcomes.
    """
    if method == "naive":
        return _of_labels(problem, dsl.naive(problem))
    there = np.flatnonzero(problem.x.sum(axis=0) >= 2)
    part = replace(problem, x_hat=problem.x_hat[:, there], x=problem.x[:, there])
    if len(there) == 0:
        raise FitError("no group has two codes")
    if method == "ppi" and settings.is_plain:
        found = _ppi_means(part)
    else:
        found = _by(method, part, settings)
    level, p = settings.level, problem.x.shape[1]
    df = np.full(p, np.inf)
    df[there] = np.minimum(
        few_codes.freedoms(part, 1 + (method == "ppi")),
        found.df if found.df is not None else np.inf,
    )
    far = np.array([student_quantile(level, each) for each in df[there]])
    more = few_errors.reach(part, level, far, span=span, has_labels=method != "gold")
    wider = Reach(below=np.zeros(p), above=np.zeros(p))
    wider.below[there], wider.above[there] = more.below, more.above
    theta, covariance = np.full(p, np.nan), np.full((p, p), np.nan)
    theta[there], covariance[np.ix_(there, there)] = found.theta, found.covariance
    return _Fit(theta=theta, covariance=covariance, lam=found.lam, df=df, wider=wider)


def _of_labels(problem: Problem, found: Estimated) -> _Fit:
    """Add intervals of the normal distribution, or of Student's t with clusters."""
    p = len(found.theta)
    df = np.inf
    if problem.clusters is not None:
        df = max(len(np.unique(problem.clusters)) - 1.0, 1.0)
    return _Fit(
        theta=found.theta,
        covariance=found.covariance,
        lam=found.lam,
        df=np.full(p, df),
        wider=Reach(below=np.zeros(p), above=np.zeros(p)),
    )


def _widened(found: Estimated, factors: Floats) -> Estimated:
    """Return estimates with variances corrected for the number of fitted parameters.

    The original PPI++ divides by the number of codes, although lam is a fitted parameter,
    too.
    """
    roots = np.sqrt(factors)
    return replace(found, covariance=found.covariance * np.outer(roots, roots))


def _samples(problem: Problem) -> ppi.Samples:
    """Return the coded texts as a simple random sample, and all other texts."""
    others = np.ones(len(problem.y_hat), dtype=bool)
    others[problem.rows] = False
    if not others.any():
        raise FitError(_NO_OTHERS)
    return ppi.Samples(
        x=problem.x,
        y=problem.y,
        y_hat=problem.y_hat[problem.rows],
        x_others=problem.x_hat[others],
        y_hat_others=problem.y_hat[others],
    )


def _ppi_means(problem: Problem) -> Estimated:
    """Fit each group's mean; the group's coded texts are a simple random sample of it."""
    samples = _samples(problem)
    means = []
    for g in range(problem.x_hat.shape[1]):
        own, others = samples.x[:, g] == 1, samples.x_others[:, g] == 1
        if not others.any():
            raise FitError(_NO_OTHERS)
        means.append(
            ppi.ppi_mean(samples.y[own], samples.y_hat[own], samples.y_hat_others[others])
        )
    sizes = samples.x.sum(axis=0)
    found = Estimated(
        theta=np.array([mean.theta[0] for mean in means]),
        covariance=np.diag([mean.covariance[0, 0] for mean in means]),
        lam=means[0].lam if len(means) == 1 else float("nan"),
    )
    return _widened(found, sizes / np.maximum(sizes - 2, 1))


def _tried(
    method: str,
    by: Callable[[], _Fit],
    found_notes: list[str],
    terms: Sequence[str],
) -> _Fit | None:
    """Return an estimate, or None and record a note on the failure."""
    try:
        return by()
    except FitError as error:
        columns = notes.first_of(
            f"{i}: {term or 'all'}" for i, term in enumerate(terms, 1)
        )
        found_notes.append(f"{method} gives no estimate: {error} (columns {columns})")
        return None


def _filled(row: _Row, found: _Fit | None, weights: Floats, level: float) -> Estimate:
    """Return the `Estimate` (row of the result) for a weighted sum of coefficients."""
    value = std_error = low = high = lam = float("nan")
    df = float("inf")
    if found is not None:
        used = np.flatnonzero(weights)  # coefficients with weight 0 may be NaN
        weights, matrix = weights[used], found.covariance[np.ix_(used, used)]
        value = float(weights @ found.theta[used])
        whole = _covariance(found, len(found.theta), level)[np.ix_(used, used)]
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


def _found(
    rows: list[Estimate],
    covariances: dict[tuple[str, str], Floats],
    found_notes: list[str],
) -> Found:
    if all(np.isnan(row.estimate) for row in rows):
        raise ArgumentError(
            f"no method gives an estimate: {'; '.join(found_notes)}", code="no_estimate"
        )
    return Found(rows=rows, covariances=covariances, notes=notes.warned(found_notes))


def _check_finite(made: Matrices) -> None:
    """Check that all numbers are finite; infinite ones would give NaN variances."""
    for values in (made.y_hat, made.y):
        if not np.isfinite(values).all():
            raise ArgumentError(
                f"has the left side {made.outcome!r} with an infinite or missing "
                "value: leave these texts out",
                argument="formula",
            )
    for matrix in (made.x_hat, made.x):
        bad = ~np.isfinite(matrix).all(axis=0)
        if bad.any():
            raise ArgumentError(
                f"has the term {made.terms[int(np.argmax(bad))]!r} with an "
                "infinite or missing value: leave these texts out",
                argument="formula",
            )


def _check_binary(made: Matrices, *, are_probs: bool) -> None:
    for values in (made.y_hat, made.y):
        inside = are_probs and values is made.y_hat
        ok = (values >= 0) & (values <= 1) if inside else np.isin(values, (0.0, 1.0))
        if not ok.all():
            raise ArgumentError(
                f"the outcome of a logistic regression must be 0 or 1, or a condition "
                f"such as label == 'x', not {made.outcome!r}",
                argument="formula",
                form="{name}: {problem}",
            )


def _covariance(found: _Fit | None, p: int, level: float = 0.95) -> Floats:
    """Return the covariances, enlarged where few errors widened the intervals."""
    if found is None:
        return np.full((p, p), np.nan)
    more = (found.wider.below + found.wider.above) / 2
    if not more.any():
        return found.covariance
    far = np.array([student_quantile(level, each) for each in found.df])
    return np.asarray(found.covariance + np.diag(more / far**2))


def _unit(i: int, p: int) -> Any:  # noqa: ANN401 - Floats
    return np.eye(p)[i]
