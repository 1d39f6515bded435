"""Types of columns, and conversion of JSON values to cells."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.engine.core import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# "json" has values of several types or of an unknown type, "enum" has some texts, and
# "vector" has float32[n]. Stored columns are never "enum" or "null", and always closed.
Kind = Literal[
    "string", "integer", "number", "boolean", "json",
    "array", "object", "vector", "enum", "null",
]  # fmt: skip

_MOST_DEEP = 50  # nesting levels of plain data
_MOST = 10_000  # maximum number of columns; a small schema may describe very many columns
INT64 = range(-(2**63), 2**63)
_TOO_LARGE = "the whole number {} does not fit into 64 bits"


@dataclass(frozen=True, slots=True)
class Column:
    """Type of a column.

    Attributes:
        kind: Kind of the values of the column.
        items: Type of the elements of an "array"; None for any type.
        fields: Names and types of the fields of an "object", in order.
        levels: Texts of an "enum", in order.
        is_closed: Whether an "array" or "object" has only the elements or fields that
            the type lists.
    """

    kind: Kind
    items: Column | None = None
    fields: tuple[tuple[str, Column], ...] = ()
    levels: tuple[str, ...] = ()
    is_closed: bool = False

    def to_dict(self, n_deep: int = _MOST_DEEP) -> dict[str, Any]:
        """Return `kind`, and `levels`, `items`, or `names` and `fields`, as plain data.

        Values without a known type, or nested deeper than `n_deep`, have the kind "any".
        """
        if self.kind == "json" or n_deep == 0:
            return {"kind": "any"}
        plain: dict[str, Any] = {"kind": self.kind}
        if self.kind == "enum":
            plain["levels"] = list(self.levels)
        elif self.kind == "array":
            items = JSON if self.items is None else self.items
            plain["items"] = items.to_dict(n_deep - 1)
        elif self.kind == "object":
            plain["names"] = [name for name, _ in self.fields]
            plain["fields"] = [column.to_dict(n_deep - 1) for _, column in self.fields]
        return plain

    @property
    def stored(self) -> Column:
        """Type of the stored column: "json" for a type that is open or varies."""
        if self.kind == "enum":
            return STRING
        if self.kind == "null":
            return JSON
        if self.kind == "array":
            is_known = self.is_closed and self.items is not None
            return replace(self, items=self.items.stored) if is_known else JSON  # type: ignore[union-attr]
        if self.kind == "object":  # Parquet does not allow a struct without fields
            if not self.is_closed or not self.fields:
                return JSON
            fields = tuple((name, column.stored) for name, column in self.fields)
            return replace(self, fields=fields)
        return self

    def hold(self, value: Any) -> Any:  # noqa: ANN401 - of JSON
        """Convert a JSON value to the value of a cell; 1 and 1.0 are equal."""
        if self.kind in ("integer", "number"):
            return _number(self.kind, value)
        if self.kind == "array" and self.items is not None and isinstance(value, list):
            return [self.items.hold(item) for item in value]
        if self.kind == "object" and self.fields and isinstance(value, dict):
            known = dict(self.fields)
            return {
                name: known[name].hold(item) if name in known else item
                for name, item in value.items()
            }
        return value


STRING = Column("string")
INTEGER = Column("integer")
NUMBER = Column("number")
BOOLEAN = Column("boolean")
JSON = Column("json")
VECTOR = Column("vector")


def leaves(column: Column, *, dotted: bool) -> dict[str, tuple[tuple[str, ...], Column]]:
    """Return path and type of each column of a table; () is the whole answer."""
    if column.kind != "object" or not column.fields:
        return {"value": ((), column)}
    columns = list(_below(column, (), [_MOST if dotted else 0]))
    names = _unique([".".join(path) for path, _ in columns])
    return dict(zip(names, columns, strict=True))


def cells(
    name: str,
    values: Sequence[Any],
    convert: Callable[[Any], Any],
    problems: dict[int, str],
) -> list[Any]:
    """Convert values to cells; None and a problem where `convert` raises ValueError."""

    def cell(i: int, value: Any) -> Any:  # noqa: ANN401 - of JSON
        try:
            return convert(value)
        except ValueError as error:
            problems.setdefault(i, f"{name}: {error}")
            return None

    return [cell(i, value) for i, value in enumerate(values)]


def _number(kind: Kind, value: Any) -> Any:  # noqa: ANN401 - of JSON
    if not isinstance(value, (int, float)):
        return value  # None, or a value that a validator converted from a number
    try:
        if kind == "number":
            return float(value)
        number = int(value)
    except OverflowError:
        if kind == "number":  # a whole number larger than any float
            return math.inf if value > 0 else -math.inf
        raise ValueError(_TOO_LARGE.format(checks.shown(value))) from None
    if number not in INT64:
        raise ValueError(_TOO_LARGE.format(checks.shown(value)))
    return number


def _below(
    column: Column, path: tuple[str, ...], n_left: list[int]
) -> Iterator[tuple[tuple[str, ...], Column]]:
    """Yields the fields of an object; expands nested objects to `n_left` columns."""
    for name, inner in column.fields:
        n_left[0] -= 1
        if n_left[0] > 0 and inner.kind == "object" and inner.fields:
            yield from _below(inner, (*path, name), n_left)
        else:
            yield (*path, name), inner


def _unique(names: list[str]) -> list[str]:
    """Appends numbers to names that occurred before, as R does: "a.b", "a.b.1"."""
    taken = set(names)
    unique: dict[str, None] = {}
    for name in names:
        free, i = name, 0
        while free in unique or (i and free in taken):
            i += 1
            free = f"{name}.{i}"
        unique[free] = None
    return list(unique)
