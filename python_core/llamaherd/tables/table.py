"""Tables: blocks of rows, the types of columns, and files of CSV and JSON lines.

A text file is read to its end before a run begins. A line that cannot be read refuses the
file, so that no row of a damaged table is answered.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

from llamaherd.calls.structured.columns import (
    BOOLEAN,
    INT64,
    INTEGER,
    JSON,
    NUMBER,
    STRING,
    Column,
)
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import separator_in
from llamaherd.engine.core.plain import unique_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

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

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all rows in order, in blocks of at most `size`."""


class FirstRows:
    """The first rows of a table."""

    def __init__(self, table: Table, n: int) -> None:
        self._table = table
        self.columns = table.columns
        self.n_rows = min(n, table.n_rows)
        self.schema = getattr(table, "schema", None)

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield the rows in order, in blocks of at most `size`."""
        for block in self._table.blocks(max(1, min(size, self.n_rows))):
            if (n := self.n_rows - block.start) <= 0:
                return
            arrow = None if block.arrow is None else block.arrow.slice(0, n)
            yield Block(block.start, block.rows[:n], arrow)


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


_MAX_CELL = 64 << 20  # characters; a longer cell means an unclosed quote


class CsvTable:
    """A CSV file."""

    def __init__(
        self, file: Path, encoding: str, delimiter: str, *, has_header: bool = True
    ) -> None:
        self._file = file
        self._encoding = encoding
        self._delimiter = delimiter
        self._has_header = has_header
        self._names = self._header()
        self.columns: dict[str, Column] = dict.fromkeys(self._names, STRING)
        self.n_rows = sum(1 for _ in self._rows())

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all rows in order, in blocks of at most `size`."""
        yield from _blocks(self._rows(), size)

    def _header(self) -> list[str]:
        """Return the names of the columns."""
        line, names = next(self._lines(), (1, []))
        if not names:
            raise unusable(
                "it is empty: a CSV file begins with the names of its columns",
                code="empty",
                line=line,
            )
        if not self._has_header:
            n = len(names)
            return ["text"] if n == 1 else [f"column_{i + 1}" for i in range(n)]
        check_names(names, lambda _: {"line": line, "code": "bad_header"})
        return names

    def _rows(self) -> Iterator[Row]:
        n = len(self._names)
        first = "header" if self._has_header else "first row"
        for line, cells in islice(self._lines(), int(self._has_header), None):
            if len(cells) != n:
                problem = f"the row has {len(cells)} cells, the {first} {n}"
                raise unusable(problem, line=line)
            yield dict(zip(self._names, cells, strict=True))

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the cells of each row that is not blank, and its first line's number."""
        csv.field_size_limit(_MAX_CELL)
        lines = _decode_lines(self._file, self._encoding, newline="")
        first = next(lines, "")
        separator = separator_in(first)
        n_before = 0 if separator is None else 1
        reader = csv.reader(
            lines if n_before else chain([first], lines),
            delimiter=separator or self._delimiter,
            strict=True,
        )
        while True:
            line = reader.line_num + n_before + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error:
                raise unusable(
                    "in the row that begins here, a quote is not closed, or a quote "
                    "within a text is not doubled",
                    line=line,
                ) from None
            if cells:
                yield line, cells


class JsonlTable:
    """A file with one JSON object per line."""

    def __init__(self, file: Path, encoding: str) -> None:
        self._file = file
        self._encoding = encoding
        self.n_rows = 0
        kinds: dict[str, Column | None] = {}
        for row in self._rows():
            self.n_rows += 1
            for name, value in row.items():
                kinds[name] = _common(kinds.get(name), value)
        self.columns: dict[str, Column] = {
            name: kind or STRING for name, kind in kinds.items()
        }

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all rows in order, in blocks of at most `size`."""
        yield from _blocks(self._rows(), size)

    def _rows(self) -> Iterator[Row]:
        lines = _decode_lines(self._file, self._encoding, newline="\n")
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _object(line, number)


def _object(text: str, line: int) -> Row:
    """Return the JSON object in a line."""
    problem = "it is nested too deep"
    try:
        row = _DECODER.decode(text)
        if "\\u" in text:  # the rest is valid, because the line is
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        problem = "it has escapes that are not valid Unicode"
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at character {error.pos + 1}"
    except ValueError as error:
        problem = str(error)[:200]
    except RecursionError:
        pass
    else:
        if isinstance(row, dict):
            return row
        problem = "it is not an object"
    raise unusable(f"this is not a JSON object: {problem}", line=line)


def _decode_lines(file: Path, encoding: str, newline: str) -> Iterator[str]:
    """Yield the lines of a file; a byte order mark is optional."""
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    with file.open(
        encoding="utf-8-sig" if is_utf8 else encoding,
        errors="surrogateescape",
        newline=newline,
    ) as text:
        for number, line in enumerate(text, 1):
            problem = undecodable_byte(line)
            if problem:
                raise unusable(
                    f"not valid {encoding}: {problem}; set the file's encoding "
                    "(--encoding)",
                    code="wrong_encoding",
                    line=number,
                )
            yield line


def undecodable_byte(text: str) -> str:
    """Describe the first undecodable byte of a text; return "" if there is none."""
    if text.isascii():
        return ""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        what = (
            f"byte 0x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else "a surrogate"
        )
        return f"{what} at character {error.start + 1}"
    return ""


def check_names(
    names: Sequence[str], where: Callable[[int], Mapping[str, object]]
) -> None:
    """Check that no two columns have one name; `where` gives the facts of the error."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise unusable(f"it has the column {checks.brief(name)} twice", **where(i))


def unusable(problem: str, **where: Any) -> ArgumentError:
    """Return the error of a file that is not a usable table."""
    return ArgumentError(problem, argument="input", form="{problem}", **where)


def _blocks(rows: Iterator[Row], size: int) -> Iterator[Block]:
    start = 0
    while part := list(islice(rows, size)):
        yield Block(start, part)
        start += len(part)


def _common(kind: Column | None, value: object) -> Column | None:
    """Return the common type of a column and a value; None if unknown."""
    if value is None:
        return kind
    if isinstance(value, str):
        column = STRING
    elif isinstance(value, bool):
        column = BOOLEAN
    elif isinstance(value, float):
        column = NUMBER
    elif isinstance(value, int) and value in INT64:
        column = INTEGER
    else:
        column = JSON
    if kind is None or kind == column:
        return column
    return NUMBER if {kind, column} == {INTEGER, NUMBER} else JSON


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number of JSON")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_constant=_no_constant, parse_float=_finite_float
)
