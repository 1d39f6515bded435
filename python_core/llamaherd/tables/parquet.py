"""Reading and writing of Parquet with unchanged types; needs pyarrow (optional)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from llamaherd.calls.structured.columns import (
    BOOLEAN,
    INTEGER,
    JSON,
    NUMBER,
    STRING,
    Column,
    array,
    arrow_type,
)
from llamaherd.engine.core import phrases
from llamaherd.engine.core.plain import clock_text
from llamaherd.tables.table import METADATA_KEY, Block, check_names, unusable

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as error:
    raise ImportError(
        f"Parquet needs pyarrow: {phrases.install_command('parquet')}; CSV and JSON "
        "lines need no package"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from llamaherd.tables.table import Row


_PANDAS = b"pandas"  # key of pandas' description in Parquet metadata


class ParquetTable:
    """A Parquet file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            with pq.ParquetFile(file) as parquet:
                self.n_rows = int(parquet.metadata.num_rows)
                self.schema = _with_pandas_only(parquet.schema_arrow)
        except pa.ArrowException as error:
            problem = f"it is not a Parquet file: {_short(error)}"
            raise unusable(problem, code="no_parquet") from None
        names = self.schema.names
        check_names(names, lambda i: {"place": (i,), "code": "duplicate"})
        self.columns: dict[str, Column] = {
            field.name: _column(field.type) for field in self.schema
        }
        self._check_texts()

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all rows in order, in blocks of at most `size`."""
        start = 0
        try:
            with pq.ParquetFile(self._file) as parquet:
                for batch in parquet.iter_batches(batch_size=size):
                    if batch.num_rows:
                        yield Block(start, _rows(batch), batch)
                    start += batch.num_rows
        except pa.ArrowException as error:
            problem = f"the input is damaged after row {start}: {_short(error)}"
            raise unusable(problem, place=(start,), code="damaged") from None

    def _check_texts(self) -> None:
        """Check that texts are UTF-8, which files of other programs may break."""
        names = [name for name, column in self.columns.items() if column == STRING]
        start = 0
        with pq.ParquetFile(self._file) as parquet:
            for batch in parquet.iter_batches(columns=names):
                for name, column in zip(names, batch.columns, strict=True):
                    try:
                        column.validate(full=True)
                    except pa.ArrowInvalid:
                        row = start + _first_damaged(column)
                        raise unusable(
                            f"row {row + 1}: column {name!r} is not valid UTF-8",
                            place=(row,),
                            code="wrong_encoding",
                        ) from None
                start += batch.num_rows


class ParquetWriter:
    """Writes a table to a Parquet file, which is complete after `close`."""

    def __init__(
        self,
        file: Path,
        columns: Mapping[str, Column],
        new: Mapping[str, Column],
        *,
        schema: pa.Schema | None = None,
        metadata: str = "",
    ) -> None:
        if schema is None:
            schema = pa.schema([(n, arrow_type(column)) for n, column in columns.items()])
        self._columns = columns
        self._new = new
        fields = [pa.field(n, arrow_type(column)) for n, column in new.items()]
        about = {**(schema.metadata or {}), METADATA_KEY: metadata.encode()}
        self._schema = pa.schema([*schema, *fields], about)
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, block: Block, new: Sequence[Sequence[object]]) -> None:
        """Write rows."""
        if block.arrow is not None:
            arrays = list(block.arrow.columns)
        else:
            arrays = [
                array([row.get(name) for row in block.rows], column)
                for name, column in self._columns.items()
            ]
        arrays += [
            array(values, column)
            for values, column in zip(new, self._new.values(), strict=True)
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


def _with_pandas_only(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose only metadata is pandas' description of index and types.

    Beside it pandas reads new columns only if the names of columns are texts.
    """
    bare = schema.remove_metadata()
    about = (schema.metadata or {}).get(_PANDAS, b"")
    try:
        (level,) = json.loads(about)["column_indexes"]
        is_text = level["pandas_type"] in ("unicode", "string")
    except (TypeError, ValueError, KeyError, RecursionError):
        return bare
    return bare.with_metadata({_PANDAS: about}) if is_text else bare


def _column(kind: pa.DataType) -> Column:
    """Return the type of a column for text files, from its type in Arrow."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return STRING
    if pa.types.is_boolean(kind):
        return BOOLEAN
    if pa.types.is_integer(kind):
        return INTEGER
    return NUMBER if pa.types.is_floating(kind) else JSON


def _first_damaged(texts: pa.Array) -> int:
    """Return the index of the first text that is not UTF-8."""
    for i, raw in enumerate(texts.cast(pa.large_binary()).to_pylist()):
        if raw is not None and raw.decode("utf-8", "replace").encode() != raw:
            return i
    return 0


def _rows(batch: pa.RecordBatch) -> list[Row]:
    names = batch.schema.names
    columns = [_values(column) for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.Array) -> list[object]:
    """Return a column as Python values."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type) or pa.types.is_time(column.type):
        texts = column.cast(pa.string()).to_pylist()  # Python has no nanoseconds
        return [None if text is None else clock_text(text) for text in texts]
    if pa.types.is_duration(column.type):
        return list(column.to_numpy(zero_copy_only=False))
    return list(column.to_pylist())


def _short(error: Exception) -> str:
    return str(error).splitlines()[0][:200]
