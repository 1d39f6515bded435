"""Data of the pages: a text for a coder; progress and agreement for the owner."""

from __future__ import annotations

import math
from dataclasses import asdict
from itertools import combinations
from typing import TYPE_CHECKING, Any

from llamaherd.coding.statistics.agreement import COEFFICIENTS, cohen_kappa
from llamaherd.coding.statistics.many_coders import krippendorff_alpha, percent_agreement
from llamaherd.coding.statistics.ratings import CodesByCoder, Scale
from llamaherd.coding.validation.unitizing import Unitizing
from llamaherd.coding_page.results import exports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding_page.desk import Desk
    from llamaherd.coding_page.form import Code, Form, FormField
    from llamaherd.coding_page.sheet import Sheet

_MOST_SHOWN = 100  # maximum number of disagreements, and of notes
_LONGEST_TEXT = 600  # characters of a text in a list
_MOST_IN_PAIRS = 10  # maximum number of coders for comparing each pair

Row = dict[str, Any]
Codes = list[Any]  # of a coder for each text; None without a code


def codebook_view(sheet: Sheet) -> Row:
    """Return a codebook as coders see it, as JSON types."""
    codebook, form = sheet.codebook, sheet.form
    return {
        "question": codebook.question,
        "labels": [
            {"name": name, "definition": codebook.definitions.get(name, "")}
            for name in codebook.names
        ],
        "kind": _kind(form),
        "max_spans": codebook.max_spans,
        "fields": [asdict(field) for field in form.fields] if form.schema else [],
        "examples": [
            {"text": example.text, "label": example.label, "reason": example.reason}
            for example in codebook.examples
        ],
    }


def _kind(form: Form) -> str:
    """Return the kind of codes: "one" (label), "several", "number" and others."""
    if form.schema is not None:
        return "fields"
    (field,) = form.fields
    one = "number" if field.measured == "interval" else "one"
    return {"choices": "several", "spans": "spans"}.get(field.kind, one)


def text_view(desk: Desk, coder: str, i: int | None) -> Row:
    """Return a text with its code, and the coder's progress.

    If the coder of ties asks for a text that is not a tie any more, the next text is
    returned.
    """
    texts = desk.texts_of(coder)
    if i is not None and i not in texts:
        i = desk.next_text(coder)
        texts = desk.texts_of(coder)
    view: Row = {
        "progress": asdict(desk.progress(coder)),
        "can_undo": desk.can_undo(coder),
        "last_entry": desk.last_entry_of(coder),
        "text": None,
    }
    if i is None or i not in texts:
        return view
    act = desk.act(coder, i)
    view["text"] = {
        "i": i,
        "entry": desk.entry_of(coder, i),
        "position": texts.index(i),
        "text": desk.sheet.texts[i],
        "value": None if act is None else act.value,
        "is_skipped": act is not None and act.value is None,
        "note": "" if act is None else act.entry.act.note,
    }
    return view


def overview(desk: Desk) -> Row:
    """Return progress, agreement, disagreements and notes as JSON types."""
    sheet = desk.sheet
    codes = {coder: desk.values(coder) for coder in sheet.people}
    return {
        "files": [
            {"name": export.file("codes"), "field": export.field.name or None}
            for export in exports(sheet.form)
        ],
        "n_texts": len(sheet.ids),
        "coders": [_coder(desk, coder) for coder in sheet.people],
        "agreement": _agreement(sheet, codes),
        "disagreements": _disagreements(sheet, codes),
        "notes": _notes(desk),
    }


def _coder(desk: Desk, coder: str) -> Row:
    progress = desk.progress(coder)
    acts = [desk.act(coder, i) for i in range(len(desk.sheet.ids))]
    entries = [act.entry for act in acts if act is not None]
    seconds = sorted(s for entry in entries if (s := entry.act.seconds) is not None)
    return {
        "coder": coder,
        "is_of_ties": coder == desk.sheet.tie_coder,
        "n_texts": progress.n_texts,
        "n_coded": progress.n_coded,
        "n_skipped": progress.n_skipped,
        "median_s": seconds[len(seconds) // 2] if seconds else None,
        "last_at": max((entry.at for entry in entries), default=None),
    }


def _agreement(sheet: Sheet, codes: Mapping[str, Codes]) -> list[Row]:
    """Return agreement coefficients for all coders, for each label and for each pair.

    The coder of ties is omitted, because only texts with disagreement have this coder's
    codes.
    """
    coders = sheet.coders
    if len(coders) < 2:
        return []
    rows = _coefficients(sheet, "all coders", [codes[coder] for coder in coders])
    if 2 < len(coders) <= _MOST_IN_PAIRS:
        for one, other in combinations(coders, 2):
            rows += _coefficients(sheet, f"{one} and {other}", [codes[one], codes[other]])
    return rows


def _coefficients(sheet: Sheet, part: str, codes: Sequence[Codes]) -> list[Row]:
    """Return the agreement on each field; for free text, only the percent agreement."""
    rows = []
    for field in sheet.form.fields:
        name = f"{part}, {field.title}" if field.title else part
        if field.has_passages:
            rows.append(_unitizing(sheet, name, field, codes))
            continue
        columns: list[Codes] = [
            [field.compared(sheet.form.answers(code).get(field.name)) for code in column]
            for column in codes
        ]
        if field.kind == "choices":
            for label in field.names:
                chosen = [
                    [None if labels is None else label in labels for labels in column]
                    for column in columns
                ]
                rows += _of_labels(f"{name}: {label}", chosen, "nominal", (False, True))
        else:
            levels = field.names if field.kind == "choice" else None
            of_field = _of_labels(name, columns, field.measured, levels)
            rows += of_field if field.is_coded else of_field[:1]
    return rows


def _of_labels(
    part: str,
    columns: Sequence[Codes],
    scale: Scale,
    levels: Sequence[Any] | None,
) -> list[Row]:
    if not any(sum(c is not None for c in row) > 1 for row in zip(*columns, strict=True)):
        return [_row(part, "percent agreement", math.nan, 0)]
    codes = CodesByCoder(columns)
    measures = [
        percent_agreement(codes),
        krippendorff_alpha(codes, scale=scale, levels=levels),
    ]
    if len(columns) == 2:
        measures.append(cohen_kappa(codes, levels=levels))
    return [
        _row(part, COEFFICIENTS[measure.name].title, measure.value, measure.n_units)
        for measure in measures
    ]


def _unitizing(sheet: Sheet, part: str, field: FormField, codes: Sequence[Codes]) -> Row:
    """Return the agreement on passages, for the texts that all coders coded."""
    rows = enumerate(zip(*codes, strict=True))
    both = [i for i, row in rows if all(code is not None for code in row)]
    value = math.nan
    if both:
        units = [
            [
                list(field.units(sheet.form.answers(column[i]).get(field.name)))
                for i in both
            ]
            for column in codes
        ]
        value = Unitizing(units, [len(sheet.texts[i]) for i in both]).alpha()
    return _row(part, "unitizing alpha", value, len(both))


def _row(part: str, measure: str, value: float, n_texts: int) -> Row:
    known = None if math.isnan(value) else value
    return {"part": part, "measure": measure, "value": known, "n_texts": n_texts}


def _disagreements(sheet: Sheet, codes: Mapping[str, Codes]) -> Row:
    """Return the texts on which the coders disagree."""
    rows = []
    for i, row in enumerate(zip(*codes.values(), strict=True)):
        row_codes = {
            c: code for c, code in zip(codes, row, strict=True) if code is not None
        }
        if len(set(map(sheet.form.compared, row_codes.values()))) > 1:
            rows.append((i, row_codes))
    return {
        "n": len(rows),
        "rows": [
            {
                "id": sheet.ids[i],
                "text": _shorten(sheet.texts[i]),
                "codes": _differences(sheet.form, sheet.texts[i], row_codes),
            }
            for i, row_codes in rows[:_MOST_SHOWN]
        ],
    }


def _differences(form: Form, text: str, codes: Mapping[str, Code]) -> dict[str, str]:
    """Return each coder's answers, in words, for the fields whose answers differ."""
    answers = {coder: form.answers(code) for coder, code in codes.items()}
    differ = [
        field
        for field in form.fields
        if field.is_coded
        and len({field.compared(a.get(field.name)) for a in answers.values()}) > 1
    ]
    return {
        coder: "; ".join(
            _in_words(field, text, coder_answers.get(field.name)) for field in differ
        )
        for coder, coder_answers in answers.items()
    }


def _in_words(field: FormField, text: str, answer: Code) -> str:
    if field.kind == "spans":
        units = field.units(answer)
        words = [
            f"{unit.label}: {_shorten(text[unit.start : unit.end])}" for unit in units
        ]
        return "; ".join(words) or "none"
    cell = _shorten(field.cell(answer)) or "no answer"
    return f"{field.title}: {cell}" if field.title else cell


def _notes(desk: Desk) -> list[Row]:
    """Return the notes of the coders, the latest first."""
    acts = [
        act
        for coder in desk.sheet.people
        for i in range(len(desk.sheet.ids))
        if (act := desk.act(coder, i)) is not None and act.entry.act.note
    ]
    acts.sort(key=lambda act: -act.entry.n)
    return [
        {
            "coder": act.entry.act.coder,
            "id": act.entry.act.text_id,
            "note": act.entry.act.note,
        }
        for act in acts[:_MOST_SHOWN]
    ]


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."
