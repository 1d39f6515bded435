"""Regressions by all methods."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.research.estimation import few_codes, notes
from llamaherd.research.estimation.few_errors import Reach
from llamaherd.research.estimation.fitting import (
    FitSettings,
    Found,
    MethodFit,
    RowNames,
    covariance_of,
    estimated_by,
    filled_row,
    found_of,
    of_labels,
    tried,
    unit_vector,
)
from llamaherd.research.estimation.skewed import skewed
from llamaherd.research.statistics.codes_alone import codes_alone
from llamaherd.research.statistics.skewness import codes_needed

if TYPE_CHECKING:
    from llamaherd.research.estimation.estimates import Estimate, Method
    from llamaherd.research.estimation.formulas import Matrices
    from llamaherd.research.statistics.dsl import Problem
    from llamaherd.research.statistics.regression import Kind
    from llamaherd.research.statistics.sampling import Floats


def fit_regression(kind: Kind, made: Matrices, settings: FitSettings) -> Found:
    """Fit a regression by all methods.

    Raises:
        ValueError: No method gives an estimate.
    """
    if len({*made.y_hat.tolist(), *made.y.tolist()}) == 1:
        raise ArgumentError(
            f"the left side {made.outcome!r} is {made.y[0]:g} for all labels and codes: "
            "check the spelling of its label",
            argument="formula",
            code="constant_outcome",
            form="{name}: {problem}",
        )
    _check_finite(made)
    if kind == "logit":
        _check_binary(made, are_probs=settings.are_probs)
    n_gold, p = made.x.shape
    found_notes = [*settings.notes_of_ppi, *notes.few_coefficients(n_gold, p)]
    methods = list(settings.methods)
    if made.has_label_right and "ppi" in methods:
        methods.remove("ppi")
        found_notes = [note for note in found_notes if note != notes.WEIGHTED] + [
            notes.RIGHT
        ]
    problem = settings.problem(kind, made.x_hat, made.y_hat, made.x, made.y)
    problem = replace(problem, has_leverage=kind == "ols")
    found_notes += notes.few_errors(made.outcome, problem, settings.gold.names)
    found_notes += [*notes.few_heavy(problem), *notes.few_clusters(problem)]
    if kind == "logit":
        found_notes += notes.few_events(made.y, problem.code_weights, p)
    alone = None
    needed: dict[str, Floats] = {}
    rows: list[Estimate] = []
    covariances: dict[tuple[str, str], Floats] = {}
    for method in methods:
        by = partial(_coefficients_by, method, problem, settings)
        found = tried(method, by, found_notes, made.terms)
        covariances[made.outcome, method] = covariance_of(found, p)
        if found is not None:
            needed[method] = found.needed
        if method == "gold" and found is not None:
            ways = {
                (made.outcome, term, ""): unit_vector(i, p)
                for i, term in enumerate(made.terms)
            }
            alone = codes_alone(problem, ways)
        for i, term in enumerate(made.terms):
            row = RowNames(outcome=made.outcome, term=term, group="", method=method)
            rows.append(filled_row(row, found, unit_vector(i, p), settings.level))
    if kind == "ols" and not all(np.isnan(row.estimate) for row in rows):
        found_notes += notes.high_leverage(problem)
        n_codes = (problem.x != 0).sum(axis=0)
        found_notes += skewed(
            made.outcome, made.terms, n_codes, needed, of="coefficients"
        )
    return found_of(rows, covariances, found_notes, alone=alone)


def _coefficients_by(
    method: Method, problem: Problem, settings: FitSettings
) -> MethodFit:
    """Fit coefficients; covariances are NaN if the codes show no variance."""
    found = estimated_by(method, problem, settings)
    if method == "naive":
        return of_labels(problem, found)
    p = problem.x.shape[1]
    covariance = found.covariance
    unit = (problem.x_hat**2).mean(axis=0)  # as if each column had the size 1
    if few_codes.has_none(np.diag(covariance) * unit).any() and not problem.is_all_coded:
        covariance = np.full((p, p), np.nan)
    df = np.full(p, few_codes.freedom(problem, p + (method == "ppi")))
    if found.df is not None:
        df = np.minimum(df, found.df)
    needed = np.full(p, np.nan)
    if problem.kind == "ols":
        lam = found.lam
        if method == "ppi" and settings.is_plain:  # it compares codes with other texts
            lam /= 1 - len(problem.y) / len(problem.y_hat)
        none = np.zeros(p)
        needed = codes_needed(problem, lam, found.theta, below=none, above=none)
    return MethodFit(
        theta=found.theta,
        covariance=covariance,
        lam=found.lam,
        df=df,
        wider=Reach(below=np.zeros(p), above=np.zeros(p)),
        needed=needed,
    )


def _check_finite(made: Matrices) -> None:
    """Check that all numbers are finite; infinite numbers would give NaN variances."""
    for values in (made.y_hat, made.y):
        if not np.isfinite(values).all():
            raise ArgumentError(
                f"has the left side {made.outcome!r} with an infinite or missing "
                "value: leave these texts out",
                argument="formula",
            )
    for matrix in (made.x_hat, made.x):
        bad = ~np.isfinite(matrix).all(axis=0)
        if bad.any():
            raise ArgumentError(
                f"has the term {made.terms[int(np.argmax(bad))]!r} with an "
                "infinite or missing value: leave these texts out",
                argument="formula",
            )


def _check_binary(made: Matrices, *, are_probs: bool) -> None:
    for values in (made.y_hat, made.y):
        inside = are_probs and values is made.y_hat
        ok = (values >= 0) & (values <= 1) if inside else np.isin(values, (0.0, 1.0))
        if not ok.all():
            raise ArgumentError(
                f"the outcome of a logistic regression must be 0 or 1, or a condition "
                f"such as label == 'x', not {made.outcome!r}",
                argument="formula",
                form="{name}: {problem}",
            )
