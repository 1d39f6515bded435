"""Reading and writing of whole tables in memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.coding import frames
from llamaherd.engine.core import files
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.tables.inputs import table_in
from llamaherd.tables.outputs import TextWriter, replacing
from llamaherd.tables.stored import (
    STREAM,
    check_name,
    compressed_to,
    delimiter_of,
    format_of,
    readable,
)
from llamaherd.tables.table import Block

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.tables.table import Table

_BLOCK = 10_000  # rows read at a time


def read_whole(path: str, numbers: Sequence[str] = ()) -> Any:  # noqa: ANN401 - of pyarrow, or a dict
    """Read a table: Parquet as an Arrow table, CSV and JSON lines as a dict of lists."""
    with readable(path) as source:
        if source.format == "parquet":
            import pyarrow.parquet as pq  # noqa: PLC0415 - optional dependency

            return pq.read_table(source.file)
        table = table_in(source, encoding="utf-8", delimiter=delimiter_of(path, None))
        return _columns(table, numbers if source.format == "csv" else None)


def _columns(table: Table, numbers: Sequence[str] | None) -> dict[str, list[Any]]:
    """Return the columns of a table of text; None for `numbers`: values have types."""
    columns: dict[str, list[Any]] = {name: [] for name in table.columns}
    for block in table.blocks(_BLOCK):
        for row in block.rows:
            for name, values in columns.items():
                values.append(row.get(name))
    if numbers is not None:
        for name, values in columns.items():
            is_number = any(_matches(name, number) for number in numbers)
            columns[name] = [
                _cell(name, i, value, is_number) for i, value in enumerate(values)
            ]
    return columns


def write_whole(frame: Any, path: str, *, overwrite: bool) -> None:  # noqa: ANN401 - of any kind
    """Write a table. The file appears at its path only when it is complete."""
    if path == STREAM:
        _write_text(frame, sys.stdout.buffer, ",")
        return
    check_free(path, overwrite=overwrite)
    file, kind = Path(path), format_of(path)
    with replacing(file) as draft:
        if kind == "parquet":
            import pyarrow as pa  # noqa: PLC0415 - optional dependency
            import pyarrow.parquet as pq  # noqa: PLC0415

            table = frame if isinstance(frame, pa.Table) else pa.table(frame)
            pq.write_table(table, draft, compression="zstd")
            return
        delimiter = "" if kind == "jsonl" else delimiter_of(path, None)
        with draft.open("wb") as out, compressed_to(path, out) as stream:
            _write_text(frame, stream, delimiter)


def check_free(path: str, *, overwrite: bool) -> None:
    """Check that an output does not exist yet, or may be replaced."""
    if path != STREAM:
        check_name("out", path)
        files.check_free(Path(path), overwrite=overwrite, argument="out")


def _write_text(frame: Any, stream: Any, delimiter: str) -> None:  # noqa: ANN401
    names = frames.names(frame)
    columns = [frames.column(frame, name, "table") for name in names]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    writer = TextWriter(stream, names, {}, delimiter=delimiter)
    writer.write(Block(0, rows), [])
    writer.close()


def _matches(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern


def _cell(name: str, row: int, value: Any, is_number: bool) -> Any:  # noqa: ANN401
    """Convert a cell of CSV: empty cells to None, cells of number columns to numbers."""
    if value in {"", None}:
        return None
    if not is_number:
        return value
    try:
        return float(value)
    except ValueError:
        raise ArgumentError(
            f"must be a number in column {name!r}, not {value!r}",
            argument="table",
            place=(row,),
        ) from None
