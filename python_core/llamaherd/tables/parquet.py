"""Reading and writing of Parquet with unchanged types; needs pyarrow (optional)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.calls.structured.columns import BOOLEAN, INTEGER, JSON, NUMBER, STRING
from llamaherd.calls.structured.schema_columns import array, arrow_type
from llamaherd.engine.core import checks, phrases
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.plain import clock_text
from llamaherd.tables.table import METADATA_KEY, Block, Row

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

    from llamaherd.calls.structured.columns import Column


class ParquetTable:
    """A Parquet file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            with pq.ParquetFile(file) as parquet:
                self.n_rows = int(parquet.metadata.num_rows)
                self.schema = parquet.schema_arrow.remove_metadata()
        except pa.ArrowException as error:
            problem = f"it is not a Parquet file: {_short(error)}"
            raise _unusable(problem, code="no_parquet") from None
        names = self.schema.names
        for i, name in enumerate(names):
            if name in names[:i]:
                problem = f"it has the column {checks.shown(name)} twice"
                raise _unusable(problem, place=(i,), code="duplicate")
        self.columns: dict[str, Column] = {
            field.name: _column(field.type) for field in self.schema
        }

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all rows in order, in blocks of at most `size`."""
        start = 0
        try:
            with pq.ParquetFile(self._file) as parquet:
                for batch in parquet.iter_batches(batch_size=size):
                    if batch.num_rows:
                        yield Block(start, self._rows(batch), batch)
                    start += batch.num_rows
        except pa.ArrowException as error:
            problem = f"the input is damaged after row {start}: {_short(error)}"
            raise _unusable(problem, place=(start,), code="damaged") from None

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
            schema = pa.schema([(n, arrow_type(each)) for n, each in columns.items()])
        self._columns = columns
        self._new = new
        fields = [pa.field(n, arrow_type(each)) for n, each in new.items()]
        self._schema = pa.schema([*schema, *fields], {METADATA_KEY: metadata.encode()})
        self._writer = pq.ParquetWriter(file, self._schema, compression="zstd")

    def write(self, block: Block, new: Sequence[Sequence[object]]) -> None:
        """Write rows."""
        if block.arrow is not None:
            arrays = list(block.arrow.columns)
        else:
            arrays = [
                array([row.values.get(name) for row in block.rows], column)
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


def _unusable(problem: str, *, code: str, place: tuple[int, ...] = ()) -> ArgumentError:
    """Return the error of a file that is not a usable table."""
    return ArgumentError(
        problem, argument="input", place=place, code=code, form="{problem}"
    )


def _column(kind: pa.DataType) -> Column:
    """Return the type of a column for text files, from its type in Arrow."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return STRING
    if pa.types.is_boolean(kind):
        return BOOLEAN
    if pa.types.is_integer(kind):
        return INTEGER
    return NUMBER if pa.types.is_floating(kind) else JSON


def _values(name: str, column: pa.Array, problems: list[str]) -> list[object]:
    """Return a column as Python values; invalid text is recorded as the row's problem."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type) or pa.types.is_time(column.type):
        texts = column.cast(pa.string()).to_pylist()  # Python has no nanoseconds
        return [None if each is None else clock_text(each) for each in texts]
    if pa.types.is_duration(column.type):
        return list(column.to_numpy(zero_copy_only=False))
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
