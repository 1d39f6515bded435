"""Reading what people coded."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.research import frames
from llamaherd.research.codes import form_of, text_of
from llamaherd.research.estimation import gold_file
from llamaherd.research.estimation.gold_codes import CodeReader, ids_told, told
from llamaherd.research.estimation.gold_drawn import (
    OURS,
    GoldSample,
    sidecar,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_ROUNDED = 1e-6  # spreadsheets keep fewer digits of a probability


def read_gold(
    path: Any,  # noqa: ANN401 - of one file, of several, or a data frame of any kind
    sample: GoldSample | None = None,
    *,
    coders: Sequence[str] | None = None,
) -> GoldSample:
    """Reads what people coded.

    Case and space around and within a label do not matter, nor does the case of the
    columns `id` and `text`. A cell that is empty, or has NA or N/A in it, is no code yet.
    Of several labels a cell has all that apply in any order, with semicolons between
    them, or "none" ("(none)" where a label is called so).

    Args:
        path: A CSV that `GoldSample.write` made and people filled in, in part or in full;
            or several of them, of a coder each. Columns of codes that have the same name
            in several files get the files' names. Or a data frame with the same columns.
        sample: The sample that was written; None: from the sidecar `path`.json.
        coders: Names of the columns with codes; None: all that `GoldSample.write` does
            not make, but for those in which nothing is a label, beside others: notes. Of
            a data frame the model's labels are no coder's either.

    Returns:
        The sample with the codes.

    Raises:
        ValueError: It is no such file; ids, texts or inclusion probabilities are not the
            sample's; codes are none of its labels. The message names column, row and id
            of the first five, and how many there are.
        OSError: It cannot be read.

    Warns:
        UserWarning: A column was taken for notes; or texts of the sample are in no file.
    """
    if isinstance(path, Mapping) or hasattr(path, "columns"):
        if sample is None:
            raise ValueError("sample must be given: codes in a data frame need it")
        return _with_sheets(sample, [_of_frame(path, sample, coders)])
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not paths:
        raise ValueError("path must name a file")
    if sample is None:
        sample = _of_sidecar(paths[0])
    return _with_sheets(sample, [_of_file(Path(each), sample, coders) for each in paths])


def _with_sheets(sample: GoldSample, sheets: Sequence[_Sheet]) -> GoldSample:
    problems = [problem for sheet in sheets for problem in sheet.problems]
    if problems:
        raise ValueError(told(problems))
    for sheet in sheets:
        for column in sheet.notes:
            warnings.warn(
                f"{sheet.name}: the column {column!r} was taken for notes and left out: "
                "nothing in it is a label",
                UserWarning,
                stacklevel=3,
            )
    _warn_of_missing(sample, {i for sheet in sheets for i in sheet.rows})
    columns = [name for sheet in sheets for name in sheet.codes]
    for sheet in sheets:
        is_one = len(sheet.codes) == 1
        sample = sample.with_codes(
            {
                name
                if columns.count(name) == 1
                else sheet.stem + ("" if is_one else f".{name}"): values
                for name, values in sheet.codes.items()
            }
        )
    return sample


def _of_file(path: Path, sample: GoldSample, coders: Sequence[str] | None) -> _Sheet:
    lines = gold_file.parsed(path.read_bytes(), str(path))
    return _Sheet(str(path), path.stem, lines, sample, coders, first_row=2)


def _of_frame(frame: Any, sample: GoldSample, coders: Sequence[str] | None) -> _Sheet:  # noqa: ANN401 - of any kind
    """Its columns as those of a file, but for the one of the labels that were drawn from.

    Cells may come from the file by a reader that does not know of its apostrophes.
    """
    asked, model = coders or (), sample.design.get("label")
    kept = [name for name in frames.names(frame) if name != model or name in asked]
    columns = [frames.column(frame, name, "path") for name in kept]
    cells = [
        [gold_file.plain(text_of(cell) or "") for cell in row]
        for row in zip(*columns, strict=True)
    ]
    lines = [kept, *cells]
    return _Sheet("the data frame", "", lines, sample, coders, first_row=1)


def _of_sidecar(path: str | os.PathLike[str]) -> GoldSample:
    beside = sidecar(path)
    if not Path(path).exists():
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r} in {Path.cwd()}")
    try:
        return GoldSample.from_json(beside.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(
            f"sample must be given: there is no {beside} with the inclusion "
            "probabilities beside the file"
        ) from error


def _warn_of_missing(sample: GoldSample, there: Collection[int]) -> None:
    """Warns of texts of a sample that have no row in what was read: all but `there`."""
    missing = [i for i in range(len(sample)) if i not in there]
    if not missing:
        return
    warnings.warn(
        f"{len(missing)} of {len(sample)} texts of the gold sample have no row in what "
        f"was read (ids {ids_told(sample.ids, missing)}), and so no code. If rows were "
        "deleted for what is in them, the inclusion probabilities are not right any "
        "more: leave a code empty instead",
        UserWarning,
        stacklevel=4,
    )


class _Sheet:
    """What people wrote into a file, or a data frame.

    Args:
        name: What messages call it.
        stem: What stands for its coder, if another sheet has a column of that name.
        lines: Its cells, the names of columns first.
        sample: That it was written of.
        coders: See `read_gold`.
        first_row: Number of the row below the names.

    Attributes:
        name: See above.
        stem: See above.
        codes: By coder, in the order of the sample.
        rows: For each text of the sample that it has the row in the file, from 1.
        problems: What is wrong with it.
        notes: Columns that are none of a coder.
    """

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
        self.rows: dict[int, int] = {}
        self.problems: list[str] = []
        self._sample = sample
        self._reader = CodeReader(sample.names, several=sample.several)
        self._places = {each.strip(): i for i, each in enumerate(sample.ids)}
        self._numbers = _by_number(self._places)
        lines = _without_empty_ends(name, lines, first_row)
        header = _header(lines[0])
        given = [column for column in header if column and column not in OURS]
        if "id" not in header or not given or len(set(header)) < len(header):
            raise ValueError(
                f"{name} must have a column id and one for each coder, all of different "
                f"names; it has {', '.join(map(checks.quoted, header))}"
            )
        cells = [dict(zip(header, line, strict=False)) for line in lines[1:]]
        if coders is None:
            given = _begun(given, cells)
        self.notes = self._notes(given, cells) if coders is None else []
        chosen = _chosen(name, coders or given, given)
        self.codes: dict[str, list[str | None]] = {
            coder: [None] * len(sample) for coder in chosen if coder not in self.notes
        }
        for number, row in enumerate(cells, start=first_row):
            self._read(number, row)

    def _notes(
        self, given: Sequence[str], cells: Sequence[Mapping[str, str]]
    ) -> list[str]:
        """Columns in which nothing is a label; none where that is so of all."""
        found = [
            name
            for name in given
            if self._reader.are_notes([row.get(name, "") for row in cells])
        ]
        return found if len(found) < len(given) else []

    def _read(self, number: int, cells: Mapping[str, str]) -> None:
        """Reads a row."""
        identifier = cells.get("id", "").strip()
        where = f"{self.name}, row {number}"
        i = self._places.get(identifier, self._numbers.get(_number(identifier)))
        if i is None:
            quoted = checks.quoted(identifier)
            self.problems.append(f"{where}: id {quoted} is none of the sample's")
            return
        where = f"{where} (id {self._sample.ids[i]})"
        if i in self.rows:
            self.problems.append(f"{where}: that id is in row {self.rows[i]}, too")
            return
        self.rows[i] = number
        changed = _changed(cells, self._sample, i)
        self.problems += [f"{where}: {what}" for what in changed]
        for coder, codes in self.codes.items():
            codes[i], problem = self._reader.read(cells.get(coder, ""))
            if problem:
                self.problems.append(f"{where}, column {coder}: {problem}")


def _without_empty_ends(
    sheet: str, lines: Sequence[Sequence[str]], first_row: int
) -> list[Sequence[str]]:
    """Rows without the nameless empty columns that spreadsheets leave behind the others.

    Raises:
        ValueError: A row has more cells than there are columns.
    """
    n = len(lines[0])
    while n and not any("".join(line[n - 1 : n]).strip() for line in lines):
        n -= 1
    for number, line in enumerate(lines[1:], start=first_row):
        if any(map(str.strip, line[len(lines[0]) :])):
            raise ValueError(
                f"{sheet}, row {number} has {len(line)} cells, and there are "
                f"{len(lines[0])} columns: a cell that has the delimiter in it must be "
                "in quotes"
            )
    return [line[:n] for line in lines]


def _begun(given: Sequence[str], cells: Sequence[Mapping[str, str]]) -> list[str]:
    """Columns in which there is something; all of them if nothing is anywhere."""
    found = [name for name in given if any(row.get(name, "").strip() for row in cells)]
    return found or list(given)


def _by_number(places: Mapping[str, int]) -> dict[float, int]:
    """Places of ids that are numbers, which spreadsheets write as 25 for 025 or 25.0."""
    found: dict[float, list[int]] = {}
    for identifier, i in places.items():
        if math.isfinite(number := _number(identifier)):
            found.setdefault(number, []).append(i)
    return {number: own[0] for number, own in found.items() if len(own) == 1}


def _header(cells: Sequence[str]) -> list[str]:
    """Names of columns; of those that people write otherwise the ones that we know."""
    names = [cell.strip() for cell in cells]
    known = {name: name.casefold() for name in names if name.casefold() in ("id", "text")}
    return [name if known.get(name) in names else known.get(name, name) for name in names]


def _chosen(sheet: str, coders: Sequence[str], given: Sequence[str]) -> list[str]:
    for name in coders:
        if name not in given:
            raise ValueError(
                f"coders: {sheet} has no column {checks.shown(name)} for codes"
                f"{checks.meant(name, given)}"
            )
    return list(coders)


def _changed(cells: Mapping[str, str], sample: GoldSample, i: int) -> list[str]:
    """What is not as it was written, of a text's row."""
    found = []
    text, prob = sample.texts[i], float(sample.probs[i])
    if text is not None and not _same_text(cells.get("text", text), text):
        found.append("text is not the one that was drawn: sort whole rows only")
    if "model_label" in cells and form_of(cells["model_label"]) != form_of(
        sample.labels[i] or ""
    ):
        found.append("model_label is not the one that the model gave")
    if "inclusion_prob" in cells and not math.isclose(
        _number(cells["inclusion_prob"]), prob, rel_tol=_ROUNDED
    ):
        found.append(
            f"inclusion_prob must be {prob!r}, with which the text was drawn, not "
            f"{checks.quoted(cells['inclusion_prob'])}"
        )
    return found


def _same_text(cell: str, text: str) -> bool:
    return any(gold_file.same_text(cell, each) for each in (text, gold_file.plain(text)))


def _number(cell: str) -> float:
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return math.nan
