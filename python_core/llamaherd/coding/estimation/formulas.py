"""Regression formulas, evaluated with the model's labels and with human codes."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.estimation import notes
from llamaherd.coding.estimation.fitting import Fits, FitSettings, Quantities
from llamaherd.coding.estimation.formula_terms import (
    HAS_LABEL,
    columns_in,
    constant_column,
    explained,
    formula_rows,
    formulaic_module,
    is_numeric,
    recoded,
    split,
    used_columns,
)
from llamaherd.coding.estimation.outcomes import labels_of
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.phrases import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.coding.estimation.estimates import Method
    from llamaherd.coding.estimation.predictions import Predicted
    from llamaherd.coding.frames import Input
    from llamaherd.coding.gold.codes import Codes
    from llamaherd.coding.gold.population import Population
    from llamaherd.coding.statistics.dsl import Problem
    from llamaherd.coding.statistics.regression import Kind
    from llamaherd.coding.statistics.sampling import Floats, Ints


@dataclass(frozen=True, kw_only=True, eq=False)
class Matrices:
    """Covariates and outcome of a regression."""

    x_hat: Floats  # float64[N, p], covariates with the model's labels
    y_hat: Floats  # float64[N], outcomes with the model's labels
    x: Floats  # float64[n, p], covariates of the coded texts, with their codes
    y: Floats  # float64[n], outcomes of the coded texts
    terms: tuple[str, ...]  # Names of the p columns
    outcome: str  # Left side of the formula
    has_label_right: bool  # True if the label is among the covariates

    def __post_init__(self) -> None:
        """Check that all values are finite numbers."""
        named = [(self.outcome, self.y_hat[:, None]), (self.outcome, self.y[:, None])]
        of_terms = [*self.x_hat.T[:, :, None], *self.x.T[:, :, None]]
        named += list(zip([*self.terms, *self.terms], of_terms, strict=True))
        for name, values in named:
            odd = values[~np.isfinite(values)]
            if len(odd):
                raise ArgumentError(
                    f"must give finite numbers, but {name!r} is {odd[0]} for "
                    f"{count_of(len(odd), 'text')}",
                    argument="formula",
                )


def check_label(formula: str, label: str, *, several: bool = False) -> None:
    """Check that the formula uses the labels; otherwise codes have nothing to correct."""
    if label not in columns_in(formula):
        raise ArgumentError(
            f"must use the column of labels, {label!r}, on one of its sides: "
            f"{formula!r} does not",
            argument="formula",
        )
    one = rf"{HAS_LABEL}\(\s*`?{re.escape(label)}`?\s*,"
    if several and label in columns_in(re.sub(one, f"{HAS_LABEL}(0,", formula)):
        raise ArgumentError(
            f"must name one label, as in {HAS_LABEL}({label}, 'x') ~ age, because a text "
            f"may have several labels: {formula!r} compares all labels together",
            argument="formula",
        )


def has_label(labels: Sequence[object], name: str) -> Floats:
    """Return 1 for each text that has the label, alone or with others; else 0."""
    label_sets = [labels_of(str(text_label), several=True) for text_label in labels]
    return np.array([str(name) in names for names in label_sets], dtype=np.float64)


def matrices(
    texts: Population,
    formula: str,
    kept: Ints,
    gold: Codes,
    predicted: Sequence[Predicted],
) -> list[Matrices]:
    """Evaluate a formula with the labels, and again with codes instead of labels.

    Both evaluations use all texts without missing covariates, and only then select the
    used rows. So a term such as `x - x.mean()` has the same values as a column that was
    added to the data frame before this call.
    """
    left, right = split(formula)
    label = texts.label_column or ""
    names = sorted(columns_in(formula) | {label})
    rows = formula_rows(texts.frame, names, label)
    if is_numeric(texts):  # formula functions then never see missing numbers
        rows = rows[[texts.labels[i] is not None for i in rows]]
    position_of = np.full(len(texts), -1, dtype=np.int64)
    position_of[rows] = np.arange(len(rows))
    used, coded = position_of[kept], position_of[kept[gold.rows]]
    columns = used_columns(texts.frame, names, rows, used)
    columns[label], again = recoded(texts, rows, coded, gold)
    mixed = columns.assign(**{label: again})
    known = frames.names(texts.frame)
    by_labels, by_codes = _evaluated(formula, columns, mixed, known)
    spec = by_labels.model_spec
    x_hat, y_hat = _numbers(by_labels.rhs), _numbers(by_labels.lhs)
    x, y = _numbers(by_codes.rhs), _numbers(by_codes.lhs)
    if y_hat.shape[1] != 1:
        raise ArgumentError(
            f"must have one column of numbers on its left side, not {formula!r}",
            argument="formula",
        )
    uncoded = np.setdiff1d(np.arange(len(rows)), coded)
    terms = list(map(str, spec.rhs.column_names))
    check_by_row(
        np.hstack([y_hat, x_hat])[uncoded], np.hstack([y, x])[uncoded], [left, *terms]
    )
    there = (x_hat[used] != 0).any(axis=0) | (x[coded] != 0).any(axis=0)
    there |= ~(x_hat != 0).any(axis=0)  # drops only values of unused rows
    plain = Matrices(
        x_hat=x_hat[used][:, there],
        y_hat=y_hat[used, 0],
        x=x[coded][:, there],
        y=y[coded, 0],
        terms=tuple(term for term, has in zip(terms, there, strict=True) if has),
        outcome=left,
        has_label_right=label in columns_in(f"~ {right}"),
    )

    def by_name(name: str) -> tuple[Floats, Floats]:
        of_name = spec.get_model_matrix(
            columns.assign(**{label: constant_column(columns[label], name)}),
            context=_KNOWN,
        )
        return _numbers(of_name.rhs)[used][:, there], _numbers(of_name.lhs)[used, 0]

    return averaged(plain, predicted, kept, by_name)


def averaged(
    plain: Matrices,
    predicted: Sequence[Predicted],
    kept: Ints,
    by_name: Callable[[str], tuple[Floats, Floats]],
) -> list[Matrices]:
    """Return matrices averaged over all labels, weighted by their probabilities."""
    if all(kind.probs is None for kind in predicted):
        return [plain] * len(predicted)
    names = dict.fromkeys(name for kind in predicted for name in kind.there(kept))
    by_label = {name: by_name(name) for name in names}
    averages = []
    for kind in predicted:
        x_hat, y_hat = np.zeros_like(plain.x_hat), np.zeros_like(plain.y_hat)
        for name in kind.there(kept):
            share = kind.shares(name, kept)
            x_hat += share[:, None] * by_label[name][0]
            y_hat += share * by_label[name][1]
        averages.append(replace(plain, x_hat=x_hat, y_hat=y_hat))
    return averages


def _evaluated(
    formula: str, columns: Input, mixed: Input, known: Sequence[str]
) -> tuple[Any, Any]:
    """Return the matrices computed from labels and from codes, with the same terms."""
    formulaic = formulaic_module()
    left, right = split(formula)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Unused rows may have missing values.
        warnings.simplefilter("ignore", formulaic.errors.DataMismatchWarning)
        try:
            by_labels = formulaic.model_matrix(
                f"{{({left}) * 1.0}} ~ {right}",
                columns,
                na_action="ignore",
                context=_KNOWN,
            )
            return by_labels, by_labels.model_spec.get_model_matrix(mixed, context=_KNOWN)
        except (formulaic.errors.FormulaicError, TypeError, ValueError) as error:
            terms = _terms(left, right, columns)
            raise explained(formula, columns, known, terms, error) from error


def _terms(left: str, right: str, columns: Input) -> dict[str, Callable[[], object]]:
    """Return functions that evaluate the left side, and each term of the right side."""
    formulaic = formulaic_module()

    def alone(term: str) -> Floats:
        matrix = formulaic.model_matrix(
            f"0 + {{{term}}}", columns, na_action="ignore", context=_KNOWN
        )
        return _numbers(matrix)

    read = formulaic.Formula(f"~ {right}")
    names = [str(factor.expr) for term in read for factor in term.factors]
    functions: dict[str, Callable[[], object]] = {left: partial(alone, f"({left}) * 1.0")}
    known = set(map(str, columns.columns))
    for name in names:
        if name != "1":  # a column's name need not be valid in Python
            functions[name] = partial(alone, f"`{name}`" if name in known else name)
    return functions


def check_by_row(by_labels: Floats, by_codes: Floats, terms: Sequence[str]) -> None:
    """Check that a text's values do not change when other texts get codes."""
    changed = ~np.isclose(by_labels, by_codes, equal_nan=True)
    if changed.any():
        term = terms[int(np.flatnonzero(changed.any(axis=0))[0])]
        raise ArgumentError(
            f"must compute each text's {term!r} from its own label, not from "
            "labels of other texts, such as their mean: codes of some texts would then "
            "change the term of all texts",
            argument="formula",
        )


def _numbers(matrix: Input) -> Floats:
    return np.asarray(matrix, dtype=np.float64)


_KNOWN = {HAS_LABEL: has_label}  # functions for formulas, besides formulaic's own


def fit_regression(kind: Kind, matrices: Matrices, settings: FitSettings) -> Fits:
    """Fit a regression by all methods."""
    outcome, terms = matrices.outcome, matrices.terms
    if len({*matrices.y_hat.tolist(), *matrices.y.tolist()}) == 1:
        raise ArgumentError(
            f"the left side {outcome!r} is {matrices.y[0]:g} for all labels and codes: "
            "check the spelling of its label",
            argument="formula",
            code="constant_outcome",
            form="{name}: {problem}",
        )
    if kind == "logit":
        _check_binary(matrices, are_probs=settings.are_probs)
    methods: list[Method] = [method for method in settings.methods if method != "ppi"]
    if not methods:
        raise ArgumentError(
            "must have another method than 'ppi' for a regression, such as 'dsl': ppi is "
            "for shares and means",
            argument="methods",
            code="unsupported",
        )
    problem = settings.problem(
        kind, matrices.x_hat, matrices.y_hat, matrices.x, matrices.y
    )
    fits = Fits(notes=_notes_of(outcome, problem, settings))
    ends = None
    if not matrices.has_label_right:
        values = [*matrices.y_hat, *matrices.y]
        ends = (float(min(values)), float(max(values)))
    quantities = Quantities.of_terms(terms)
    needed: dict[str, Floats] = {
        method: fits.add(outcome, method, problem, quantities, settings, ends)
        for method in methods
    }
    if kind == "ols" and not all(np.isnan(row.estimate) for row in fits.rows):
        fits.notes += notes.high_leverage(problem)
        n_codes = (problem.x != 0).sum(axis=0)
        fits.notes += notes.skewed(outcome, terms, n_codes, needed, of="coefficients")
    return fits.checked()


def _notes_of(outcome: str, problem: Problem, settings: FitSettings) -> list[str]:
    """Return notes on few codes, errors, weights, clusters and events."""
    return [
        *notes.few_coefficients(*problem.x.shape),
        *([notes.note("no_ppi")] if "ppi" in settings.methods else []),
        *notes.few_errors(outcome, problem, settings.gold.strata_names),
        *notes.few_heavy(problem),
        *notes.few_clusters(problem),
        *(notes.few_events(problem) if problem.kind == "logit" else []),
    ]


def _check_binary(matrices: Matrices, *, are_probs: bool) -> None:
    for values in (matrices.y_hat, matrices.y):
        inside = are_probs and values is matrices.y_hat
        ok = (values >= 0) & (values <= 1) if inside else np.isin(values, (0.0, 1.0))
        if not ok.all():
            raise ArgumentError(
                f"the outcome of a logistic regression must be 0 or 1, or a condition "
                f"such as label == 'x', not {matrices.outcome!r}",
                argument="formula",
                form="{name}: {problem}",
            )
