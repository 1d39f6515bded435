"""Regression formulas, once with the model's labels and once with people's codes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import installing
from llamaherd.research import frames
from llamaherd.research.estimation.outcomes import labels_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    used = _required(formula) & set(frames.names(frame))
    complete = np.array([label is not None for label in labels], dtype=bool)
    for name in used:
        values = frames.column(frame, name, "formula")
        complete &= np.array([value is not None for value in values], dtype=bool)
    return np.flatnonzero(complete)


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


def matrices(
    frame: object, formula: str, label: str, kept: Ints, gold: GoldUsed
) -> Matrices:
    """Evaluates a formula.

    Args:
        frame: A data frame of any kind.
        formula: With a left side.
        label: Name of the column of labels, in place of which come the codes.
        kept: int64[m], the rows to evaluate.
        gold: Codes, with indices into these.

    Raises:
        ImportError: formulaic is not installed.
        ValueError: The formula cannot be evaluated.
    """
    formulaic = _formulaic()
    left, right = split(formula)
    columns = _pandas(frame, sorted(_required(formula) | {label}), kept)
    coded = columns.iloc[gold.rows].copy()
    columns[label], coded[label] = _recoded(columns[label], gold)
    try:
        made = formulaic.model_matrix(
            f"{{({left}) * 1.0}} ~ {right}", columns, na_action="ignore", context=_KNOWN
        )
        spec = made.model_spec
        again = spec.get_model_matrix(coded, context=_KNOWN)
    except formulaic.errors.FormulaicError as error:
        raise ValueError(f"formula {formula!r} cannot be evaluated: {error}") from error
    y_hat, y = _numbers(made.lhs), _numbers(again.lhs)
    if y_hat.shape[1] != 1:
        raise ValueError(f"the left side of {formula!r} must be one column of numbers")
    return Matrices(
        x_hat=_numbers(made.rhs),
        y_hat=y_hat[:, 0],
        x=_numbers(again.rhs),
        y=y[:, 0],
        terms=tuple(map(str, spec.rhs.column_names)),
        outcome=left,
        has_label_right=label in _required(f"~ {right}"),
    )


def _recoded(labels: Any, gold: GoldUsed) -> tuple[Any, Any]:  # noqa: ANN401 - of pandas
    """Labels of all texts and codes of some as columns of the same type."""
    import pandas as pd  # noqa: PLC0415 - formulaic has it

    if pd.api.types.is_numeric_dtype(labels.dtype):
        return labels.astype(float), np.array([float(code) for code in gold.codes])
    known = labels.cat.categories if hasattr(labels, "cat") else []
    there = {*labels, *gold.codes}
    names = [name for name in known if name in there]
    names += sorted(there - set(names))
    return (
        pd.Categorical(labels, categories=names),
        pd.Categorical(gold.codes, categories=names),
    )


def _pandas(frame: object, names: Sequence[str], kept: Ints) -> Any:  # noqa: ANN401 - of pandas
    """The columns that a formula needs, with categories as they are."""
    import pandas as pd  # noqa: PLC0415 - formulaic has it

    there = [name for name in names if name in frames.names(frame)]
    if isinstance(frame, pd.DataFrame):
        return frame[there].iloc[kept].reset_index(drop=True)
    columns = {name: frames.column(frame, name, "formula") for name in there}
    return pd.DataFrame(columns).iloc[kept].reset_index(drop=True)


def _numbers(matrix: Any) -> Floats:  # noqa: ANN401 - of formulaic
    return np.asarray(matrix, dtype=np.float64)


def _required(formula: str) -> set[str]:
    formulaic = _formulaic()
    left, right = split(formula)
    try:
        whole = f"{{({left})}} ~ {right}" if left else f"~ {right}"
        needed = formulaic.Formula(whole).required_variables
        return {str(name) for name in needed} - {HAS_LABEL}
    except formulaic.errors.FormulaicError as error:
        raise ValueError(f"formula {formula!r} cannot be read: {error}") from error


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
