"""Regression formulas, evaluated with the model's labels and with human codes."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.codes import text_of
from llamaherd.coding.codes.cells import LARGEST
from llamaherd.coding.estimation.outcomes import labels_of
from llamaherd.engine.core import checks, phrases
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.coding.estimation.predictions import Predicted
    from llamaherd.coding.frames import Input
    from llamaherd.coding.gold.codes import Codes
    from llamaherd.coding.gold.population import Population
    from llamaherd.engine.core.arrays import Floats, Ints


HAS_LABEL = "has_label"
_TRUTH = {"true": "1", "false": "0"}


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
        """Check that all values are numbers that are not too large."""
        named = [(self.outcome, self.y_hat[:, None]), (self.outcome, self.y[:, None])]
        of_terms = [*self.x_hat.T[:, :, None], *self.x.T[:, :, None]]
        named += list(zip([*self.terms, *self.terms], of_terms, strict=True))
        for name, values in named:
            odd = values[~(np.abs(values) <= LARGEST)]
            if len(odd):
                raise ArgumentError(
                    f"must give numbers up to {LARGEST:g}, but {name!r} is {odd[0]} for "
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
    columns[label], again = recode_labels(texts, rows, coded, gold)
    mixed = columns.assign(**{label: again})
    known = frames.names(texts.frame)
    by_labels, by_codes = _evaluate_formula(formula, columns, mixed, known)
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
    has_values = (x_hat[used] != 0).any(axis=0) | (x[coded] != 0).any(axis=0)
    has_values |= ~(x_hat != 0).any(axis=0)  # drops only values of unused rows
    plain = Matrices(
        x_hat=x_hat[used][:, has_values],
        y_hat=y_hat[used, 0],
        x=x[coded][:, has_values],
        y=y[coded, 0],
        terms=tuple(term for term, has in zip(terms, has_values, strict=True) if has),
        outcome=left,
        has_label_right=label in columns_in(f"~ {right}"),
    )

    def by_name(name: str) -> tuple[Floats, Floats]:
        of_name = spec.get_model_matrix(
            columns.assign(**{label: constant_column(columns[label], name)}),
            context=_KNOWN,
        )
        return _numbers(of_name.rhs)[used][:, has_values], _numbers(of_name.lhs)[used, 0]

    return average_matrices(plain, predicted, kept, by_name)


def average_matrices(
    plain: Matrices,
    predicted: Sequence[Predicted],
    kept: Ints,
    by_name: Callable[[str], tuple[Floats, Floats]],
) -> list[Matrices]:
    """Return matrices averaged over all labels, weighted by their probabilities."""
    if all(kind.probs is None for kind in predicted):
        return [plain] * len(predicted)
    names = dict.fromkeys(name for kind in predicted for name in kind.labels_of(kept))
    by_label = {name: by_name(name) for name in names}
    averages = []
    for kind in predicted:
        x_hat, y_hat = np.zeros_like(plain.x_hat), np.zeros_like(plain.y_hat)
        for name in kind.labels_of(kept):
            share = kind.shares(name, kept)
            x_hat += share[:, None] * by_label[name][0]
            y_hat += share * by_label[name][1]
        averages.append(replace(plain, x_hat=x_hat, y_hat=y_hat))
    return averages


def _evaluate_formula(
    formula: str, columns: Input, mixed: Input, known: Sequence[str]
) -> tuple[Any, Any]:
    """Return the matrices computed from labels and from codes, with the same terms."""
    formulaic = formulaic_module()
    left, right = split(formula)
    _check_left(formula, left, columns)
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
            problem = ""
            if isinstance(error.__cause__, NameError):
                problem = _unknown_column(formula, known)
            elif not isinstance(error, formulaic.errors.FormulaicError):
                problem = _of_dates(columns)
            raise _wrong(formula, problem or _plain(error)) from error


def _check_left(formula: str, left: str, columns: Input) -> None:
    """Refuse a left side that is a column of texts."""
    name = left.removeprefix("C(").removesuffix(")").strip("`")
    if name in columns and hasattr(columns[name], "cat"):
        value = str(columns[name].cat.categories[0])
        raise _wrong(
            formula,
            f"the left side {left!r} must be a number for each text, but the column "
            f"{name!r} has text: compare it with a value, such as {name} == {value!r}",
        )


def _of_dates(columns: Input) -> str:
    """Return which column has dates, which are no numbers; "" if there is none."""
    dates = [
        f"the column {name!r} has dates or times: convert it to numbers or text"
        for name in columns
        if getattr(columns[name].dtype, "kind", "") in {"m", "M"}
    ]
    return dates[0] if dates else ""


def _unknown_column(formula: str, known: Sequence[str]) -> str:
    """Return which name in a formula is no column; "" if only a function is unknown."""
    unknown = sorted(_variables_in(re.sub("[~:]", "+", formula)) - set(known))
    if not unknown:
        return ""
    hint = checks.meant(unknown[0], known) or "; labels are quoted, as in label == 'yes'"
    return f"{unknown[0]!r} is not a column{hint}"


def _wrong(formula: str, problem: str) -> ArgumentError:
    return ArgumentError(
        f"{formula!r} cannot be evaluated: {problem}", argument="formula"
    )


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


def split(formula: str) -> tuple[str, str]:
    """Split a formula at "~"; the left side is "" if the formula has none."""
    if not isinstance(formula, str):
        raise ArgumentTypeError(
            f"must be a text, not {checks.brief(formula)}", argument="formula"
        )
    left, tilde, right = formula.partition("~")
    if not tilde or not right.strip():
        raise ArgumentError(f"must be like 'y ~ x', not {formula!r}", argument="formula")
    return left.strip(), right.strip()


def columns_in(formula: str) -> set[str]:
    """Return the names that occur in a formula."""
    formulaic = formulaic_module()
    left, right = split(formula)
    try:
        whole = f"{{({left})}} ~ {right}" if left else f"~ {right}"
        read = formulaic.Formula(whole)
        sides = [read.lhs, read.rhs] if left else [read]
        whole_terms = [term for side in sides for term in side]
        if not all(hasattr(term, "factors") for term in whole_terms):
            raise ArgumentError(
                f"must have one left and one right side, without '|', not {formula!r}",
                argument="formula",
            )
        factors = [factor for term in whole_terms for factor in term.factors]
        needed = {str(name) for name in read.required_variables}
        # Names within scale(), poly(), bs() and similar calls are not reported.
        needed |= {name for factor in factors for name in _named_in(factor.expr)}
        return needed - {HAS_LABEL}
    except formulaic.errors.FormulaicError as error:
        raise ArgumentError(
            f"{formula!r} cannot be read: {_plain(error)}", argument="formula"
        ) from error


def _plain(error: Exception) -> str:
    """Return the first line of a message; the others mark the place with colours."""
    return str(error).partition("\n")[0].rstrip()


def _named_in(expression: str) -> set[str]:
    """Return the names in a Python expression; an empty set if it cannot be parsed."""
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError:
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def formulaic_module() -> Any:  # it is optional
    """Import formulaic."""
    try:
        import formulaic  # optional
        import formulaic.errors
    except ImportError as error:
        raise ImportError(
            f"formulas need the package formulaic: {phrases.install_command('research')}"
        ) from error
    return formulaic


def _variables_in(term: str) -> set[str]:
    """Return the names in a term that are not the names of functions or modules.

    Names in backticks, which need not be valid in Python, are not returned.
    """
    try:
        tree = ast.parse(re.sub("`[^`]*`", "0", term), mode="eval")
    except SyntaxError:
        return set()
    functions = {
        node.id
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        for node in ast.walk(call.func)
        if isinstance(node, ast.Name)
    }
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return names - functions


def refused_values(name: str, values: object) -> ArgumentError:
    """Return the error of a column whose values a formula cannot use."""
    return ArgumentError(
        f"uses the column {name!r}, whose values must be numbers or text, not "
        f"{checks.brief(values)}",
        argument="formula",
    )


def formula_rows(frame: object, names: Sequence[str], label: str) -> Ints:
    """Return the rows that have a value in each column of a formula.

    The column of labels may have missing values.
    """
    columns = set(frames.names(frame)) & set(names) - {label}
    complete = np.ones(frames.n_rows(frame), dtype=bool)
    for name in columns:
        values = frames.column(frame, name, "formula")
        complete &= np.array([value is not None for value in values], dtype=bool)
    return np.flatnonzero(complete)


def is_numeric(texts: Population) -> bool:
    """Return True if labels are numbers or truth values (1 and 0)."""
    values = frames.column(texts.frame, texts.label_column or "", "label")
    present = [value for value in values if value is not None]
    return bool(present) and all(isinstance(v, (Real, np.bool_)) for v in present)


def recode_labels(
    texts: Population, rows: Ints, coded: Ints, gold: Codes
) -> Any:  # of pandas
    """Return labels of rows, and a copy in which codes replace labels of coded texts."""
    import pandas as pd  # formulaic has it

    labels = [texts.labels[i] for i in rows]
    mixed = list(labels)
    for row, code in zip(coded.tolist(), gold.decided, strict=True):
        mixed[row] = code
    if is_numeric(texts):
        return list(map(_as_number, labels)), list(map(_as_number, mixed))
    labels_used = {label for label in (*labels, *mixed) if label is not None}
    categories = frames.categories(texts.frame, texts.label_column or "") or []
    known = [text_of(category) for category in categories]
    names = [name for name in known if name in labels_used]
    names += sorted(labels_used.difference(names))
    ordered = frames.are_ordered(texts.frame, texts.label_column or "")
    return (
        pd.Categorical(labels, categories=names, ordered=ordered),
        pd.Categorical(mixed, categories=names, ordered=ordered),
    )


def constant_column(column: Any, name: str) -> Any:  # of pandas
    """Return a copy of a column of labels in which all texts have the same label."""
    import pandas as pd  # formulaic has it

    if not hasattr(column, "cat"):
        return [_as_number(name)] * len(column)
    return pd.Categorical(
        [name] * len(column),
        categories=list(column.cat.categories),
        ordered=bool(column.cat.ordered),
    )


def used_columns(frame: object, names: Sequence[str], rows: Ints, used: Ints) -> Any:
    """Return the columns of a formula, without categories that no used row has."""
    import pandas as pd  # formulaic has it

    column_names = [name for name in names if name in frames.names(frame)]
    if isinstance(frame, pd.DataFrame):
        columns = frame[column_names]
    else:
        columns = pd.DataFrame(
            {name: frames.column(frame, name, "formula") for name in column_names}
        )
    columns = columns.iloc[rows].reset_index(drop=True)
    for name in column_names:
        values = columns[name]
        is_text = isinstance(values.dtype, pd.StringDtype) or values.dtype == object
        if hasattr(values, "cat") or is_text:
            try:
                kept = set(values.iloc[used])
            except TypeError:  # such as lists
                raise refused_values(name, values.iloc[used[0]]) from None
            known = (
                values.cat.categories if hasattr(values, "cat") else sorted(kept, key=str)
            )
            columns[name] = pd.Categorical(
                [value if value in kept else None for value in values],
                [category for category in known if category in kept],
            )
    return columns


def _as_number(code: str | None) -> float:
    """Convert a code to a number; a truth value gives 1 or 0, a missing code NaN."""
    text = "nan" if code is None else _TRUTH.get(code.casefold(), code)
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(
            f"must have numbers or truth values, as the labels are, not {code!r}",
            argument="gold",
        ) from None
