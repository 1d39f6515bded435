"""Overview for the person who runs the coding: progress, agreement, disagreements."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Any

from llamaherd.coding.codes.span_files import Unit
from llamaherd.coding.statistics import (
    cohen_kappa,
    krippendorff_alpha,
    percent_agreement,
)
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from llamaherd.coding.statistics.ratings import CodesByCoder
from llamaherd.coding.validation.unitizing import Unitizing
from llamaherd.coding_page.export import exports
from llamaherd.coding_page.field_codes import FieldCodes, compared, field_cell, units_of
from llamaherd.coding_page.form import form_of
from llamaherd.coding_page.values import (
    are_fields,
    are_spans,
    compared_parts,
    plain_value,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.statistics.ratings import Scale
    from llamaherd.coding_page.desk import Desk
    from llamaherd.coding_page.form import FormField
    from llamaherd.coding_page.values import Value

Column = list[Any]  # answer of each coder to each text; None without an answer
_MOST_SHOWN = 100  # maximum number of disagreements, and of notes
_LONGEST_TEXT = 600  # characters of a text in a list
_MOST_IN_PAIRS = 10  # maximum number of coders for comparing each pair

Row = dict[str, Any]


def overview(desk: Desk) -> dict[str, Any]:
    """Return progress, agreement, disagreements and notes as JSON types."""
    columns = {coder: desk.values(coder) for coder in desk.sheet.people}
    return {
        "files": [
            {"name": each.file("codes"), "field": each.field_name}
            for each in exports(desk)
        ],
        "n_texts": len(desk.sheet.ids),
        "coders": [_coder(desk, coder) for coder in desk.sheet.people],
        "agreement": _agreement(desk, columns),
        "disagreements": _disagreements(desk, columns),
        "notes": _notes(desk),
    }


def _coder(desk: Desk, coder: str) -> Row:
    progress = desk.progress(coder)
    acts = [desk.act(coder, i) for i in range(len(desk.sheet.ids))]
    entries = [act.entry for act in acts if act is not None]
    seconds = sorted(s for each in entries if (s := each.act.seconds) is not None)
    return {
        "coder": coder,
        "is_of_ties": coder == desk.sheet.tie_coder,
        "n_texts": progress.n_texts,
        "n_coded": progress.n_coded,
        "n_skipped": progress.n_skipped,
        "median_s": seconds[len(seconds) // 2] if seconds else None,
        "last_at": max((each.at for each in entries), default=None),
    }


def _agreement(desk: Desk, columns: dict[str, list[Value | None]]) -> list[Row]:
    """Return agreement coefficients for all coders, for each label and for each pair.

    The coder of ties is omitted, because only texts with disagreement have this coder's
    codes.
    """
    of = {coder: columns[coder] for coder in desk.sheet.coders}
    if len(of) < 2:
        return []
    rows = _coefficients(desk, "all coders", list(of.values()))
    if 2 < len(of) <= _MOST_IN_PAIRS:
        for one, other in combinations(of, 2):
            rows += _coefficients(desk, f"{one} and {other}", [of[one], of[other]])
    return rows


def _coefficients(desk: Desk, part: str, columns: Sequence[Sequence[Any]]) -> list[Row]:
    codebook = desk.sheet.codebook
    if are_fields(codebook):
        return _of_fields(desk, part, columns)
    if are_spans(codebook):
        return [_unitizing(desk, part, columns)]
    if not codebook.kind.is_several:
        return _of_labels(part, columns, codebook.kind.measured, codebook.names)
    return _of_sets(part, columns, codebook.names)


def _of_sets(
    part: str, columns: Sequence[Sequence[Any]], names: Sequence[str]
) -> list[Row]:
    """Return the agreement on each label, if texts may have several labels."""
    rows = []
    for label in names:
        given = [
            [None if each is None else label in each for each in column]
            for column in columns
        ]
        rows += _of_labels(f"{part}: {label}", given, "nominal", (False, True))
    return rows


def _of_fields(desk: Desk, part: str, columns: Sequence[Sequence[Any]]) -> list[Row]:
    """Return the agreement on each field; for free text, only the percent agreement."""
    rows = []
    for field in form_of(desk.sheet.codebook.schema):
        name = f"{part}, {field.title}"
        if field.kind in ("passage", "passages"):
            rows.append(_unitizing(desk, name, unit_columns(field, columns)))
            continue
        given = compared_columns(field, columns)
        if field.kind == "choices":
            rows += _of_sets(name, given, field.names)
        else:
            levels = field.names if field.kind == "choice" else None
            found = _of_labels(name, given, field.measured, levels)
            rows += found if field.is_coded else found[:1]
    return rows


def _of_labels(
    part: str,
    columns: Sequence[Sequence[Any]],
    scale: Scale,
    levels: Sequence[Any] | None,
) -> list[Row]:
    if not any(sum(c is not None for c in row) > 1 for row in zip(*columns, strict=True)):
        return [_row(part, "percent agreement", math.nan, 0)]
    codes = CodesByCoder(columns)
    found = [
        percent_agreement(codes),
        krippendorff_alpha(codes, scale=scale, levels=levels),
    ]
    if len(columns) == 2:
        found.append(cohen_kappa(*columns, levels=levels))
    return [
        _row(part, COEFFICIENTS[measure.name].title, measure.value, measure.n_units)
        for measure in found
    ]


def _unitizing(desk: Desk, part: str, columns: Sequence[Sequence[Any]]) -> Row:
    """Return the agreement on passages, for the texts that all coders coded."""
    both = [
        i
        for i, row in enumerate(zip(*columns, strict=True))
        if all(code is not None for code in row)
    ]
    value = math.nan
    if both:
        units: list[list[list[Unit]]] = [
            [list(column[i]) for i in both] for column in columns
        ]
        value = Unitizing(units, [len(desk.sheet.texts[i]) for i in both]).alpha()
    return _row(part, "unitizing alpha", value, len(both))


def _row(part: str, measure: str, value: float, n_texts: int) -> Row:
    shown = None if math.isnan(value) else value
    return {"part": part, "measure": measure, "value": shown, "n_texts": n_texts}


def _disagreements(desk: Desk, columns: dict[str, list[Value | None]]) -> Row:
    """Return the texts on which the coders disagree."""
    rows = []
    for i, row in enumerate(zip(*columns.values(), strict=True)):
        codes = {c: v for c, v in zip(columns, row, strict=True) if v is not None}
        parts = {compared_parts(desk.sheet.codebook, each) for each in codes.values()}
        if len(parts) > 1:
            rows.append((i, codes))
    return {
        "n": len(rows),
        "rows": [
            {
                "id": desk.sheet.ids[i],
                "text": _shortened(desk.sheet.texts[i]),
                "codes": _shown_codes(desk, i, codes),
            }
            for i, codes in rows[:_MOST_SHOWN]
        ],
    }


def _shown_codes(desk: Desk, i: int, codes: dict[str, Value]) -> dict[str, str]:
    """Return each coder's code in words; with fields, only the fields that differ."""
    if are_fields(desk.sheet.codebook):
        return differing(desk.sheet.codebook, codes)
    return {coder: _shown(desk, i, code) for coder, code in codes.items()}


def _shown(desk: Desk, i: int, value: Value) -> str:
    text = desk.sheet.texts[i]
    plain = plain_value(value)
    if isinstance(plain, str):
        return _shortened(plain)
    if isinstance(value, FieldCodes):
        return value.content
    parts = [
        f"{each.label}: {_shortened(text[each.start : each.end])}"
        if isinstance(each, Unit)
        else str(each)
        for each in value
    ]
    return "; ".join(parts) or "none"


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


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def answers_of(field: FormField, column: Sequence[Value | None]) -> Column:
    """Return a coder's answers in a field, in JSON types; None without an answer."""
    return [
        each.answers.get(field.name) if isinstance(each, FieldCodes) else None
        for each in column
    ]


def compared_columns(
    field: FormField, columns: Sequence[Sequence[Value | None]]
) -> list[Column]:
    """Return each coder's answers in a form in which equal answers compare as equal."""
    return [
        [compared(field, answer) for answer in answers_of(field, column)]
        for column in columns
    ]


def unit_columns(
    field: FormField, columns: Sequence[Sequence[Value | None]]
) -> list[Column]:
    """Return the passages of each coder; None for a text without a code."""
    return [
        [
            None if value is None else units_of(field, answer)
            for value, answer in zip(column, answers_of(field, column), strict=True)
        ]
        for column in columns
    ]


def differing(codebook: Codebook, codes: Mapping[str, Value]) -> dict[str, str]:
    """Return each coder's answers, in words, for the fields whose answers differ."""
    form = [each for each in form_of(codebook.schema) if each.is_coded]
    answers = {
        coder: value.answers
        for coder, value in codes.items()
        if isinstance(value, FieldCodes)
    }
    differ = [
        field
        for field in form
        if len({compared(field, each.get(field.name)) for each in answers.values()}) > 1
    ]
    return {
        coder: "; ".join(
            f"{field.title}: {field_cell(field, each.get(field.name)) or 'no answer'}"
            for field in differ
        )
        for coder, each in answers.items()
    }
