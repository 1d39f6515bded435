"""Sides of regression formulas, and the names in them."""

from __future__ import annotations

import ast
from typing import Any

from llamaherd.core import checks, installing
from llamaherd.core.errors import ArgumentError, ArgumentTypeError

HAS_LABEL = "has_label"


def split(formula: str) -> tuple[str, str]:
    """Split a formula at "~"; the left side is "" if the formula has none.

    Raises:
        TypeError: `formula` is not a str.
        ValueError: `formula` has no "~".
    """
    if not isinstance(formula, str):
        raise ArgumentTypeError(
            f"must be a text, not {checks.shown(formula)}", argument="formula"
        )
    left, tilde, right = formula.partition("~")
    if not tilde or not right.strip():
        raise ArgumentError(f"must be like 'y ~ x', not {formula!r}", argument="formula")
    return left.strip(), right.strip()


def columns_in(formula: str) -> set[str]:
    """Return the names that occur in a formula.

    Raises:
        ImportError: formulaic is not installed.
        ArgumentError: The formula cannot be read.
    """
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
        factors = [each for term in whole_terms for each in term.factors]
        needed = {str(name) for name in read.required_variables}
        # Names within scale(), poly(), bs() and similar calls are not reported.
        needed |= {name for each in factors for name in _named_in(each.expr)}
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
    """Import formulaic.

    Raises:
        ImportError: formulaic is not installed.
    """
    try:
        import formulaic  # noqa: PLC0415 - optional
        import formulaic.errors  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            f"formulas need the package formulaic: {installing.command('research')}"
        ) from error
    return formulaic
