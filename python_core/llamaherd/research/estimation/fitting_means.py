"""Means in groups and their differences, by all methods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.estimation import notes
from llamaherd.research.estimation.fitting import (
    FitSettings,
    Found,
    MethodFit,
    RowNames,
    filled_row,
    found_of,
    limits_of_difference,
    of_codes,
    of_labels,
    tried,
)
from llamaherd.research.estimation.notes import skewed
from llamaherd.research.statistics import dsl, label_weight
from llamaherd.research.statistics.intervals import NO_LIMITS
from llamaherd.research.statistics.label_weight import codes_alone
from llamaherd.research.statistics.regression import FitError, check_rank

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.estimation.estimates import Estimate, Method
    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.label_weight import CodesAlone
    from llamaherd.research.statistics.sampling import Floats, Ints

_LEAST_CODES = 2  # minimum number of codes of a group


def fit_means(
    outcomes: Sequence[tuple[str, Floats, Floats]],
    term: str,
    groups: Ints,
    names: Sequence[str],
    settings: FitSettings,
    *,
    limits: tuple[float, float] = NO_LIMITS,
) -> Found:
    """Estimate means of outcomes in groups, and differences from the first group.

    Args:
        outcomes: For each outcome its name, its values by the labels, float64[N], and its
            values by the codes, float64[n].
        term: "share" or "mean".
        groups: int64[N], the group of each text.
        names: Names of the groups.
        settings: Settings shared by all estimates.
        limits: Smallest and largest possible mean; shares have the limits 0 and 1.

    Raises:
        ValueError: No method gives an estimate.
    """
    x_hat = (groups[:, None] == np.arange(len(names))).astype(np.float64)
    x = x_hat[settings.gold.rows]
    n_codes = x.sum(axis=0)
    is_exact = (settings.target == "texts") & (n_codes == x_hat.sum(axis=0))
    found_notes = [*settings.notes_of_ppi]
    found_notes += notes.few_groups(names, np.where(is_exact, np.inf, n_codes))
    limits = (0.0, 1.0) if term == "share" else limits
    there = np.flatnonzero(n_codes >= _LEAST_CODES)
    table = _Table.of(names, there)
    alone: CodesAlone | None = None
    rows: list[Estimate] = []
    covariances: dict[tuple[str, str], Floats] = {}
    for outcome, y_hat, y in outcomes:
        problem = settings.problem("ols", x_hat, y_hat, x, y)
        found_notes += [*notes.few_heavy(problem), *notes.few_clusters(problem)]
        found_notes += notes.rare_label(outcome, y) if term == "share" else []
        found_notes += notes.rare_errors(outcome, names, problem, settings.gold.names)
        values = [0.0, 1.0] if term == "share" else [*y_hat, *y]
        ends = (float(min(values)), float(max(values)))
        problem = problem.with_certainty()
        needed: dict[str, Floats] = {}
        for method in settings.methods:
            used = table if method != "naive" else _Table.of(names, np.arange(len(names)))
            by = partial(_mean_by, method, problem, settings, ends, used)
            found = tried(method, by, found_notes, names)
            if found is not None:
                needed[method] = np.full(len(names), np.nan)
                needed[method][used.there] = found.needed[: len(used.there)]
                if method == "gold":
                    own = _alone(problem, outcome, term, used)
                    alone = own if alone is None else alone.and_of(own)
            covariances[outcome, method] = used.covariance(found)
            rows += used.rows(outcome, term, method, found, limits)
        found_notes += skewed(outcome, names, n_codes, needed)
    found_notes += notes.beyond(rows, limits)
    return found_of(rows, covariances, found_notes, limits, alone)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Table:
    """Rows of a result: a mean of each group, and each difference from the first group.

    Attributes:
        names: Names of the groups.
        there: int64[m], groups with an estimate.
        ways: float64[q, m], weights of these groups' means in each sum.
        at: Index of the sum for each row; None for a row without an estimate.
    """

    names: Sequence[str]
    there: Ints
    ways: Floats
    at: tuple[int | None, ...]

    @classmethod
    def of(cls, names: Sequence[str], there: Ints) -> _Table:
        eye = np.eye(len(there))
        place = {int(g): i for i, g in enumerate(there)}
        ways = [*eye]
        at: list[int | None] = [place.get(g) for g in range(len(names))]
        for g in range(1, len(names)):
            if 0 in place and g in place:
                at.append(len(ways))
                ways.append(eye[place[g]] - eye[0])
            else:
                at.append(None)
        return cls(names=names, there=there, ways=np.array(ways), at=tuple(at))

    @property
    def keys(self) -> list[tuple[bool, str]]:
        """Whether a row is a difference, and the name of its group."""
        first = self.names[0]
        groups = [(False, name) for name in self.names]
        return groups + [(True, f"{name} - {first}") for name in self.names[1:]]

    def rows(
        self,
        outcome: str,
        term: str,
        method: Method,
        found: MethodFit | None,
        limits: tuple[float, float],
    ) -> list[Estimate]:
        """Return the rows of one outcome and method."""
        made = []
        for (is_difference, group), i in zip(self.keys, self.at, strict=True):
            name = RowNames(
                outcome=outcome,
                term="difference" if is_difference else term,
                group=group,
                method=method,
                limits=limits_of_difference(limits) if is_difference else limits,
            )
            made.append(filled_row(name, found, i))
        return made

    def covariance(self, found: MethodFit | None) -> Floats:
        """Return the covariances of all groups; NaN for groups without an estimate."""
        p = len(self.names)
        whole = np.full((p, p), np.nan)
        if found is not None:
            whole[np.ix_(self.there, self.there)] = found.covariance
        return whole


def _alone(problem: Problem, outcome: str, term: str, table: _Table) -> CodesAlone:
    """Return variances by codes alone of all groups with two codes, and differences."""
    ways = {
        (outcome, "difference" if is_difference else term, group): table.ways[i]
        for (is_difference, group), i in zip(table.keys, table.at, strict=True)
        if i is not None
    }
    return codes_alone(problem.columns(table.there), ways)


def _mean_by(
    method: Method,
    problem: Problem,
    settings: FitSettings,
    ends: tuple[float, float],
    table: _Table,
) -> MethodFit:
    """Fit the means of the groups of a table; `ends` are the extreme outcomes."""
    if method == "naive":
        return of_labels(problem, table.ways, settings.level)
    if len(table.there) == 0:
        raise FitError("no group has two codes")
    part = problem.columns(table.there)
    check_rank(part.x, np.ones(len(part.y)))
    n_fitted: float | Floats = 1.0
    if method == "ppi":
        part, found = (
            label_weight.simple_means(part)
            if settings.is_plain
            else (part, label_weight.tuned_means(part))
        )
        shares = np.abs(table.ways)
        n_fitted = shares @ (1.0 + ~part.all_coded) / shares.sum(axis=1)
    else:
        found = dsl.dsl(part) if method == "dsl" else dsl.gold_alone(part)
    return of_codes(part, found, table.ways, settings.level, ends=ends, n_fitted=n_fitted)
