"""Results as a table: a row for each prompt, a column for each field of the answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def columns(
    texts: Sequence[str | None],
    parsed: Sequence[object],
    errors: Sequence[str | None],
    *,
    dotted: bool,
) -> dict[str, list[object]]:
    """The table that `Results.to_pandas` makes, as columns of equal length.

    Args:
        texts: Answers.
        parsed: What they say; all None: there was no schema.
        errors: Why there is none.
        dotted: Whether fields of objects within objects get columns of their own, such as
            "author.name".
    """
    if all(value is None for value in parsed):
        table: dict[str, list[object]] = {"text": list(texts)}
    else:
        table = _fields([_plain(value) for value in parsed], dotted=dotted)
    # A field may be called so as well.
    reason = "error" if "error" not in table else ".error"
    return {**table, reason: list(errors)}


def _plain(value: object) -> object:
    """What JSON has: of a pydantic instance or a dataclass its fields."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value


def _fields(values: list[object], *, dotted: bool) -> dict[str, list[object]]:
    if not all(value is None or isinstance(value, Mapping) for value in values):
        return {"value": values}
    rows = [value if isinstance(value, Mapping) else {} for value in values]
    table: dict[str, list[object]] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        column = [row.get(name) for row in rows]
        is_nested = any(isinstance(each, Mapping) for each in column)
        inner = (
            _fields(column, dotted=True) if dotted and is_nested else {"value": column}
        )
        if list(inner) == ["value"]:
            table[name] = column
        else:
            table |= {f"{name}.{key}": each for key, each in inner.items()}
    return table
