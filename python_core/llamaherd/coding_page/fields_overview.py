"""Agreement and disagreements of coders on the fields of a codebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.coding_page.field_codes import FieldCodes, compared, field_cell, units_of
from llamaherd.coding_page.form import form_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.coding_page.form import FormField
    from llamaherd.coding_page.values import Value
    from llamaherd.research.coding.codebook import Codebook

Column = list[Any]  # answer of each coder to each text; None without an answer


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
