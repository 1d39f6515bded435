"""Columns of answers as lists and as Arrow arrays. Only Arrow arrays need pyarrow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.calls.structured.columns import Column, cells, leaves
from llamaherd.calls.structured.schema_columns import read_columns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SchemaLayout:
    """Columns of answers that follow schemas, see `core.table.Layout`.

    Attributes:
        schemas: One or more JSON Schemas as text.
    """

    schemas: tuple[str, ...]

    def paths(self, *, dotted: bool) -> dict[str, tuple[str, ...]]:
        """Return the path of each column's field; () is the whole answer."""
        found = leaves(read_columns(self.schemas), dotted=dotted)
        return {name: path for name, (path, _) in found.items()}

    def kinds(self, *, dotted: bool) -> dict[str, str]:
        """Return a dict from the names in `paths` to kinds of columns."""
        return {name: each.kind for name, each in self._columns(dotted=dotted).items()}

    def held(
        self, table: Mapping[str, Sequence[Any]], *, dotted: bool
    ) -> tuple[dict[str, list[Any]], dict[int, str]]:
        """Return the columns with values that every kind of table can store.

        Args:
            table: For each of `paths` a list of JSON values.
            dotted: See `paths`.

        Returns:
            The columns, with None for values that a column cannot store, and the
            reasons by row.
        """
        problems: dict[int, str] = {}
        columns = {
            name: cells(name, table[name], column.hold, problems)
            for name, column in self._columns(dotted=dotted).items()
        }
        return columns, problems

    def arrays(
        self, table: Mapping[str, Sequence[Any]], *, dotted: bool
    ) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """Return the columns as Arrow arrays.

        Args:
            table: See `held`.
            dotted: See `paths`.

        Returns:
            The result of `held`, with arrays.

        Raises:
            ImportError: pyarrow is not installed.
            pyarrow.ArrowInvalid: A value does not have the type of the schema.
        """
        columns, problems = self.held(table, dotted=dotted)
        types = self._columns(dotted=dotted)
        return {n: array(each, types[n]) for n, each in columns.items()}, problems

    def _columns(self, *, dotted: bool) -> dict[str, Column]:
        found = leaves(read_columns(self.schemas), dotted=dotted)
        return {name: column.stored for name, (_, column) in found.items()}


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of a column.

    A vector has no fixed size in this type: before version 26, pyarrow cannot write or
    read a Parquet file with lists of a fixed size of which one is missing.

    Args:
        column: Stored type of the column.

    Raises:
        ImportError: pyarrow is not installed.
    """
    import pyarrow as pa  # noqa: PLC0415 - optional

    if column.kind == "array" and column.items is not None:
        return pa.list_(arrow_type(column.items))
    if column.kind == "object":
        return pa.struct([(name, arrow_type(each)) for name, each in column.fields])
    if column.kind == "vector":
        return pa.list_(pa.float32())
    types = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}
    return types.get(column.kind, pa.string())


def array(values: Sequence[Any], column: Column) -> pa.Array:
    """Return the cells of a column as an Arrow array; NaN is a missing number.

    Args:
        values: Results of `Column.hold`.
        column: Stored type of the column.

    Raises:
        ImportError: pyarrow is not installed.
        pyarrow.ArrowInvalid: A value has another type.
    """
    import pyarrow as pa  # noqa: PLC0415 - optional

    if column.kind not in ("integer", "number", "boolean", "vector"):
        values = [_texts(column, value) for value in values]
    return pa.array(values, arrow_type(column), from_pandas=True)


def valid_text(text: str) -> str:
    """Replace characters that UTF-8 cannot encode by "?"."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _texts(column: Column, value: Any) -> Any:  # noqa: ANN401 - of JSON
    """Convert values of "json" columns to text: keep texts, write others as JSON."""
    if value is None:
        return None
    if column.kind == "array" and column.items is not None and isinstance(value, list):
        return [_texts(column.items, each) for each in value]
    if column.kind == "object" and isinstance(value, dict):
        return {name: _texts(each, value.get(name)) for name, each in column.fields}
    if column.kind == "json" and not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return valid_text(value) if isinstance(value, str) else value
