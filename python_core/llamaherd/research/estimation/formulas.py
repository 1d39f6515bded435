"""Regression formulas, once with the model's labels and once with people's codes."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import installing
from llamaherd.research.estimation.formula_columns import (
    formula_rows,
    is_numeric,
    recoded,
    used_columns,
)
from llamaherd.research.estimation.outcomes import labels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.estimation.gold_data import Population
    from llamaherd.research.estimation.gold_use import GoldUsed
    from llamaherd.research.statistics.sampling import Floats, Ints

HAS_LABEL = "has_label"


@dataclass(frozen=True, kw_only=True, eq=False)
class Matrices:
    """A regression's covariates and outcome.

    Attributes:
        x_hat: float64[N, p], with the model's labels.
        y_hat: float64[N].
        x: float64[n, p], of the texts with codes, with these.
        y: float64[n].
        terms: Names of the p columns.
        outcome: The left side.
        has_label_right: Whether the label is among the covariates.
    """

    x_hat: Floats
    y_hat: Floats
    x: Floats
    y: Floats
    terms: tuple[str, ...]
    outcome: str
    has_label_right: bool

    def __post_init__(self) -> None:
        """Checks that all of it are numbers.

        Raises:
            ValueError: Something is not, as the logarithm of 0.
        """
        named = [(self.outcome, self.y_hat[:, None]), (self.outcome, self.y[:, None])]
        of_terms = [*self.x_hat.T[:, :, None], *self.x.T[:, :, None]]
        named += list(zip([*self.terms, *self.terms], of_terms, strict=True))
        for name, values in named:
            odd = values[~np.isfinite(values)]
            if len(odd):
                raise ValueError(
                    f"formula must give finite numbers, but {name!r} is {odd[0]} for "
                    f"{len(odd)} texts"
                )


def split(formula: str) -> tuple[str, str]:
    """The left and the right side; "" where there is no left one.

    Raises:
        TypeError: It is no str.
        ValueError: It has no "~".
    """
    if not isinstance(formula, str):
        raise TypeError(f"formula must be a str, not {type(formula).__name__}")
    left, tilde, right = formula.partition("~")
    if not tilde or not right.strip():
        raise ValueError(f"formula must be like 'y ~ x', not {formula!r}")
    return left.strip(), right.strip()


def complete_rows(frame: object, formula: str, labels: Sequence[str | None]) -> Ints:
    """Rows that have a label and no missing value in what the formula names.

    Raises:
        ImportError: formulaic is not installed.
        ValueError: The formula cannot be read.
    """
    rows = formula_rows(frame, sorted(_required(formula)), "")
    return rows[[labels[i] is not None for i in rows]]


def check_label(formula: str, label: str, *, several: bool = False) -> None:
    """Checks that labels are on some side: else nothing would be corrected.

    Args:
        formula: It is.
        label: Name of the column of labels.
        several: Whether a text may have several, of which `has_label` has to name one.

    Raises:
        ValueError: They are not; or they are compared as a whole.
    """
    if label not in _required(formula):
        raise ValueError(
            f"formula must use the column of labels, {label!r}, on one of its sides: "
            f"{formula!r} does not"
        )
    one = rf"{HAS_LABEL}\(\s*`?{re.escape(label)}`?\s*,"
    if several and label in _required(re.sub(one, f"{HAS_LABEL}(0,", formula)):
        raise ValueError(
            f"formula must name one label where a text may have several, such as "
            f"{HAS_LABEL}({label}, 'x') ~ age: {formula!r} takes them together"
        )


def has_label(labels: Sequence[object], name: str) -> Floats:
    """1 where a label is among those of a text that may have several, else 0."""
    given = [labels_of(str(each), several=True) for each in labels]
    return np.array([str(name) in each for each in given], dtype=np.float64)


def matrices(texts: Population, formula: str, kept: Ints, gold: GoldUsed) -> Matrices:
    """Evaluates a formula with the labels, and again with the codes in their place.

    Both times on all texts whose covariates are known, of which those that are used are
    taken afterwards: terms such as `x - x.mean()` are the same as a column made before.

    Args:
        texts: With labels in one form with the codes.
        formula: With a left side.
        kept: int64[m], the rows that are used.
        gold: Codes, with indices into these.

    Raises:
        ImportError: formulaic is not installed.
        ValueError: The formula cannot be evaluated; a term of it computes a text's label
            from those of other texts.
    """
    left, right = split(formula)
    label = texts.label_column or ""
    names = sorted(_required(formula) | {label})
    rows = formula_rows(texts.frame, names, label)
    if is_numeric(texts):  # no function has to know what a missing number is
        rows = rows[[texts.labels[i] is not None for i in rows]]
    place = np.full(len(texts), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    used, coded = place[kept], place[kept[gold.rows]]
    columns = used_columns(texts.frame, names, rows, used)
    columns[label], again = recoded(texts, rows, coded, gold)
    mixed = columns.assign(**{label: again})
    made, by_codes = _evaluated(formula, columns, mixed)
    spec = made.model_spec
    x_hat, y_hat = _numbers(made.rhs), _numbers(made.lhs)
    x, y = _numbers(by_codes.rhs), _numbers(by_codes.lhs)
    if y_hat.shape[1] != 1:
        raise ValueError(f"the left side of {formula!r} must be one column of numbers")
    uncoded = np.setdiff1d(np.arange(len(rows)), coded)
    terms = list(map(str, spec.rhs.column_names))
    check_by_row(
        np.hstack([y_hat, x_hat])[uncoded], np.hstack([y, x])[uncoded], [left, *terms]
    )
    there = (x_hat[used] != 0).any(axis=0) | (x[coded] != 0).any(axis=0)
    there |= ~(x_hat != 0).any(axis=0)  # a value of rows that are not used, else
    return Matrices(
        x_hat=x_hat[used][:, there],
        y_hat=y_hat[used, 0],
        x=x[coded][:, there],
        y=y[coded, 0],
        terms=tuple(each for each, has in zip(terms, there, strict=True) if has),
        outcome=left,
        has_label_right=label in _required(f"~ {right}"),
    )


def _evaluated(formula: str, columns: Any, mixed: Any) -> tuple[Any, Any]:  # noqa: ANN401 - of pandas
    """Matrices of columns with the labels, and by the same terms with the codes."""
    formulaic = _formulaic()
    left, right = split(formula)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Of rows that are not used values may be missing.
        warnings.simplefilter("ignore", formulaic.errors.DataMismatchWarning)
        try:
            made = formulaic.model_matrix(
                f"{{({left}) * 1.0}} ~ {right}",
                columns,
                na_action="ignore",
                context=_KNOWN,
            )
            return made, made.model_spec.get_model_matrix(mixed, context=_KNOWN)
        except formulaic.errors.FormulaicError as error:
            raise ValueError(
                f"formula {formula!r} cannot be evaluated: {error}"
            ) from error


def check_by_row(by_labels: Floats, by_codes: Floats, terms: Sequence[str]) -> None:
    """Checks that texts without a code have the same values once others have theirs.

    Raises:
        ValueError: A term computes them from the labels of other texts.
    """
    changed = ~np.isclose(by_labels, by_codes, equal_nan=True)
    if changed.any():
        term = terms[int(np.flatnonzero(changed.any(axis=0))[0])]
        raise ValueError(
            f"formula must compute each text's {term!r} from its own label, not from "
            "those of other texts, such as their mean: then codes of some change it for "
            "all"
        )


def _numbers(matrix: Any) -> Floats:  # noqa: ANN401 - of formulaic
    return np.asarray(matrix, dtype=np.float64)


def _required(formula: str) -> set[str]:
    formulaic = _formulaic()
    left, right = split(formula)
    try:
        whole = f"{{({left})}} ~ {right}" if left else f"~ {right}"
        read = formulaic.Formula(whole)
        sides = [read.lhs, read.rhs] if left else [read]
        factors = [each for side in sides for term in side for each in term.factors]
        needed = {str(name) for name in read.required_variables}
        # Those within scale(), poly(), bs() and the like are not told.
        needed |= {name for each in factors for name in _named_in(each.expr)}
        return needed - {HAS_LABEL}
    except formulaic.errors.FormulaicError as error:
        raise ValueError(f"formula {formula!r} cannot be read: {error}") from error


def _named_in(expression: str) -> set[str]:
    """Names in an expression of Python; none where it is no such, as a quoted column."""
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError:
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


_KNOWN = {HAS_LABEL: has_label}  # what formulas may call, beside formulaic's own


def _formulaic() -> Any:  # noqa: ANN401 - it is optional
    try:
        import formulaic  # noqa: PLC0415 - optional
        import formulaic.errors  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            f"formulas need the package formulaic: {installing.command('research')}"
        ) from error
    return formulaic
