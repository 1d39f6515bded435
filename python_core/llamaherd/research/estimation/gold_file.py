"""Gold samples as CSV files that people code in a spreadsheet, and back."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMANDS = ("=", "+", "-", "@", "\t", "\r")  # what makes a spreadsheet run a cell
_ESCAPED = (*_COMMANDS, "'")
_MAX_CELL = 10**9
DELIMITERS = (",", ";", "\t")  # Excel writes the second one in half of Europe


def written(rows: Sequence[Sequence[str]], bom: bool, delimiter: str = ",") -> bytes:
    """Rows as CSV in UTF-8, all quoted, none of them a command."""
    out = io.StringIO()
    writer = csv.writer(
        out, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\r\n"
    )
    writer.writerows([[escaped(cell) for cell in row] for row in rows])
    return out.getvalue().encode("utf-8-sig" if bom else "utf-8")


def parsed(content: bytes, path: str) -> list[list[str]]:
    """The rows of a CSV, whichever delimiter and Unicode encoding a spreadsheet chose.

    Raises:
        ValueError: It is no text in UTF-8 or UTF-16, or has no header.
    """
    is_wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = content.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not in UTF-8: save it as 'CSV UTF-8' in the spreadsheet"
        ) from error
    first = text.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=first.count)
    csv.field_size_limit(_MAX_CELL)
    try:
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise ValueError(f"{path} is no CSV file: {error}") from error
    rows = [[plain(cell) for cell in line] for line in lines if any(map(str.strip, line))]
    if not rows:
        raise ValueError(f"{path} is empty")
    return rows


def escaped(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula; `plain` undoes it.

    An apostrophe comes before what would be one, and before an apostrophe that would
    otherwise be taken for that.
    """
    if cell.startswith(_COMMANDS) or (cell[:1] == "'" and cell[1:].startswith(_ESCAPED)):
        return "'" + cell
    return cell


def plain(cell: str) -> str:
    """What `escaped` made a cell of."""
    if cell[:1] == "'" and cell[1:].startswith(_ESCAPED):
        return cell[1:]
    return cell


def same_text(one: str, other: str) -> bool:
    """Whether texts are equal but for what spreadsheets change: ends of lines, space."""
    return _lines(one) == _lines(other)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()
