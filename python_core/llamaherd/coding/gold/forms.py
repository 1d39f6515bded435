"""Codes as coders type them: single cells, lists and tables of them, and CSV files."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.label_sets import (
    BETWEEN,
    in_order,
    is_none,
    joined_labels,
    labels_in,
    none_of,
    words_for_none,
)
from llamaherd.coding.codes import check_coders, form_of, is_nothing, read_sets, text_of
from llamaherd.coding.gold import waves
from llamaherd.coding.gold.waves import Wave
from llamaherd.coding.statistics.dsl import Outside
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.files import not_utf8, separator_in
from llamaherd.engine.core.phrases import with_commas
from llamaherd.engine.core.plain import DAMAGED

if TYPE_CHECKING:
    from llamaherd.coding.frames import Input
    from llamaherd.engine.core.arrays import Floats, Ints

# characters that make a spreadsheet execute a cell
_COMMANDS = ("=", "+", "-", "@", "\t", "\r")
_ESCAPED = (*_COMMANDS, "'")
_MAX_CELL = 10**9
_REMEDY = "save it as UTF-8, in a spreadsheet as 'CSV UTF-8'"
# suffix of a coder's name: the coder's column of notes from the coding page
NOTE = " note"
DELIMITERS = (",", ";", "\t")  # Excel writes ";" in many European locales


def csv_bytes(
    rows: Sequence[Sequence[str]],
    bom: bool,
    delimiter: str = ",",
    spreadsheet: bool = False,
) -> bytes:
    """Return rows as UTF-8 CSV; all cells are quoted."""
    out = io.StringIO()
    writer = csv.writer(
        out, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\r\n"
    )
    writer.writerows([map(escape_cell, row) for row in rows] if spreadsheet else rows)
    return out.getvalue().encode("utf-8-sig" if bom else "utf-8")


def rows_of_csv(content: bytes, path: str) -> list[list[str]]:
    """Parse the rows of a CSV with any delimiter and Unicode encoding."""
    is_wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = content.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unusable(f"{path} is {not_utf8(error, _REMEDY)}", "not_unicode") from error
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


def escape_cell(cell: str) -> str:
    """Escape a cell so that no spreadsheet executes it; `unescape_cell` undoes it.

    An apostrophe is put before a cell that starts like a formula, and before a cell that
    starts with an apostrophe that `unescape_cell` would otherwise remove.
    """
    if cell.startswith(_COMMANDS) or (cell[:1] == "'" and cell[1:].startswith(_ESCAPED)):
        return "'" + cell
    return cell


def unescape_cell(cell: str) -> str:
    """Remove the escape that `escape_cell` added."""
    if cell[:1] == "'" and cell[1:].startswith(_ESCAPED):
        return cell[1:]
    return cell


def same_text(one: str, other: str) -> bool:
    """Return True if texts differ at most in what a CSV file may change."""
    return stored_text(one) == stored_text(other)


def stored_text(text: str | None) -> str:
    """Return a text without the differences that a CSV file may make.

    Spreadsheets change line ends, R's `readr::read_csv()` removes whitespace at the ends,
    pandas reads blank texts as missing, R's `data.table::fread()` keeps doubled quotes.
    """
    return (
        (text or "").replace("\r\n", "\n").replace("\r", "\n").replace('""', '"').strip()
    )


_MAX_LISTED = 5


def sets_of(
    columns: Sequence[Sequence[Any]],
    names: Sequence[str],
    coders: Sequence[str],
    allowed: Sequence[Any],
) -> list[list[tuple[str, ...] | None]]:
    """Read labels, and codes of coders, that may be several; in the order of `names`.

    The codes are checked by their single labels.
    """
    sets = read_sets(columns, names, BETWEEN, words_for_none(names), argument="gold")
    labels, *people = [
        [label for label_set in column for label in label_set or ()] for column in sets
    ]
    check_coders(labels, people, coders, [*names, *allowed])
    return [
        [
            None if label_set is None else in_order(map(str, label_set), names)
            for label_set in column
        ]
        for column in sets
    ]


class CodeReader:
    """Reader of codes that ignores case and whitespace; without names all are valid.

    Several labels are separated by semicolons, or by commas if no label has a comma; they
    are returned joined, in the order of `names`.
    """

    def __init__(self, names: Sequence[str], *, several: bool = False) -> None:
        self.names = names
        self.several = several
        has_comma = any("," in name for name in names) or not names
        self._between = re.compile(BETWEEN if has_comma else f"[{BETWEEN},]")
        self._exact = frozenset(names)
        n_alike = Counter(map(form_of, names))  # "A" and "a" may be different labels
        self._by_form = {form_of(n): n for n in names if n_alike[form_of(n)] == 1}

    def read(self, cell: str) -> tuple[str | None, str]:
        """Return the label in a cell, or None; and the problem of the cell, or ""."""
        if not self.several:
            return self._read_one(cell)
        if is_none(cell, self.names):
            return "", ""
        readings = [self._read_one(part) for part in self._between.split(cell)]
        problem = next((problem for _, problem in readings if problem), "")
        labels = [code for code, _ in readings if code is not None]
        if problem or not labels:
            return None, problem
        return joined_labels(labels_in(joined_labels(labels), self.names)), ""

    def _read_one(self, cell: str) -> tuple[str | None, str]:
        written = (text_of(cell) or "").strip()
        if written not in self._exact:
            written = unescape_cell(written)
        if written in self._exact or (not is_nothing(written) and not self._exact):
            return written, ""
        if form_of(written) in self._by_form:
            return self._by_form[form_of(written)], ""
        if is_nothing(written):
            return None, ""
        choices = f"{with_commas(self.names, 20)}{checks.meant(written, self.names)}"
        return None, f"{checks.quoted(written)} is none of the labels {choices}"

    def are_notes(self, cells: Sequence[str]) -> bool:
        """Return True if some cell is not empty, and no cell is a label."""
        readings = [self.read(cell) for cell in cells]
        is_something = any(problem for _, problem in readings)
        return is_something and all(code is None for code, _ in readings)


def listed_ids(ids: Sequence[str], rows: Sequence[int]) -> str:
    """List the ids of the first five of these rows, and the number of further rows."""
    return with_commas((ids[i] for i in rows), 5)


def summary_of_problems(problems: Sequence[str]) -> str:
    """Return a message with the first problem of a sheet and the number of problems."""
    if len(problems) == 1:
        return problems[0]
    more = len(problems) - _MAX_LISTED
    first = "; ".join(problems[:_MAX_LISTED])
    return f"{len(problems)} problems: {first}" + (
        f"; and {more} more" if more > 0 else ""
    )


def read_codes(
    codes: Input, coder: str, ids: Sequence[str], rows: Sequence[int], reader: CodeReader
) -> dict[str, list[str | None]]:
    """Return the codes of each coder, in the order of a sample of these ids and rows."""
    is_mapping = isinstance(codes, Mapping)  # may contain Series
    columns = {coder: codes}
    if is_mapping or hasattr(codes, "columns"):
        columns = {
            name: frames.column(codes, name, "codes") for name in frames.names(codes)
        }
    read: dict[str, list[str | None]] = {}
    for name, values in columns.items():
        order = _order_of(codes[name] if is_mapping else codes, ids, rows)
        if order is not None:
            unsorted = list(values)
            values = [unsorted[i] for i in order]  # noqa: PLW2901 - sorted
        read[str(name)] = _check_codes(values, str(name), ids, reader)
    return read


def _order_of(codes: Input, ids: Sequence[str], rows: Sequence[int]) -> list[int] | None:
    """Return indices that sort codes by their index; None if they are sorted."""
    index = frames.index_of(codes)
    n = len(ids)
    if index is None or len(index) != n or index == list(range(n)):
        return None
    texts = [text_of(value) or "" for value in index]
    for expected in (ids, list(map(str, rows)), list(map(str, range(n)))):
        if set(texts) == set(expected) and len(set(texts)) == n:
            at = {text: i for i, text in enumerate(texts)}
            return [at[text] for text in expected]
    raise ArgumentError(
        "have an index that is neither the sample's ids nor its rows: give "
        "codes.to_numpy() if they are in the sample's order",
        argument="codes",
    )


def _check_codes(
    codes: Sequence[Any], coder: str, ids: Sequence[str], reader: CodeReader
) -> list[str | None]:
    n = len(ids)
    if not hasattr(codes, "__len__") or isinstance(codes, (bytes, Mapping)):
        raise ArgumentTypeError(
            f"of {checks.quoted(coder)} must be a list, not {checks.brief(codes)}",
            argument="codes",
        )
    if isinstance(codes, str) or len(codes) != n:
        raise ArgumentError(
            f"of {checks.quoted(coder)} must be {n}, one for each text of the sample",
            argument="codes",
            code="wrong_length",
        )
    labels: list[str | None] = []
    problems = []
    for i, code in enumerate(codes):
        text = text_of(code)
        if reader.several and text == "":
            text = none_of(reader.names)
        label, problem = reader.read(text or "")
        labels.append(label)
        if problem:
            where = f"codes of {checks.quoted(coder)}, row {i + 1} (id {ids[i]})"
            problems.append(f"{where}: {problem}")
    if problems:
        raise ArgumentError(summary_of_problems(problems), code="unknown_codes")
    return labels


_FORMAT = 1


def json_of(sample: Any) -> str:  # a GoldSample, which imports this file
    """Return JSON of the fields of a sample; floats are exact."""
    known = {name: _as_json(getattr(sample, name)) for name in _READERS}
    stored = {
        name: value
        for name, value in known.items()
        if name not in _OPTIONAL or value not in (None, [])
    }
    checksum = _probs_sha256(sample.all_probs)
    return json.dumps(
        {"llamaherd_gold": _FORMAT, **stored, "probs_sha256": checksum},
        ensure_ascii=False,
    )


def fields_of(text: str) -> dict[str, Any]:
    """Return the fields of the `GoldSample` that `json_of` stored."""
    try:
        stored = json.loads(text)
        sample = {
            name: read(stored[name])
            for name, read in _READERS.items()
            if name not in _OPTIONAL or stored.get(name) is not None
        }
        checksum, form = stored["probs_sha256"], stored["llamaherd_gold"]
        is_whole = _is_whole(sample)
        drawn = waves.combine(sample["waves"]) if sample.get("waves") else None
    except DAMAGED as error:
        raise ArgumentError("is not a stored gold sample", argument="text") from error
    if form != _FORMAT:
        raise ArgumentError(
            f"is a gold sample of another format, {form!r}", argument="text"
        )
    is_other = drawn is not None and not np.allclose(
        drawn.all_probs, sample["all_probs"], rtol=1e-9, atol=0
    )
    if is_other or checksum != _probs_sha256(sample["all_probs"]):
        raise ArgumentError(
            "the inclusion probabilities of the stored gold sample were changed: it "
            "gives no valid estimates; use the sample as it was drawn",
            argument="gold",
            code="changed",
            form="{name}: {problem}",
        )
    if not is_whole:
        raise ArgumentError(
            "is a gold sample of which a part was removed or changed: use the sample as "
            "it was drawn",
            argument="text",
            code="changed",
        )
    return sample


def _is_whole(sample: Mapping[str, Any]) -> bool:
    """Return True if all columns have a value for each text, and rows are texts."""
    rows, n_texts = sample["rows"], len(sample["all_probs"])
    of_drawn = [sample["ids"], sample["texts"], sample["labels"], *sample["codes"]]
    optional = [sample[name] for name in ("all_ids", "label_marks") if name in sample]
    return (
        {*map(len, of_drawn)} == {len(rows)} == {len({*rows})}
        and {*map(len, [sample["strata"], *optional])} == {n_texts}
        and all(0 <= row < n_texts for row in rows)
        and len(sample["coders"]) == len(sample["codes"])
        and bool((sample["strata"] >= -1).all())
        and "kind" in sample["design"]
    )


def _as_json(value: Any) -> Any:
    """Return a value as JSON types; fields of dataclasses that are None are left out."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if is_dataclass(value):
        names = [field.name for field in fields(value)]
        stored = {name: _as_json(getattr(value, name)) for name in names}
        return {name: item for name, item in stored.items() if item is not None}
    return [_as_json(item) for item in value] if isinstance(value, tuple) else value


def _floats(values: Input) -> Floats:
    return np.array(values, dtype=np.float64)


def _ints(values: Input) -> Ints:
    return np.array(values, dtype=np.int64)


def _texts(values: Input) -> list[str]:
    return list(map(str, values))


def _outside(stored: Mapping[str, Any]) -> Outside:
    return Outside(strata=_ints(stored["strata"]), left=_floats(stored["left"]))


def _wave(stored: Mapping[str, Any]) -> Wave:
    outside = stored.get("outside")
    return Wave(
        rows=_ints(stored["rows"]),
        probs=_floats(stored["probs"]),
        strata=_ints(stored["strata"]),
        n=int(stored["n"]),
        n_left=int(stored["n_left"]),
        outside=None if outside is None else _outside(outside),
    )


# Fields of a sample in the order of the text, with the function that reads each.
_READERS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda values: [int(row) for row in values],
    "ids": _texts,
    "texts": list,
    "all_probs": _floats,
    "strata": _ints,
    "names": tuple,
    "labels": list,
    "design": dict,
    "codes": lambda columns: [list(column) for column in columns],
    "coders": list,
    "all_ids": _texts,
    "label_marks": _ints,
    "waves": lambda stored: tuple(map(_wave, stored)),
    "outside": _outside,
}
_OPTIONAL = ("all_ids", "label_marks", "waves", "outside")


def _probs_sha256(probs: Floats) -> str:
    return hashlib.sha256(np.ascontiguousarray(probs, dtype="<f8").tobytes()).hexdigest()
