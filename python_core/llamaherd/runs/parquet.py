"""Parquet in and out: types stay what they are. Needs pyarrow, an extra."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks, installing
from llamaherd.runs.columns import cleaned
from llamaherd.runs.tables import METADATA_KEY, Block, Row

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise ImportError(
        f"Parquet needs pyarrow: {installing.command('parquet')}; CSV and JSON lines "
        "need nothing"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from llamaherd.runs.tables import Kind


class ParquetTable:
    """A Parquet file.

    Args:
        file: It.

    Raises:
        ValueError: It is none, or has a column twice.
        OSError: It cannot be read.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            with pq.ParquetFile(file) as parquet:
                self.n_rows = int(parquet.metadata.num_rows)
                self.schema = parquet.schema_arrow.remove_metadata()
        except pa.ArrowException as error:
            raise ValueError(f"it is no Parquet file: {_short(error)}") from None
        names = self.schema.names
        for i, name in enumerate(names):
            if name in names[:i]:
                raise ValueError(f"it has the column {checks.shown(name)} twice")
        self.columns: dict[str, Kind] = {
            field.name: _kind(field.type) for field in self.schema
        }

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in order, up to so many at a time."""
        start = 0
        try:
            with pq.ParquetFile(self._file) as parquet:
                for batch in parquet.iter_batches(batch_size=size):
                    if batch.num_rows:
                        yield Block(start, self._rows(batch), batch)
                    start += batch.num_rows
        except pa.ArrowException as error:
            raise ValueError(
                f"the input is damaged after row {start}: {_short(error)}"
            ) from None

    def _rows(self, batch: pa.RecordBatch) -> list[Row]:
        problems = [""] * batch.num_rows
        columns = [
            _values(name, batch.column(i), problems)
            for i, name in enumerate(self.schema.names)
        ]
        names = self.schema.names
        return [
            Row(dict(zip(names, values, strict=True)), problem)
            for *values, problem in zip(*columns, problems, strict=True)
        ]


class ParquetWriter:
    """Writes a table to a Parquet file, which is whole when it is closed.

    Args:
        file: Where to.
        columns: Of the input.
        schema: Arrow's types of these; None: of a text file.
        new: The columns that are added.
        n_embd: Numbers of a vector.
        metadata: Goes into the schema's.
    """

    def __init__(
        self,
        file: Path,
        columns: Mapping[str, Kind],
        new: Mapping[str, Kind],
        *,
        schema: pa.Schema | None = None,
        n_embd: int = 0,
        metadata: str = "",
    ) -> None:
        if schema is None:
            schema = pa.schema([(name, _type(kind, 0)) for name, kind in columns.items()])
        self._columns = columns
        self._new = new
        fields = [pa.field(name, _type(kind, n_embd)) for name, kind in new.items()]
        self._schema = pa.schema([*schema, *fields], {METADATA_KEY: metadata.encode()})
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, block: Block, new: Sequence[Sequence[object]]) -> None:
        """Adds rows.

        Args:
            block: Of the input.
            new: For each new column the values.
        """
        if block.arrow is not None:
            arrays = list(block.arrow.columns)
        else:
            arrays = [
                _array(
                    [row.values.get(name) for row in block.rows], kind, self._schema, i
                )
                for i, (name, kind) in enumerate(self._columns.items())
            ]
        n = len(self._columns)
        arrays += [
            _array(values, kind, self._schema, n + j)
            for j, (values, kind) in enumerate(zip(new, self._new.values(), strict=True))
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))

    def close(self) -> None:
        """Ends the file."""
        self._writer.close()


def _type(kind: Kind, n_embd: int) -> pa.DataType:
    types = {"int64": pa.int64(), "double": pa.float64(), "bool": pa.bool_()}
    if kind == "vector":
        return pa.list_(pa.float32(), n_embd) if n_embd else pa.list_(pa.float32())
    return types.get(kind, pa.string())


def _array(values: Sequence[Any], kind: Kind, schema: pa.Schema, i: int) -> pa.Array:
    if kind == "json":
        values = [
            v if v is None or isinstance(v, str) else json.dumps(v, ensure_ascii=False)
            for v in values
        ]
    if kind in ("json", "string"):
        values = [None if v is None else cleaned(v) for v in values]
    return pa.array(values, type=schema.field(i).type)


def _kind(kind: pa.DataType) -> Kind:
    """What a column is written as in text files."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "string"
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_integer(kind):
        return "int64"
    return "double" if pa.types.is_floating(kind) else "json"


def _values(name: str, column: pa.Array, problems: list[str]) -> list[object]:
    """A column as Python has it; what is no text in it is a problem of its row."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type) or pa.types.is_duration(column.type):
        column = column.cast(pa.string())
    try:
        values: list[object] = column.to_pylist()
    except UnicodeDecodeError:
        raw = column.cast(pa.large_binary()).to_pylist()
        values = []
        for i, each in enumerate(raw):
            text = None if each is None else each.decode("utf-8", "replace")
            if each is not None and text is not None and text.encode() != each:
                problems[i] = problems[i] or f"column {name!r} is not valid UTF-8"
            values.append(text)
    return values


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
