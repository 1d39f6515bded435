"""Passages of texts as a long table, one row per passage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from llamaherd.coding.frames import table_like
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPANS = "spans"  # field of answers, and name of the column
PLACE = ("start", "end")
COLUMNS = ("label", "quote", "start", "end")


def long_table(
    frame: Any,  # a data frame of any kind
    name: str,
    ids: Sequence[object],
    spans: Sequence[Mapping[str, Any]],
) -> Any:  # of the same kind
    """Return a data frame of passages, one row per passage."""
    if name in COLUMNS:
        raise ArgumentError(
            f"must not be {checks.brief(name)}, which is a column of passages",
            argument="id",
            code="conflict",
        )
    columns = {name: list(ids), **{c: [span[c] for span in spans] for c in COLUMNS}}
    whole = {"start", "end"} | ({name} if name == "row" else set())
    return table_like(frame, columns, whole)


def spans_of_cell(cell: object) -> list[dict[str, Any]]:
    """Return the passages in a cell of the column "spans" of a table of coded texts."""
    problem = f"must hold passages, not {checks.brief(cell)}"
    content = cell
    if isinstance(cell, str):
        try:
            content = json.loads(cell) if cell.strip() else None
        except (ValueError, RecursionError):
            raise ArgumentError(problem, argument=SPANS) from None
    if content is None:
        return []
    rows: list[Any] = list(content) if isinstance(content, (list, tuple)) else [content]
    if not all(isinstance(row, dict) and set(COLUMNS) <= set(row) for row in rows):
        raise ArgumentError(problem, argument=SPANS)
    return [{name: row[name] for name in COLUMNS} for row in rows]
