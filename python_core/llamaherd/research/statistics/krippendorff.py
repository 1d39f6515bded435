"""Krippendorff's alpha, and the influences of units on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.core.words import setting
from llamaherd.research.statistics.intervals import LEVEL, level_of, warn_of_bootstrap
from llamaherd.research.statistics.ratings import (
    INTERVAL,
    Agreement,
    ModelAndPerson,
    ratings_of,
    unit_weights_of,
)
from llamaherd.research.statistics.uncertainty import UnitStatistic

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.research.statistics.ratings import (
        Codes,
        Flags,
        Floats,
        Integers,
        Ratings,
        Scale,
    )

_MOST = 50_000_000  # largest number of cells in the table of units by codes


def krippendorff_alpha(
    codes: Codes,
    *,
    scale: Scale = "nominal",
    levels: Sequence[Hashable] | None = None,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = LEVEL,
    n_bootstrap: int | None = None,
    seed: int | None = None,
) -> Agreement:
    """Return Krippendorff's alpha: 1 - observed / expected disagreement.

    The number of coders is arbitrary, and codes may be missing. A unit with m >= 2 codes
    has the weight m; units with fewer codes are ignored. For the interval see
    `uncertainty`; the expected disagreement is not treated as known.

    Source: Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011.

    Args:
        codes: For each coder the codes of n units, or an array [coders, units]; None
            marks a missing code. A table with a row per unit must be transposed
            (`array.T`).
        scale: Distance function. "nominal": equal or not; "ordinal": number of codes
            ranked between both values; "interval": squared difference; "ratio": squared
            difference relative to the sum.
        levels: Labels in their order, required for "ordinal" if labels are not numbers.
        unit_weights: float[n], for example 1 / inclusion probability.
        level: Confidence level.
        n_bootstrap: Removed, without effect.
        seed: Removed, without effect.

    Raises:
        ValueError: An argument is out of range, or coders have different numbers of
            units.
    """
    warn_of_bootstrap(n_bootstrap, seed)
    ratings = ratings_of(codes, levels, scale)
    n_codes = (ratings.indices >= 0).sum(axis=0)
    weights = unit_weights_of(unit_weights, len(n_codes))
    used = (n_codes >= 2) & (weights > 0)
    low, high, value, observed, expected = (math.nan,) * 5
    if used.any():
        w = weights[used] / weights[used].mean()
        found = _disagreement(ratings, scale, used, w)
        observed, expected = found.observed, found.expected
        value = found.alpha
    if not math.isnan(value):
        known = ratings.indices[0, used] if isinstance(codes, ModelAndPerson) else None
        low, high = UnitStatistic(
            value=value,
            weights=w,
            slopes=found.slopes,
            unseen=found.unseen,
            groups=known if scale == "nominal" else None,
            least=-1.0,
        ).limits(level_of(level))
    return Agreement(
        name="alpha",
        value=value,
        low=low,
        high=high,
        se=math.nan,
        observed=observed,
        expected=expected,
        n_units=int(used.sum()),
        n_coders=len(ratings.indices),
        interval=INTERVAL,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Disagreement:
    """Disagreement of n units, and the derivatives of alpha by weights of units.

    Attributes:
        observed: Observed disagreement.
        expected: Expected disagreement.
        slopes: float64[n], derivatives by the weights of the units.
        unseen: float64[q, c], derivatives for units with one code that differs from a
            value, or none; NaN for impossible units.
    """

    observed: float
    expected: float
    slopes: Floats
    unseen: Floats

    @property
    def alpha(self) -> float:
        """Alpha; NaN if only one value occurs, as expected disagreement is then 0."""
        return 1 - self.observed / self.expected if self.expected > 1e-300 else math.nan


def _disagreement(
    ratings: Ratings, scale: Scale, used: Flags, w: Floats
) -> _Disagreement:
    """Compute the disagreement from the sums of distances of pairs of codes.

    The distances are those of two values, or the squared differences of scores: of
    mid-ranks, which depend on the weights, or of numbers.
    """
    _check_size(ratings, scale)
    indices, q = ratings.indices[:, used], len(ratings.values)
    given = indices >= 0
    sizes = given.sum(axis=0).astype(float)

    def summed(of_codes: Floats) -> Floats:
        """Sum numbers of values over the codes of each unit, float64[n]."""
        return np.asarray(np.append(of_codes, 0.0)[indices].sum(axis=0))

    def by_code(of_units: Floats) -> Floats:
        """Sum numbers of units, or of their codes, over the codes with each value."""
        each = np.broadcast_to(of_units, indices.shape)[given]
        return np.bincount(indices[given], each, q).astype(np.float64)

    marginals = by_code(w)
    n = float(marginals.sum())
    of_within = np.zeros(q)  # through the scores, by the weight of a code
    if scale in ("nominal", "ratio"):
        apart = 1 - np.eye(q) if scale == "nominal" else _relative(ratings.numbers)
        counts = ratings.counts[used]
        pairs = ((counts @ apart) * counts).sum(axis=1) / (sizes - 1)
        of_between = 2 * (apart @ marginals)
        between = float(marginals @ apart @ marginals)
    else:
        if scale == "interval":
            scores = ratings.numbers - (ratings.numbers.mean() if q else 0.0)
        else:
            scores = np.cumsum(marginals) - marginals / 2
        sums = summed(scores)
        first, second = float(marginals @ scores), float(marginals @ scores**2)
        pairs = 2 * (sizes * summed(scores**2) - sums**2) / (sizes - 1)
        between = 2 * (n * second - first**2)
        of_between = 2 * (second + n * scores**2 - 2 * scores * first)
        if scale == "ordinal":
            own = np.append(scores, 0.0)[indices]
            of_within = _through_ranks(
                by_code(4 * w * (sizes * own - sums) / (sizes - 1))
            )
            of_between += _through_ranks(4 * marginals * (n * scores - first))
    within, left = float(w @ pairs), max(n - 1, 1e-300)
    observed, expected = within / n, between / (n * left)
    if not expected > 1e-300:
        none = np.full(len(w), np.nan)
        return _Disagreement(
            observed=observed, expected=expected, slopes=none, unseen=none
        )
    ratio = within * left / between

    def slopes(pairs: Floats, m: Floats, own: Floats, of_all: Floats) -> Floats:
        ahead = -left / between * (pairs + own)
        return np.asarray(ahead - ratio * (m / left - of_all / between))

    each = slopes(pairs, sizes, summed(of_within), summed(of_between))
    usual = float(np.average(each, weights=w))
    near = _possible(marginals, scale)
    distance = (
        apart[np.arange(q)[:, None], near]
        if scale in ("nominal", "ratio")
        else (scores[:, None] - scores[near]) ** 2
    )
    m = sizes.max()
    unseen = slopes(
        2 * distance,
        m,
        (m - 1) * of_within[:, None] + of_within[near],
        (m - 1) * of_between[:, None] + of_between[near],
    )
    unseen[marginals <= 0] = np.nan
    return _Disagreement(
        observed=observed, expected=expected, slopes=each - usual, unseen=unseen - usual
    )


def _possible(marginals: Floats, scale: Scale) -> Integers:
    """Return the values that unseen codes may have beside each value, int64[q, c].

    The values must occur. On a scale with an order they differ by one step.
    """
    q, occur = len(marginals), np.flatnonzero(marginals > 0)
    if scale == "nominal":
        return np.broadcast_to(occur, (q, len(occur)))
    at = np.searchsorted(occur, np.arange(q))[:, None] + np.array([-1, 0, 1])
    return np.asarray(occur[np.clip(at, 0, len(occur) - 1)])


def _relative(numbers: Floats) -> Floats:
    """Return squared differences of numbers relative to their sums, float64[q, q]."""
    apart, sums = np.subtract.outer(numbers, numbers), np.add.outer(numbers, numbers)
    relative = np.divide(apart, sums, out=np.zeros_like(apart), where=sums != 0)
    return np.asarray(relative**2)


def _through_ranks(of_scores: Floats) -> Floats:
    """Return derivatives by the weights of codes, of what mid-ranks change.

    A code with the value d raises the mid-rank of d by 1 / 2 of its weight, and those of
    higher values by its weight.

    Args:
        of_scores: float64[q], derivatives by the mid-ranks.
    """
    return np.asarray(of_scores.sum() - np.cumsum(of_scores) + of_scores / 2)


def _check_size(ratings: Ratings, scale: Scale) -> None:
    """Refuse a table of units by codes that is too large for the scale."""
    n, q = ratings.indices.shape[1], len(ratings.values)
    if scale != "interval" and n * q > _MOST:
        raise ArgumentError(
            f"{setting('scale', scale)} takes at most {_MOST // max(n, 1)} different "
            f"codes for {n} units, not {q}; for measurements use "
            f"{setting('scale', 'interval')}",
            argument="scale",
            code="out_of_range",
            form="{problem}",
        )
