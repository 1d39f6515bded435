"""Quantiles of numeric labels, from corrected shares of numbers at or below a limit.

The quantile q of order p solves F(q) = p, where F(t) is the share of codes that are at
most t. Each method estimates F(t) in the same way as any share, with an interval that is
valid even if labels are wrong. The estimated quantile is the smallest number t with F(t)
>= p. The interval of the quantile contains the numbers t for which a test does not reject
F(t) = p. The interval begins at the smallest t for which the upper limit of F(t) reaches
p, and ends at the smallest t for which the lower limit of F(t) reaches p. The method
estimates no density, so it is valid for scales of few numbers and for numbers with
fractions.

If right codes are drawn by a model of coders, the estimates of F(t) are combined over all
draws by Rubin's rules, and the quantile is computed from the combined estimates. The
quantiles of single draws are not combined: they jump between the numbers of a scale, so
that their variance does not show the uncertainty.

Differences of groups have intervals by MOVER, which combines the limits
of both quantiles and treats the groups' estimates as independent.

Sources: Woodruff, "Confidence Intervals for Medians and Other Position Measures", J. Am.
Stat. Assoc. 47, 1952; Angelopoulos, Bates, Fannjiang, Jordan, Zrnic, "Prediction-Powered
Inference", 2023 (arXiv 2301.09633), on quantiles; Zou, Donner, "Construction of
Confidence Limits about Effect Measures", Stat. Med. 27, 2008 (MOVER).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.core.words import setting
from llamaherd.research.estimation.estimates import Estimate
from llamaherd.research.estimation.fitting import Found
from llamaherd.research.estimation.fitting_means import fit_means
from llamaherd.research.estimation.notes import warned
from llamaherd.research.estimation.outcomes import MEDIAN, QUANTILE
from llamaherd.research.estimation.repeated import combined
from llamaherd.research.statistics.codes_alone import added
from llamaherd.research.statistics.intervals import student_quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.research.estimation.fitting import FitSettings
    from llamaherd.research.statistics.codes_alone import CodesAlone, Key, VarianceParts
    from llamaherd.research.statistics.sampling import Floats, Ints

    UpTo = Callable[[float], tuple[Floats, Floats]]  # shares of texts, of codes
    _Key = tuple[str, str]  # method, group

QUARTILES = (0.25, 0.5, 0.75)
# with more numbers, shares are computed by bisection instead of at all numbers
_MOST = 64


def quantiles_of(outcome: object, quantile: object) -> tuple[float, ...]:
    """Return the quantiles to estimate.

    Raises:
        ValueError: A quantile is not within 0 and 1, or `outcome` does not ask for
            quantiles.
    """
    if quantile is None:
        return (0.5,) if outcome == MEDIAN else QUARTILES
    if outcome != QUANTILE:
        raise ArgumentError(
            f"is for {setting('outcome', QUANTILE)}", argument="quantile", code="conflict"
        )
    given = quantile if isinstance(quantile, (list, tuple)) else [quantile]
    if not given:
        raise ArgumentError("must not be empty", argument="quantile", code="empty")
    found = [checks.real("quantile", each, 0.001, 0.999) for each in given]
    return tuple(dict.fromkeys(found))


def fit_quantiles(
    draws: Sequence[tuple[UpTo, FitSettings]],
    values: Floats,
    quantiles: Sequence[float],
    groups: Ints,
    names: Sequence[str],
) -> Found:
    """Estimate quantiles in groups, and differences from the first group.

    Args:
        draws: One function for each draw of the right codes; a single function without a
            model of coders. Each function takes a number t and the settings of all
            estimates, and returns float64[N] for labels and float64[n] for codes: 1 for a
            text whose number is at most t, else 0; or the probability that the number is
            at most t.
        values: All numbers that occur, sorted.
        quantiles: Orders of the quantiles, between 0 and 1.
        groups: int64[N], the group of each text.
        names: Names of the groups.

    Raises:
        ValueError: No method gives an estimate.
    """
    shares = _Shares(draws, values, groups, names)
    settings = draws[0][1]
    rows: list[Estimate] = []
    covariances: dict[tuple[str, str], Floats] = {}
    variances: dict[Key, VarianceParts] = {}
    for p in quantiles:
        outcome = MEDIAN if p == 0.5 else f"quantile {p:g}"
        for method in settings.methods:
            found = [shares.quantile((method, name), p) for name in names]
            made = [
                _row(outcome, "quantile", name, method, each)
                for name, each in zip(names, found, strict=True)
            ]
            rows += made
            rows += [
                _row(
                    outcome,
                    "difference",
                    f"{name} - {names[0]}",
                    method,
                    each.less(found[0], settings.level),
                )
                for name, each in zip(names[1:], found[1:], strict=True)
            ]
            covariances[outcome, method] = np.diag([row.std_error**2 for row in made])
            if method == "gold":
                variances |= _variances(outcome, names, found)
    if all(math.isnan(row.estimate) for row in rows):
        raise ArgumentError("no method gives an estimate", code="no_estimate")
    return Found(
        rows=rows,
        covariances=covariances,
        notes=warned(shares.notes),
        alone=None
        if shares.alone is None
        else replace(shares.alone, variances=variances),
    )


@dataclass(frozen=True, slots=True)
class _Quantile:
    """Quantile with its interval, and the estimated share of numbers up to it."""

    value: float
    low: float
    high: float
    at: Estimate | None
    std_error: float
    parts: VarianceParts | None = None

    def less(self, other: _Quantile, level: float) -> _Quantile:
        """Subtract another quantile; the interval is computed by MOVER."""
        value = self.value - other.value
        below = math.hypot(self.value - self.low, other.high - other.value)
        above = math.hypot(self.high - self.value, other.value - other.low)
        df = min((each.at.df for each in (self, other) if each.at), default=math.inf)
        error = (below + above) / (2 * student_quantile(level, df))
        at = None if self.at is None else replace(self.at, df=df)
        return _Quantile(value, value - below, value + above, at, error)


def _variances(
    outcome: str, names: Sequence[str], found: Sequence[_Quantile]
) -> dict[Key, VarianceParts]:
    """Return the shares of the variances of quantiles and of their differences.

    The variance of a quantile is that of the share of numbers up to it, divided by the
    squared density.
    """
    out = {}
    for i, (name, own) in enumerate(zip(names, found, strict=True)):
        if own.parts is None:
            continue
        out[outcome, "quantile", name] = own.parts
        first = found[0].parts
        if i > 0 and first is not None:
            pair = [(own.parts, own.std_error**2), (first, found[0].std_error ** 2)]
            both = added(pair)
            if both is not None:
                out[outcome, "difference", f"{name} - {names[0]}"] = both
    return out


def _row(outcome: str, term: str, group: str, method: str, found: _Quantile) -> Estimate:
    at = found.at
    return Estimate(
        outcome=outcome,
        term=term,
        group=group,
        method=method,  # type: ignore[arg-type] # a Method
        estimate=found.value,
        std_error=found.std_error,
        low=found.low,
        high=found.high,
        lam=math.nan if at is None else at.lam,
        df=math.inf if at is None else at.df,
    )


class _Shares:
    """Corrected shares of numbers up to each limit; each share is computed once."""

    def __init__(
        self,
        draws: Sequence[tuple[UpTo, FitSettings]],
        values: Floats,
        groups: Ints,
        names: Sequence[str],
    ) -> None:
        self._draws, self._values, self._settings = draws, values, draws[0][1]
        self._groups, self._names = groups, names
        self._known: dict[int, dict[_Key, Estimate]] = {}
        self._alone: dict[int, CodesAlone] = {}
        self._notes: dict[int, list[str]] = {}
        self._used: set[int] = set()  # indices of quantiles

    @property
    def notes(self) -> list[str]:
        """Notes on the estimated shares at the quantiles."""
        return [note for i in sorted(self._used) for note in self._notes.get(i, ())]

    @property
    def alone(self) -> CodesAlone | None:
        """Variances by codes alone of one of the shares; None if there are none."""
        return next(iter(self._alone.values()), None)

    def quantile(self, key: _Key, p: float) -> _Quantile:
        """Return a quantile by one method in one group; NaN if it is undefined."""
        at = self._first(lambda i: self._above(key, i, "estimate", p))
        self._used.add(at)
        low = self._first(lambda i: self._above(key, i, "high", p))
        high = self._first(lambda i: self._above(key, i, "low", p))
        row = self._at(at).get(key) if at < len(self._values) - 1 else None
        near = row or self._at(max(at - 1, 0)).get(key)
        if near is None or math.isnan(near.estimate):
            nan = math.nan
            return _Quantile(nan, nan, nan, None, nan)
        ends = [float(self._values[i]) for i in (low, high)]
        far = student_quantile(self._settings.level, near.df)
        error = (ends[1] - ends[0]) / (2 * far) if far > 0 else math.nan
        parts = None
        if key[0] == "gold":
            alone = self._alone.get(at if row is not None else max(at - 1, 0))
            name = (near.outcome, near.term, near.group)
            parts = None if alone is None else alone.variances.get(name)
        return _Quantile(float(self._values[at]), ends[0], ends[1], near, error, parts)

    def _above(self, key: _Key, i: int, end: str, p: float) -> bool:
        """Return True if the share of numbers up to number i reaches p.

        `end` selects the estimate of the share or one of its limits.
        """
        if i == len(self._values) - 1:  # all numbers that occur
            return True
        row = self._at(i).get(key)
        value = math.nan if row is None else float(getattr(row, end))
        # If a limit is missing, no number is rejected.
        return end == "high" if math.isnan(value) else value >= p - 1e-12

    def _first(self, holds: Callable[[int], bool]) -> int:
        """Return the first index for which a condition holds.

        The condition must hold for the last index.
        """
        indices = self._indices()
        if len(indices) <= _MOST:
            return next(i for i in indices if holds(i))
        low, high = -1, len(indices) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def _indices(self) -> range:
        return range(len(self._values))

    def _at(self, i: int) -> dict[_Key, Estimate]:
        if i not in self._known:
            t = float(self._values[i])
            name = f"share up to {t:g}"
            try:
                with warnings.catch_warnings():  # `notes` warns once
                    warnings.simplefilter("ignore", UserWarning)
                    by_draw = [
                        fit_means(
                            [(name, *up_to(t))],
                            "mean",
                            self._groups,
                            self._names,
                            settings,
                        )
                        for up_to, settings in self._draws
                    ]
                found = by_draw[0]
                if len(by_draw) > 1:
                    found = combined(by_draw, self._settings.level)
            except ArgumentError:  # no method gives an estimate of this share
                self._known[i] = {}
            else:
                self._notes[i] = found.notes
                if found.alone is not None:
                    self._alone[i] = found.alone
                self._known[i] = {
                    (row.method, row.group): row
                    for row in found.rows
                    if row.term != "difference"
                }
        return self._known[i]
