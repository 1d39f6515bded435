"""Reading and writing gold samples as CSV files for coding in a spreadsheet."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from llamaherd.core.errors import ArgumentError
from llamaherd.core.separator_line import separator_in

if TYPE_CHECKING:
    from collections.abc import Sequence

_COMMANDS = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
)  # characters that make a spreadsheet execute a cell
_ESCAPED = (*_COMMANDS, "'")
_MAX_CELL = 10**9
# suffix of a coder's name: the coder's column of notes from the coding page
NOTE = " note"
DELIMITERS = (",", ";", "\t")  # Excel writes ";" in many European locales


def written(
    rows: Sequence[Sequence[str]],
    bom: bool,
    delimiter: str = ",",
    *,
    spreadsheet: bool = False,
) -> bytes:
    """Return rows as UTF-8 CSV; all cells are quoted.

    Args:
        rows: Cells by row.
        bom: Whether to write a byte order mark.
        delimiter: Delimiter of cells.
        spreadsheet: Whether to escape cells, see `escaped`.
    """
    out = io.StringIO()
    writer = csv.writer(
        out, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\r\n"
    )
    writer.writerows([map(escaped, row) for row in rows] if spreadsheet else rows)
    return out.getvalue().encode("utf-8-sig" if bom else "utf-8")


def parsed(content: bytes, path: str) -> list[list[str]]:
    """Parse the rows of a CSV with any delimiter and Unicode encoding.

    Raises:
        ValueError: The content is not UTF-8 or UTF-16 text, or has no header.
    """
    is_wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = content.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unusable(
            f"{path} is not in UTF-8: save it as 'CSV UTF-8' in the spreadsheet",
            "not_unicode",
        ) from error
    first, _, rest = text.partition("\n")
    separator = separator_in(first)
    n_before = 0 if separator is None else 1  # lines before the header
    if separator is not None:
        text = rest
    delimiter = separator or max(DELIMITERS, key=first.count)
    csv.field_size_limit(_MAX_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        lines = list(reader)
    except csv.Error as error:
        line = n_before + reader.line_num
        raise _unusable(
            f"{path}, line {line} is not CSV: {error}", "no_csv", line
        ) from error
    rows = [line for line in lines if any(map(str.strip, line))]
    if not rows:
        raise _unusable(f"{path} is empty", "no_csv")
    return rows


def _unusable(problem: str, code: str, line: int | None = None) -> ArgumentError:
    """Return the error of a file that is not a coding sheet; lines count from 1."""
    place = () if line is None else (line - 1,)
    return ArgumentError(
        problem, argument="path", place=place, code=code, form="{problem}"
    )


def without_notes(columns: Sequence[str]) -> list[str]:
    """Return the columns without the columns of notes that the coding page adds."""
    notes = {f"{name}{NOTE}" for name in columns}
    return [name for name in columns if name not in notes]


def escaped(cell: str) -> str:
    """Escape a cell so that no spreadsheet executes it; `unescaped` undoes it.

    An apostrophe is put before a cell that starts like a formula, and before a cell that
    starts with an apostrophe that `unescaped` would otherwise remove.
    """
    if cell.startswith(_COMMANDS) or (cell[:1] == "'" and cell[1:].startswith(_ESCAPED)):
        return "'" + cell
    return cell


def unescaped(cell: str) -> str:
    """Remove the escape that `escaped` added."""
    if cell[:1] == "'" and cell[1:].startswith(_ESCAPED):
        return cell[1:]
    return cell


def same_text(one: str, other: str) -> bool:
    """Return True if texts differ at most in line ends, whitespace and doubled quotes.

    Spreadsheets change line ends and whitespace. Some readers of CSV, such as R's
    `data.table::fread()`, keep the doubled quotes of quoted cells.
    """
    return _lines(one) == _lines(other)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace('""', '"').strip()
