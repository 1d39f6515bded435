"""Settings, rows and levels shared by estimates of means and of regressions."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.coding.estimation import notes
from llamaherd.coding.estimation.estimates import METHODS, Estimate, Method, Width
from llamaherd.coding.statistics import dsl
from llamaherd.coding.statistics.dsl import Problem
from llamaherd.coding.statistics.influences import Influences
from llamaherd.coding.statistics.intervals import NO_LIMITS, bonferroni, within
from llamaherd.coding.statistics.regression import FitError
from llamaherd.coding.statistics.sampling import TARGETS
from llamaherd.coding.statistics.uncertainty import Spread
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.coding.estimation.gold_use import GoldUsed
    from llamaherd.coding.estimation.predictions import Predicted
    from llamaherd.coding.statistics.label_weight import CodesAlone
    from llamaherd.coding.statistics.regression import Estimated, Kind
    from llamaherd.coding.statistics.sampling import Floats, Ints, Target


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


def settings_of(
    gold: GoldUsed,
    *,
    methods: Sequence[Method],
    level: float,
    target: Target,
    clusters: Ints | None,
    weights: Floats | None = None,
) -> FitSettings:
    """Check the settings of a call, and return them as `FitSettings`."""
    if isinstance(methods, str) or not methods:
        raise ArgumentTypeError(
            f"must be a list of {', '.join(METHODS)}", argument="methods"
        )
    for method in methods:
        checks.choice("methods", method, METHODS)
    checks.real("level", level, 1e-6, 1 - 1e-6)
    checks.choice("target", target, TARGETS)
    if clusters is not None and target == "texts":
        raise ArgumentError(
            f"requires {setting('target', 'population')}: only then texts are a sample",
            argument="cluster",
        )
    if clusters is not None and np.ptp(clusters) == 0:
        raise ArgumentError(
            "must have two values at least: all texts have one",
            argument="cluster",
            code="out_of_range",
        )
    if len(gold.rows) < 2:
        raise ArgumentError(
            "has fewer than two codes of the texts that are used", argument="gold"
        )
    return FitSettings(
        gold=gold,
        methods=tuple(dict.fromkeys(methods)),
        level=level,
        target=target,
        clusters=clusters,
        weights=weights,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MethodFit:
    """Coefficients by one method, and weighted sums of them.

    Attributes:
        covariance: float64[p, p], covariances of the coefficients.
        lam: See `Estimated`.
        values: float64[q], the sums.
        low: float64[q], lower limits of their intervals.
        high: float64[q], upper limits.
        std_errors: float64[q], standard errors.
        df: float64[q], degrees of freedom of the intervals.
        needed: float64[q], numbers of codes that the skewness requires, see
            `Influences.codes_needed`; NaN if unknown.
    """

    covariance: Floats
    lam: float
    values: Floats
    low: Floats
    high: Floats
    std_errors: Floats
    df: Floats
    needed: Floats

    @classmethod
    def of(
        cls,
        found: Estimated,
        ways: Floats,
        spread: Spread,
        level: float,
        needed: Floats,
    ) -> MethodFit:
        """Return the intervals of sums with the weights `ways`, float64[q, p].

        The first p sums are the coefficients. Covariances are enlarged where an unseen
        case widened the interval of a coefficient.
        """
        p = len(found.theta)
        values = np.asarray(ways @ found.theta)
        low, high, errors = spread.limits(values, level)
        own = np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
        ratio = np.divide(errors[:p], own, out=np.ones(p), where=own > 0)
        covariance = found.covariance * np.outer(ratio, ratio)
        covariance[np.diag_indices(p)] = errors[:p] ** 2
        return cls(
            covariance=covariance,
            lam=found.lam,
            values=values,
            low=low,
            high=high,
            std_errors=errors,
            df=spread.df,
            needed=needed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowNames:
    """Names of one estimate in the result, and the limits of its possible values."""

    outcome: str
    term: str
    group: str
    method: Method
    limits: tuple[float, float] = NO_LIMITS


def of_labels(problem: Problem, ways: Floats, level: float) -> MethodFit:
    """Estimate from the labels, with normal intervals, or t intervals with clusters."""
    found = dsl.naive(problem)
    q = len(ways)
    df = np.inf
    if problem.clusters is not None:
        df = max(len(np.unique(problem.clusters)) - 1.0, 1.0)
    spread = Spread.symmetric(
        np.einsum("qi,ij,qj->q", ways, found.covariance, ways), np.full(q, df)
    )
    return MethodFit.of(found, ways, spread, level, np.full(q, np.nan))


def of_codes(
    problem: Problem,
    found: Estimated,
    ways: Floats,
    level: float,
    *,
    ends: tuple[float, float] | None,
    n_fitted: float | Floats,
) -> MethodFit:
    """Return the sums of coefficients that the codes decide, with their intervals.

    Args:
        problem: The regression.
        found: Its coefficients.
        ways: float64[q, p], weights of the coefficients; the first p are the coefficients
            themselves.
        level: Confidence level.
        ends: Smallest and largest outcome, see `Influences.cases`.
        n_fitted: See `Influences.freedom`.
    """
    lam = found.lams if found.lams is not None else found.lam
    influences = Influences.of(problem, lam, found.theta, ways)
    variances = np.einsum("qi,ij,qj->q", ways, found.covariance, ways)
    spread = influences.spread(variances, n_fitted, ends, level)
    needed = influences.codes_needed()
    return MethodFit.of(found, ways, spread, level, needed)


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


def filled_row(row: RowNames, found: MethodFit | None, i: int | None) -> Estimate:
    """Return the `Estimate` (row of the result) of sum i; NaN without a sum."""
    nan = float("nan")
    if found is None or i is None:
        return Estimate(
            outcome=row.outcome, term=row.term, group=row.group, method=row.method,
            estimate=nan, std_error=nan, low=nan, high=nan,
        )  # fmt: skip
    low, high = within(float(found.low[i]), float(found.high[i]), *row.limits)
    return Estimate(
        outcome=row.outcome,
        term=row.term,
        group=row.group,
        method=row.method,
        estimate=float(found.values[i]),
        std_error=float(found.std_errors[i]),
        low=low,
        high=high,
        lam=found.lam if row.method == "ppi" else nan,
        df=float(found.df[i]),
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


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """Estimates by the chosen predictions, and interval widths by all predictions."""

    found: Found
    widths: tuple[Width, ...]


def by_predictions(
    predicted: Sequence[Predicted],
    settings: FitSettings,
    fit: Callable[[Predicted, FitSettings], Found],
) -> Compared:
    """Estimate with the first predictions, and compare widths with all other predictions.

    Args:
        predicted: Predictions, the chosen predictions first; recalibrated probabilities
            are followed by the model's own predictions.
        settings: Settings of the estimates.
        fit: Function that estimates with one kind of predictions.
    """
    first, *others = predicted
    found = fit(first, _with(settings, first))
    if first.probs is None:
        return Compared(found=found, widths=())
    methods = [each for each in settings.methods if each in {"dsl", "ppi"}]
    widths = [_width(found, "", "gold")] if "gold" in settings.methods else []
    own = {first.kind: found}
    for each in others:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                own[each.kind] = fit(each, _with(settings, each))
            except ArgumentError:  # for example, the labels allow no solution
                continue
    order = [each.kind for each in reversed(predicted) if each.kind in own]
    widths += [_width(own[kind], kind, method) for method in methods for kind in order]
    known = tuple(each for each in widths if not math.isnan(each.width))
    return Compared(found=found, widths=known)


def _with(settings: FitSettings, predicted: Predicted) -> FitSettings:
    return replace(settings, are_probs=predicted.probs is not None)


def _width(found: Found, kind: str, method: str) -> Width:
    rows = [row for row in found.rows if row.method == method]
    return Width.of(kind, method, [(row.low, row.high) for row in rows])


def at_level(
    fit: Callable[[float], Compared], level: float, simultaneous: str | None
) -> Compared:
    """Estimate with intervals of a level, which may hold for all intervals together.

    Args:
        fit: Function that estimates with intervals of a level.
        level: Confidence level.
        simultaneous: "bonferroni"; None if each interval alone has
            this level.
    """
    made = fit(level)
    if simultaneous is None:
        return made
    with warnings.catch_warnings():  # about the same estimates
        warnings.simplefilter("ignore", UserWarning)
        again = fit(bonferroni(level, n_intervals(made.found)))
    return replace(again, found=replace(again.found, notes=made.found.notes))


def n_intervals(found: Found) -> int:
    """Return the largest number of intervals of a method."""
    methods = [row.method for row in found.rows if not math.isnan(row.std_error)]
    return max(map(methods.count, methods), default=1)
