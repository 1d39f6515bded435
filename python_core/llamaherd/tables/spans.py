"""Conversion of a table of coded texts to a long table with one row per passage."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.calls.structured.columns import INTEGER, STRING
from llamaherd.coding.annotation.spans import COLUMNS, spans_of_cell
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.tables.inputs import opened
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.stored import STREAM, compressed_to, delimiter_of, format_of
from llamaherd.tables.table import Block, Row
from llamaherd.tables.writing import TextWriter, checked_output, replacing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import IO

    from llamaherd.calls.structured.columns import Column

_BLOCK = 4096  # rows in memory
_KINDS: dict[str, Column] = {"label": STRING, "quote": STRING} | dict.fromkeys(
    ("start", "end"), INTEGER
)
ROW = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanFile:
    """Converts a table of coded texts to a long table of passages.

    Attributes:
        source: Path of the table with a column of passages; "-" for stdin.
        output: Path of the long table, .csv, .tsv or .jsonl; "-" for CSV on stdout.
        column: Name of the column of passages.
        id: Column that identifies texts; None for the row number, from 0.
    """

    source: str
    output: str = STREAM
    column: str = "spans"
    id: str | None = None

    def write(self) -> int:
        """Write the long table and return its number of rows.

        Raises:
            ValueError: A column does not exist, or a cell does not contain passages.
        """
        spec = RunSpec(input=self.source, output=self.output, column=self.column)
        if format_of(self.output) == "parquet":
            raise ArgumentError(
                f"must end in .csv, .tsv or .jsonl, not {checks.shown(self.output)}",
                argument="output",
            )
        n = 0
        with opened(spec) as source:
            self._check_columns(source.table.columns)
            with _stream(spec) as stream:
                is_json = format_of(self.output) == "jsonl"
                writer = TextWriter(
                    stream,
                    (),
                    {self.id or ROW: STRING, **_KINDS},
                    delimiter="" if is_json else delimiter_of(self.output, None),
                )
                for block in source.table.blocks(_BLOCK):
                    n += self._write(writer, block)
                writer.close()
        return n

    def _write(self, writer: TextWriter, block: Block) -> int:
        rows: list[tuple[object, ...]] = []
        for i, row in enumerate(block.rows, block.start):
            try:
                spans = spans_of_cell(row.values.get(self.column))
            except ArgumentError as error:
                raise error.moved(argument=f"row {i}, column {self.column}") from None
            name = i if self.id is None else row.values.get(self.id)
            rows += [(name, *(span[each] for each in COLUMNS)) for span in spans]
        new = [[row[j] for row in rows] for j in range(1 + len(COLUMNS))]
        writer.write(Block(start=0, rows=[Row({})] * len(rows)), new)
        return len(rows)

    def _check_columns(self, known: Mapping[str, Column]) -> None:
        for argument, name in (("column", self.column), ("id", self.id)):
            if name is not None and name not in known:
                raise ArgumentError(
                    f"there is no column {name!r}{checks.meant(name, list(known))}",
                    argument=argument,
                    code="unknown_argument",
                    form="{problem}",
                )
        if self.id in COLUMNS:
            raise ArgumentError(
                f"must not be {self.id!r}, which is a column of passages", argument="id"
            )


@contextmanager
def _stream(spec: RunSpec) -> Iterator[IO[bytes]]:
    if spec.output == STREAM:
        yield sys.stdout.buffer
        return
    with (
        replacing(checked_output(spec)) as draft,
        draft.open("wb") as file,
        compressed_to(spec.output, file) as stream,
    ):
        yield stream
