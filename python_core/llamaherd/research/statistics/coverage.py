"""Selective coding: a model labels what it is sure of, people the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core import checks
from llamaherd.research.statistics.calibration_error import known
from llamaherd.research.statistics.intervals import level_of, wilson

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.statistics.ratings import Flags, Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CoverageCurve:
    """Accuracy against coverage: a point for each confidence that occurs.

    At a point the model labels the texts that have that confidence or more.

    Attributes:
        threshold: float64[p], falling: the confidence.
        coverage: float64[p], rising to 1: share of texts that the model labels.
        accuracy: float64[p]: share of these whose label is right.
        low: float64[p]: lower end of Wilson's interval, for each point by itself.
        high: float64[p]: upper end.
        n: Coded texts that it is made of.
    """

    threshold: Floats
    coverage: Floats
    accuracy: Floats
    low: Floats
    high: Floats
    n: int

    def threshold_for(self, accuracy: float, *, sure: bool = False) -> float:
        """The confidence from which on labels are as accurate as wanted.

        The smallest one, so that the model labels as many texts as it can. It is chosen
        on the texts that accuracy is measured by, so that it promises somewhat much; with
        `sure` it is the lower end of the interval that has to reach what is wanted.

        Args:
            accuracy: Wanted, in [0, 1].
            sure: Whether the lower end has to reach it.

        Returns:
            The threshold; infinity where no confidence is enough.

        Raises:
            ValueError: `accuracy` is not in [0, 1].
        """
        checks.real("accuracy", accuracy, 0, 1)
        reached = (self.low if sure else self.accuracy) >= accuracy
        return float(self.threshold[reached][-1]) if reached.any() else math.inf

    def coverage_at(self, threshold: float) -> float:
        """Share of texts with that confidence or more."""
        inside = self.threshold >= threshold
        return float(self.coverage[inside][-1]) if inside.any() else 0.0


def coverage_curve(
    confidence: Sequence[float] | Floats,
    correct: Sequence[bool] | Flags,
    *,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = 0.95,
) -> CoverageCurve:
    """Accuracy of the texts that a model is most sure of, for every coverage.

    Source: El-Yaniv and Wiener, J. Mach. Learn. Res. 11, 2010.

    Args:
        confidence: float[n], as the probability of the label given; NaN: left out.
        correct: bool[n], whether it is right.
        unit_weights: float[n], as 1 / inclusion probability.
        level: Of the intervals.

    Raises:
        ValueError: An argument has no such value, or they are of different lengths.
    """
    level_of(level)
    sure, right, w = known(confidence, correct, unit_weights)
    order = np.argsort(-sure, kind="stable")
    sure, right, w = sure[order], right[order], w[order]
    at = np.flatnonzero(np.diff(sure, append=-1.0))  # the last one of each confidence
    total, hits, squares = (np.cumsum(x)[at] for x in (w, w * right, w**2))
    hits = np.minimum(hits / total, 1.0)
    ends = [
        wilson(float(p), float(n), level)
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
    """Places of the texts below a confidence, or without any, the least sure first.

    Args:
        confidence: float[n]; NaN where there is no label.
        threshold: What a label needs to stay; infinity: all go to people.

    Raises:
        ValueError: `threshold` is neither in [0, 1] nor infinity.
    """
    if threshold != math.inf:
        checks.real("threshold", threshold, 0, 1)
    values = np.asarray(confidence, dtype=float)
    below = np.flatnonzero(np.isnan(values) | (values < threshold))
    sure = np.where(np.isnan(values[below]), -np.inf, values[below])
    return [int(i) for i in below[np.argsort(sure, kind="stable")]]
