"""Types of the columns of answers that follow a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd._r.boundary import boundary, clean
from llamaherd.calls.structured.schema_columns import read_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.structured.columns import Column

_MOST_DEEP = 50  # nesting levels that R's functions support


@boundary
def schema_columns(schemas: Sequence[str]) -> dict[str, Any]:
    """Return the column type for answers that follow one of several JSON Schemas.

    Returns:
        `kind`, with `levels` of an "enum", `items` of an "array", and names and types of
        the `fields` of an "object". Values without a known type have the kind "any".
    """
    return _plain(read_columns(schemas), _MOST_DEEP)


def _plain(column: Column, n_deep: int) -> dict[str, Any]:
    if column.kind == "json" or n_deep == 0:
        return {"kind": "any"}
    found: dict[str, Any] = {"kind": column.kind}
    if column.kind == "enum":
        found["levels"] = [clean(level) for level in column.levels]
    elif column.kind == "array":
        items = column.items
        is_known = items is not None
        found["items"] = _plain(items, n_deep - 1) if is_known else {"kind": "any"}  # type: ignore[arg-type]
    elif column.kind == "object":
        found["names"] = [clean(name) for name, _ in column.fields]
        found["fields"] = [_plain(each, n_deep - 1) for _, each in column.fields]
    return found
