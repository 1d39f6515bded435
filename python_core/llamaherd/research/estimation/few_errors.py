"""Intervals of shares and means if few coded texts have a wrong label.

The correction of labels is a sum of upward and downward errors over all strata. Each
combination of stratum and direction is a cell with its own error rate. If a cell has
fewer than `counts.FEW` observed errors, Wilson's limits of its rate replace the cell's
part of the t interval. Errors in one cluster are dependent, so the clusters with errors
are counted. MOVER then combines the parts of all cells into one interval.

Sources: see `llamaherd.research.statistics.counts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics import counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.ratings import Flags
    from llamaherd.research.statistics.sampling import Floats, Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reach:
    """Squared distances that cells with few cases add to the limits, float64[p] each.

    Attributes:
        below: Squared distance to add to the lower limit.
        above: Squared distance to add to the upper limit.
    """

    below: Floats
    above: Floats

    def of(self, used: Ints, weights: Floats) -> tuple[float, float]:
        """Return the squared distances that cells add to the limits of a weighted sum."""
        squares, is_up = weights**2, weights > 0
        down = np.where(is_up, self.below[used], self.above[used])
        up = np.where(is_up, self.above[used], self.below[used])
        return float(squares @ down), float(squares @ up)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """Cell of one stratum of a group. The cell's cases are the errors of one direction.

    For estimates by codes alone, the cases are the codes with the larger of two values.

    Attributes:
        stratum: Index of the stratum.
        sign: 1 if a case raises the estimate, -1 if it lowers it, 0 if the rate itself is
            estimated.
        terms: float64[k], weight times size of each observed case.
        n_cases: Number of observed cases, with clusters the number of clusters with a
            case; for a rate the smaller of hits and misses.
        n_codes: Number of coded texts of the stratum in the group.
        probs: float64[m], inclusion probabilities of the texts that could be cases.
        size: Largest size of a case.
        most: Total if all texts were cases.
        cap: Upper bound of the total.
        left: Factor of the variance. The factor is below 1 if the estimate describes
            these texts, because drawn texts then have no sampling error.
        is_mirrored: True for a rate whose cases are the codes with the smaller value.
    """

    stratum: int
    sign: int
    terms: Floats
    n_cases: int
    n_codes: int
    probs: Floats
    size: float
    most: float
    cap: float
    left: float = 1.0
    is_mirrored: bool = False


def reach(
    problem: Problem,
    level: float,
    far: Floats,
    *,
    ends: tuple[float, float],
    has_labels: bool,
) -> Reach:
    """Return the squared distances by which cells with few errors move the limits.

    Args:
        problem: The regression on groups.
        level: Confidence level.
        far: float64[p], t quantiles of the intervals.
        ends: Smallest and largest outcome; 0 and 1 for shares.
        has_labels: True if the estimate uses labels.
    """
    p = problem.x.shape[1]
    below, above = np.zeros(p), np.zeros(p)
    for g in range(p):
        own = problem.x[:, g] != 0
        whole = float(problem.x_hat[:, g] @ problem.survey)
        if not has_labels:
            whole = float(problem.code_weights[own].sum())
        for cell in cells(problem, g, ends, has_labels=has_labels):
            if cell.n_cases >= counts.FEW:
                continue
            down, up = _distances(problem, cell, level, float(far[g]))
            if cell.sign < 0 or cell.is_mirrored:
                down, up = up, down
            below[g] += down / whole**2
            above[g] += up / whole**2
    return Reach(below=below, above=above)


def cells(
    problem: Problem, g: int, ends: tuple[float, float], *, has_labels: bool
) -> Iterator[Cell]:
    """Yield the cells of a group.

    In a stratum that was drawn completely no label counts: its cell is that of its codes,
    and for these texts it has no cell.
    """
    in_group = problem.x_hat[:, g] != 0
    coded = problem.x[:, g] != 0
    all_probs, strata = problem.of_all_texts
    drawn = strata[problem.rows]
    low, span = ends[0], ends[1] - ends[0] or math.nan
    for h in np.unique(strata[in_group]):
        here = in_group & (strata == h)
        own = coded & (drawn == h)
        is_known = bool((all_probs[here] >= 1).all())
        if problem.target == "texts" and is_known:
            continue
        weights, n_codes = problem.code_weights[own], int(own.sum())
        survey = problem.survey[here]
        probs = all_probs[here] / survey  # per unit of survey weight
        left = 1.0
        if problem.target == "texts":  # drawn texts have no sampling error
            left = max(float(1 - all_probs[here].mean()), 0.0)
        y, hat = problem.y[own], problem.y_hat[problem.rows[own]]
        if not has_labels or is_known:
            # The estimate is divided by the weights of the codes; so their sum is the
            # total if all texts were cases.
            most = float(weights.sum() if n_codes else survey.sum()) * span
            yield from _rate(
                int(h), y, low, weights, problem, own, probs, span, most, left
            )
            continue
        most = max(float(weights.sum()), float(survey.sum())) * span
        room = problem.y_hat[here] - low  # largest downward error
        for sign, gap in ((1, span - room), (-1, room)):
            wrong = sign * (y - hat)
            is_case, may = wrong > 0, gap > 0
            if not may.any():
                continue
            terms = _by_cluster(problem, own, np.where(is_case, wrong * weights, 0.0))
            yield Cell(
                stratum=int(h),
                sign=sign,
                terms=terms,
                n_cases=len(terms),
                n_codes=n_codes,
                probs=probs[may],
                size=float(gap.max()),
                most=most,
                cap=float(gap @ survey),
                left=left,
            )


def _rate(  # noqa: PLR0917 - one caller
    h: int,
    y: Floats,
    low: float,
    weights: Floats,
    problem: Problem,
    own: Flags,
    probs: Floats,
    span: float,
    most: float,
    left: float,
) -> Iterator[Cell]:
    """Yield the cell for the codes alone, if outcomes have at most two values."""
    is_binary = bool(np.isin(y, (low, low + span)).all())
    if not is_binary and np.ptp(y) > 0:
        return
    hits = y > low
    # The cases are the rarer kind, so that a share and its complement have limits that
    # mirror each other.
    sizes = [
        (len(each), float(each.sum()))
        for kind in (hits, ~hits)
        for each in [_by_cluster(problem, own, np.where(kind, weights, 0.0))]
    ]
    is_miss = sizes[1] < sizes[0] if is_binary else 2 * (y[0] - low) > span
    gaps = (low + span - y) if is_miss else y - low
    yield Cell(
        stratum=h,
        sign=0,
        terms=_by_cluster(problem, own, gaps * weights),
        n_cases=min(sizes)[0],
        n_codes=len(y),
        probs=probs,
        size=span,
        most=most,
        cap=most,
        left=left,
        is_mirrored=is_miss,
    )


def _distances(
    problem: Problem, cell: Cell, level: float, far: float
) -> tuple[float, float]:
    """Return the squared distances that a cell adds to the limits of the t interval."""
    heavy = counts.heaviest(cell.probs, level) * cell.size
    if problem.clusters is not None and cell.n_codes > 0:
        rows = problem.clusters[problem.rows]
        heavy *= len(rows) / len(np.unique(rows))  # errors of one cluster are dependent
    limits = counts.total(cell.terms, heavy, cell.most, level, cell.cap)
    share = limits.value / cell.most if cell.most > 0 else 0.0
    of_t = far**2 * float((cell.terms**2).sum()) * (1 - share)
    down = max((limits.value - limits.low) ** 2 - of_t, 0.0)
    up = max((limits.high - limits.value) ** 2 - of_t, 0.0)
    if cell.sign == 0 and cell.n_codes == 0:
        down = up  # the rate may be lower, or higher, than that of other strata
    return down * cell.left, up * cell.left


def _by_cluster(problem: Problem, own: Flags, terms: Floats) -> Floats:
    """Return the terms above 0, summed by cluster."""
    if problem.clusters is not None:
        clusters: Ints = problem.clusters[problem.rows[own]]
        terms = np.asarray(np.bincount(clusters, terms), dtype=np.float64)
    return np.asarray(terms[terms > 0])
