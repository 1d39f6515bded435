"""Regression formulas, once with the model's labels and once with people's codes."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.research import frames
from llamaherd.research.codes import text_of
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
    is_known = [each is not None for each in texts.labels]
    if not _is_numeric(texts):  # of numbers no function has to know what is missing
        is_known = [True] * len(texts)
    rows = kept
    if not all(is_known[i] for i in range(len(texts))) or len(kept) < len(texts):
        others = formula_rows(texts.frame, names, label)
        rows = others[[is_known[i] for i in others]]
    place = np.full(len(texts), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    used, coded = place[kept], place[kept[gold.rows]]
    columns = _pandas(texts.frame, names, rows, used)
    columns[label], again = _recoded(texts, rows, coded, gold)
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


def formula_rows(frame: object, names: Sequence[str], label: str) -> Ints:
    """Rows in which no column that a formula names is missing, but for the label."""
    there = set(frames.names(frame)) & set(names) - {label}
    complete = np.ones(frames.n_rows(frame), dtype=bool)
    for name in there:
        values = frames.column(frame, name, "formula")
        complete &= np.array([value is not None for value in values], dtype=bool)
    return np.flatnonzero(complete)


def _is_numeric(texts: Population) -> bool:
    """Test for labels that are numbers, or truth values, which count as 0 and 1."""
    values = frames.column(texts.frame, texts.label_column or "", "label")
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(v, (Real, np.bool_)) for v in there)


def _recoded(texts: Population, rows: Ints, coded: Ints, gold: GoldUsed) -> Any:  # noqa: ANN401 - of pandas
    """Labels of rows, and the same with the codes where there are some."""
    import pandas as pd  # noqa: PLC0415 - formulaic has it

    labels = [texts.labels[i] for i in rows]
    mixed = list(labels)
    for place, code in zip(coded.tolist(), gold.codes, strict=True):
        mixed[place] = code
    if _is_numeric(texts):
        return [_as_number(each) for each in labels], [_as_number(each) for each in mixed]
    there = {each for each in (*labels, *mixed) if each is not None}
    categories = frames.categories(texts.frame, texts.label_column or "") or []
    known = [text_of(each) for each in categories]
    names = [name for name in known if name in there]
    names += sorted(there.difference(names))
    ordered = frames.are_ordered(texts.frame, texts.label_column or "")
    return (
        pd.Categorical(labels, categories=names, ordered=ordered),
        pd.Categorical(mixed, categories=names, ordered=ordered),
    )


def _pandas(frame: object, names: Sequence[str], rows: Ints, used: Ints) -> Any:  # noqa: ANN401 - of pandas
    """The columns that a formula needs; of categories those that are used."""
    import pandas as pd  # noqa: PLC0415 - formulaic has it

    there = [name for name in names if name in frames.names(frame)]
    if isinstance(frame, pd.DataFrame):
        made = frame[there].iloc[rows].reset_index(drop=True)
    else:
        columns = {name: frames.column(frame, name, "formula") for name in there}
        made = pd.DataFrame(columns).iloc[rows].reset_index(drop=True)
    for name in there:
        values = made[name]
        is_text = isinstance(values.dtype, pd.StringDtype) or values.dtype == object
        if hasattr(values, "cat") or is_text:
            kept = set(values.iloc[used])
            known = (
                values.cat.categories if hasattr(values, "cat") else sorted(kept, key=str)
            )
            made[name] = pd.Categorical(
                [each if each in kept else None for each in values],
                [each for each in known if each in kept],
            )
    return made


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


def _as_number(code: str | None) -> float:
    """A code as a number, a truth value as 1 or 0, NaN where there is none.

    Raises:
        ValueError: It is neither.
    """
    text = "nan" if code is None else _TRUTH.get(code.casefold(), code)
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"gold must have numbers or truth values, as the labels are, not {code!r}"
        ) from None


_TRUTH = {"true": "1", "false": "0"}
_KNOWN = {HAS_LABEL: has_label}  # what formulas may call, beside formulaic's own


def _formulaic() -> Any:  # noqa: ANN401 - it is optional
    try:
        import formulaic  # noqa: PLC0415 - optional
        import formulaic.errors  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            "formulas need the package formulaic: pip install 'llamaherd[research]'"
        ) from error
    return formulaic
