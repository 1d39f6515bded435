"""Settings, rows and levels shared by estimates of means and of regressions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.coding.estimation import notes
from llamaherd.coding.estimation.estimates import METHODS, Estimate, Method, Width
from llamaherd.coding.statistics import dsl
from llamaherd.coding.statistics.dsl import Problem
from llamaherd.coding.statistics.intervals import NO_LIMITS, within
from llamaherd.coding.statistics.label_weight import by_codes
from llamaherd.coding.statistics.regression import Estimated, FitError, Kind, check_rank
from llamaherd.coding.statistics.sampling import TARGETS, Target
from llamaherd.coding.statistics.uncertainty import Spread
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.words import setting, words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding.estimation.formulas import Matrices
    from llamaherd.coding.gold.codes import Codes
    from llamaherd.engine.core.arrays import Floats, Ints


# Condition numbers of covariates: above the first the normal equations lose digits; from
# the second on covariates count as dependent, as in lm() of R
_FAR, _DEPENDENT = 1e3, 1e7


@dataclass(frozen=True, kw_only=True, eq=False)
class FitSettings:
    """Settings shared by all estimates of a call."""

    gold: Codes  # The codes
    methods: Sequence[Method]  # Methods
    level: float  # Confidence level
    target: Target  # See `Problem`
    clusters: Ints | None = None  # See `Problem`
    # True if predictions are probabilities, or computed from probabilities
    are_probs: bool = False
    # float64[N], survey weights in any unit; None for equal weights
    weights: Floats | None = None

    def problem(
        self, kind: Kind, x_hat: Floats, y_hat: Floats, x: Floats, y: Floats
    ) -> Problem:
        """Build the regression problem from covariates and outcomes."""
        return Problem(
            **self.gold.draw,
            kind=kind,
            x_hat=x_hat,
            y_hat=y_hat,
            x=x,
            y=y,
            clusters=self.clusters,
            target=self.target,
            slack=float(np.ptp([*y, *y_hat])) / 2 if self.are_probs else 0.0,
            weights=self.weights,
        )

    def checked(self) -> FitSettings:
        """Check the settings, and return them with each method once."""
        if isinstance(self.methods, str) or not self.methods:
            raise ArgumentTypeError(
                f"must be {words().many} of {', '.join(METHODS)}", argument="methods"
            )
        for method in self.methods:
            checks.choice("methods", method, METHODS)
        checks.real("level", self.level, 1e-6, 1 - 1e-6)
        checks.choice("target", self.target, TARGETS)
        if self.clusters is not None and self.target == "texts":
            raise ArgumentError(
                f"requires {setting('target', 'population')}: only then texts are a "
                "sample",
                argument="cluster",
            )
        if self.clusters is not None and np.ptp(self.clusters) == 0:
            raise ArgumentError(
                "must have two values at least: all texts have one",
                argument="cluster",
                code="out_of_range",
            )
        if len(self.gold.rows) < 2:
            raise ArgumentError(
                "has fewer than two codes of the texts that are used", argument="gold"
            )
        return replace(self, methods=tuple(dict.fromkeys(self.methods)))

    @property
    def n_clusters(self) -> int | None:
        """Number of clusters; None without clusters."""
        return None if self.clusters is None else len(np.unique(self.clusters))

    @property
    def is_plain(self) -> bool:
        """True if the sample meets the assumptions of the original PPI++."""
        is_even = self.gold.is_even and self.weights is None
        return is_even and self.target == "population" and self.clusters is None

    @property
    def notes_of_ppi(self) -> list[str]:
        """Notes on the variance of "ppi" where its assumptions do not hold."""
        if "ppi" not in self.methods or self.is_plain:
            return []
        if not self.gold.is_even:
            return [notes.note("weighted")]
        if self.weights is not None:
            return [notes.note("survey")]
        return [notes.note("texts" if self.target == "texts" else "clusters")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Quantities:
    """Rows of a result for one outcome: weighted sums of coefficients."""

    names: Sequence[str]  # Names of the p columns of covariates
    fitted: Ints  # int64[m], columns that are fitted
    rows: Sequence[tuple[str, str]]  # Term and group of each row
    # float64[q, m], weights of the fitted coefficients in each sum; the first m sums are
    # the coefficients
    ways: Floats
    # Index of the sum of each row; None for a row without an estimate
    at: Sequence[int | None]
    # Smallest and largest possible value of each row
    limits: Sequence[tuple[float, float]]

    @classmethod
    def of_terms(cls, terms: Sequence[str]) -> Quantities:
        """Return the coefficients of a regression."""
        p = len(terms)
        return cls(
            names=terms,
            fitted=np.arange(p),
            rows=[(term, "") for term in terms],
            ways=np.eye(p),
            at=range(p),
            limits=[NO_LIMITS] * p,
        )

    @classmethod
    def of_groups(
        cls, names: Sequence[str], fitted: Ints, term: str, limits: tuple[float, float]
    ) -> Quantities:
        """Return the mean of each group, and each difference from the first group."""
        eye = np.eye(len(fitted))
        place = {int(g): i for i, g in enumerate(fitted)}
        ways = [*eye]
        at: list[int | None] = [place.get(g) for g in range(len(names))]
        for g in range(1, len(names)):
            has_both = 0 in place and g in place
            at.append(len(ways) if has_both else None)
            if has_both:
                ways.append(eye[place[g]] - eye[0])
        low, high = limits
        n_others = len(names) - 1
        differences = [("difference", f"{name} - {names[0]}") for name in names[1:]]
        return cls(
            names=names,
            fitted=fitted,
            rows=[*((term, name) for name in names), *differences],
            ways=np.array(ways),
            at=at,
            limits=[limits] * len(names) + [(low - high, high - low)] * n_others,
        )


@dataclass(kw_only=True, eq=False)
class Fits:
    """Estimates that are collected by outcome and method; see `Estimates`."""

    notes: list[str]  # Notes for the user
    rows: list[Estimate] = field(default_factory=list)  # Rows of the result
    # Covariance matrices by outcome and method
    covariances: dict[tuple[str, str], Floats] = field(default_factory=dict)
    widths: tuple[Width, ...] = ()  # Interval widths by each kind of predictions

    def add(  # noqa: PLR0917 - what defines one estimate
        self,
        outcome: str,
        method: Method,
        problem: Problem,
        quantities: Quantities,
        settings: FitSettings,
        ends: tuple[float, float] | None,
    ) -> Floats:
        """Estimate by one method; a method that fails adds a note and rows of NaN.

        `ends` are the extreme outcomes, see `Influences.cases`. Returned are the numbers
        of codes that the skewness of each column requires, float64[p]; NaN if unknown.
        """
        names, fitted, ways = quantities.names, quantities.fitted, quantities.ways
        p, m = len(names), len(fitted)
        covariance, needed = np.full((p, p), np.nan), np.full(p, np.nan)
        rows = [
            Estimate(outcome=outcome, term=term, group=group, method=method)
            for term, group in quantities.rows
        ]
        part = problem.columns(fitted)
        try:
            estimated, spread, required = (
                _by_labels(problem, ways)
                if method == "naive"
                else _by_codes(method, part, ways, settings, ends)
            )
        except FitError as error:
            columns = notes.first_of(
                f"{i}: {name or 'all'}" for i, name in enumerate(names, 1)
            )
            among = f" (columns {columns})" if len(names) > 1 else ""
            self.notes.append(f"{method} gives no estimate: {error}{among}")
        else:
            values = ways @ estimated.theta
            low, high, errors = spread.limits(values, settings.level)
            covariance[np.ix_(fitted, fitted)] = _widen_covariance(
                ways[:m] @ estimated.covariance @ ways[:m].T, errors[:m]
            )
            needed[fitted] = required[:m]
            places = zip(quantities.at, quantities.limits, strict=True)
            for k, (i, limits) in enumerate(places):
                if i is None:
                    continue
                ends_of_row = within(float(low[i]), float(high[i]), *limits)
                rows[k] = replace(
                    rows[k],
                    estimate=float(values[i]),
                    std_error=float(errors[i]),
                    low=ends_of_row[0],
                    high=ends_of_row[1],
                    lam=estimated.lam if method == "ppi" else math.nan,
                    df=float(spread.df[i]),
                )
        self.rows += rows
        self.covariances[outcome, method] = covariance
        return needed

    def checked(self) -> Fits:
        """Warn of the notes; raise an error if no method gives an estimate."""
        if all(np.isnan(row.estimate) for row in self.rows):
            raise ArgumentError(
                f"no method gives an estimate: {'; '.join(self.notes)}",
                code="no_estimate",
            )
        self.notes = notes.warn_of(self.notes)
        return self


def _by_labels(problem: Problem, ways: Floats) -> tuple[Estimated, Spread, Floats]:
    """Estimate from the labels, with normal intervals, or t intervals with clusters."""
    estimated, q, df = dsl.naive(problem), len(ways), np.inf
    if problem.clusters is not None:
        df = max(len(np.unique(problem.clusters)) - 1.0, 1.0)
    spread = Spread.symmetric(_variances(estimated, ways), np.full(q, df))
    return estimated, spread, np.full(q, np.nan)


def _by_codes(
    method: Method,
    problem: Problem,
    ways: Floats,
    settings: FitSettings,
    ends: tuple[float, float] | None,
) -> tuple[Estimated, Spread, Floats]:
    """Estimate coefficients that the codes decide; "ppi" is for means of groups."""
    if problem.x.shape[1] == 0:
        raise FitError("no group has two codes")
    check_rank(problem.x, np.ones(len(problem.y)))
    n_fitted: float | Floats = 1.0
    if method == "ppi":
        shares = np.abs(ways)
        n_fitted = shares @ (1.0 + ~problem.all_coded) / shares.sum(axis=1)
    estimated, influences = by_codes(method, problem, ways, is_plain=settings.is_plain)
    variances = _variances(estimated, ways)
    spread = influences.spread(variances, n_fitted, ends, settings.level)
    return estimated, spread, influences.codes_needed()


def _variances(estimated: Estimated, ways: Floats) -> Floats:
    return np.asarray(np.einsum("qi,ij,qj->q", ways, estimated.covariance, ways))


def _widen_covariance(covariance: Floats, errors: Floats) -> Floats:
    """Return covariances enlarged where an unseen case widened an interval."""
    plain = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    ratio = np.divide(errors, plain, out=np.ones(len(plain)), where=plain > 0)
    wide = covariance * np.outer(ratio, ratio)
    wide[np.diag_indices(len(plain))] = errors**2
    return np.asarray(wide)


def fit_regression(kind: Kind, matrices: Matrices, settings: FitSettings) -> Fits:
    """Fit a regression by all methods."""
    outcome, terms = matrices.outcome, matrices.terms
    if len({*matrices.y_hat.tolist(), *matrices.y.tolist()}) == 1:
        raise ArgumentError(
            f"the left side {outcome!r} is {matrices.y[0]:g} for all labels and codes: "
            "check the spelling of its label",
            argument="formula",
            code="constant_outcome",
            form="{name}: {problem}",
        )
    if kind == "logit":
        _check_binary(matrices, are_probs=settings.are_probs)
    methods: list[Method] = [method for method in settings.methods if method != "ppi"]
    if not methods:
        raise ArgumentError(
            "must have another method than 'ppi' for a regression, such as 'dsl': ppi is "
            "for shares and means",
            argument="methods",
            code="unsupported",
        )
    problem = settings.problem(
        kind, matrices.x_hat, matrices.y_hat, matrices.x, matrices.y
    )
    fits = Fits(notes=_notes_of(outcome, problem, settings))
    ends = None
    if not matrices.has_label_right:
        values = [*matrices.y_hat, *matrices.y]
        ends = (float(min(values)), float(max(values)))
    fitted, ways = _well_conditioned(problem)
    quantities = replace(Quantities.of_terms(terms), ways=ways)
    needed: dict[str, Floats] = {
        method: fits.add(outcome, method, fitted, quantities, settings, ends)
        for method in methods
    }
    if kind == "ols" and not all(np.isnan(row.estimate) for row in fits.rows):
        fits.notes += notes.high_leverage(problem)
        n_codes = (problem.x != 0).sum(axis=0)
        fits.notes += notes.note_on_skew(
            outcome, terms, n_codes, needed, of="coefficients"
        )
    return fits.checked()


def _well_conditioned(problem: Problem) -> tuple[Problem, Floats]:
    """Return the regression on orthogonal covariates, if its own are nearly dependent.

    Times are an example: their seconds since 1970 are nearly the same number. The second
    result, float64[p, p], has for each coefficient its weights of those on the result.
    """
    n, p = problem.x_hat.shape
    rows = np.concatenate([problem.x_hat, problem.x])
    scales = np.sqrt((rows**2).sum(axis=0))
    axes, triangle = np.linalg.qr(rows / np.where(scales > 0, scales, 1.0))
    if not _FAR < np.linalg.cond(triangle) < _DEPENDENT:
        return problem, np.eye(p)
    ways = np.linalg.inv(triangle) / scales[:, None]
    return replace(problem, x_hat=axes[:n], x=axes[n:]), np.asarray(ways)


def _notes_of(outcome: str, problem: Problem, settings: FitSettings) -> list[str]:
    """Return notes on few codes, errors, weights, clusters and events."""
    return [
        *notes.few_coefficients(*problem.x.shape),
        *([notes.note("no_ppi")] if "ppi" in settings.methods else []),
        *notes.few_errors(outcome, problem, settings.gold.strata_names),
        *notes.few_heavy(problem),
        *notes.few_clusters(problem),
        *(notes.few_events(problem) if problem.kind == "logit" else []),
    ]


def _check_binary(matrices: Matrices, *, are_probs: bool) -> None:
    for values in (matrices.y_hat, matrices.y):
        inside = are_probs and values is matrices.y_hat
        ok = (values >= 0) & (values <= 1) if inside else np.isin(values, (0.0, 1.0))
        if not ok.all():
            raise ArgumentError(
                f"the outcome of a logistic regression must be 0 or 1, or a condition "
                f"such as label == 'x', not {matrices.outcome!r}",
                argument="formula",
                form="{name}: {problem}",
            )
