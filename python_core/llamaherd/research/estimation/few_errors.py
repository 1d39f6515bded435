"""Intervals of shares and means where few coded texts have a wrong label.

The correction of labels is a sum over strata of errors of two kinds, upwards and
downwards. Each of these cells has a rate of its own. Where fewer than `FEW` cases of it
were seen, the cell's part of the t interval is replaced by the distances to Wilson's
limits of that rate, and the interval is put together again by MOVER.

Sources: see `llamaherd.research.statistics.counts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.statistics import counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.ratings import Flags
    from llamaherd.research.statistics.sampling import Floats, Ints

FEW = 15  # cases of a cell below which its limits are Wilson's


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reach:
    """The parts of few cases in the squared distances of the limits, float64[p] each.

    Attributes:
        below: To the lower limit's.
        above: To the upper limit's.
    """

    below: Floats
    above: Floats

    def of(self, used: Ints, weights: Floats) -> tuple[float, float]:
        """The same of a weighted sum of some of the means."""
        squares, is_up = weights**2, weights > 0
        down = np.where(is_up, self.below[used], self.above[used])
        up = np.where(is_up, self.above[used], self.below[used])
        return float(squares @ down), float(squares @ up)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cell:
    """Cases of one kind in one stratum of a group.

    Attributes:
        stratum: Which.
        sign: 1 where a case makes the estimate higher, -1 where lower, 0 where the rate
            itself is estimated.
        terms: float64[k], weights of the cases seen, times their size.
        n_cases: How many were seen; of a rate the rarer of hits and misses.
        n_codes: Coded texts of the stratum in the group.
        probs: float64[m], inclusion probabilities of all texts that may be cases.
        size: The greatest size of a case.
        most: The total if all were cases.
        cap: What the total cannot exceed.
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


def reach(
    problem: Problem, level: float, far: Floats, *, span: float, has_labels: bool
) -> Reach:
    """The factors by which limits of means of groups are farther than those by t.

    Args:
        problem: The regression on groups.
        level: Confidence level.
        far: float64[p], quantiles of t that the intervals are by.
        span: How far apart two outcomes can be.
        has_labels: Whether the estimate uses labels.
    """
    p = problem.x.shape[1]
    below, above = np.zeros(p), np.zeros(p)
    for g in range(p):
        own = problem.x[:, g] != 0
        whole = float(problem.x_hat[:, g].sum())
        if not has_labels:
            whole = float((1 / problem.probs[own]).sum())
        for cell in cells(problem, g, span, has_labels=has_labels):
            if cell.n_cases >= FEW:
                continue
            down, up = _distances(problem, cell, level, float(far[g]))
            if cell.sign < 0:
                down, up = up, down
            below[g] += down / whole**2
            above[g] += up / whole**2
    return Reach(below=below, above=above)


def cells(problem: Problem, g: int, span: float, *, has_labels: bool) -> Iterator[Cell]:
    """The cells of a group; none of strata in which each text was drawn."""
    in_group = problem.x_hat[:, g] != 0
    coded = problem.x[:, g] != 0
    all_probs, strata = problem.of_all_texts
    drawn = strata[problem.rows]
    low = min(float(problem.y_hat.min()), float(problem.y.min()))
    for h in np.unique(strata[in_group]):
        here = in_group & (strata == h)
        own = coded & (drawn == h)
        if problem.target == "texts" and (all_probs[here] >= 1).all():
            continue
        weights, n_codes = 1 / problem.probs[own], int(own.sum())
        y, hat = problem.y[own], problem.y_hat[problem.rows[own]]
        most = max(float(weights.sum()), float(here.sum())) * span
        if not has_labels:
            yield from _rate(
                int(h), y, low, weights, problem, own, all_probs[here], span, most
            )
            continue
        room = problem.y_hat[here] - low  # how far down a code can be
        for sign, gap in ((1, span - room), (-1, room)):
            wrong = sign * (y - hat)
            is_case, may = wrong > 0, gap > 0
            if not may.any():
                continue
            yield Cell(
                stratum=int(h),
                sign=sign,
                terms=_by_cluster(problem, own, np.where(is_case, wrong * weights, 0.0)),
                n_cases=int(is_case.sum()),
                n_codes=n_codes,
                probs=all_probs[here][may],
                size=float(gap.max()),
                most=most,
                cap=float(gap.sum()),
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
) -> Iterator[Cell]:
    """The cell of codes alone; of scores that vary there is none."""
    is_binary = bool(np.isin(y, (low, low + span)).all())
    if not is_binary and np.ptp(y) > 0:
        return
    hits = y > low
    n_hits = int(hits.sum())
    yield Cell(
        stratum=h,
        sign=0,
        terms=_by_cluster(problem, own, (y - low) * weights),
        n_cases=min(n_hits, len(y) - n_hits),
        n_codes=len(y),
        probs=probs,
        size=span,
        most=most,
        cap=most,
    )


def _distances(
    problem: Problem, cell: Cell, level: float, far: float
) -> tuple[float, float]:
    """The part of a cell in the squares of both distances, beyond its part of t's."""
    heavy = counts.heaviest(cell.probs, level) * cell.size
    if problem.clusters is not None and cell.n_codes > 0:
        rows = problem.clusters[problem.rows]
        heavy *= len(rows) / len(np.unique(rows))  # texts of one cluster err together
    limits = counts.total(cell.terms, heavy, cell.most, level, cell.cap)
    share = limits.value / cell.most if cell.most > 0 else 0.0
    left = 1.0
    if problem.target == "texts":  # of what was drawn nothing is left to chance
        left = float(1 - cell.probs.mean())
    of_t = far**2 * float((cell.terms**2).sum()) * (1 - share)
    down = max((limits.value - limits.low) ** 2 - of_t, 0.0)
    up = max((limits.high - limits.value) ** 2 - of_t, 0.0)
    return down * left, up * left


def _by_cluster(problem: Problem, own: Flags, terms: Floats) -> Floats:
    """Terms above 0, those of one cluster together."""
    if problem.clusters is not None:
        clusters: Ints = problem.clusters[problem.rows[own]]
        terms = np.asarray(np.bincount(clusters, terms), dtype=np.float64)
    return np.asarray(terms[terms > 0])
