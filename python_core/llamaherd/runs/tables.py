"""What a table is: rows in blocks, and what its columns hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

METADATA_KEY = b"llamaherd"  # of Parquet: what the table is of
Kind = Literal["string", "int64", "double", "bool", "json", "vector"]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table.

    Attributes:
        values: By column; of JSON lines without those that it does not have.
        problem: Why nothing can be asked of it; "" if it is well.
    """

    values: Mapping[str, object]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows that follow on each other.

    Attributes:
        start: Place of the first one in the table, from 0.
        rows: They are.
        arrow: The same as Arrow has them, which keeps all types; None: of a text file.
    """

    start: int
    rows: Sequence[Row]
    arrow: pa.RecordBatch | None = None


class Table(Protocol):
    """A table that was looked through."""

    @property
    def columns(self) -> Mapping[str, Kind]:
        """Names of the columns, and what they hold."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in order, up to so many at a time."""
        ...
