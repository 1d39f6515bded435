"""Exports the codes of a desk for `read_gold` and `read_spans`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.coding.codes.span_files import MarkedText, Unit
from llamaherd.coding.gold import forms
from llamaherd.coding.gold.sample import sidecar
from llamaherd.coding.validation.spans import SpanCodes, span_codes
from llamaherd.coding_page.field_codes import FieldCodes, field_cell
from llamaherd.coding_page.form import FormField, form_of
from llamaherd.coding_page.values import are_fields, are_spans, cell_of, plain_value
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import check_free, write_whole

if TYPE_CHECKING:
    import os

    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.coding_page.desk import Desk
    from llamaherd.coding_page.values import Value

_NOT_IN_NAMES = re.compile(r"[^\w-]+")


@dataclass(frozen=True, slots=True)
class Export:
    """A file with all codes, or with the codes of one field of a codebook.

    Attributes:
        ending: End of its name, such as ".csv", ".topic.csv" or ".jsonl".
        field: Field; None for all codes.
    """

    ending: str
    field: FormField | None = None

    @property
    def field_name(self) -> str | None:
        """Name of the field; None for all codes."""
        return None if self.field is None else self.field.name

    def file(self, stem: str) -> str:
        """Return the name of the file."""
        return f"{stem}{self.ending}"

    def path(self, path: Path) -> Path:
        """Return the path of this file; `path` is the path that the user named."""
        if self.field is None:
            return path
        stem = path.stem if path.suffix else path.name
        return path.with_name(self.file(stem))


def exports(desk: Desk) -> list[Export]:
    """Return the files of a desk: one file, or one file per field of the codebook."""
    codebook = desk.sheet.codebook
    if are_spans(codebook):
        return [Export(".jsonl")]
    if not are_fields(codebook):
        return [Export(".csv")]
    made: list[Export] = []
    for field in form_of(codebook.schema):
        name = _NOT_IN_NAMES.sub("_", field.name).strip("_")
        taken = {each.ending.casefold() for each in made}
        if not name or f".{name}.csv".casefold() in taken:
            name = f"{name}_{len(made) + 1}"
        made.append(Export(f".{name}.csv", field))
    return made


def column_of(desk: Desk, coder: str, field: FormField | None) -> list[str]:
    """Return a coder's codes as cells, "" without a code."""
    return [_cell(desk, field, value) for value in desk.values(coder)]


def _cell(desk: Desk, field: FormField | None, value: Value | None) -> str:
    if field is None:
        return cell_of(desk.sheet.codebook, value)
    answers = value.answers if isinstance(value, FieldCodes) else {}
    return field_cell(field, answers.get(field.name))


def coded_sample(desk: Desk, field: FormField | None = None) -> GoldSample | None:
    """Return the gold sample with the codes; None without a sample.

    If a coder did not code a text on the page, the code that the sample already contains
    is kept.

    Args:
        desk: Codes of all coders.
        field: Field of the codebook; its labels replace the labels of the sample.
    """
    sample = desk.sheet.sample
    if sample is None or are_spans(desk.sheet.codebook):
        return sample
    if field is not None:
        sample = _of_field(sample, field)
    known = dict(zip(sample.coders, sample.codes, strict=True))
    codes = {
        coder: [
            cell or (known[coder][i] if coder in known else None)
            for i, cell in enumerate(column_of(desk, coder, field))
        ]
        for coder in desk.sheet.people
    }
    return sample.with_codes(codes)


def _of_field(sample: GoldSample, field: FormField) -> GoldSample:
    """Return the sample without codes, with the labels of a field."""
    names = field.names if field.kind == "choice" or field.is_several else ()
    if sample.design.get("label") == field.name:
        return replace(sample, codes=[], coders=[], names=names or sample.names)
    other = {"labels_sha256", "several", "scale"}
    design = {name: each for name, each in sample.design.items() if name not in other}
    design["label"] = field.name
    if field.is_several:
        design["several"] = True
    if field.measured != "nominal":
        design["scale"] = field.measured
    labels: list[str | None] = [None] * len(sample)
    return replace(
        sample,
        codes=[],
        coders=[],
        names=names,
        labels=labels,
        label_marks=None,
        design=design,
    )


def coded_fields(desk: Desk) -> dict[str, GoldSample]:
    """Return the gold sample with the codes of each field, by the field's name."""
    found = {
        field.name: coded_sample(desk, field)
        for field in form_of(desk.sheet.codebook.schema)
    }
    return {name: each for name, each in found.items() if each is not None}


def coded_columns(desk: Desk) -> dict[str, list[str | None]]:
    """Return the codes as columns: a column for each coder, or coder and field.

    Raises:
        ArgumentError: Two columns have the same name.
    """
    fields = [each.field for each in exports(desk)]
    made: dict[str, list[str | None]] = {}
    for field in fields:
        for coder in desk.sheet.people:
            name = coder if field is None else f"{field.name}.{coder}"
            if name in made:
                raise ArgumentError(
                    f"and fields give two columns the name {checks.shown(name)}",
                    argument="coders",
                    code="duplicate",
                )
            made[name] = [cell or None for cell in column_of(desk, coder, field)]
    return made


def coded_spans(desk: Desk) -> SpanCodes:
    """Return the passages of all coders, by text."""
    return span_codes(
        MarkedText(
            desk.sheet.ids[i],
            desk.sheet.texts[i],
            coder,
            tuple(unit for unit in value if isinstance(unit, Unit)),
        )
        for coder in desk.sheet.people
        for i, value in enumerate(desk.values(coder))
        if value is not None and not isinstance(value, FieldCodes)
    )


def exported(desk: Desk, export: Export) -> bytes:
    """Return the content of a file with the codes: CSV, or JSON lines for passages.

    The CSV has the columns id and text, a column for each coder, and a column for the
    notes of each coder who wrote notes.
    """
    if are_spans(desk.sheet.codebook):
        return "".join(f"{line}\n" for line in _lines(desk)).encode()
    sheet, people = desk.sheet, desk.sheet.people
    codes = [column_of(desk, coder, export.field) for coder in people]
    noted = [coder for coder in people if any(_notes(desk, coder))]
    notes = [_notes(desk, coder) for coder in noted]
    rows = [["id", "text", *people, *(f"{coder}{forms.NOTE}" for coder in noted)]]
    for i, (key, text) in enumerate(zip(sheet.ids, sheet.texts, strict=True)):
        cells = (column[i] for column in codes)
        rows.append([key, text, *cells, *(column[i] for column in notes)])
    return forms.csv_bytes(rows, bom=True)


def write_codes(
    desk: Desk, path: str | os.PathLike[str], *, overwrite: bool = False
) -> list[Path]:
    """Write the codes as CSV files, each with the design of its sample in a second file.

    Returns:
        Paths of the files with codes: `path`, or for a codebook with fields a file for
        each field ("coded.topic.csv" for "coded.csv").

    Raises:
        ArgumentError: A file with other content exists; no file is written.
        OSError: A file cannot be written.
    """
    _check_coders(desk)
    made: dict[Path, bytes] = {}
    paths = []
    sample = None if are_spans(desk.sheet.codebook) else desk.sheet.sample
    for export in exports(desk):
        there = export.path(Path(path))
        paths.append(there)
        made[there] = exported(desk, export)
        if sample is not None:
            own = sample if export.field is None else _of_field(sample, export.field)
            design = replace(own, coders=[], codes=[])
            made[sidecar(there)] = design.to_json().encode()
    for there, content in made.items():
        check_free(there, content, overwrite=overwrite)
    for there, content in made.items():
        write_whole(there, content)
    return paths


def _check_coders(desk: Desk) -> None:
    """Refuse a misspelt name of a coder; warn of columns without codes, and left out."""
    sheet, stored = desk.sheet, desk.stored_coders
    known = (*stored, *(() if sheet.sample is None else sheet.sample.coders))
    without = [name for name in sheet.coders if name not in known]
    for name in without if sheet.are_named else ():
        if name.casefold() in map(str.casefold, known):
            raise ArgumentError(
                f"has the name {checks.quoted(name)}, but the codes in {desk.path} are "
                f"of {', '.join(known)}{checks.meant(name, known)}",
                argument="coders",
                code="unknown_choice",
            )
    if without:
        warn_caller(f"there is no code of {', '.join(without)} in {desk.path}")
    left_out = [name for name in stored if name not in sheet.people]
    if left_out:
        warn_caller(f"the codes of {', '.join(left_out)} in {desk.path} are left out")


def _notes(desk: Desk, coder: str) -> list[str]:
    acts = [desk.act(coder, i) for i in range(len(desk.sheet.ids))]
    return ["" if act is None else act.entry.act.note for act in acts]


def coded_notes(desk: Desk) -> dict[str, list[str]]:
    """Return all notes as the columns `coder`, `id` and `note`, in order of the texts."""
    rows = [
        (coder, key, note)
        for coder in desk.sheet.people
        for key, note in zip(desk.sheet.ids, _notes(desk, coder), strict=True)
        if note
    ]
    names = ("coder", "id", "note")
    return {name: [row[j] for row in rows] for j, name in enumerate(names)}


def _lines(desk: Desk) -> list[str]:
    """Return a line for each text and coder, in the format of `read_spans`."""
    made = []
    for coder in desk.sheet.people:
        notes = _notes(desk, coder)
        for i, value in enumerate(desk.values(coder)):
            if value is None:
                continue
            text = desk.sheet.texts[i]
            spans: list[Any] = [
                {**each, "quote": text[each["start"] : each["end"]]}
                for each in plain_value(value)
            ]
            row = {"id": desk.sheet.ids[i], "text": text, "coder": coder, "spans": spans}
            if notes[i]:
                row["note"] = notes[i]
            made.append(json.dumps(row, ensure_ascii=False))
    return made
