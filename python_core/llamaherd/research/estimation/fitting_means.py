"""Means in groups and their differences, by all methods."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.research.estimation import few_codes, few_errors, notes
from llamaherd.research.estimation.few_errors import Reach
from llamaherd.research.estimation.fitting import (
    NO_OTHERS,
    FitSettings,
    Found,
    MethodFit,
    RowNames,
    covariance_of,
    estimated_by,
    filled_row,
    found_of,
    limits_of_difference,
    of_labels,
    ppi_samples,
    tried,
    unit_vector,
    widened,
)
from llamaherd.research.estimation.skewed import skewed
from llamaherd.research.statistics import dsl, ppi, tuning
from llamaherd.research.statistics.codes_alone import codes_alone
from llamaherd.research.statistics.intervals import NO_LIMITS, student_quantile
from llamaherd.research.statistics.regression import Estimated, FitError, check_rank
from llamaherd.research.statistics.skewness import codes_needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.estimation.estimates import Estimate, Method
    from llamaherd.research.statistics.codes_alone import CodesAlone
    from llamaherd.research.statistics.dsl import Problem
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
    bounds = []
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
        problem = few_codes.with_certainty(problem)
        needed: dict[str, Floats] = {}
        for method in settings.methods:
            by = partial(_mean_by, method, problem, settings, ends)
            found = tried(method, by, found_notes, names)
            if found is not None:
                wider, needed[method] = found.wider, found.needed
                bounds.append(notes.unseen(problem, outcome, method, names, wider))
                if method == "gold":
                    if (wider.below + wider.above > 0).any():
                        found_notes.append(notes.WILSON)
                    own = _alone(problem, outcome, term, names)
                    alone = own if alone is None else alone.and_of(own)
            covariances[outcome, method] = covariance_of(
                found, len(names), settings.level
            )
            rows += _rows_of_means(
                outcome, term, names, method=method, found=found, level=settings.level,
                limits=limits,
            )  # fmt: skip
        found_notes += skewed(outcome, names, n_codes, needed)
    found_notes += [*notes.by_the_rule(bounds), *notes.beyond(rows, limits)]
    return found_of(rows, covariances, found_notes, limits, alone)


def _alone(problem: Problem, outcome: str, term: str, names: Sequence[str]) -> CodesAlone:
    """Return variances by codes alone of all groups with two codes, and differences."""
    there = np.flatnonzero(problem.x.sum(axis=0) >= _LEAST_CODES).tolist()
    part = replace(problem, x_hat=problem.x_hat[:, there], x=problem.x[:, there])
    ways = {
        (outcome, term, names[g]): unit_vector(i, len(there)) for i, g in enumerate(there)
    }
    if 0 in there:
        ways |= {
            (outcome, "difference", f"{names[g]} - {names[0]}"): (
                unit_vector(i, len(there)) - unit_vector(0, len(there))
            )
            for i, g in enumerate(there)
            if g > 0
        }
    return codes_alone(part, ways)


def _rows_of_means(
    outcome: str,
    term: str,
    names: Sequence[str],
    *,
    method: Method,
    found: MethodFit | None,
    level: float,
    limits: tuple[float, float],
) -> list[Estimate]:
    """Return a row for each group, and a row for each difference from the first group."""
    p = len(names)
    rows = [
        filled_row(
            RowNames(
                outcome=outcome, term=term, group=name, method=method, limits=limits
            ),
            found,
            unit_vector(i, p),
            level,
        )
        for i, name in enumerate(names)
    ]
    for i, name in enumerate(names[1:], start=1):
        row = RowNames(
            outcome=outcome,
            term="difference",
            group=f"{name} - {names[0]}",
            method=method,
            limits=limits_of_difference(limits),
        )
        rows.append(filled_row(row, found, unit_vector(i, p) - unit_vector(0, p), level))
    return rows


def _mean_by(
    method: Method, problem: Problem, settings: FitSettings, ends: tuple[float, float]
) -> MethodFit:
    """Fit group means; groups with fewer than two codes get NaN.

    Intervals are widened if too few errors were observed to estimate an error rate
    (see `few_errors`). `ends` are the smallest and the largest outcome.
    """
    if method == "naive":
        return of_labels(problem, dsl.naive(problem))
    there = np.flatnonzero(problem.x.sum(axis=0) >= _LEAST_CODES)
    part = replace(problem, x_hat=problem.x_hat[:, there], x=problem.x[:, there])
    if len(there) == 0:
        raise FitError("no group has two codes")
    if method == "ppi":
        found = _ppi_means(part) if settings.is_plain else _tuned_means(part)
    else:
        found = estimated_by(method, part, settings)
    level, p = settings.level, problem.x.shape[1]
    df = np.full(p, np.inf)
    has_lam = (method == "ppi") & ~few_codes.all_coded(part)
    df[there] = np.minimum(
        few_codes.freedoms(part, 1 + has_lam),
        found.df if found.df is not None else np.inf,
    )
    far = np.array([student_quantile(level, each) for each in df[there]])
    more = few_errors.reach(part, level, far, ends=ends, has_labels=method != "gold")
    needed = np.full(p, np.nan)
    lam = found.lams if found.lams is not None else found.lam
    needed[there] = codes_needed(
        part, lam, found.theta, below=more.below / far**2, above=more.above / far**2
    )
    wider = Reach(below=np.zeros(p), above=np.zeros(p))
    wider.below[there], wider.above[there] = more.below, more.above
    theta, covariance = np.full(p, np.nan), np.full((p, p), np.nan)
    theta[there], covariance[np.ix_(there, there)] = found.theta, found.covariance
    return MethodFit(
        theta=theta,
        covariance=covariance,
        lam=found.lam,
        df=df,
        wider=wider,
        needed=needed,
    )


def _ppi_means(problem: Problem) -> Estimated:
    """Fit each group's mean, with its coded texts as a simple random sample.

    The mean of a group whose texts are all coded is that of its codes. `lams` are the
    weights of the labels in the equation of `dsl` that has the same solution.
    """
    is_known = few_codes.all_coded(problem)
    if is_known.all():
        raise FitError(NO_OTHERS)
    samples = ppi_samples(problem)
    alone = dsl.gold_alone(problem) if is_known.any() else None
    means, lams = [], []
    for g in range(problem.x_hat.shape[1]):
        if alone is not None and is_known[g]:
            means.append((alone.theta[g], alone.covariance[g, g]))
            lams.append(0.0)
            continue
        own, others = samples.x[:, g] == 1, samples.x_others[:, g] == 1
        n = int(own.sum())
        found = ppi.ppi_mean(
            samples.y[own], samples.y_hat[own], samples.y_hat_others[others]
        )
        means.append((found.theta[0], found.covariance[0, 0] * n / max(n - 2, 1)))
        lams.append(found.lam)
    shares = problem.x.sum(axis=0) / problem.x_hat.sum(axis=0)
    return Estimated(
        theta=np.array([mean for mean, _ in means]),
        covariance=np.diag([variance for _, variance in means]),
        lam=lams[0] if len(lams) == 1 else float("nan"),
        lams=np.array(lams) / np.where(is_known, 1.0, 1 - shares),
    )


def _tuned_means(problem: Problem) -> Estimated:
    """Fit each group's mean if texts were drawn with unequal probabilities."""
    check_rank(problem.x, np.ones(len(problem.y)))
    sizes = problem.x.sum(axis=0)
    factors = (sizes - 1) / np.maximum(sizes - 2, 1)
    factors = np.where(few_codes.all_coded(problem), 1.0, factors)
    return widened(tuning.tuned_means(problem), factors)
