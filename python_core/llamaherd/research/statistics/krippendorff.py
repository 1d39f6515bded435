"""Krippendorff's alpha, and its interval by a bootstrap of units."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.core.words import setting
from llamaherd.research.statistics.agreement import Agreement
from llamaherd.research.statistics.intervals import (
    LEVEL,
    N_BOOTSTRAP,
    level_of,
    percentiles,
    resampled,
)
from llamaherd.research.statistics.ratings import ratings_of, unit_weights_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.research.statistics.ratings import (
        Codes,
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
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = 0,
) -> Agreement:
    """Return Krippendorff's alpha: 1 - observed / expected disagreement.

    The number of coders is arbitrary, and codes may be missing. A unit with m >= 2 codes
    has the weight m; units with fewer codes are ignored.

    The interval consists of percentiles of a plain bootstrap of units. Krippendorff's own
    bootstrap draws the deviations of single pairs as if they were independent, and treats
    the expected disagreement as known. Zapf and others found that the intervals of
    this bootstrap contain alpha too rarely, and that plain bootstrap intervals do not
    have this defect.

    Sources: Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011; Zapf,
    Castell, Morawietz, Karch, BMC Med. Res. Methodol. 16:93, 2016.

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
        n_bootstrap: Number of bootstrap draws; 0 for no interval.
        seed: Seed of the bootstrap.

    Raises:
        ValueError: An argument is out of range, or coders have different numbers of
            units.
    """
    level_of(level)
    checks.integer("n_bootstrap", n_bootstrap, 0)
    checks.integer("seed", seed, 0)
    ratings = ratings_of(codes, levels, scale)
    patterns = _patterns_of(ratings, scale)
    weights = unit_weights_of(unit_weights, len(patterns))
    used = ((ratings.indices >= 0).sum(axis=0) >= 2) & (weights > 0)
    n_units = int(used.sum())
    low, high, value, observed, expected = (math.nan,) * 5
    if n_units:
        w = weights[used] / weights[used].mean()
        patterns, w, kinds = _kinds(patterns[used], w)
        disagreement = (
            _Measured(patterns)
            if scale == "interval"
            else _Counted(ratings, scale, patterns)
        )
        do, de = disagreement.of((kinds * w)[None, :])
        observed, expected = float(do[0]), float(de[0])
        value = float(_alpha(do, de)[0])
        draws = [
            _alpha(*disagreement.of(drawn * w))
            for drawn in resampled(kinds, n_bootstrap, seed)
        ]
        if draws and not math.isnan(value):
            low, high = percentiles(np.concatenate(draws), level)
    return Agreement(
        name="alpha",
        value=value,
        low=low,
        high=high,
        se=math.nan,
        observed=observed,
        expected=expected,
        n_units=n_units,
        n_coders=len(ratings.indices),
        interval=f"bootstrap of units, {n_bootstrap} draws" if n_bootstrap else "none",
    )


class _Counted:
    """Observed and expected disagreement of resampled units, from counts of codes.

    `patterns` are float64[p, q]: for each kind of unit the number of codes with each
    value. A scale defines either the distance of each pair of values, or scores whose
    squared differences are the distances. For scores r, the sum of distances over the
    ordered pairs of codes in a unit is 2 (m sum r^2 - (sum r)^2).
    """

    def __init__(self, ratings: Ratings, scale: Scale, patterns: Floats) -> None:
        self._patterns = patterns
        self._sizes = patterns.sum(axis=1)
        self._distances: Floats | None = None
        if scale == "nominal":
            self._distances = 1 - np.eye(len(ratings.values))
        elif scale == "ratio":
            numbers = ratings.numbers
            apart = np.subtract.outer(numbers, numbers)
            sums = np.add.outer(numbers, numbers)
            relative = np.divide(apart, sums, out=np.zeros_like(apart), where=sums != 0)
            self._distances = relative**2

    def of(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return observed and expected disagreement, float64[b] each."""
        marginals = weights @ self._patterns  # marginals of the coincidence matrix
        n = marginals.sum(axis=1)
        if self._distances is not None:
            within = ((self._patterns @ self._distances) * self._patterns).sum(axis=1)
            pairs = weights @ (within / (self._sizes - 1))
            between = ((marginals @ self._distances) * marginals).sum(axis=1)
        else:
            scores = np.cumsum(marginals, axis=1) - marginals / 2  # mid-ranks
            sums, squares = scores @ self._patterns.T, scores**2 @ self._patterns.T
            each = 2 * (self._sizes * squares - sums**2) / (self._sizes - 1)
            pairs = (weights * each).sum(axis=1)
            first = (marginals * scores).sum(axis=1)
            between = 2 * (n * (marginals * scores**2).sum(axis=1) - first**2)
        return pairs / n, between / (n * np.maximum(n - 1, 1e-300))


class _Measured:
    """Observed and expected disagreement on the interval scale, from sums for each unit.

    `patterns` are float64[p, 3]: for each kind of unit the number of codes, the sum of
    the codes, and the sum of their squares.
    """

    def __init__(self, patterns: Floats) -> None:
        self._patterns = patterns
        sizes, sums, squares = patterns.T
        self._pairs = 2 * (sizes * squares - sums**2) / (sizes - 1)

    def of(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return observed and expected disagreement, float64[b] each."""
        n, sums, squares = (weights @ self._patterns).T
        between = 2 * (n * squares - sums**2)
        return weights @ self._pairs / n, between / (n * np.maximum(n - 1, 1e-300))


def _patterns_of(ratings: Ratings, scale: Scale) -> Floats:
    """Return the sufficient statistics of each unit, float64[n, q] or float64[n, 3]."""
    n, q = ratings.indices.shape[1], len(ratings.values)
    if scale == "interval":
        numbers = ratings.numbers
        given = ratings.indices >= 0
        middle = numbers.mean() if q else 0.0
        values = np.where(given, np.append(numbers - middle, 0.0)[ratings.indices], 0.0)
        sums = (given.sum(axis=0), values.sum(axis=0), (values**2).sum(axis=0))
        return np.stack(sums, axis=1).astype(float)
    if n * q > _MOST:
        raise ArgumentError(
            f"{setting('scale', scale)} takes at most {_MOST // max(n, 1)} different "
            f"codes for {n} units, not {q}; for measurements use "
            f"{setting('scale', 'interval')}",
            argument="scale",
            code="out_of_range",
            form="{problem}",
        )
    return ratings.counts


def _alpha(observed: Floats, expected: Floats) -> Floats:
    """Return alpha; NaN if only one value occurs, as expected disagreement is then 0."""
    defined = expected > 1e-300
    ratio = np.divide(
        observed, expected, out=np.full_like(observed, np.nan), where=defined
    )
    return np.asarray(1 - ratio)


def _kinds(patterns: Floats, weights: Floats) -> tuple[Floats, Floats, Integers]:
    """Group identical units; return their patterns, weights and counts."""
    q = patterns.shape[1]
    base = int(patterns.max()) + 1
    is_counts = bool((patterns == np.floor(patterns)).all() and (patterns >= 0).all())
    if is_counts and q * math.log2(base) < 62:
        keys = patterns.astype(np.int64) @ base ** np.arange(q, dtype=np.int64)
    else:
        keys = np.unique(patterns, axis=0, return_inverse=True)[1].ravel()
    if np.ptp(weights) > 0:
        both = np.stack([keys, np.unique(weights, return_inverse=True)[1]])
        keys = np.unique(both, axis=1, return_inverse=True)[1].ravel()
    _, first, kinds = np.unique(keys, return_index=True, return_counts=True)
    return patterns[first], weights[first], kinds
