"""Tables: blocks of rows, and the types of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from llamaherd.calls.structured.columns import Column

    # Values of a row by column. In JSON lines, a row has only the keys of its own object.
    Row = Mapping[str, object]
    # Cells of a row's new columns; the last cell is the reason for a failure.
    Values = list[object]

_FIRST_ROWS = 32  # rows of the first block of a stream
METADATA_KEY = b"llamaherd"  # key of llamaherd's record in Parquet metadata


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of a table."""

    start: int  # position of the first row in the table, from 0
    rows: Sequence[Row]  # the rows
    # The same rows as an Arrow table, with unchanged types; None for a text file.
    arrow: pa.RecordBatch | None = None


class Table(Protocol):
    """Protocol of a table whose columns and number of rows are known."""

    @property
    def columns(self) -> Mapping[str, Column]:
        """Return the types of the columns by name."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all rows in order, in blocks of at most `size`."""
        ...


class FirstRows:
    """The first rows of a table."""

    def __init__(self, table: Table, n: int) -> None:
        self._table = table
        self.columns = table.columns
        self.n_rows = min(n, table.n_rows)
        self.schema = getattr(table, "schema", None)

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield the rows in order, in blocks of at most `size`."""
        if self.n_rows == 0:
            return
        for block in self._table.blocks(min(size, self.n_rows)):
            n = self.n_rows - block.start
            if n < len(block.rows):
                arrow = None if block.arrow is None else block.arrow.slice(0, n)
                block = Block(block.start, block.rows[:n], arrow)  # noqa: PLW2901
            yield block
            if n <= len(block.rows):
                return


def growing(table: Table, most: int) -> Iterator[Block]:
    """Yield the rows in blocks that grow from a few rows to at most `most`."""
    rows: list[Row] = []
    start, step = 0, min(_FIRST_ROWS, most)
    size = step
    for block in table.blocks(step):
        rows += block.rows
        if len(rows) + step > size:
            yield Block(start, rows)
            start, rows, size = start + len(rows), [], min(2 * size, most)
    if rows:
        yield Block(start, rows)
