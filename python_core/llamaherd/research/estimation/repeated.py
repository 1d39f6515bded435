"""Estimates that are repeated: for imputed codes, and for simultaneous intervals."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.research.statistics import rubin
from llamaherd.research.statistics.intervals import student_quantile, within
from llamaherd.research.statistics.simultaneous import bonferroni, max_t

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.research.estimation.comparing import Compared
    from llamaherd.research.estimation.estimates import Estimate
    from llamaherd.research.estimation.fitting import Found
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.statistics.sampling import Floats
    from llamaherd.research.statistics.simultaneous import Simultaneous


_Result = TypeVar("_Result")


def repeated(
    samples: Sequence[GoldUsed],
    fit: Callable[[int, GoldUsed, float], Compared],
    level: float,
    simultaneous: Simultaneous | None,
) -> Compared:
    """Estimate with each set of codes, and combine the results.

    Args:
        samples: One sample for each draw of the right codes; a single sample without a
            model of coders.
        fit: Function that estimates, given the number of a draw, its sample and a level.
        level: Confidence level.
        simultaneous: Method of simultaneous intervals; None if each interval alone has
            this level.
    """

    def at(own: float) -> Compared:
        first = fit(0, samples[0], own)
        if len(samples) == 1:
            return first
        rest = _quietly(lambda: [fit(m, samples[m], own) for m in range(1, len(samples))])
        return replace(
            first, found=combined([first.found, *(r.found for r in rest)], own)
        )

    made = at(level)
    if simultaneous is None:
        return made
    own = level_of_each(made.found, level, simultaneous)
    notes = made.found.notes
    made = _quietly(lambda: at(own))
    return replace(made, found=replace(made.found, notes=notes))


def _quietly(run: Callable[[], _Result]) -> _Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return run()


def level_of_each(found: Found, level: float, simultaneous: Simultaneous) -> float:
    """Return the level of each interval that gives simultaneous intervals of `level`."""
    kinds = dict.fromkeys((row.outcome, row.method) for row in found.rows)
    methods = {method for _, method in kinds}
    rows = [row for row in found.rows if not math.isnan(row.std_error)]
    most = max(
        (sum(row.method == method for row in rows) for method in methods), default=1
    )
    if simultaneous == "bonferroni":
        return bonferroni(level, most)
    n_outcomes = len({outcome for outcome, _ in kinds})
    levels = [level]
    for outcome, method in kinds:
        own = [
            row for row in found.rows if (row.outcome, row.method) == (outcome, method)
        ]
        matrix, df = _together(own, found.covariances[outcome, method])
        levels.append(max_t(bonferroni(level, n_outcomes), matrix, df))
    return min(max(levels), bonferroni(level, most))


def _together(rows: Sequence[Estimate], covariance: Floats) -> tuple[Floats, float]:
    """Return covariances of all rows, including differences, and degrees of freedom."""
    p = len(covariance)
    eye = np.eye(p)
    ways = np.array([*eye, *(eye[i] - eye[0] for i in range(1, p))])[: len(rows)]
    known = np.flatnonzero([not math.isnan(row.std_error) for row in rows])
    used = np.flatnonzero(~np.isnan(np.diag(covariance)))
    part = ways[np.ix_(known, used)]
    matrix = part @ covariance[np.ix_(used, used)] @ part.T
    return matrix, min((rows[int(i)].df for i in known), default=math.inf)


def combined(results: Sequence[Found], level: float) -> Found:
    """Combine the estimates of imputed codes by Rubin's rules.

    Raises:
        ValueError: Draws of the codes do not have the same terms.
    """
    keys = [(r.outcome, r.term, r.group, r.method) for r in results[0].rows]
    for found in results:
        if [(r.outcome, r.term, r.group, r.method) for r in found.rows] != keys:
            raise ArgumentError(
                "has a label that is not in all draws of the right codes: it is too rare "
                "for a model of coders' errors",
                argument="consensus",
                code="rare_label",
            )
    rows = [
        _combined(each, level, results[0].limits_of(each[0].term))
        for each in zip(*(found.rows for found in results), strict=True)
    ]
    covariances = {
        key: _covariance(results, key[0], key[1]) for key in results[0].covariances
    }
    return replace(results[0], rows=rows, covariances=covariances)


def _combined(
    rows: Sequence[Estimate], level: float, limits: tuple[float, float]
) -> Estimate:
    """Combine the draws of one estimate, separately for both sides of the interval."""
    first = rows[0]
    values = np.array([row.estimate for row in rows])
    errors = np.array([row.std_error for row in rows])
    value, inside = float(values.mean()), float((errors**2).mean())
    if math.isnan(value) or math.isnan(inside):
        nan = math.nan
        return replace(first, estimate=value, std_error=nan, low=nan, high=nan)
    added = rubin.between(values)
    complete = min(row.df for row in rows)
    df = rubin.freedom(inside, added, len(rows), complete)
    far = student_quantile(level, df)
    longer = (far / student_quantile(level, complete)) ** 2
    more = far**2 * added
    below = float(np.mean([(row.estimate - row.low) ** 2 for row in rows])) * longer
    above = float(np.mean([(row.high - row.estimate) ** 2 for row in rows])) * longer
    low, high = within(
        value - math.sqrt(below + more), value + math.sqrt(above + more), *limits
    )
    lam = float(np.mean([row.lam for row in rows]))
    return replace(
        first,
        estimate=value,
        std_error=math.sqrt(inside + added),
        low=low,
        high=high,
        lam=lam,
        df=df,
    )


def _covariance(results: Sequence[Found], outcome: str, method: str) -> Floats:
    """Return the mean of the draws' covariances plus the covariance between draws."""
    inside = np.mean([found.covariances[outcome, method] for found in results], axis=0)
    p = len(inside)
    values = np.array(
        [
            [
                row.estimate
                for row in found.rows
                if (row.outcome, row.method) == (outcome, method)
            ][:p]
            for found in results
        ]
    )
    added = np.atleast_2d(np.cov(values.T)) * (1 + 1 / len(results))
    return np.asarray(inside + added)
