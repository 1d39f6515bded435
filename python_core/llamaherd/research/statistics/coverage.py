"""Selective coding: a model labels texts with high confidence, people code the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core import checks
from llamaherd.research.statistics.calibration_error import known
from llamaherd.research.statistics.intervals import LEVEL, level_of, share_limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.ratings import Flags, Floats


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

    def threshold_for(self, accuracy: float, *, sure: bool = False) -> float:
        """Return the lowest threshold at which labels reach the requested accuracy.

        With the lowest threshold the model labels the most texts. The threshold is chosen
        on the same texts on which accuracy is measured, so that this accuracy is somewhat
        optimistic. With `sure`, the lower confidence limit must reach the requested
        accuracy.

        Args:
            accuracy: Requested accuracy, in [0, 1].
            sure: True if the lower confidence limit must reach `accuracy`.

        Returns:
            The threshold; infinity if no confidence suffices.

        Raises:
            ValueError: `accuracy` is not in [0, 1].
        """
        checks.real("accuracy", accuracy, 0, 1)
        checks.flag("sure", sure)
        reached = (self.low if sure else self.accuracy) >= accuracy
        return float(self.threshold[reached][-1]) if reached.any() else math.inf

    def coverage_at(self, threshold: float) -> float:
        """Return the share of texts with at least this confidence."""
        inside = self.threshold >= threshold
        return float(self.coverage[inside][-1]) if inside.any() else 0.0


def coverage_curve(
    confidence: Sequence[float] | Floats,
    correct: Sequence[bool] | Flags,
    *,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = LEVEL,
) -> CoverageCurve:
    """Return the accuracy of a model's most confident labels at each coverage.

    Source: El-Yaniv and Wiener, J. Mach. Learn. Res. 11, 2010.

    Args:
        confidence: float[n], for example the probability of the given label; units with
            NaN are left out.
        correct: bool[n], True where the label is right.
        unit_weights: float[n], for example 1 / inclusion probability.
        level: Confidence level.

    Raises:
        ValueError: An argument is out of range, or lengths differ.
    """
    level_of(level)
    sure, right, w = known(confidence, correct, unit_weights)
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
    """Return indices of texts that people should code, the least confident first.

    Args:
        confidence: float[n]; NaN for texts without a label.
        threshold: Lowest confidence at which the model's label is used. People code texts
            with a lower confidence, and texts whose confidence is NaN. With infinity,
            people code all texts.

    Raises:
        ValueError: `threshold` is neither in [0, 1] nor infinity.
    """
    if threshold != math.inf:
        checks.real("threshold", threshold, 0, 1)
    values = np.asarray(confidence, dtype=float)
    below = np.flatnonzero(np.isnan(values) | (values < threshold))
    sure = np.where(np.isnan(values[below]), -np.inf, values[below])
    return [int(i) for i in below[np.argsort(sure, kind="stable")]]
