"""Rows of CSV, and detection of rows with misplaced quotation marks.

A quotation mark inside a quoted cell must be doubled. A mark that is not doubled makes
only its own row invalid, if that row is certain to end on the same line. If the end of
the row is ambiguous, the rows after it cannot be separated, and the file is refused.
"""

from __future__ import annotations

import csv
import re
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import separator_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MAX_CELL = 64 << 20  # characters; a longer cell means an unclosed quote
_QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"')


class CsvRow(NamedTuple):
    """A row that is not blank."""

    cells: list[str]  # cells of the row
    line: int  # number of the row's first line in the file, from 1
    problem: str  # reason why the cells are unreliable; "" if they are valid


def csv_rows(text: Iterable[str], delimiter: str) -> Iterator[CsvRow]:
    """Yield the rows that are not blank."""
    csv.field_size_limit(_MAX_CELL)
    every = iter(text)
    first = next(every, "")
    separator = separator_in(first)
    if separator is None:
        lines = _Lines(chain((first,) if first else (), every))
    else:
        lines, delimiter = _Lines(every, start=2), separator
    strict = csv.reader(lines, delimiter=delimiter, strict=True)
    lenient = csv.reader(lines, delimiter=delimiter)
    doubtful = 0  # line of a misplaced quote; reset when a later quote is valid
    while True:
        lines.begin()
        problem = ""
        try:
            cells = next(strict)
        except StopIteration:
            return
        except csv.Error:
            found = _of_one_line(lines, lenient)
            if found is None:
                raise _refusal(lines, delimiter) from None
            cells = found
            problem = f"line {lines.start}: a quote in a text is not doubled or closed"
        if doubtful and '"' in "".join(lines.row):
            if not _first_quote_opens(lines.row, delimiter):
                raise ArgumentError(
                    f"a quote is wrong here, and line {lines.start} may belong to the "
                    "same row: double the quotes within a text",
                    argument="input",
                    form="{problem}",
                    line=doubtful,
                )
            doubtful = 0
        if problem:
            doubtful = lines.start
        if cells:
            yield CsvRow(cells, lines.start, problem)


class _Lines:
    """Iterator of lines for CSV readers."""

    def __init__(self, lines: Iterable[str], start: int = 1) -> None:
        self._lines = iter(lines)
        self._before: list[str] = []
        self.row: list[str] = []  # lines of the current row
        self.start = start  # number of its first line, from 1

    def begin(self) -> None:
        """Begin a new row."""
        self.start += len(self.row)
        self.row = []

    def again(self) -> None:
        """Return to the start of the row, so that its line is yielded a second time."""
        self._before, self.row = self.row, []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._before.pop() if self._before else next(self._lines)
        self.row.append(line)
        return line


def _of_one_line(lines: _Lines, lenient: Iterator[list[str]]) -> list[str] | None:
    """Return the cells of a row with a misplaced quote; None if it may span lines."""
    if len(lines.row) > 1:
        return None
    lines.again()
    try:
        cells = next(lenient)
    except csv.Error:  # a cell is too long
        return None
    return cells if len(lines.row) == 1 else None


def _first_quote_opens(row: list[str], delimiter: str) -> bool:
    """Check whether the first quote of a row begins a cell.

    A quotation mark that begins no cell may close a quoted cell that began in an earlier
    row.
    """
    text = "".join(row)
    quote_at = text.index('"')
    return quote_at == 0 or text[quote_at - 1] == delimiter


def _refusal(lines: _Lines, delimiter: str) -> ArgumentError:
    before = "".join(lines.row)[: _wrong_quote("".join(lines.row), delimiter)]
    line, n = lines.start, 0
    for each in lines.row:
        n += len(each)
        if n > len(before):
            break
        line += 1
    return ArgumentError(
        "the quote that opens here is not closed, or a quote within its text is not "
        "doubled: the rows after it cannot be separated",
        argument="input",
        form="{problem}",
        line=line,
    )


def _wrong_quote(row: str, delimiter: str) -> int:
    """Return the position of the first quoted cell that does not end properly."""
    start = 0
    while True:
        end = start
        if row.startswith('"', start):
            match = _QUOTED.match(row, start)
            if match is None or row[match.end() : match.end() + 1] not in {
                delimiter,
                "\r",
                "\n",
                "",
            }:
                return start
            end = match.end()
        found = row.find(delimiter, end)
        if found < 0:
            return start
        start = found + 1
