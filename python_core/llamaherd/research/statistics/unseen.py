"""Limits of coefficients and F1 that include errors which few codes could show.

With unequal weights, the units that the model gave one label may have large weights, and
few of them may have codes. If none of these codes shows an error, the variance of a
coefficient of agreement, and a bootstrap, do not include the errors of the other units.

The units of each label of the model are treated as a stratum. The total weight of the
stratum's errors has Wilson's limits, see `counts`. The coefficient is computed again with
each limit instead of the estimated total: the weight moves between right and wrong codes.
Wrong codes are distributed as the observed wrong codes of the stratum. If the stratum has
none, they are distributed as all other codes. MOVER combines the distances of all strata.

Sources: see `llamaherd.research.statistics.counts`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics import counts
from llamaherd.research.statistics.uncertainty import heaviest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from llamaherd.research.statistics.agreement import Name
    from llamaherd.research.statistics.intervals import Measure
    from llamaherd.research.statistics.ratings import Floats, Integers, Scale

    Of = Callable[[Floats], Floats]  # from float64[b, k, k] to float64[b, m]

_MOST = 100  # with more labels, tables would be too large


def distances(  # noqa: PLR0917 - arrays of one table
    given: Integers, gold: Integers, weights: Floats, k: int, level: float, of: Of
) -> tuple[Floats, Floats] | None:
    """Return the distances of both limits from the values, float64[m] each.

    Args:
        given: int64[n], labels of the model, from 0 to k - 1.
        gold: int64[n], human codes.
        weights: float64[n], 1 / inclusion probability.
        k: Number of labels.
        level: Confidence level.
        of: Function that computes m coefficients from tables of weights,
            float64[b, k, k], with a row for each label of the model.

    Returns:
        None if the usual intervals are valid: because all units have the same weight, or
        because enough errors were observed.
    """
    if counts.are_equal(weights) or not 2 <= k <= _MOST:
        return None
    weights = weights / weights.mean()
    cells = np.bincount(given * k + gold, weights, minlength=k * k)
    table = np.asarray(cells.reshape(k, k), dtype=np.float64)
    n_errors = np.bincount(given[given != gold], minlength=k)
    there = np.unique(given)
    if (n_errors[there] >= counts.FEW).all():
        return None
    values = of(table[None])[0]
    below, above = np.zeros_like(values), np.zeros_like(values)
    for j in there:
        own = given == j
        wrong = own & (gold != j)
        heavy = heaviest(weights[own], 1 / weights[own], level)
        limits = counts.total(weights[wrong], heavy, float(weights[own].sum()), level)
        shift = _moved(table, int(j), (limits.low, limits.high))
        away = of(shift) - values
        away = np.where(np.isfinite(away), away, 0.0)
        below += np.maximum(-away, 0.0).max(axis=0) ** 2
        above += np.maximum(away, 0.0).max(axis=0) ** 2
    return np.sqrt(below), np.sqrt(above)


def extended(
    interval: tuple[float, float], value: float, below: float, above: float, least: float
) -> tuple[float, float]:
    """Return an interval that includes the limits at these distances from the value.

    Args:
        interval: Lower and upper limit; NaN without an interval.
        value: The value.
        below: Distance of the lower limit.
        above: Distance of the upper limit.
        least: Smallest possible value; the largest is 1.
    """
    if math.isnan(value) or (below == 0 and above == 0):
        return interval
    low, high = max(value - below, least), min(value + above, 1.0)
    known = not math.isnan(interval[0])
    return (
        min(interval[0], low) if known else low,
        max(interval[1], high) if known else high,
    )


def _moved(table: Floats, j: int, totals: Sequence[float]) -> Floats:
    """Return tables in which the errors of row j have these totals, float64[b, k, k]."""
    row, whole = table[j], float(table[j].sum())
    errors = np.where(np.arange(len(row)) == j, 0.0, row)
    if not errors.any():
        errors = np.where(np.arange(len(row)) == j, 0.0, table.sum(axis=0))
    if not errors.any():
        errors = np.where(np.arange(len(row)) == j, 0.0, 1.0)
    made = np.repeat(table[None], len(totals), axis=0)
    for b, total in enumerate(totals):
        made[b, j] = errors / errors.sum() * min(total, whole)
        made[b, j, j] = whole - min(total, whole)
    return made


def names(scale: Scale) -> tuple[Name, ...]:
    """Return the names of the coefficients that `coefficients` computes."""
    kappas: tuple[Name, ...] = ("kappa",)
    if scale != "nominal":
        kappas = ("kappa", "weighted kappa")
    return (*kappas, "alpha", "ac1")


def coefficients(
    tables: Floats, apart: Floats, scale: Scale, values: Sequence[Any], n: int
) -> Floats:
    """Return the coefficients `names(scale)` from tables of weights, float64[b, m].

    Args:
        tables: float64[b, k, k], weights of units by both codes.
        apart: float64[k, k], number of places between two labels.
        scale: Scale of alpha.
        values: The k labels in their order.
        n: Number of units.
    """
    p = tables / tables.sum(axis=(1, 2), keepdims=True)
    rows, columns = p.sum(axis=2), p.sum(axis=1)

    def kappa(distance: Floats) -> Floats:
        seen = (p * distance).sum(axis=(1, 2))
        chance = np.einsum("bi,ij,bj->b", rows, distance, columns)
        return _one_less(seen, chance)

    both = (rows + columns) / 2
    alike = np.trace(p, axis1=1, axis2=2)
    chance = (both * (1 - both)).sum(axis=1) / max(p.shape[1] - 1, 1)
    values_of = {
        "kappa": lambda: kappa(np.minimum(apart, 1.0)),
        "weighted kappa": lambda: kappa(apart**2),
        "alpha": lambda: _alpha(p, both, scale, values, n),
        "ac1": lambda: _one_less(1 - alike, 1 - chance),
    }
    return np.stack([values_of[name]() for name in names(scale)], axis=1)


def _alpha(
    p: Floats, both: Floats, scale: Scale, values: Sequence[Any], n: int
) -> Floats:
    """Return Krippendorff's alpha of n units with two codes each, float64[b]."""
    if scale == "nominal":
        apart = np.broadcast_to(1 - np.eye(p.shape[1]), p.shape)
    else:
        points = np.cumsum(both, axis=1) - both / 2  # mid-ranks
        if scale != "ordinal":
            points = np.broadcast_to(np.array([float(v) for v in values]), both.shape)
        apart = (points[:, :, None] - points[:, None, :]) ** 2
        if scale == "ratio":
            sums = points[:, :, None] + points[:, None, :]
            apart = np.divide(apart, sums**2, out=np.zeros_like(apart), where=sums != 0)
    seen = (p * apart).sum(axis=(1, 2))
    chance = np.einsum("bi,bij,bj->b", both, apart, both) * 2 * n / max(2 * n - 1, 1)
    return _one_less(seen, chance)


def f1_scores(tables: Floats) -> Floats:
    """Return the F1 of each label and then their mean, float64[b, k + 1].

    The mean is taken over the labels that occur. F1 is NaN for other labels.
    """
    both = np.diagonal(tables, axis1=1, axis2=2)
    either = tables.sum(axis=2) + tables.sum(axis=1)
    f1 = np.divide(2 * both, either, out=np.full_like(either, np.nan), where=either > 0)
    mean = np.nansum(f1, axis=1) / np.maximum((either > 0).sum(axis=1), 1)
    return np.concatenate([f1, mean[:, None]], axis=1)


def _one_less(seen: Floats, chance: Floats) -> Floats:
    """Return 1 - observed / expected disagreement; NaN if none is expected."""
    ratio = np.divide(seen, chance, out=np.full_like(seen, np.nan), where=chance > 1e-12)
    return np.asarray(1 - ratio)


def with_f1_limits(  # noqa: PLR0917 - one caller
    f1: Sequence[Measure],
    macro: Measure,
    given: Integers,
    gold: Integers,
    weights: Floats,
    level: float,
) -> tuple[list[Measure], Measure]:
    """Return the F1 of k labels and their mean, with limits as in `distances`."""
    found = distances(given, gold, weights, len(f1), level, f1_scores)
    if found is None:
        return list(f1), macro
    made = []
    for each, below, above in zip([*f1, macro], *found, strict=True):
        limits = each.low, each.high
        low, high = extended(limits, each.value, float(below), float(above), 0.0)
        made.append(replace(each, low=low, high=high))
    return made[:-1], made[-1]
