"""Means and medians in groups and their differences, by all methods.

F(t), the share of codes that are at most t, is estimated like any other share, with the
interval of `llamaherd.coding.statistics.uncertainty`. The median is the smallest number
t with F(t) >= 1/2. Its interval begins at the smallest t for which the upper limit of
F(t) reaches 1/2, and ends at the smallest t for which the lower limit does. No density is
estimated, so the interval is valid for scales of few numbers and for fractions.

Differences of groups have intervals by MOVER, which combines the limits of both medians
and treats the groups' estimates as independent.

Sources: Woodruff, "Confidence Intervals for Medians and Other Position Measures", J. Am.
Stat. Assoc. 47, 1952; Zou, Donner, "Construction of Confidence Limits about Effect
Measures", Stat. Med. 27, 2008 (MOVER).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.coding.estimation import notes
from llamaherd.coding.estimation.estimates import Estimate, Method
from llamaherd.coding.estimation.fitting import Fits, FitSettings, Quantities
from llamaherd.coding.estimation.outcomes import MEDIAN, Numbers, Outcome
from llamaherd.coding.estimation.predictions import Predicted, shares_or_scores
from llamaherd.coding.statistics.intervals import NO_LIMITS, student_quantile
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from llamaherd.coding.gold.population import Population
    from llamaherd.engine.core.arrays import Floats, Ints

    UpTo = Callable[[float], tuple[Floats, Floats]]  # shares of texts, of codes

_LEAST_CODES = 2  # minimum number of codes of a group


def fit_means(
    outcomes: Sequence[Numbers],
    term: str,
    groups: Ints,
    names: Sequence[str],
    settings: FitSettings,
    *,
    limits: tuple[float, float] = NO_LIMITS,
) -> Fits:
    """Estimate means of outcomes in groups, and differences from the first group."""
    x_hat = (groups[:, None] == np.arange(len(names))).astype(np.float64)
    x = x_hat[settings.gold.rows]
    n_codes = x.sum(axis=0)
    is_exact = (settings.target == "texts") & (n_codes == x_hat.sum(axis=0))
    fits = Fits(notes=settings.notes_of_ppi)
    fits.notes += notes.few_groups(names, np.where(is_exact, np.inf, n_codes))
    limits = (0.0, 1.0) if term == "share" else limits
    coded = np.flatnonzero(n_codes >= _LEAST_CODES)
    for outcome, y_hat, y in outcomes:
        problem = settings.problem("ols", x_hat, y_hat, x, y)
        fits.notes += [*notes.few_heavy(problem), *notes.few_clusters(problem)]
        if term == "share":
            fits.notes += notes.never_given(outcome, y_hat, y)
            fits.notes += notes.rare_label(outcome, y)
        else:
            fits.notes += notes.unseen_tail(outcome, problem)
        fits.notes += notes.rare_errors(
            outcome, names, problem, settings.gold.strata_names
        )
        values = [0.0, 1.0] if term == "share" else [*y_hat, *y]
        ends = (float(min(values)), float(max(values)))
        problem = problem.with_certainty()
        needed: dict[str, Floats] = {}
        for method in settings.methods:
            estimable = coded if method != "naive" else np.arange(len(names))
            quantities = Quantities.of_groups(names, estimable, term, limits)
            needed[method] = fits.add(
                outcome, method, problem, quantities, settings, ends
            )
        fits.notes += notes.note_on_skew(outcome, names, n_codes, needed)
    fits.notes += notes.outside_limits(fits.rows, limits)
    return fits.checked()


# with more numbers, shares are computed by bisection instead of at all numbers
_MOST = 64


def fit_median(
    up_to: UpTo, values: Floats, groups: Ints, names: Sequence[str], settings: FitSettings
) -> Fits:
    """Estimate medians in groups, and differences from the first group."""
    shares = _Shares(up_to, values, groups, names, settings)
    rows: list[Estimate] = []
    covariances: dict[tuple[str, str], Floats] = {}
    for method in settings.methods:
        first, *others = medians = [shares.median(method, name) for name in names]
        rows += medians
        rows += [_difference(other, first, settings.level) for other in others]
        covariances[MEDIAN, method] = np.diag([row.std_error**2 for row in medians])
    if all(math.isnan(row.estimate) for row in rows):
        raise ArgumentError("no method gives an estimate", code="no_estimate")
    return Fits(
        rows=rows,
        covariances=covariances,
        notes=notes.warn_of(shares.notes),
    )


def _difference(row: Estimate, first: Estimate, level: float) -> Estimate:
    """Subtract the median of the first group; the interval is computed by MOVER."""
    value = row.estimate - first.estimate
    below = math.hypot(row.estimate - row.low, first.high - first.estimate)
    above = math.hypot(row.high - row.estimate, first.estimate - first.low)
    df = min(row.df, first.df)
    return replace(
        row,
        term="difference",
        group=f"{row.group} - {first.group}",
        estimate=value,
        std_error=(below + above) / (2 * student_quantile(level, df)),
        low=value - below,
        high=value + above,
        df=df,
    )


class _Shares:
    """Corrected shares of numbers up to each value; each share is computed once."""

    def __init__(
        self,
        up_to: UpTo,
        values: Floats,
        groups: Ints,
        names: Sequence[str],
        settings: FitSettings,
    ) -> None:
        self._up_to, self._values, self._settings = up_to, values, settings
        self._groups, self._names = groups, names
        self._known: dict[int, Fits | None] = {}
        self._used: set[int] = set()  # indices of medians

    @property
    def notes(self) -> list[str]:
        """Notes on the shares at the medians."""
        known = [self._known.get(i) for i in sorted(self._used)]
        return [note for fits in known if fits is not None for note in fits.notes]

    def median(self, method: Method, group: str) -> Estimate:
        """Return the median by a method in a group; NaN if it is undefined."""
        at, low, high = (
            self._first(method, group, end) for end in ("estimate", "high", "low")
        )
        self._used.add(at)
        share = None if self._is_last(at) else self._share(at, method, group)
        share = share or self._share(max(at - 1, 0), method, group)
        if share is None or math.isnan(share.estimate):
            return Estimate(outcome=MEDIAN, term="quantile", group=group, method=method)
        limits = [float(self._values[i]) for i in (low, high)]
        far = student_quantile(self._settings.level, share.df)
        return replace(
            share,
            outcome=MEDIAN,
            term="quantile",
            estimate=float(self._values[at]),
            std_error=(limits[1] - limits[0]) / (2 * far) if far > 0 else math.nan,
            low=limits[0],
            high=limits[1],
        )

    def _first(self, method: Method, group: str, end: str) -> int:
        """Return the first number up to which the share reaches one half.

        `end` selects the estimate of the share or one of its limits.
        """

        def reaches(i: int) -> bool:
            if self._is_last(i):  # all numbers that occur
                return True
            row = self._share(i, method, group)
            value = math.nan if row is None else float(getattr(row, end))
            # If a limit is missing, no number is rejected.
            return end == "high" if math.isnan(value) else value >= 0.5 - 1e-12

        n = len(self._values)
        if n <= _MOST:
            return next(i for i in range(n) if reaches(i))
        low, high = -1, n - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if reaches(middle) else (middle, high)
        return high

    def _is_last(self, i: int) -> bool:
        return i == len(self._values) - 1

    def _share(self, i: int, method: Method, group: str) -> Estimate | None:
        """Return the share of numbers up to number i; None without any estimate."""
        if i not in self._known:
            t = float(self._values[i])
            outcome = (f"share up to {t:g}", *self._up_to(t))
            self._known[i] = None
            # `notes.warn_of` warns once; an error means that no method gives an estimate
            with warnings.catch_warnings(), suppress(ArgumentError):
                warnings.simplefilter("ignore", UserWarning)
                self._known[i] = fit_means(
                    [outcome], "mean", self._groups, self._names, self._settings
                )
        fits = self._known[i]
        for row in () if fits is None else fits.rows:
            if (row.term, row.method, row.group) == ("mean", method, group):
                return row
        return None


def fit_outcomes(  # noqa: PLR0917 - one caller
    texts: Population,
    kept: Ints,
    outcome: Outcome | None,
    in_groups: tuple[Ints, list[str]],
    settings: FitSettings,
    predicted: Predicted,
    *,
    several: bool,
    is_median: bool = False,
    limits: tuple[float, float] = NO_LIMITS,
) -> Fits:
    """Estimate the outcome of all groups from one kind of predictions."""
    groups, names = in_groups
    codes = settings.gold.decided

    def numbers_of(outcome: Outcome | None) -> tuple[str, list[Numbers]]:
        return shares_or_scores(outcome, texts, kept, predicted, codes, several=several)

    term, numbers = numbers_of(outcome)
    if not is_median or not isinstance(outcome, Mapping):
        return fit_means(numbers, term, groups, names, settings, limits=limits)

    def up_to(t: float) -> tuple[Floats, Floats]:
        under = {name: float(score <= t) for name, score in outcome.items()}
        _, of_labels, of_codes = numbers_of(under)[1][0]
        return of_labels, of_codes

    scores = np.unique([float(score) for score in outcome.values()])
    return fit_median(up_to, scores, groups, names, settings)
