"""Tables in text files: CSV and JSON lines."""

from __future__ import annotations

import codecs
import json
import math
from itertools import islice
from typing import TYPE_CHECKING, Any

from llamaherd.calls.structured.columns import (
    BOOLEAN,
    INT64,
    INTEGER,
    JSON,
    NUMBER,
    STRING,
)
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.plain import DuplicateKeyError, unique_keys
from llamaherd.tables.csv_rows import CsvRow, csv_rows
from llamaherd.tables.table import Block, Row

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llamaherd.calls.structured.columns import Column

_MAX_COLUMNS = 10_000
_MAX_TOLD = 200  # characters


_ENCODING_HINT = "; set the file's encoding (--encoding)"


class CsvTable:
    """A CSV file. A decoding error makes only its own row invalid."""

    def __init__(
        self, file: Path, encoding: str, delimiter: str, *, has_header: bool = True
    ) -> None:
        self._file = file
        self._encoding = encoding
        self._delimiter = delimiter
        self._has_header = has_header
        self._header = self._read_header()
        self.columns: dict[str, Column] = dict.fromkeys(self._header, STRING)
        self.n_rows = sum(1 for _ in self._lines())

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all rows in order, in blocks of at most `size`."""
        yield from _blocks(map(self._row, self._lines()), size)

    def _row(self, row: CsvRow) -> Row:
        cells, line, problem = row
        n = len(self._header)
        if len(cells) != n:
            left = _cut(self._delimiter.join(cells[n:]))
            over = f"; beyond them: {left}" if len(cells) > n else ""
            first = "header" if self._has_header else "first row"
            problem = (
                problem
                or f"line {line}: the row has {len(cells)} cells, the {first} {n}{over}"
            )
            cells = [*cells[:n], *[""] * (n - len(cells))]
        for name, cell in zip(self._header, cells, strict=True):
            found = undecoded(cell)
            if found:
                where = f"line {line}: column {name!r} is not valid {self._encoding}"
                problem = problem or f"{where}: {found}{_ENCODING_HINT}"
                cells = [_readable(each) for each in cells]
                break
        return Row(dict(zip(self._header, cells, strict=True)), problem)

    def _read_header(self) -> list[str]:
        first = next(self._all(), None)
        if first is None:
            raise _unusable(
                "it is empty: a CSV file begins with the names of its columns",
                code="empty",
                line=1,
            )
        header = first.cells
        if not self._has_header:
            n = len(header)
            header = ["text"] if n == 1 else [f"column_{i + 1}" for i in range(n)]
            first = first._replace(problem="")
        problem = ""
        if first.problem:
            problem = "the names of its columns cannot be read: a quote is not doubled"
        if len(header) > _MAX_COLUMNS:
            problem = f"it has {len(header)} columns, more than {_MAX_COLUMNS}"
        for i, name in enumerate(header):
            if name in header[:i]:
                problem = problem or f"it has the column {checks.shown(name)} twice"
            if undecoded(name):
                what = f"the names of its columns are not valid {self._encoding}"
                problem = problem or f"{what}: {undecoded(name)}"
        if problem:
            raise _unusable(problem, code="bad_header", line=first.line)
        return header

    def _lines(self) -> Iterator[CsvRow]:
        return islice(self._all(), int(self._has_header), None)

    def _all(self) -> Iterator[CsvRow]:
        with self._file.open(
            encoding=_tolerant(self._encoding), errors="surrogateescape", newline=""
        ) as text:
            yield from csv_rows(text, self._delimiter)


class JsonlTable:
    """A file with one JSON object per line. Any other line is an invalid row."""

    def __init__(self, file: Path, encoding: str) -> None:
        self._file = file
        self._encoding = encoding
        self.n_rows = 0
        kinds: dict[str, Column | None] = {}
        for row in self._rows():
            self.n_rows += 1
            for name, value in row.values.items():
                kinds[name] = _common(kinds.get(name), value)
            if len(kinds) > _MAX_COLUMNS:
                problem = f"its objects have more than {_MAX_COLUMNS} keys"
                raise _unusable(problem, code="too_many")
        if self.n_rows and not kinds:
            raise _unusable("no line of it has a JSON object", code="no_json")
        self.columns: dict[str, Column] = {
            name: kind or STRING for name, kind in kinds.items()
        }

    def blocks(self, size: int) -> Iterator[Block]:
        """Yield all rows in order, in blocks of at most `size`."""
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
            problem = f"{where} is not valid {self._encoding}: {problem}{_ENCODING_HINT}"
            line = _readable(line)
        try:
            found = _decoder.decode(line)
        except DuplicateKeyError as error:
            return Row({}, f"{problem or f'{where}: {error}'}: {_cut(line)}")
        except (ValueError, RecursionError) as error:
            reason = _reason(error)
            problem = problem or f"{where} is not valid JSON ({reason})"
            return Row({}, f"{problem}: {_cut(line)}")
        if not isinstance(found, dict):
            return Row({}, f"{where} is not a JSON object: {_cut(line)}")
        if not _is_unicode(found):
            problem = problem or f"{where} has escapes that are not valid Unicode"
            found = _replaced(found)
        return Row(found, problem)


def _unusable(problem: str, *, code: str, line: int | None = None) -> ArgumentError:
    """Return the error of a file that is not a usable table."""
    return ArgumentError(
        problem, argument="input", code=code, form="{problem}", line=line
    )


def _reason(error: Exception) -> str:
    """Return an error's message without the parser's line number."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos + 1}"
    is_deep = isinstance(error, RecursionError)
    return "it is nested too deep" if is_deep else str(error)[:200]


def _cut(text: str) -> str:
    """Shorten the text of a row for a message."""
    text = _readable(text.strip("\r\n"))
    return text if len(text) <= _MAX_TOLD else f"{text[:_MAX_TOLD]}..."


def undecoded(text: str) -> str:
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


def _tolerant(encoding: str) -> str:
    """Return the variant of an encoding that accepts an optional byte order mark."""
    return "utf-8-sig" if codecs.lookup(encoding).name == "utf-8" else encoding


def _blocks(rows: Iterator[Row], size: int) -> Iterator[Block]:
    start = 0
    while part := list(islice(rows, size)):
        yield Block(start, part)
        start += len(part)


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _common(kind: Column | None, value: object) -> Column | None:
    """Return the common type of a column and a value; None if unknown."""
    if value is None:
        return kind
    if isinstance(value, str):
        own = STRING
    elif isinstance(value, bool):
        own = BOOLEAN
    elif isinstance(value, float):
        own = NUMBER
    elif isinstance(value, int) and value in INT64:
        own = INTEGER
    else:
        own = JSON
    if kind is None or kind == own:
        return own
    return NUMBER if {kind, own} == {INTEGER, NUMBER} else JSON


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number of JSON")


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


_decoder = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_constant=_no_constant, parse_float=_finite_float
)


def _is_unicode(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (UnicodeEncodeError, ValueError):
        return False
    return True


def _replaced(value: dict[str, Any]) -> dict[str, Any]:
    """Return the row with lone surrogates replaced."""
    text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
    found: dict[str, Any] = json.loads(text)
    return found
