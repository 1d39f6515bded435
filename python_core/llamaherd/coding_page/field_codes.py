"""Codes of a codebook with fields: checked answers, and their cells in tables."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.calls.structured.check import violation
from llamaherd.coding.annotation.label_sets import joined_labels, none_of
from llamaherd.coding.annotation.spans import PLACE
from llamaherd.coding.codes.span_files import Unit
from llamaherd.coding_page.form import form_of, scalar_cell
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from llamaherd.coding_page.form import FormField


@dataclass(frozen=True, slots=True)
class FieldCodes:
    """Answers about a text; equal answers are equal objects.

    Attributes:
        content: JSON object of the answers, in the order of the form. A passage has
            quote, start and end.
    """

    content: str

    @property
    def answers(self) -> dict[str, Any]:
        """Answers by the name of the field, as JSON types."""
        found: dict[str, Any] = json.loads(self.content)
        return found


def checked_fields(schema: str, text: str, value: object) -> FieldCodes:
    """Check the answers about a text.

    Args:
        schema: JSON Schema of the codebook.
        text: The text.
        value: Answers by the name of the field; a passage is a mapping with start and
            end, in characters.

    Raises:
        ArgumentError: An answer is missing, or does not follow the schema.
    """
    if not isinstance(value, dict):
        raise _wrong(f"must have an answer for each field, not be {checks.shown(value)}")
    form = form_of(schema)
    known = {each.name for each in form}
    for name in value:
        if name not in known:
            raise _wrong(
                f"has {checks.shown(name)}, which is not a field of the codebook"
            )
    made: dict[str, Any] = {}
    for field in form:
        if field.name in value:
            made[field.name] = _with_quotes(field, text, value[field.name])
        elif field.is_required:
            raise _wrong(f"must have an answer in the field {checks.quoted(field.title)}")
    problem = violation(schema, {name: _written(each) for name, each in made.items()})
    if problem:
        raise _wrong(f"must follow the schema of the codebook: {problem}")
    return FieldCodes(json.dumps(made, ensure_ascii=False))


def _with_quotes(field: FormField, text: str, value: object) -> Any:  # noqa: ANN401 - JSON
    """Return an answer with the quote of each passage."""
    if value is None:
        return None
    if field.kind == "passage":
        return _passage(text, value)
    if field.kind == "passages":
        if not isinstance(value, list):
            raise _wrong(f"must have a list of passages, not {checks.shown(value)}")
        return [_passage(text, each) for each in value]
    return value


def _passage(text: str, value: object) -> dict[str, Any]:
    place = [value.get(name) for name in PLACE] if isinstance(value, dict) else [0, 0]
    start, end = place
    if type(start) is int and type(end) is int and 0 <= start < end <= len(text):
        return {"quote": text[start:end], "start": start, "end": end}
    raise _wrong(
        f"must have passages with 0 <= start < end <= {len(text)}, not "
        f"{checks.shown(value)}"
    )


def _written(answer: Any) -> Any:  # noqa: ANN401 - JSON
    """Return an answer as a model writes it, with quotes in place of passages."""
    if isinstance(answer, list):
        return [_written(each) for each in answer]
    is_passage = isinstance(answer, dict) and set(answer) == {"quote", *PLACE}
    return answer["quote"] if is_passage else answer


def field_cell(field: FormField, answer: Any) -> str:  # noqa: ANN401 - JSON
    """Return an answer as a cell of a table; "" without an answer."""
    if answer is None:
        return ""
    if field.kind == "passage":
        return str(answer["quote"])
    if field.is_several:
        labels = [scalar_cell(each) for each in answer]
        return joined_labels(labels) if labels else none_of(field.names)
    return scalar_cell(answer)


def compared(field: FormField, answer: Any) -> Hashable:  # noqa: ANN401 - JSON
    """Return an answer in a form in which equal answers compare as equal, or None."""
    if answer is None:
        return None
    if field.kind == "choices":
        given = {scalar_cell(each) for each in answer}
        return tuple(name for name in field.names if name in given)
    if field.kind in ("integer", "number"):
        return float(answer)
    return scalar_cell(answer)


def units_of(field: FormField, answer: Any) -> tuple[Unit, ...]:  # noqa: ANN401 - JSON
    """Return the passages of an answer, in the order of the text."""
    given = [answer] if isinstance(answer, dict) else answer or []
    return tuple(sorted({Unit(each["start"], each["end"], field.name) for each in given}))


def _wrong(problem: str) -> ArgumentError:
    return ArgumentError(problem, argument="value", code="unknown_choice")
