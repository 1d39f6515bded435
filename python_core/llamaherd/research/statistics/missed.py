"""Recall and F1 bounded by the units that could hold cases which a model missed.

Of a sample with unequal probabilities the units that were given a label may weigh little,
and the others much. Recall is then about units of which few were coded: where none of
these shows the label, nothing varies among the cases that were seen, and an interval from
these alone has no width. So cases found and cases missed are totals of their own, each
with limits, and recall = found / (found + missed) and F1 follow by MOVER for ratios.

Sources: see `llamaherd.research.statistics.counts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from llamaherd.research.statistics import counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.intervals import Measure
    from llamaherd.research.statistics.ratings import Flags, Floats

_FEW = 15  # cases missed below which the limits are these


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfound:
    """Counts of the units that were not given a label.

    Attributes:
        n_codes: Of these with codes.
        n_cases: Of these that have the label by their code.
        share: Of all units, weighted.
        recall: Lower and upper limit.
        f1: Lower and upper limit.
    """

    n_codes: int
    n_cases: int
    share: float
    recall: tuple[float, float]
    f1: tuple[float, float]


class _Scores(Protocol):
    """The columns of a label's scores that are needed."""

    @property
    def n_gold(self) -> int:
        """Units that have the label."""

    @property
    def recall(self) -> Measure:
        """Recall."""

    @property
    def f1(self) -> Measure:
        """F1."""

    @property
    def unfound(self) -> Unfound | None:
        """Bounds; None: there is no need of them."""


def unfound(
    is_given: Flags, is_gold: Flags, weights: Floats, level: float
) -> Unfound | None:
    """Bounds of recall and F1 of a label; None with equal weights, or many cases missed.

    Args:
        is_given: bool[n], units that were given the label.
        is_gold: bool[n], units that have it by people's codes.
        weights: float64[n], 1 / inclusion probability.
        level: Of the limits.
    """
    out, cases = ~is_given, is_gold & ~is_given
    if len(weights) == 0 or np.ptp(weights) == 0 or not out.any() or not is_gold.any():
        return None
    if cases.sum() >= _FEW:
        return None
    missed = _total(weights[cases], weights[out], level)
    found = _total(weights[is_gold & is_given], weights[is_given], level)
    share = float(weights[out].sum() / weights.sum())
    by_recall = counts.ratio(missed, found)
    n_given = float(weights[is_given].sum())
    both = counts.Limits(
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


def _total(cases: Floats, drawn: Floats, level: float) -> counts.Limits:
    """A total with limits; what was drawn tells how much an unseen case weighs."""
    heavy = counts.heaviest(1 / drawn, level) if len(drawn) else 0.0
    return counts.total(cases, heavy, float(drawn.sum()), level)


def with_limits(measure: Measure, limits: tuple[float, float]) -> Measure:
    """A measure whose interval has both its own limits and these."""
    low = limits[0] if math.isnan(measure.low) else min(measure.low, limits[0])
    high = limits[1] if math.isnan(measure.high) else max(measure.high, limits[1])
    if math.isnan(measure.value):
        return measure
    return replace(measure, low=low, high=high)


def widened(measure: Measure, labels: Sequence[_Scores], part: str) -> Measure:
    """A mean over labels, at least as wide as its bounded parts make it by MOVER."""
    given = [each for each in labels if each.n_gold > 0]
    if math.isnan(measure.value) or all(each.unfound is None for each in given):
        return measure
    parts: list[Measure] = [getattr(each, part) for each in given]
    known = [each for each in parts if not math.isnan(each.low)]
    down = math.sqrt(sum((each.value - each.low) ** 2 for each in known)) / len(given)
    up = math.sqrt(sum((each.high - each.value) ** 2 for each in known)) / len(given)
    limits = (max(0.0, measure.value - down), min(1.0, measure.value + up))
    return with_limits(measure, limits)
