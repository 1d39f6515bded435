"""Bounds of recall and F1 that include cases which the model missed.

In a sample with unequal probabilities, units that were given a label may have small
weights, and all other units large weights. Recall then depends on the other units, of
which few were coded. If none of these units has the label as code, the observed cases do
not vary, and an interval from these cases alone has no width. The cases that the model
found and the cases that it missed are therefore two totals, each with its own limits.
MOVER for ratios then gives limits of recall = found / (found + missed) and of F1.

Sources: see `llamaherd.research.statistics.counts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from llamaherd.research.statistics import counts
from llamaherd.research.statistics.uncertainty import heaviest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.intervals import Measure
    from llamaherd.research.statistics.ratings import Flags, Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfound:
    """Units to which the model did not give a label: counts, and bounds of recall and F1.

    Attributes:
        n_codes: Number of these units with codes.
        n_cases: Number of these units whose code is the label.
        share: Weighted share of these units among all units.
        recall: Lower and upper limit of recall.
        f1: Lower and upper limit of F1.
    """

    n_codes: int
    n_cases: int
    share: float
    recall: tuple[float, float]
    f1: tuple[float, float]


class _Scores(Protocol):
    """Protocol of a label's scores, with the properties that `widened` reads."""

    @property
    def n_gold(self) -> int:
        """Number of units that have the label."""

    @property
    def recall(self) -> Measure:
        """Recall."""

    @property
    def f1(self) -> Measure:
        """F1."""

    @property
    def unfound(self) -> Unfound | None:
        """Bounds of recall and F1; None if they are not needed."""


def unfound(
    is_given: Flags, is_gold: Flags, weights: Floats, level: float
) -> Unfound | None:
    """Return bounds of a label's recall and F1; None if they are not needed.

    Args:
        is_given: bool[n], True for units that were given the label.
        is_gold: bool[n], True for units whose human code is the label.
        weights: float64[n], 1 / inclusion probability.
        level: Confidence level.
    """
    out, cases = ~is_given, is_gold & ~is_given
    if counts.are_equal(weights) or not out.any() or not is_gold.any():
        return None
    if cases.sum() >= counts.FEW:
        return None
    missed = _total(weights[cases], weights[out], level)
    found = _total(weights[is_gold & is_given], weights[is_given], level)
    share = float(weights[out].sum() / weights.sum())
    by_recall = counts.ratio(missed, found)
    n_given = float(weights[is_given].sum())
    both = counts.ConfidenceLimits(
        value=n_given + missed.value,
        low=n_given + missed.low,
        high=n_given + missed.high,
    )
    by_f1 = counts.ratio(both, found)
    return Unfound(
        n_codes=int(out.sum()),
        n_cases=int(cases.sum()),
        share=share,
        recall=(1 / (1 + by_recall.high), 1 / (1 + by_recall.low)),
        f1=(2 / (1 + by_f1.high), min(1.0, 2 / (1 + by_f1.low))),
    )


def _total(cases: Floats, drawn: Floats, level: float) -> counts.ConfidenceLimits:
    """Return a weighted total with limits; `drawn` are the weights of all coded units."""
    heavy = heaviest(drawn, 1 / drawn, level) if len(drawn) else 0.0
    return counts.total(cases, heavy, float(drawn.sum()), level)


def with_limits(measure: Measure, limits: tuple[float, float]) -> Measure:
    """Return a measure whose interval is extended to include these limits."""
    low = limits[0] if math.isnan(measure.low) else min(measure.low, limits[0])
    high = limits[1] if math.isnan(measure.high) else max(measure.high, limits[1])
    if math.isnan(measure.value):
        return measure
    return replace(measure, low=low, high=high)


def widened(measure: Measure, labels: Sequence[_Scores], part: str) -> Measure:
    """Widen the interval of a mean over labels by MOVER, if a label has bounds."""
    given = [each for each in labels if each.n_gold > 0]
    if math.isnan(measure.value) or all(each.unfound is None for each in given):
        return measure
    parts: list[Measure] = [getattr(each, part) for each in given]
    known = [each for each in parts if not math.isnan(each.low)]
    down = math.sqrt(sum((each.value - each.low) ** 2 for each in known)) / len(given)
    up = math.sqrt(sum((each.high - each.value) ** 2 for each in known)) / len(given)
    limits = (max(0.0, measure.value - down), min(1.0, measure.value + up))
    return with_limits(measure, limits)
