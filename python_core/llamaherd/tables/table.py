"""Tables: blocks of rows, and the types of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from llamaherd.structured.columns import Column

METADATA_KEY = b"llamaherd"  # key of llamaherd's record in Parquet metadata


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Attributes:
        values: Values by column. In JSON lines, a row has only the keys of its own
            object.
        problem: Reason why the row cannot be used; "" if it is valid.
    """

    values: Mapping[str, object]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of a table.

    Attributes:
        start: Position of the first row in the table, from 0.
        rows: The rows.
        arrow: The same rows as an Arrow table, with unchanged types; None for a text
            file.
    """

    start: int
    rows: Sequence[Row]
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
