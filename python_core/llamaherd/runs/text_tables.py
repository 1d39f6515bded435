"""Tables in text files: CSV and JSON lines."""

from __future__ import annotations

import codecs
import json
import math
from itertools import islice
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.runs.csv_rows import CsvRow, csv_rows
from llamaherd.runs.tables import Block, Row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llamaherd.runs.tables import Kind

_MAX_COLUMNS = 10_000
_MAX_TOLD = 200  # characters
_INT64 = range(-(2**63), 2**63)


class CsvTable:
    """A CSV file with a header. What its bytes say wrongly is told of the row.

    Args:
        file: It.
        encoding: Of its text.
        delimiter: Between cells.

    Raises:
        ValueError: It has no header, a column twice, or quotes so wrong that it cannot
            be told where rows end.
        OSError: It cannot be read.
    """

    def __init__(self, file: Path, encoding: str, delimiter: str) -> None:
        self._file = file
        self._encoding = encoding
        self._delimiter = delimiter
        self._header = self._read_header()
        self.columns: dict[str, Kind] = dict.fromkeys(self._header, "string")
        self.n_rows = sum(1 for _ in self._lines())

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in order, up to so many at a time."""
        yield from _blocks(map(self._row, self._lines()), size)

    def _row(self, row: CsvRow) -> Row:
        cells, line, problem = row
        n = len(self._header)
        if len(cells) != n:
            left = _cut(self._delimiter.join(cells[n:]))
            over = f"; beyond them: {left}" if len(cells) > n else ""
            problem = (
                problem
                or f"line {line}: the row has {len(cells)} cells, the header {n}{over}"
            )
            cells = [*cells[:n], *[""] * (n - len(cells))]
        for name, cell in zip(self._header, cells, strict=True):
            found = undecoded(cell)
            if found:
                where = f"line {line}: column {name!r} is not valid {self._encoding}"
                problem = problem or f"{where}: {found}"
                cells = [_readable(each) for each in cells]
                break
        return Row(dict(zip(self._header, cells, strict=True)), problem)

    def _read_header(self) -> list[str]:
        first = next(self._all(), None)
        if first is None:
            raise ValueError(
                "it is empty: a CSV file begins with the names of its columns"
            )
        header = first.cells
        if first.problem:
            raise ValueError(f"the names of its columns cannot be read: {first.problem}")
        if len(header) > _MAX_COLUMNS:
            raise ValueError(f"it has {len(header)} columns, more than {_MAX_COLUMNS}")
        for i, name in enumerate(header):
            if name in header[:i]:
                raise ValueError(f"it has the column {checks.shown(name)} twice")
            if undecoded(name):
                raise ValueError(
                    f"the names of its columns are not valid {self._encoding}: "
                    f"{undecoded(name)}"
                )
        return header

    def _lines(self) -> Iterator[CsvRow]:
        return islice(self._all(), 1, None)

    def _all(self) -> Iterator[CsvRow]:
        with self._file.open(
            encoding=_tolerant(self._encoding), errors="surrogateescape", newline=""
        ) as text:
            yield from csv_rows(text, self._delimiter)


class JsonlTable:
    """A file with a JSON object in each line; a line that has none is a bad row.

    Args:
        file: It.
        encoding: Of its text.

    Raises:
        ValueError: No line has an object.
        OSError: It cannot be read.
    """

    def __init__(self, file: Path, encoding: str) -> None:
        self._file = file
        self._encoding = encoding
        self.n_rows = 0
        kinds: dict[str, Kind | None] = {}
        for row in self._rows():
            self.n_rows += 1
            for name, value in row.values.items():
                kinds[name] = _common(kinds.get(name), value)
            if len(kinds) > _MAX_COLUMNS:
                raise ValueError(f"its objects have more than {_MAX_COLUMNS} keys")
        if self.n_rows and not kinds:
            raise ValueError("no line of it has a JSON object")
        self.columns: dict[str, Kind] = {
            name: kind or "string" for name, kind in kinds.items()
        }

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in order, up to so many at a time."""
        yield from _blocks(self._rows(), size)

    def _rows(self) -> Iterator[Row]:
        with self._file.open(
            encoding=_tolerant(self._encoding), errors="surrogateescape", newline="\n"
        ) as text:
            for number, line in enumerate(text, 1):
                if line.strip():
                    yield self._row(line, f"line {number}")

    def _row(self, line: str, where: str) -> Row:
        problem = undecoded(line)
        if problem:
            problem = f"{where} is not valid {self._encoding}: {problem}"
            line = _readable(line)
        try:
            found = json.loads(
                line, parse_constant=_no_constant, parse_float=_finite_float
            )
        except (ValueError, RecursionError) as error:
            reason = _reason(error)
            problem = problem or f"{where} is no JSON ({reason})"
            return Row({}, f"{problem}: {_cut(line)}")
        if not isinstance(found, dict):
            return Row({}, f"{where} is no JSON object: {_cut(line)}")
        if not _is_unicode(found):
            problem = problem or f"{where} has escapes that are not valid Unicode"
            found = _replaced(found)
        return Row(found, problem)


def _reason(error: Exception) -> str:
    """What is wrong with a line; the parser knows of no other lines."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    is_deep = isinstance(error, RecursionError)
    return "it is nested too deep" if is_deep else str(error)[:200]


def _cut(text: str) -> str:
    """As much of what a row cannot hold as a message does."""
    text = _readable(text.strip("\r\n"))
    return text if len(text) <= _MAX_TOLD else f"{text[:_MAX_TOLD]}..."


def undecoded(text: str) -> str:
    """Which byte of a text could not be decoded; "": all could."""
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


def _tolerant(encoding: str) -> str:
    """The encoding that takes a byte order mark, or none."""
    return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding


def _blocks(rows: Iterator[Row], size: int) -> Iterator[Block]:
    start = 0
    while part := list(islice(rows, size)):
        yield Block(start, part)
        start += len(part)


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _common(kind: Kind | None, value: object) -> Kind | None:
    """What a column holds that held `kind` so far; None: nothing is known yet."""
    own: Kind
    if value is None:
        return kind
    if isinstance(value, str):
        own = "string"
    elif isinstance(value, bool):
        own = "bool"
    elif isinstance(value, float):
        own = "double"
    elif isinstance(value, int) and value in _INT64:
        own = "int64"
    else:
        own = "json"
    if kind is None or kind == own:
        return own
    return "double" if {kind, own} == {"int64", "double"} else "json"


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is no number of JSON")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _is_unicode(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, ValueError):
        return False
    return True


def _replaced(value: dict[str, Any]) -> dict[str, Any]:
    """The same without lone surrogates."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    found: dict[str, Any] = json.loads(text)
    return found
