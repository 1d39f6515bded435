"""Rows of CSV, and which of them have quotes that are wrong.

A quote that is not doubled within a quoted text spoils its row alone, if all of it is in
one line. Where it is not clear in which line the row ends, nobody could tell apart the
rows that follow, and the file is refused.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MAX_CELL = 64 << 20  # characters; what is longer is a quote that nobody closed
_QUOTED = re.compile(r'"[^"]*(?:""[^"]*)*"')


class CsvRow(NamedTuple):
    """A row that is not blank.

    Attributes:
        cells: Of it.
        line: Number of its first line in the file, from 1.
        problem: Why the cells are not to be trusted; "" if they are.
    """

    cells: list[str]
    line: int
    problem: str


def csv_rows(text: Iterable[str], delimiter: str) -> Iterator[CsvRow]:
    """Rows that are not blank.

    Args:
        text: Lines with their ends.
        delimiter: Between cells.

    Raises:
        ValueError: Quotes are so wrong that it cannot be told where rows end.
    """
    csv.field_size_limit(_MAX_CELL)
    lines = _Lines(text)
    strict = csv.reader(lines, delimiter=delimiter, strict=True)
    lenient = csv.reader(lines, delimiter=delimiter)
    doubtful = 0  # the line of a wrong quote, until a later one is where it belongs
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
                raise ValueError(
                    f"a quote is wrong in line {doubtful}, and line {lines.start} may "
                    "belong to the same row: double the quotes within a text"
                )
            doubtful = 0
        if problem:
            doubtful = lines.start
        if cells:
            yield CsvRow(cells, lines.start, problem)


class _Lines:
    """Lines for readers of CSV.

    Attributes:
        row: Lines of the row that is being read.
        start: Number of the first of them, from 1.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._before: list[str] = []
        self.row: list[str] = []
        self.start = 1

    def begin(self) -> None:
        """What comes now is a new row's."""
        self.start += len(self.row)
        self.row = []

    def again(self) -> None:
        """The row's line comes once more."""
        self._before, self.row = self.row, []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._before.pop() if self._before else next(self._lines)
        self.row.append(line)
        return line


def _of_one_line(lines: _Lines, lenient: Iterator[list[str]]) -> list[str] | None:
    """The cells of a row with a wrong quote; None: it may not end in its line."""
    if len(lines.row) > 1:
        return None
    lines.again()
    try:
        cells = next(lenient)
    except csv.Error:  # a cell that is too long
        return None
    return cells if len(lines.row) == 1 else None


def _first_quote_opens(row: list[str], delimiter: str) -> bool:
    """Whether the first quote of a row begins a cell.

    If not, the row may lie in a quoted text that began before it, and that be its end.
    """
    text = "".join(row)
    place = text.index('"')
    return place == 0 or text[place - 1] == delimiter


def _refusal(lines: _Lines, delimiter: str) -> ValueError:
    before = "".join(lines.row)[: _wrong_quote("".join(lines.row), delimiter)]
    line, n = lines.start, 0
    for each in lines.row:
        n += len(each)
        if n > len(before):
            break
        line += 1
    return ValueError(
        f"the quote that opens in line {line} is not closed, or another one within its "
        "text is not doubled: nobody could tell which rows follow"
    )


def _wrong_quote(row: str, delimiter: str) -> int:
    """Where the quoted cell begins that does not end as it should."""
    place = 0
    while True:
        end = place
        if row.startswith('"', place):
            match = _QUOTED.match(row, place)
            if match is None or row[match.end() : match.end() + 1] not in {
                delimiter,
                "\r",
                "\n",
                "",
            }:
                return place
            end = match.end()
        found = row.find(delimiter, end)
        if found < 0:
            return place
        place = found + 1
