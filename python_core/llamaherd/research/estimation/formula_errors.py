"""Explanations of formulas that cannot be evaluated: the term, and what is wrong."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def explained(
    formula: str,
    columns: Any,  # noqa: ANN401 - a data frame of pandas
    known: Sequence[str],
    terms: Mapping[str, Callable[[], object]],
    error: Exception,
) -> ArgumentError:
    """Return the error of a formula, with the term that cannot be evaluated.

    Args:
        formula: The formula.
        columns: Columns of the formula.
        known: Names of all columns.
        terms: Functions that evaluate one part of the formula: first the left side, then
            each term of the right side.
        error: Error of the whole formula.
    """
    for i, (term, evaluate) in enumerate(terms.items()):
        try:
            evaluate()
        except Exception as own:  # noqa: BLE001 - of functions in the term
            problem = _of_name(term, known, own)
            return _wrong(
                formula, problem or _of_term(term, columns, own, is_left=i == 0)
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


def _of_term(
    term: str,
    columns: Any,  # noqa: ANN401 - see explained
    error: Exception,
    *,
    is_left: bool,
) -> str:
    """Return what is wrong with a term."""
    names = list(map(str, columns.columns))
    variables = variables_in(term)
    used = [
        name for name in names if name in variables or name == term or f"`{name}`" in term
    ]
    if is_left and any(hasattr(columns[name], "cat") for name in used):
        shown = next(name for name in used if hasattr(columns[name], "cat"))
        value = str(columns[shown].cat.categories[0])
        return (
            f"the left side {term!r} must be a number for each text, but the column "
            f"{shown!r} has text: compare it with a value, such as {shown} == {value!r}"
        )
    of_types = _of_types(columns[used]) if used else ""
    return f"the term {term!r}: {of_types or _told(error)}"


def _of_types(columns: Any) -> str:  # noqa: ANN401 - see explained
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
