"""Reading of completed coding sheets."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.coding import frames
from llamaherd.coding.annotation.label_sets import none_of
from llamaherd.coding.codes import check_names, form_of, text_of
from llamaherd.coding.gold import forms
from llamaherd.coding.gold.forms import CodeReader, listed_ids, summary_of_problems
from llamaherd.coding.gold.joins import note
from llamaherd.coding.gold.sample import GoldSample, sidecar
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import one_warning, warn_caller
from llamaherd.engine.core.errors import ArgumentError, BadArgumentError
from llamaherd.engine.core.files import content_of, text_of_file
from llamaherd.engine.core.words import name_of, words

if TYPE_CHECKING:
    from pathlib import Path

    from llamaherd.coding.frames import Input

_ROUNDED = 1e-6  # tolerance for probabilities that spreadsheets rounded


@one_warning()
def read_gold(
    path: Any,  # of one file, of several, or a data frame of any kind
    sample: GoldSample | None = None,
    *,
    coders: Sequence[str] | None = None,
) -> GoldSample:
    """Read completed coding sheets.

    Upper and lower case are not distinguished in labels and in the column names `id` and
    `text`; whitespace in labels is ignored. An empty cell, "NA" or "N/A" means no code
    yet. With several labels per text, a cell lists all labels that apply, in any order,
    separated by semicolons, or "none" ("(none)" if a label has that name).

    Args:
        path: A file written by `GoldSample.write` and then completed, in part or in full;
            or several files, one for each coder. Code columns with the same name in
            several files are renamed to the files' names. A dict of files by coder names
            the coders. Or a data frame with the same columns.
        sample: The sample that was written; None to read it from the file `path`.json.
        coders: Names of the code columns. None uses all columns that `GoldSample.write`
            does not create itself, except columns of notes (in which no cell is a label)
            and, in a data frame, the column of the model's labels.

    Returns:
        The sample with the codes.

    Raises:
        ValueError: The file has another format; ids, texts or inclusion probabilities
            differ from the sample; or a code is not a label. The message names column,
            row and id of the first five problems, and the number of all problems.
        OSError: A file cannot be read.

    Warns:
        UserWarning: A column was read as notes, no text has a code, texts of the sample
            are in none of the files, or codes of a data frame are empty texts, although
            "none" means that none of several labels applies.
    """
    if isinstance(path, Mapping) and path and all(map(_is_path, path.values())):
        return read_files(path.values(), list(path), sample, coders)
    if isinstance(path, Mapping) or hasattr(path, "columns"):
        if sample is None:
            raise ArgumentError(
                f"must be given: codes in a {words().frame} need it", argument="sample"
            )
        return _with_sheets(sample, [_of_frame(path, sample, coders)])
    paths = checks.paths("path", path)
    return read_files(paths, [""] * len(paths), sample, coders)


def read_files(
    paths: Iterable[Any],
    names: Sequence[str],
    sample: GoldSample | None,
    coders: Sequence[str] | None,
) -> GoldSample:
    """Read completed coding sheets from files."""
    files = [checks.path("path", path) for path in paths]
    check_names(names, "path")
    lines = [forms.rows_of_csv(content_of("path", path), str(path)) for path in files]
    if sample is None:
        sample = _of_sidecar(files[0])
    sheets = [
        _Sheet(str(path), path.stem, rows, sample, coders, first_row=2)
        for path, rows in zip(files, lines, strict=True)
    ]
    for sheet, name in zip(sheets, names, strict=True):
        sheet.rename(name)
    return _with_sheets(sample, sheets)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, os.PathLike))


def _with_sheets(sample: GoldSample, sheets: Sequence[_Sheet]) -> GoldSample:
    problems = [problem for sheet in sheets for problem in sheet.problems]
    if problems:
        raise ArgumentError(
            summary_of_problems([problem.text for problem in problems]),
            argument="path",
            place=problems[0].place,
            code="unknown_codes",
            form="{problem}",
        )
    for sheet in sheets:
        for column in sheet.notes:
            warn_caller(note("column_of_notes", column=column, sheet=sheet.name))
    columns = [codes for sheet in sheets for codes in sheet.codes.values()]
    if not any(code is not None for codes in columns for code in codes):
        warn_caller(note("no_codes", sheets=[sheet.name for sheet in sheets]))
    _warn_of_missing(sample, {i for sheet in sheets for i in sheet.rows})
    names = [name for sheet in sheets for name in sheet.codes]
    known = dict(zip(sample.coders, sample.codes, strict=True))
    for sheet in sheets:
        is_one = len(sheet.codes) == 1
        named = {
            name
            if names.count(name) == 1
            else sheet.stem + ("" if is_one else f".{name}"): values
            for name, values in sheet.codes.items()
        }
        for name, values in named.items():
            for i, code in enumerate(known.get(name, ())):
                if i not in sheet.rows:  # a sheet of another wave
                    values[i] = code
        sample = sample.with_codes(named)
    return sample


def _of_frame(frame: Input, sample: GoldSample, coders: Sequence[str] | None) -> _Sheet:
    """Return a data frame's columns as a sheet, without the model's labels."""
    model = sample.design.get("label")
    names = [
        name for name in frames.names(frame) if name != model or name in (coders or ())
    ]
    columns = [frames.column(frame, name, "path") for name in names]
    cells = [[text_of(cell) or "" for cell in row] for row in zip(*columns, strict=True)]
    lines = [names, *cells]
    sheet = _Sheet(f"the {words().frame}", "", lines, sample, coders, first_row=1)
    if sample.several:
        coded = [columns[names.index(name)] for name in sheet.codes]
        n = sum(isinstance(cell, str) and not cell for cells in coded for cell in cells)
        if n > 0:
            warn_caller(note("empty_texts", n=n, word=none_of(sample.names)))
    return sheet


def _of_sidecar(path: Path) -> GoldSample:
    beside = sidecar(path)
    if not beside.exists():
        raise ArgumentError(
            f"must be given: there is no {beside} with the inclusion "
            "probabilities next to the file",
            argument="sample",
            code="conflict",
        )
    text = text_of_file("path", beside)
    try:
        return GoldSample.from_json(text)
    except BadArgumentError as error:
        raise error.moved(argument="path", file=str(beside)) from error


def _warn_of_missing(sample: GoldSample, present: Collection[int]) -> None:
    """Warn if texts of the sample have no row; `present` lists the texts with a row."""
    coded = sample.gold
    missing = [i for i in range(len(sample)) if i not in present and coded[i] is None]
    if not missing:
        return
    ids = listed_ids(sample.ids, missing)
    warn_caller(note("missing_rows", n=len(missing), n_drawn=len(sample), ids=ids))


class _Problem(NamedTuple):
    """A problem found in a sheet."""

    text: str  # Message about the problem
    # Index of the row; if the problem concerns one cell, the row and the column
    place: tuple[int | str, ...]


class _Sheet:
    """Completed coding sheet; `stem` names a coder whose name another sheet has."""

    def __init__(
        self,
        name: str,
        stem: str,
        lines: Sequence[Sequence[str]],
        sample: GoldSample,
        coders: Sequence[str] | None,
        *,
        first_row: int,
    ) -> None:
        self.name, self.stem = name, stem
        self.rows: dict[int, int] = {}  # by text of the sample, its row in the file
        self.problems: list[_Problem] = []
        self._first_row = first_row
        self._sample = sample
        self._reader = CodeReader(sample.names, several=sample.several)
        lines = _without_empty_ends(name, lines, first_row)
        header = _header(lines[0])
        columns = [
            column for column in header if column and column not in sample.own_columns
        ]
        check_names(header, "path", name)
        if "id" not in header or not columns:
            raise ArgumentError(
                f"{name} must have a column id and one for each coder; "
                f"it has {', '.join(map(checks.quoted, header))}",
                argument="path",
                code="unknown_columns",
                form="{problem}",
            )
        rows = {
            number: dict(zip(header, line, strict=True))
            for number, line in enumerate(lines[1:], start=first_row)
            if any(map(str.strip, line))  # programs append blank rows
        }
        cells = {column: [row[column] for row in rows.values()] for column in columns}
        self.notes: list[str] = []  # columns without codes
        if coders is None:
            columns = forms.without_notes(columns)
            begun = [column for column in columns if any(map(str.strip, cells[column]))]
            columns = begun or columns
            notes = [name for name in columns if self._reader.are_notes(cells[name])]
            self.notes = notes if len(notes) < len(columns) else []
        chosen = _choose_columns(name, coders or columns, columns)
        self.codes: dict[str, list[str | None]] = {
            coder: [None] * len(sample) for coder in chosen if coder not in self.notes
        }
        places = _places([row["id"].strip() for row in rows.values()], sample.ids)
        for (number, row), i in zip(rows.items(), places, strict=True):
            self._read_row(number, row, i)

    def rename(self, coder: str) -> None:
        """Give the sheet's codes the name of their coder, unless it is ""."""
        if coder:
            is_one = len(self.codes) == 1
            self.codes = {
                coder if is_one else f"{coder}.{column}": codes
                for column, codes in self.codes.items()
            }

    def _read_row(self, number: int, cells: Mapping[str, str], i: int | None) -> None:
        """Read the codes of text i in one row, and the row's problems."""
        where, at = f"{self.name}, row {number}", number - self._first_row
        if i is None:
            quoted = checks.quoted(cells["id"].strip())
            problem = f"{where}: id {quoted} is not in the sample"
            self.problems.append(_Problem(problem, (at, "id")))
            return
        where = f"{where} (id {self._sample.ids[i]})"
        if i in self.rows:
            problem = f"{where}: that id is in row {self.rows[i]}, too"
            self.problems.append(_Problem(problem, (at, "id")))
            return
        self.rows[i] = number
        changed = _changed_cells(cells, self._sample, i)
        self.problems += [_Problem(f"{where}: {what}", (at,)) for what in changed]
        for coder, codes in self.codes.items():
            codes[i], problem = self._reader.read(cells[coder])
            if problem:
                text = f"{where}, column {coder}: {problem}"
                self.problems.append(_Problem(text, (at, coder)))


def _places(cells: Sequence[str], ids: Sequence[str]) -> list[int | None]:
    """Return the index of the text of each id; None for an unknown id.

    Spreadsheets write 25 for 025 or 25.0, and may show the escape of a cell.
    """
    at = {identifier.strip(): i for i, identifier in enumerate(ids)}
    numbers = {identifier: _number(identifier) for identifier in at}
    n_alike = Counter(numbers.values())
    by_number = {
        number: at[identifier]
        for identifier, number in numbers.items()
        if math.isfinite(number) and n_alike[number] == 1
    }
    places = [at.get(cell, by_number.get(_number(cell))) for cell in cells]
    if None not in places:
        return places
    return [
        at.get(forms.unescape_cell(cell), i)
        for cell, i in zip(cells, places, strict=True)
    ]


def _without_empty_ends(
    sheet: str, lines: Sequence[Sequence[str]], first_row: int
) -> list[Sequence[str]]:
    """Remove the nameless empty columns that spreadsheets append."""
    n = len(lines[0])
    while n and not any("".join(line[n - 1 : n]).strip() for line in lines):
        n -= 1
    for number, line in enumerate(lines[1:], start=first_row):
        if any(map(str.strip, line[len(lines[0]) :])):
            raise ArgumentError(
                f"{sheet}, row {number} has {len(line)} cells, but there are "
                f"{len(lines[0])} columns: put a cell that contains the delimiter in "
                "quotes",
                argument="path",
                place=(number - first_row,),
                code="wrong_length",
                form="{problem}",
            )
    return [[*line[:n], *[""] * (n - len(line))] for line in lines]


def _header(cells: Sequence[str]) -> list[str]:
    """Return column names, with variant spellings of known names normalized."""
    names = [forms.unescape_cell(cell.strip()) for cell in cells]
    known = {name: name.casefold() for name in names if name.casefold() in ("id", "text")}
    return [name if known.get(name) in names else known.get(name, name) for name in names]


def _choose_columns(
    sheet: str, coders: Sequence[str], columns: Sequence[str]
) -> list[str]:
    for i, name in enumerate(coders):
        if name not in columns:
            raise ArgumentError(
                f"{name_of('coders')}: {sheet} has no column {checks.brief(name)} for "
                f"codes{checks.meant(name, columns)}",
                argument="coders",
                place=(i,),
                code="unknown_column",
                form="{problem}",
            )
    return list(coders)


def _changed_cells(cells: Mapping[str, str], sample: GoldSample, i: int) -> list[str]:
    """Return messages about cells of a text that differ from the sample."""
    problems = []
    text, label, prob = sample.texts[i], sample.labels[i], float(sample.probs[i])
    readings = {name: (cell, forms.unescape_cell(cell)) for name, cell in cells.items()}
    if text is not None and not any(
        forms.same_text(reading, text) for reading in readings.get("text", (text,))
    ):
        problems.append("text is not the one that was drawn: sort whole rows only")
    # Files of older versions have an empty cell if no label applies.
    label_forms = {form_of(label or ""), form_of(sample.word_of(label) or "")}
    label_readings = readings.get("model_label", (label or "",))
    if label_forms.isdisjoint(map(form_of, label_readings)):
        problems.append("model_label is not the one that the model gave")
    cell = cells.get("inclusion_prob", str(prob))
    if not math.isclose(_number(cell), prob, rel_tol=_ROUNDED):
        problems.append(
            f"inclusion_prob must be {prob!r}, with which the text was drawn, not "
            f"{checks.quoted(cell)}"
        )
    return problems


def _number(cell: str) -> float:
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return math.nan
