"""Intervals of statistics that are smooth functions of the weights of coded units.

The influence of a unit is its weight times the derivative of the statistic by the weight.
Units are independent draws, so the variance is n / (n - 1) times the sum of the squared
influences, and the third central moment is the sum of their cubes. An unseen unit may
raise the statistic most, or lower it most, see `uncertainty`. If a model's label of each
unit is known, and weights differ, an unseen unit has one of these labels, and its
influence is the difference from the mean of the units with this label: a unit is a case
if its code is unusual for its label.

Sources: see `llamaherd.research.statistics.uncertainty`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics.intervals import kish_n, within
from llamaherd.research.statistics.uncertainty import (
    OTHER_KIND,
    Cases,
    Spread,
    heaviest,
)

if TYPE_CHECKING:
    from llamaherd.research.statistics.ratings import Flags, Floats, Integers

_ROUNDING = 1e-9  # relative difference of equal weights
_LEAST_DF = 4.0  # degrees of freedom of a statistic of five units or more


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UnitInfluences:
    """Influences of n units, and of unseen units, on a statistic.

    Attributes:
        weights: float64[n], positive weights of the units.
        slopes: float64[n], derivatives of the statistic by the weights.
        lowest: float64[n], derivative by the weight of an unseen unit with the known
            label of each unit, and with the code that lowers the statistic most.
        highest: float64[n], the same for the code that raises the statistic most.
        known: int64[n], known labels, -1 for a missing label; None without a model.
    """

    weights: Floats
    slopes: Floats
    lowest: Floats
    highest: Floats
    known: Integers | None = None

    @classmethod
    def of_pairs(
        cls, weights: Floats, slopes: Floats, unseen: Floats, known: Integers | None
    ) -> UnitInfluences:
        """Return influences where `unseen` has the derivatives of possible codes.

        Args:
            weights: float64[n], positive weights of the units.
            slopes: float64[n], derivatives by the weights.
            unseen: float64[q, c], derivatives for units with each label and c codes; NaN
                for impossible units.
            known: int64[n], label of each unit, -1 for a missing label; None if no label
                is known.
        """
        if are_equal(weights):
            known = None
        at = np.full(len(slopes), -1) if known is None else known
        lowest = np.where(np.isnan(unseen), np.inf, unseen).min(axis=1)
        highest = np.where(np.isnan(unseen), -np.inf, unseen).max(axis=1)
        return cls(
            weights=weights,
            slopes=slopes,
            lowest=np.append(lowest, lowest.min())[at],
            highest=np.append(highest, highest.max())[at],
            known=known,
        )

    def limits(self, value: float, level: float, least: float) -> tuple[float, float]:
        """Return confidence limits in [least, 1]; NaN if they are undefined."""
        n, w = len(self.slopes), self.weights
        if n < 2 or math.isnan(value):
            return (math.nan, math.nan)
        own = w * self.slopes
        usual = self._usual
        gaps = w * (self.slopes - usual)
        kinds = [
            self._kind(np.maximum(room, 0.0), gaps[sign * gaps > 0], sign, level)
            for sign, room in (
                (1, self.highest - usual),
                (-1, usual - self.lowest),
            )
        ]
        both = kinds[0][2] + kinds[1][2]
        spread = Spread(
            variance=np.array([(own**2).sum() * n / (n - 1)]),
            third=np.array([(own**3).sum() * n / (n - 1)]),
            df=np.array([max(kish_n(w) - 1, min(n - 1, _LEAST_DF))]),
            cases=tuple(
                Cases.of(
                    np.array([size]),
                    np.array([mean]),
                    np.array([seen + (both - seen) * OTHER_KIND]),
                )
                for size, mean, seen in kinds
            ),
        )
        low, high, _ = spread.limits(np.array([value]), level)
        return within(float(low[0]), float(high[0]), least, 1.0)

    @property
    def _usual(self) -> Floats:
        """Mean derivative of the units with the same known label, float64[n]."""
        if self.known is None:
            return np.zeros(len(self.slopes))
        at = self.known + 1
        totals = np.bincount(at, self.weights)
        sums = np.bincount(at, self.weights * self.slopes)
        return np.asarray(sums[at] / totals[at])

    def _kind(
        self, room: Floats, seen: Floats, sign: int, level: float
    ) -> tuple[float, float, float]:
        """Return size, mean and sum of squares of those seen of one kind; see `Cases`."""
        squares = float((seen**2).sum())
        sizes = self.weights * room
        possible = sizes > 0
        if not possible.any():
            return 0.0, 0.0, squares
        sizes = sizes[possible]
        probs = self.weights.mean() / self.weights[possible]
        sizes = np.minimum(sizes, heaviest(sizes, probs, level))
        weights = probs * sizes**2
        size = float(np.sqrt(np.average(sizes**2, weights=weights)))
        return size, sign * float(np.average(sizes, weights=weights)), squares


def are_equal(weights: Floats) -> bool:
    """Return True if all weights are equal, but for rounding; True without weights."""
    return len(weights) == 0 or bool(np.ptp(weights) <= _ROUNDING * weights.max())


def possible_pairs(occurs: Flags, *, is_ordered: bool) -> Flags:
    """Return the pairs of labels that an unseen unit may have, bool[q, q].

    The labels must occur. On a scale with an order, unseen labels differ by one step: the
    size of larger differences shows only where some are seen.
    """
    pairs = np.logical_and.outer(occurs, occurs)
    if is_ordered:
        rank = np.cumsum(occurs)
        pairs &= np.abs(np.subtract.outer(rank, rank)) <= 1
    return np.asarray(pairs)
