"""Coefficients of agreement of any number of coders: share, alpha, AC1."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.coding.statistics.intervals import (
    LEVEL,
    REMOVED_BOOTSTRAP,
    level_of,
    share,
)
from llamaherd.coding.statistics.ratings import (
    Agreement,
    Codes,
    ModelAndPerson,
    Ratings,
    Scale,
    ratings_of,
    unit_weights_of,
)
from llamaherd.coding.statistics.uncertainty import UnitStatistic, possible_pairs
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import removed_arguments
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.engine.core.arrays import Flags, Floats, Ints

Kind = Literal["pairs", "all"]
KINDS: tuple[Kind, ...] = ("pairs", "all")

_MOST = 50_000_000  # largest number of cells in the table of units by codes


@removed_arguments(**REMOVED_BOOTSTRAP)
def krippendorff_alpha(
    codes: Codes,
    *,
    scale: Scale = "nominal",
    levels: Sequence[Hashable] | None = None,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = LEVEL,
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

    Raises:
        ValueError: An argument is out of range, or coders have different numbers of
            units.
    """
    level_of(level)
    ratings = ratings_of(codes, levels, scale)
    n_codes = (ratings.indices >= 0).sum(axis=0)
    weights = unit_weights_of(unit_weights, len(n_codes))
    used = (n_codes >= 2) & (weights > 0)
    agreement = Agreement(
        name="alpha",
        value=math.nan,
        n_units=int(used.sum()),
        n_coders=len(ratings.indices),
    )
    if not used.any():
        return agreement
    is_known = isinstance(codes, ModelAndPerson) and scale == "nominal"
    alpha, observed, expected = _alpha(
        ratings, scale, used, weights[used] / weights[used].mean()
    )
    groups = ratings.indices[0, used] if is_known else None
    low, high = replace(alpha, groups=groups).limits(level)
    return replace(
        agreement,
        value=alpha.value,
        low=low,
        high=high,
        observed=observed,
        expected=expected,
    )


def _alpha(
    ratings: Ratings, scale: Scale, used: Flags, w: Floats
) -> tuple[UnitStatistic, float, float]:
    """Return alpha by the weights of units, observed and expected disagreement.

    They follow from sums of distances of pairs of codes. The distances are those of two
    values, or the squared differences of scores: of mid-ranks, which depend on the
    weights, or of numbers. Alpha is NaN if only one value occurs, as expected
    disagreement is then 0. An unseen unit has at most one code that differs.
    """
    _check_size(ratings, scale)
    indices, q = ratings.indices[:, used], len(ratings.values)
    is_coded = indices >= 0
    sizes = is_coded.sum(axis=0).astype(float)

    def summed(of_codes: Floats) -> Floats:
        """Sum numbers of values over the codes of each unit, float64[n]."""
        return np.asarray(np.append(of_codes, 0.0)[indices].sum(axis=0))

    def by_code(of_units: Floats) -> Floats:
        """Sum numbers of units, or of their codes, over the codes with each value."""
        weights = np.broadcast_to(of_units, indices.shape)[is_coded]
        return np.bincount(indices[is_coded], weights, q).astype(np.float64)

    marginals = by_code(w)
    n, added = float(marginals.sum()), float(w.mean())
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
            code_scores = np.append(scores, 0.0)[indices]
            of_within = _through_ranks(
                by_code(4 * w * (sizes * code_scores - sums) / (sizes - 1))
            )
            of_between += _through_ranks(4 * marginals * (n * scores - first))
    within, left = float(w @ pairs), max(n - 1, 1e-300)
    observed, expected = within / n, between / (n * left)
    if not expected > 1e-300:
        none = np.full(len(w), math.nan)
        return (
            UnitStatistic(value=math.nan, weights=w, slopes=none, unseen=none[None]),
            observed,
            expected,
        )
    ratio = within * left / between
    unit_slopes = ratio * (summed(of_between) / between - sizes / left)
    unit_slopes -= left / between * (pairs + summed(of_within))
    near = _possible(marginals, scale)
    distance = (
        apart[np.arange(q)[:, None], near]
        if scale in ("nominal", "ratio")
        else (scores[:, None] - scores[near]) ** 2
    )
    m = sizes.max()
    pairs = 2 * distance + (m - 1) * of_within[:, None] + of_within[near]
    others = (m - 1) * of_between[:, None] + of_between[near]
    of_all = others + 2 * added * (m - 1) * distance
    with_unit = (within + added * pairs) * (left + added * m) / (between + added * of_all)
    unseen = (ratio - with_unit) / added
    unseen[marginals <= 0] = np.nan
    usual = float(np.average(unit_slopes, weights=w))
    return (
        UnitStatistic(
            value=1 - observed / expected,
            weights=w,
            slopes=unit_slopes - usual,
            unseen=unseen - usual,
            least=-1.0,
        ),
        observed,
        expected,
    )


def _possible(marginals: Floats, scale: Scale) -> Ints:
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


def percent_agreement(
    codes: Codes,
    *,
    kind: Kind = "pairs",
    tolerance: float = 0.0,
    levels: Sequence[Hashable] | None = None,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = LEVEL,
) -> Agreement:
    """Return the share of codes that agree, in [0, 1].

    "pairs" computes the share of agreeing pairs of codes within each unit, and averages
    it over the units with two codes or more. "all" uses only units that all coders have
    coded, and computes the share of units in which all codes agree.

    Args:
        codes: For each coder the codes of n units, or an array [coders, units]; None
            marks a missing code.
        kind: "pairs" or "all", see above. For two coders both
            kinds give the same result.
        tolerance: Largest difference between two numbers that agree.
        levels: All labels; None for the labels that occur. Labels that differ only in
            case are two labels only if both are listed here.
        unit_weights: float[n], for example 1 / inclusion probability.
        level: Confidence level, see `intervals.share`.

    Raises:
        ValueError: An argument is out of range, or coders have different numbers of
            units.
    """
    checks.choice("kind", kind, KINDS)
    checks.real("tolerance", tolerance, 0, 1e300)
    ratings = ratings_of(codes, levels, "interval" if tolerance else "nominal")
    weights = unit_weights_of(unit_weights, ratings.indices.shape[1])
    if kind == "all":
        complete = (ratings.indices >= 0).all(axis=0)
        codes_of_all = ratings.indices[:, complete]
        values = ratings.numbers[codes_of_all] if tolerance else codes_of_all
        hits = np.ptp(values, axis=0) <= tolerance if values.size else np.zeros(0)
    elif tolerance:
        numbers = np.append(ratings.numbers, math.nan)[ratings.indices]
        near, n_pairs = _pairs_near(numbers, tolerance)
        complete = n_pairs > 0
        hits = near[complete] / n_pairs[complete]
    else:
        counts = ratings.counts
        n_codes = counts.sum(axis=1)
        complete = n_codes >= 2
        hits = pairs_alike(counts[complete])
    measure = share(hits, weights[complete], level_of(level))
    return Agreement(
        name="percent",
        value=measure.value,
        low=measure.low,
        high=measure.high,
        observed=measure.value,
        expected=0.0,
        n_units=measure.n,
        n_coders=len(ratings.indices),
        interval="Wilson",
    )


def gwet_ac1(
    codes: Codes,
    *,
    levels: Sequence[Hashable] | None = None,
    unit_weights: Sequence[float] | Floats | None = None,
    level: float = LEVEL,
) -> Agreement:
    """Return Gwet's AC1, which unlike kappa can be high if one label is very frequent.

    The number of coders is arbitrary, and codes may be missing. A unit with a single code
    contributes to the frequencies of labels, but not to the agreement. The standard error
    is by Gwet (2008); for the interval see `uncertainty`.

    Sources: Gwet, Br. J. Math. Stat. Psychol. 61, 2008; Gwet, Handbook of Inter-Rater
    Reliability, 4th edition, 2014, chapters 2 and 5.

    Args:
        codes: For each coder the codes of n units, or an array [coders, units]; None
            marks a missing code.
        levels: All q labels; None for the labels that occur. AC1 depends on the number q.
        unit_weights: float[n], for example 1 / inclusion probability.
        level: Confidence level.

    Raises:
        ValueError: An argument is out of range, or coders have different numbers of
            units.
    """
    level_of(level)
    ratings = ratings_of(codes, levels)
    counts = ratings.counts
    weights = unit_weights_of(unit_weights, len(counts))
    coded = (counts.sum(axis=1) > 0) & (weights > 0)
    counts, w = counts[coded], weights[coded]
    n_codes, q = counts.sum(axis=1), len(ratings.values)
    paired = n_codes >= 2
    agreement = Agreement(
        name="ac1",
        value=math.nan,
        n_units=int(paired.sum()),
        n_coders=len(ratings.indices),
    )
    if w[paired].sum() <= 0 or q < 2:
        return agreement
    w = w / w.sum()
    alike = np.zeros(len(counts))
    alike[paired] = pairs_alike(counts[paired])
    is_perfect = bool((alike[paired] == 1).all())
    w_paired = w[paired].sum()
    pa = 1.0 if is_perfect else float((w * alike).sum() / w_paired)
    shares = (w[:, None] * counts / n_codes[:, None]).sum(axis=0)
    pe = float((shares * (1 - shares)).sum() / (q - 1))
    value = (pa - pe) / (1 - pe)

    def slopes(alike: Floats, paired: Floats, chance: Floats) -> Floats:
        of_observed = (alike - pe * paired) / w_paired / (1 - pe)
        of_expected = 2 * (1 - value) * (chance - pe) / (1 - pe)
        return np.asarray(of_observed - of_expected - value)

    others = (1 - shares) / (q - 1)
    unit_slopes = slopes(alike, paired, counts @ others / n_codes)
    m = n_codes.max()  # unseen units have one code that differs, or none
    unseen = slopes(
        np.where(np.eye(q, dtype=bool), 1.0, (m - 2) / m),
        np.ones((q, q)),
        ((m - 1) * others[:, None] + others) / m,
    )
    pairs = possible_pairs(counts.any(axis=0), is_ordered=False)
    known = ratings.indices[0, coded] if isinstance(codes, ModelAndPerson) else None
    low, high = UnitStatistic(
        value=value,
        weights=w,
        slopes=unit_slopes,
        unseen=np.where(pairs, unseen, np.nan),
        groups=known,
        least=-1.0,
    ).limits(level)
    n = len(w)
    squares = float(((w * unit_slopes) ** 2).sum())
    se = math.nan if n < 2 else math.sqrt(squares * n / (n - 1))
    return replace(
        agreement, value=value, low=low, high=high, se=se, observed=pa, expected=pe
    )


def pairs_alike(counts: Floats) -> Floats:
    """Return the share of agreeing pairs of codes in each unit, float64[n]."""
    n_codes = counts.sum(axis=1)
    return np.asarray((counts * (counts - 1)).sum(axis=1) / (n_codes * (n_codes - 1)))


def _pairs_near(numbers: Floats, tolerance: float) -> tuple[Floats, Floats]:
    """Count pairs within the tolerance, and all pairs, in each unit, float64[n] each."""
    # NaN where a number is missing
    distances = [abs(a - b) for a, b in combinations(numbers, 2)]
    near = sum((distance <= tolerance).astype(float) for distance in distances)
    known = sum((distance >= 0).astype(float) for distance in distances)
    return np.asarray(near), np.asarray(known)
