"""Calibration of probabilities, and accuracy against coverage in selective coding.

A model labels the texts of which it is confident, people code the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.coding.statistics.intervals import (
    LEVEL,
    Measure,
    level_of,
    share,
    share_limits,
    within,
)
from llamaherd.coding.statistics.ratings import unit_weights_of
from llamaherd.coding.statistics.uncertainty import mean
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of, decimals, limits, shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.arrays import Flags, Floats, Ints

_ROUNDING = 1e-9  # of shares of texts


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationBin:
    """Bin of units with similar confidence, a point of a reliability diagram."""

    low: float  # Smallest confidence
    high: float
    confidence: float  # Mean confidence
    accuracy: Measure
    weight: float  # Weighted share of all units that are in this bin, in [0, 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationError:
    """Calibration error: difference between confidence and accuracy.

    Attributes:
        ece: Expected calibration error: the weighted mean over bins of the distance
            between confidence and accuracy. This error is above 0 even for perfectly
            calibrated probabilities: about a third of sqrt(bins / n).
        overconfidence: Mean confidence minus accuracy.
        bins: Bins of about equal mass, ordered by confidence.
    """

    ece: float
    overconfidence: float
    bins: tuple[CalibrationBin, ...]
    n: int


def calibration_error(
    confidence: Sequence[float] | Floats,
    correct: Sequence[bool] | Flags,
    *,
    n_bins: int = 10,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = LEVEL,
) -> CalibrationError:
    """Compute the expected calibration error with bins of equal mass.

    Bins have equal mass, because a model with high confidence nearly everywhere would
    leave most bins of equal width empty. Units of the same confidence are in one bin, so
    that the result does not depend on their order; there may then be fewer bins.

    Sources: Nguyen and O'Connor, EMNLP 2015 (arXiv 1508.05154), for the bins, with
    squared differences; Nixon, Dusenberry, Zhang, Jerfel, Tran, 2019 (arXiv 1904.01685),
    for the absolute differences.
    """
    level_of(level)
    checks.integer("n_bins", n_bins, 1, 1000)
    sure, right, w = without_missing(confidence, correct, unit_weights)
    if len(sure) == 0:
        return CalibrationError(ece=math.nan, overconfidence=math.nan, bins=(), n=0)
    w = w / w.sum()
    at = np.unique(sure, return_inverse=True)[1]
    mass = np.bincount(at, weights=w)
    middles = np.cumsum(mass) - mass / 2
    bin_of = np.minimum((middles * n_bins).astype(int), n_bins - 1)[at]
    bins = []
    for b in np.unique(bin_of):
        inside = bin_of == b
        bins.append(
            CalibrationBin(
                low=float(sure[inside].min()),
                high=float(sure[inside].max()),
                confidence=float(np.average(sure[inside], weights=w[inside])),
                accuracy=share(right[inside], w[inside], level),
                weight=float(w[inside].sum()),
            )
        )
    ece = sum(b.weight * abs(b.confidence - b.accuracy.value) for b in bins)
    over = float((w * (sure - right)).sum())
    return CalibrationError(
        ece=float(ece), overconfidence=over, bins=tuple(bins), n=len(sure)
    )


def brier_score(
    probs: Floats | Sequence[Sequence[float]],
    truth: Sequence[int] | Ints,
    *,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = LEVEL,
) -> Measure:
    """Return the Brier score over all labels, from 0 (perfect) to 2 (certain, but wrong).

    The score is the mean over units of sum_j (p_j - [j is right])^2, with a t interval.
    `truth` has columns of right labels; NaN and negative columns are left out.

    Source: Brier, Monthly Weather Review 78, 1950.
    """
    values = np.asarray(probs, dtype=float)
    right = np.asarray(truth, dtype=np.int64)
    if values.ndim != 2 or right.shape != values.shape[:1]:
        raise ArgumentError(
            f"must have a row for each of {count_of(right.size, 'text')}, not "
            f"{shape_of(values.shape)}",
            argument="probs",
        )
    if right.size and right.max() >= values.shape[1]:
        raise ArgumentError(
            f"must be columns of {values.shape[1]}, not {right.max()}", argument="truth"
        )
    w = unit_weights_of(unit_weights, len(right))
    used = (right >= 0) & ~np.isnan(values).any(axis=1) & (w > 0)
    values, right, w = values[used], right[used], w[used]
    hit = np.eye(values.shape[1])[right]
    score = mean(((values - hit) ** 2).sum(axis=1), w, level_of(level))
    low, high = within(score.low, score.high, 0.0, 2.0)
    return Measure(value=score.value, low=low, high=high, n=score.n)


def without_missing(
    confidence: Sequence[float] | Floats,
    correct: Sequence[bool] | Flags,
    unit_weights: Sequence[float] | Floats | None,
) -> tuple[Floats, Flags, Floats]:
    """Return confidence, hits and weights of the units without missing values."""
    sure = np.asarray(confidence, dtype=float)
    right = np.asarray(correct, dtype=bool)
    if sure.ndim != 1 or sure.shape != right.shape:
        raise ArgumentError(
            f"must have as many elements as confidence, {sure.size}, not {right.size}",
            argument="correct",
        )
    w = unit_weights_of(unit_weights, len(sure))
    used = ~np.isnan(sure) & (w > 0)
    sure = sure[used]
    _check_range(sure)
    return np.clip(sure, 0, 1), right[used], w[used]


def _check_range(confidence: Floats) -> None:
    least, most = confidence.min(initial=0.0), confidence.max(initial=1.0)
    if least < -1e-9 or most > 1 + 1e-9:
        raise ArgumentError(
            f"must be between 0 and 1, not {confidence.min():g} to {confidence.max():g}",
            argument="confidence",
            code="out_of_range",
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoverageCurve:
    """Accuracy against coverage, with one point for each confidence that occurs.

    At each point the model labels only texts with at least the confidence of this point.

    Attributes:
        threshold: float64[p], the confidence at each point, in descending order.
        coverage: float64[p], share of texts that the model labels, ascending to 1.
        accuracy: float64[p], share of these texts whose label is right.
        low: float64[p], lower limit, pointwise, see `intervals.share_limits`.
        high: float64[p], upper limit.
        n: Number of coded texts from which the curve was computed.
    """

    threshold: Floats
    coverage: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    n: int

    def __str__(self) -> str:
        """Return the points at each tenth of coverage."""
        n = len(self.coverage)
        reached = [self.coverage >= p / 10 - _ROUNDING for p in range(1, 11)]
        at = [int(is_reached.argmax()) for is_reached in reached if is_reached.any()]
        rows = [
            f"{decimals(self.coverage[i]):>8} {decimals(self.threshold[i]):>9}     "
            f"{decimals(self.accuracy[i])} {limits(self.low[i], self.high[i])}"
            for i in dict.fromkeys([*at, n - 1] if n else [])
        ]
        head = ["coverage threshold accuracy"] if n else []
        first = f"<CoverageCurve: of {count_of(self.n, 'coded text')}>"
        return "\n".join([first, *head, *rows])

    def threshold_for(self, accuracy: float, *, sure: bool = False) -> float:
        """Return the lowest threshold at which labels reach the requested accuracy.

        With the lowest threshold the model labels the most texts. The threshold is chosen
        on the same texts on which accuracy is measured, so that this accuracy is somewhat
        optimistic. With `sure`, the lower confidence limit must reach the requested
        accuracy. The threshold is infinity if no confidence suffices.
        """
        checks.real("accuracy", accuracy, 0, 1)
        checks.flag("sure", sure)
        reached = (self.low if sure else self.accuracy) >= accuracy
        return float(self.threshold[reached][-1]) if reached.any() else math.inf


def coverage_curve(
    confidence: Sequence[float] | Floats,
    correct: Sequence[bool] | Flags,
    *,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = LEVEL,
) -> CoverageCurve:
    """Return the accuracy of a model's most confident labels at each coverage.

    Source: El-Yaniv and Wiener, J. Mach. Learn. Res. 11, 2010.
    """
    level_of(level)
    sure, right, w = without_missing(confidence, correct, unit_weights)
    order = np.argsort(-sure, kind="stable")
    sure, right, w = sure[order], right[order], w[order]
    at = np.flatnonzero(np.diff(sure, append=-1.0))  # last unit of each confidence
    total, hits, squares = (np.cumsum(x)[at] for x in (w, w * right, w**2))
    hits = np.minimum(hits / total, 1.0)
    ends = [
        share_limits(float(p), float(n), level)
        for p, n in zip(hits, total**2 / squares, strict=True)
    ]
    low, high = np.array(ends).reshape(-1, 2).T
    return CoverageCurve(
        threshold=sure[at],
        coverage=total / w.sum() if len(sure) else total,
        accuracy=hits,
        low=low,
        high=high,
        n=len(sure),
    )


def for_people(confidence: Sequence[float] | Floats, threshold: float) -> list[int]:
    """Return the texts below a confidence, or without one, the least confident first."""
    if threshold != math.inf:
        checks.real("threshold", threshold, 0, 1)
    values = np.asarray(confidence, dtype=float)
    _check_range(values[~np.isnan(values)])
    below = np.flatnonzero(np.isnan(values) | (values < threshold))
    sure = np.where(np.isnan(values[below]), -np.inf, values[below])
    return [int(i) for i in below[np.argsort(sure, kind="stable")]]
