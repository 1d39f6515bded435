"""Sides, names and columns of regression formulas, and errors about them."""

from __future__ import annotations

import ast
import re
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.codes import text_of
from llamaherd.engine.core import checks, phrases
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.coding.frames import Input
    from llamaherd.coding.gold.codes import Codes
    from llamaherd.coding.gold.population import Population
    from llamaherd.coding.statistics.sampling import Ints


HAS_LABEL = "has_label"


def split(formula: str) -> tuple[str, str]:
    """Split a formula at "~"; the left side is "" if the formula has none."""
    if not isinstance(formula, str):
        raise ArgumentTypeError(
            f"must be a text, not {checks.shown(formula)}", argument="formula"
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


def formulaic_module() -> Any:  # noqa: ANN401 - it is optional
    """Import formulaic."""
    try:
        import formulaic  # noqa: PLC0415 - optional
        import formulaic.errors  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            f"formulas need the package formulaic: {phrases.install_command('research')}"
        ) from error
    return formulaic


def explained(
    formula: str,
    columns: Input,
    known: Sequence[str],
    terms: Mapping[str, Callable[[], object]],
    error: Exception,
) -> ArgumentError:
    """Return the error of a formula, with the term that cannot be evaluated."""
    for i, (term, evaluate) in enumerate(terms.items()):
        try:
            evaluate()
        except Exception as term_error:  # noqa: BLE001 - of functions in the term
            problem = _of_name(term, known, term_error)
            return _wrong(
                formula, problem or _of_term(term, columns, term_error, is_left=i == 0)
            )
    return _wrong(formula, _of_types(columns) or _told(error))


def _wrong(formula: str, problem: str) -> ArgumentError:
    return ArgumentError(
        f"{formula!r} cannot be evaluated: {problem}", argument="formula"
    )


def _of_name(term: str, known: Sequence[str], error: Exception) -> str:
    """Return which name of a term is unknown; "" if all are known."""
    unknown = sorted(variables_in(term) - set(known))
    if not unknown or not isinstance(error.__cause__ or error, NameError):
        return ""
    hint = checks.meant(unknown[0], known) or "; labels are quoted, as in label == 'yes'"
    return f"{unknown[0]!r} in the term {term!r} is not a column{hint}"


def _of_term(term: str, columns: Input, error: Exception, *, is_left: bool) -> str:
    """Return what is wrong with a term."""
    names = list(map(str, columns.columns))
    variables = variables_in(term)
    used = [
        name for name in names if name in variables or name == term or f"`{name}`" in term
    ]
    if is_left and any(hasattr(columns[name], "cat") for name in used):
        column = next(name for name in used if hasattr(columns[name], "cat"))
        value = str(columns[column].cat.categories[0])
        return (
            f"the left side {term!r} must be a number for each text, but the column "
            f"{column!r} has text: compare it with a value, such as {column} == {value!r}"
        )
    of_types = _of_types(columns[used]) if used else ""
    return f"the term {term!r}: {of_types or _told(error)}"


def _of_types(columns: Input) -> str:
    """Return what is wrong with the type of a column; "" if nothing is."""
    for name in columns:
        if getattr(columns[name].dtype, "kind", "") in {"m", "M"}:
            return (
                f"the column {name!r} has dates or times: convert it to numbers or text"
            )
    return ""


def _told(error: Exception) -> str:
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {cause}"


def variables_in(term: str) -> set[str]:
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
        f"{checks.shown(values)}",
        argument="formula",
    )


_TRUTH = {"true": "1", "false": "0"}


def formula_rows(frame: object, names: Sequence[str], label: str) -> Ints:
    """Return the rows that have a value in each column of a formula.

    The column of labels may have missing values.
    """
    there = set(frames.names(frame)) & set(names) - {label}
    complete = np.ones(frames.n_rows(frame), dtype=bool)
    for name in there:
        values = frames.column(frame, name, "formula")
        complete &= np.array([value is not None for value in values], dtype=bool)
    return np.flatnonzero(complete)


def is_numeric(texts: Population) -> bool:
    """Return True if labels are numbers or truth values (1 and 0)."""
    values = frames.column(texts.frame, texts.label_column or "", "label")
    there = [value for value in values if value is not None]
    return bool(there) and all(isinstance(v, (Real, np.bool_)) for v in there)


def recoded(texts: Population, rows: Ints, coded: Ints, gold: Codes) -> Any:  # noqa: ANN401 - of pandas
    """Return labels of rows, and a copy in which codes replace labels of coded texts."""
    import pandas as pd  # noqa: PLC0415 - formulaic has it

    labels = [texts.labels[i] for i in rows]
    mixed = list(labels)
    for row, code in zip(coded.tolist(), gold.decided, strict=True):
        mixed[row] = code
    if is_numeric(texts):
        return list(map(_as_number, labels)), list(map(_as_number, mixed))
    there = {label for label in (*labels, *mixed) if label is not None}
    categories = frames.categories(texts.frame, texts.label_column or "") or []
    known = [text_of(category) for category in categories]
    names = [name for name in known if name in there]
    names += sorted(there.difference(names))
    ordered = frames.are_ordered(texts.frame, texts.label_column or "")
    return (
        pd.Categorical(labels, categories=names, ordered=ordered),
        pd.Categorical(mixed, categories=names, ordered=ordered),
    )


def constant_column(column: Any, name: str) -> Any:  # noqa: ANN401 - of pandas
    """Return a copy of a column of labels in which all texts have the same label."""
    import pandas as pd  # noqa: PLC0415 - formulaic has it

    if not hasattr(column, "cat"):
        return [_as_number(name)] * len(column)
    return pd.Categorical(
        [name] * len(column),
        categories=list(column.cat.categories),
        ordered=bool(column.cat.ordered),
    )


def used_columns(frame: object, names: Sequence[str], rows: Ints, used: Ints) -> Any:  # noqa: ANN401 - of pandas
    """Return the columns of a formula, without categories that no used row has."""
    import pandas as pd  # noqa: PLC0415 - formulaic has it

    there = [name for name in names if name in frames.names(frame)]
    if isinstance(frame, pd.DataFrame):
        columns = frame[there]
    else:
        columns = pd.DataFrame(
            {name: frames.column(frame, name, "formula") for name in there}
        )
    columns = columns.iloc[rows].reset_index(drop=True)
    for name in there:
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
