"""Passages of texts as a long table, one row per passage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.research.coding.span_type import SPANS
from llamaherd.research.frames import table_like

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COLUMNS = ("label", "quote", "start", "end")


def long_table(
    frame: Any,  # noqa: ANN401 - a data frame of any kind
    name: str,
    ids: Sequence[object],
    spans: Sequence[Mapping[str, Any]],
) -> Any:  # noqa: ANN401 - of the same kind
    """Return a data frame of passages, one row per passage.

    Args:
        frame: Data frame that determines the type of the result (pandas, polars, ...).
        name: Name of the column of ids.
        ids: Id of each passage's text.
        spans: Passages, each with label, quote, start and end.

    Raises:
        ValueError: The column of ids has the name of another column.
    """
    if name in COLUMNS:
        raise ArgumentError(
            f"must not be {checks.shown(name)}, which is a column of passages",
            argument="id",
            code="conflict",
        )
    columns = {name: list(ids), **{c: [span[c] for span in spans] for c in COLUMNS}}
    whole = {"start", "end"} | ({name} if name == "row" else set())
    return table_like(frame, columns, whole)


def spans_of_cell(cell: object) -> list[dict[str, Any]]:
    """Return the passages in a cell of the column "spans" of a table of coded texts.

    Args:
        cell: JSON text, a list of mappings, or None for a text without an answer.

    Raises:
        ValueError: The cell has another type.
    """
    problem = f"must hold passages, not {checks.shown(cell)}"
    found = cell
    if isinstance(cell, str):
        try:
            found = json.loads(cell) if cell.strip() else None
        except (ValueError, RecursionError):
            raise ArgumentError(problem, argument=SPANS) from None
    if found is None:
        return []
    rows: list[Any] = list(found) if isinstance(found, (list, tuple)) else [found]
    if not all(isinstance(row, dict) and set(COLUMNS) <= set(row) for row in rows):
        raise ArgumentError(problem, argument=SPANS)
    return [{name: row[name] for name in COLUMNS} for row in rows]
