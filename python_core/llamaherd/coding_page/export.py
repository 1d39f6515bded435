"""Exports the codes of a desk for `read_gold` and `read_spans`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.coding_page.values import are_spans, cell_of, plain_value
from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.research.codes.span_files import MarkedText, Unit
from llamaherd.research.estimation import gold_file
from llamaherd.research.estimation.gold_drawn import sidecar
from llamaherd.research.validation.spans import SpanCodes, span_codes

if TYPE_CHECKING:
    import os

    from llamaherd.coding_page.desk import Desk
    from llamaherd.research.estimation.gold_drawn import GoldSample

_NOTE = " note"  # follows the name of a coder


def coded_sample(desk: Desk) -> GoldSample | None:
    """Return the gold sample with the codes; None without a sample.

    A code that the sample had before is kept if the coder has no code for the text on the
    page.
    """
    sample = desk.sheet.sample
    if sample is None or are_spans(desk.sheet.codebook):
        return sample
    known = dict(zip(sample.coders, sample.codes, strict=True))
    codes = {
        coder: [
            cell_of(desk.sheet.codebook, value)
            if value is not None
            else known[coder][i]
            if coder in known
            else None
            for i, value in enumerate(desk.values(coder))
        ]
        for coder in desk.sheet.people
    }
    return sample.with_codes(codes)


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
        if value is not None
    )


def exported(desk: Desk) -> bytes:
    """Return the content of a file with the codes: CSV, or JSON lines for passages.

    The CSV has the columns id and text, a column for each coder, and a column for the
    notes of each coder who wrote notes.
    """
    if are_spans(desk.sheet.codebook):
        return "".join(f"{line}\n" for line in _lines(desk)).encode()
    sheet, people = desk.sheet, desk.sheet.people
    codes = [desk.values(coder) for coder in people]
    noted = [coder for coder in people if any(_notes(desk, coder))]
    notes = [_notes(desk, coder) for coder in noted]
    rows = [["id", "text", *people, *(f"{coder}{_NOTE}" for coder in noted)]]
    for i, (key, text) in enumerate(zip(sheet.ids, sheet.texts, strict=True)):
        cells = [cell_of(sheet.codebook, column[i]) for column in codes]
        rows.append([key, text, *cells, *(column[i] for column in notes)])
    return gold_file.written(rows, bom=True)


def write_codes(
    desk: Desk, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write the codes to a file, and the design of the sample beside a CSV file.

    Raises:
        ArgumentError: A file with other content exists.
        OSError: The file cannot be written.
    """
    content, there = exported(desk), Path(path)
    if not overwrite and there.exists() and there.read_bytes() != content:
        raise ArgumentError(
            f"{checks.shown(str(there))} already exists: choose another name, or set "
            "overwrite to replace it",
            argument="path",
            code="exists",
            form="{name}: {problem}",
        )
    there.write_bytes(content)
    sample = desk.sheet.sample
    if sample is not None and not are_spans(desk.sheet.codebook):
        design = replace(sample, coders=[], codes=[])
        sidecar(there).write_text(design.to_json(), encoding="utf-8")


def _notes(desk: Desk, coder: str) -> list[str]:
    acts = [desk.act(coder, i) for i in range(len(desk.sheet.ids))]
    return ["" if act is None else act.entry.act.note for act in acts]


def _lines(desk: Desk) -> list[str]:
    """Return a line for each text and coder, in the format of `read_spans`."""
    made = []
    for coder in desk.sheet.people:
        notes = _notes(desk, coder)
        for i, value in enumerate(desk.values(coder)):
            if value is None:
                continue
            text = desk.sheet.texts[i]
            spans = [
                {**each, "quote": text[each["start"] : each["end"]]}
                for each in plain_value(value)
            ]
            row = {"id": desk.sheet.ids[i], "text": text, "coder": coder, "spans": spans}
            if notes[i]:
                row["note"] = notes[i]
            made.append(json.dumps(row, ensure_ascii=False))
    return made
