"""Regressions by all methods."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.core.errors import ArgumentError
from llamaherd.research.estimation import notes
from llamaherd.research.estimation.fitting import (
    FitSettings,
    Found,
    MethodFit,
    RowNames,
    filled_row,
    found_of,
    of_codes,
    of_labels,
    tried,
)
from llamaherd.research.estimation.notes import skewed
from llamaherd.research.statistics import dsl
from llamaherd.research.statistics.label_weight import codes_alone
from llamaherd.research.statistics.regression import check_rank

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
    methods = _methods_of(settings)
    p = made.x.shape[1]
    problem = settings.problem(kind, made.x_hat, made.y_hat, made.x, made.y)
    found_notes = _notes_of(made, problem, settings)
    ends = None
    if not made.has_label_right:
        values = [*made.y_hat, *made.y]
        ends = (float(min(values)), float(max(values)))
    alone = None
    needed: dict[str, Floats] = {}
    rows: list[Estimate] = []
    covariances: dict[tuple[str, str], Floats] = {}
    eye = np.eye(p)
    for method in methods:
        by = partial(_coefficients_by, method, problem, settings.level, ends)
        found = tried(method, by, found_notes, made.terms)
        covariances[made.outcome, method] = (
            np.full((p, p), np.nan) if found is None else found.covariance
        )
        if found is not None:
            needed[method] = found.needed
        if method == "gold" and found is not None:
            ways = {(made.outcome, made.terms[i], ""): eye[i] for i in range(p)}
            alone = codes_alone(problem, ways)
        for i, term in enumerate(made.terms):
            row = RowNames(outcome=made.outcome, term=term, group="", method=method)
            rows.append(filled_row(row, found, i))
    if kind == "ols" and not all(np.isnan(row.estimate) for row in rows):
        found_notes += notes.high_leverage(problem)
        n_codes = (problem.x != 0).sum(axis=0)
        found_notes += skewed(
            made.outcome, made.terms, n_codes, needed, of="coefficients"
        )
    return found_of(rows, covariances, found_notes, alone=alone)


def _methods_of(settings: FitSettings) -> list[Method]:
    """Return the methods for regressions."""
    methods: list[Method] = [each for each in settings.methods if each != "ppi"]
    if not methods:
        raise ArgumentError(
            "must have another method than 'ppi' for a regression, such as 'dsl': ppi is "
            "for shares and means",
            argument="methods",
            code="unsupported",
        )
    return methods


def _notes_of(made: Matrices, problem: Problem, settings: FitSettings) -> list[str]:
    """Return notes on few codes, errors, weights, clusters and events."""
    n_gold, p = made.x.shape
    found = notes.few_coefficients(n_gold, p)
    found += [notes.NO_PPI] if "ppi" in settings.methods else []
    found += notes.few_errors(made.outcome, problem, settings.gold.names)
    found += [*notes.few_heavy(problem), *notes.few_clusters(problem)]
    if problem.kind == "logit":
        found += notes.few_events(made.y, problem.code_weights, p)
    return found


def _coefficients_by(
    method: Method, problem: Problem, level: float, ends: tuple[float, float] | None
) -> MethodFit:
    """Fit the coefficients by one method; `ends` are the extreme outcomes."""
    ways = np.eye(problem.x.shape[1])
    if method == "naive":
        return of_labels(problem, ways, level)
    check_rank(problem.x, np.ones(len(problem.y)))
    found = dsl.dsl(problem) if method == "dsl" else dsl.gold_alone(problem)
    return of_codes(problem, found, ways, level, ends=ends, n_fitted=1.0)


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
