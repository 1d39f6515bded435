"""Codes of a desk as samples, columns, passages, and files for `read_gold`."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.coding import frames
from llamaherd.coding.codes.span_files import MarkedText
from llamaherd.coding.gold import forms
from llamaherd.coding.gold.sample import GoldSample, sidecar
from llamaherd.coding.validation.spans import SpanCodes, span_codes
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import check_free, write_whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding_page.desk import Desk
    from llamaherd.coding_page.form import Form, FormField

_NOT_IN_NAMES = re.compile(r"[^\w-]+")


class CodingResult(NamedTuple):
    """Result of a coding page.

    Attributes:
        codes: Codes, as returned by `results_of`.
        notes: Notes of the coders: columns `coder`, `id`, `note`.
    """

    codes: Any
    notes: dict[str, list[str]]


@dataclass(frozen=True, slots=True)
class Export:
    """A file with the codes of one field of a codebook."""

    ending: str  # end of its name, such as ".csv", ".topic.csv" or ".jsonl"
    field: FormField  # field; with labels, the only one

    def file(self, stem: str) -> str:
        """Return the name of the file."""
        return f"{stem}{self.ending}"

    def path(self, path: Path) -> Path:
        """Return the path of this file; `path` is the path that the user named."""
        if not self.field.name:
            return path
        stem = path.stem if path.suffix else path.name
        return path.with_name(self.file(stem))


def are_spans(form: Form) -> bool:
    """Return whether codes are passages with labels."""
    return form.fields[0].kind == "spans"


def exports(form: Form) -> list[Export]:
    """Return the files of a form: one file, or one file per field of the codebook."""
    if form.schema is None:
        return [Export(".jsonl" if are_spans(form) else ".csv", form.fields[0])]
    files: list[Export] = []
    for field in form.fields:
        name = _NOT_IN_NAMES.sub("_", field.name).strip("_")
        taken = {file.ending.casefold() for file in files}
        if not name or f".{name}.csv".casefold() in taken:
            name = f"{name}_{len(files) + 1}"
        files.append(Export(f".{name}.csv", field))
    return files


def results_of(desk: Desk, data: object) -> Any:  # of the kind of the data
    """Return the codes; see `code_texts`."""
    sheet = desk.sheet
    if are_spans(sheet.form):
        return _coded_spans(desk)
    if sheet.sample is not None:
        samples = {
            field.name: _coded_sample(desk, sheet.sample, field)
            for field in sheet.form.fields
        }
        return samples[""] if sheet.form.schema is None else samples
    if isinstance(data, (str, os.PathLike)):
        data = {"id": list(sheet.ids), "text": list(sheet.texts)}
    return frames.with_columns(data, _coded_columns(desk))


def _cells(desk: Desk, coder: str, field: FormField) -> list[str]:
    """Return a coder's answers in a field as cells, "" without an answer."""
    answers = map(desk.sheet.form.answers, desk.values(coder))
    return [field.cell(answer.get(field.name)) for answer in answers]


def _coded_sample(desk: Desk, sample: GoldSample, field: FormField) -> GoldSample:
    """Return the sample with the codes of a field; codes that it had fill the gaps."""
    sample = _of_field(sample, field)
    known = dict(zip(sample.coders, sample.codes, strict=True))
    codes = {
        coder: [
            cell or (known[coder][i] if coder in known else None)
            for i, cell in enumerate(_cells(desk, coder, field))
        ]
        for coder in desk.sheet.people
    }
    return sample.with_codes(codes)


def _of_field(sample: GoldSample, field: FormField) -> GoldSample:
    """Return the sample without codes, with the labels of a field."""
    if not field.name:
        return sample
    names = field.names if field.kind == "choice" or field.is_several else ()
    if sample.design.get("label") == field.name:
        return replace(sample, codes=[], coders=[], names=names or sample.names)
    of_label = {"labels_sha256", "several", "scale"}
    design = {key: fact for key, fact in sample.design.items() if key not in of_label}
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


def _coded_columns(desk: Desk) -> dict[str, list[str | None]]:
    """Return the codes as columns: a column for each coder, or coder and field."""
    columns: dict[str, list[str | None]] = {}
    for field in desk.sheet.form.fields:
        for coder in desk.sheet.people:
            name = f"{field.name}.{coder}" if field.name else coder
            if name in columns:
                raise ArgumentError(
                    f"and fields give two columns the name {checks.brief(name)}",
                    argument="coders",
                    code="duplicate",
                )
            columns[name] = [cell or None for cell in _cells(desk, coder, field)]
    return columns


def _coded_spans(desk: Desk) -> SpanCodes:
    """Return the passages of all coders, by text."""
    sheet = desk.sheet
    (field,) = sheet.form.fields
    return span_codes(
        MarkedText(sheet.ids[i], sheet.texts[i], coder, field.units(code))
        for coder in sheet.people
        for i, code in enumerate(desk.values(coder))
        if code is not None
    )


def export_codes(desk: Desk, export: Export) -> bytes:
    """Return the content of a file with the codes: CSV, or JSON lines for passages.

    The CSV has the columns id and text, a column for each coder, and a column for the
    notes of each coder who wrote notes.
    """
    sheet, people = desk.sheet, desk.sheet.people
    if are_spans(sheet.form):
        return "".join(f"{line}\n" for line in _lines(desk)).encode()
    noted = [coder for coder in people if any(_notes(desk, coder))]
    header = ["id", "text", *people, *(f"{coder}{forms.NOTE}" for coder in noted)]
    columns: list[Sequence[str]] = [
        sheet.ids,
        sheet.texts,
        *(_cells(desk, coder, export.field) for coder in people),
        *(_notes(desk, coder) for coder in noted),
    ]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return forms.csv_bytes([header, *rows], bom=True)


def write_codes(
    desk: Desk, path: str | os.PathLike[str], *, overwrite: bool = False
) -> list[Path]:
    """Write the codes as CSV files, each with the design of its sample beside it."""
    _check_coders(desk)
    contents: dict[Path, bytes] = {}
    paths = []
    sample = None if are_spans(desk.sheet.form) else desk.sheet.sample
    for export in exports(desk.sheet.form):
        file = export.path(Path(path))
        paths.append(file)
        contents[file] = export_codes(desk, export)
        if sample is not None:
            design = replace(_of_field(sample, export.field), coders=[], codes=[])
            contents[sidecar(file)] = design.to_json().encode()
    for file, content in contents.items():
        check_free(file, content, overwrite=overwrite)
    for file, content in contents.items():
        write_whole(file, content, argument="path")
    return paths


def _check_coders(desk: Desk) -> None:
    """Refuse a misspelt name of a coder; warn of columns without codes, and left out."""
    sheet, stored, path = desk.sheet, desk.store.coders, desk.store.path
    known = (*stored, *(() if sheet.sample is None else sheet.sample.coders))
    without = [name for name in sheet.coders if name not in known]
    for name in without if sheet.are_named else ():
        if name.casefold() in map(str.casefold, known):
            raise ArgumentError(
                f"has the name {checks.quoted(name)}, but the codes in {path} are "
                f"of {', '.join(known)}{checks.meant(name, known)}",
                argument="coders",
                code="unknown_choice",
            )
    if without:
        warn_caller(f"there is no code of {', '.join(without)} in {path}")
    left_out = [name for name in stored if name not in sheet.people]
    if left_out:
        warn_caller(f"the codes of {', '.join(left_out)} in {path} are left out")


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
    lines = []
    for coder in desk.sheet.people:
        notes = _notes(desk, coder)
        for i, code in enumerate(desk.values(coder)):
            if code is None:
                continue
            text = desk.sheet.texts[i]
            spans: list[Any] = [
                {**span, "quote": text[span["start"] : span["end"]]} for span in code
            ]
            row = {"id": desk.sheet.ids[i], "text": text, "coder": coder, "spans": spans}
            if notes[i]:
                row["note"] = notes[i]
            lines.append(json.dumps(row, ensure_ascii=False))
    return lines
