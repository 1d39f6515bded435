"""Form of a codebook: the fields that a coder answers about a text, and checked answers.

A codebook with labels is a form with one field, whose answer is the whole code.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from llamaherd.calls.structured.check import violation
from llamaherd.coding.annotation.answer_types import JOINED, TYPES
from llamaherd.coding.annotation.label_sets import in_order, joined_labels, none_of
from llamaherd.coding.annotation.spans import PLACE, SPANS
from llamaherd.coding.codes.span_files import Unit
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.statistics.ratings import Scale

# Input elements. "choice": one level; "choices": any number of levels; "spans": passages,
# each with a level; "lines": texts, one a line; "passage" and "passages": parts of the
# text; "object": an input element for each field of an object; "json": anything else.
Input = Literal[
    "choice",
    "choices",
    "spans",
    "integer",
    "number",
    "text",
    "lines",
    "passage",
    "passages",
    "object",
    "json",
]
Number = int | float
Code = Any  # JSON: an answer, or a mapping of answers by the names of fields


@dataclass(frozen=True, slots=True)
class Level:
    """A possible value of a field."""

    value: Any  # value in JSON types
    name: str  # text on the page
    definition: str = ""  # definition; "" without a definition


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of a codebook as coders fill it in."""

    name: str  # name, as in the schema; "" for the field of a codebook with labels
    title: str
    definition: str = ""  # description; "" without a description
    kind: Input
    # Possible values of "choice" and "choices", labels of "spans".
    levels: tuple[Level, ...] = ()
    fields: tuple[FormField, ...] = ()  # fields of "object"
    is_required: bool = False  # whether every answer has the field
    # Whether a value may be null: the field does not apply to the text.
    is_nullable: bool = False
    low: Number | None = None  # minimum of a number; None without a minimum
    # Maximum of a number, or of the number of "spans"; None without a maximum.
    high: Number | None = None
    measured: Scale = "nominal"  # scale of measurement

    @property
    def is_several(self) -> bool:
        """Whether a cell may list several labels, separated by ";"."""
        is_joined = all(JOINED.strip() not in name for name in self.names)
        return self.kind == "choices" and is_joined

    @property
    def is_coded(self) -> bool:
        """Whether answers are compared between coders; texts and JSON are not."""
        return self.kind in ("choice", "choices", "spans", "integer", "number")

    @property
    def has_passages(self) -> bool:
        """Whether answers are parts of the text."""
        return self.kind in ("passage", "passages", "spans")

    @property
    def names(self) -> tuple[str, ...]:
        """Texts of the levels in cells of a table."""
        return tuple(scalar_cell(level.value) for level in self.levels)

    def cell(self, answer: Code) -> str:
        """Return an answer as a cell of a table; "" without an answer."""
        if answer is None:
            return ""
        if self.kind == "passage":
            return str(answer["quote"])
        if self.is_several:
            labels = [scalar_cell(label) for label in answer]
            return joined_labels(labels) if labels else none_of(self.names)
        return scalar_cell(answer)

    def compared(self, answer: Code) -> Hashable:
        """Return an answer in a form in which equal answers compare as equal, or None."""
        if answer is None:
            return None
        if self.kind == "spans":
            return self.units(answer)
        if self.kind == "choices":
            labels = {scalar_cell(label) for label in answer}
            return tuple(name for name in self.names if name in labels)
        if self.kind in ("integer", "number"):
            return float(answer)
        return scalar_cell(answer)

    def units(self, answer: Code) -> tuple[Unit, ...]:
        """Return the passages of an answer, in the order of the text."""
        passages = [answer] if isinstance(answer, dict) else answer or []
        units = {
            Unit(passage["start"], passage["end"], passage.get("label", self.name))
            for passage in passages
        }
        return tuple(sorted(units))

    def with_quotes(self, text: str, answer: Code) -> Code:
        """Check the places of passages, and return the answer with their quotes."""
        if answer is None or self.kind not in ("passage", "passages"):
            return answer
        if self.kind == "passage":
            return _passage(text, answer)
        if not isinstance(answer, list):
            _refuse(f"must have a list of passages, not {checks.brief(answer)}")
        return [_passage(text, passage) for passage in answer]


@dataclass(frozen=True, slots=True)
class Form:
    """Fields of a codebook."""

    fields: tuple[FormField, ...]  # fields, in order
    # JSON Schema of codes with several fields; None for labels, where the answer of the
    # only field is the code.
    schema: str | None = None

    def answers(self, code: Code) -> Mapping[str, Any]:
        """Return the answers of a code by the names of fields; {} without a code."""
        if code is None:
            return {}
        return {"": code} if self.schema is None else code

    def compared(self, code: Code) -> tuple[Hashable, ...]:
        """Return the answers that are compared between coders, in a fixed order."""
        answers = self.answers(code)
        coded = [field for field in self.fields if field.is_coded]
        return tuple(field.compared(answers.get(field.name)) for field in coded)

    def is_tie(self, codes: Sequence[Code]) -> bool:
        """Return whether at least two codes have no majority for one of the fields."""
        columns = zip(*map(self.compared, codes), strict=True)
        return len(codes) > 1 and any(map(_has_no_majority, columns))

    def checked(self, text: str, code: object) -> Code:
        """Check a code of a text, and return it in one form."""
        if self.schema is None:
            return _checked_labels(self.fields[0], text, code)
        if not isinstance(code, dict):
            _refuse(f"must have an answer for each field, not be {checks.brief(code)}")
        known = {field.name for field in self.fields}
        for name in code:
            if name not in known:
                _refuse(f"has {checks.brief(name)}, which is not a field of the codebook")
        answers: dict[str, Any] = {}
        for field in self.fields:
            if field.name in code:
                answers[field.name] = field.with_quotes(text, code[field.name])
            elif field.is_required:
                name = checks.quoted(field.title)
                _refuse(f"must have an answer in the field {name}")
        written = {name: _model_answer(answer) for name, answer in answers.items()}
        problem = violation(self.schema, written)
        if problem:
            _refuse(f"must follow the schema of the codebook: {problem}")
        return answers


def label_form(codebook: Codebook) -> Form:
    """Return the form of a codebook with labels."""
    kind: Input = "choices" if codebook.kind.is_several else "choice"
    field = FormField(
        name="",
        title="",
        kind="spans" if codebook.kind is TYPES[SPANS] else kind,
        levels=tuple(Level(name, name) for name in codebook.names),
        is_required=True,
        high=codebook.max_spans,
        measured=codebook.kind.measured,
    )
    return Form((field,))


def scalar_cell(value: object) -> str:
    """Return a text, number or truth value as a cell of a table."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _checked_labels(field: FormField, text: str, code: object) -> Code:
    if field.kind == "choice":
        return _label(field, code)
    if not isinstance(code, list):
        _refuse(f"must be a list, not {checks.brief(code)}")
    if field.kind == "choices":
        labels = [_label(field, label) for label in code]
        return list(in_order(labels, field.names))
    units = [_unit(field, text, passage) for passage in code]
    if field.high is not None and len(units) > field.high:
        _refuse(f"must have at most {field.high} passages, not {len(units)}")
    return [unit._asdict() for unit in sorted(set(units))]


def _label(field: FormField, value: object) -> str:
    if not isinstance(value, str) or value not in field.names:
        _refuse(f"must be a label of the codebook, not {checks.brief(value)}")
    return value


def _unit(field: FormField, text: str, value: object) -> Unit:
    if not isinstance(value, dict):
        _refuse(f"must have start, end and label, not be {checks.brief(value)}")
    places: list[Any] = [value.get(name) for name in PLACE]
    start, end = places
    if not _are_places(start, end, text):
        values = f"{checks.brief(start)} and {checks.brief(end)}"
        _refuse(f"must have 0 <= start < end <= {len(text)}, not {values}")
    return Unit(start, end, _label(field, value.get("label")))


def _passage(text: str, value: object) -> dict[str, Any]:
    places = [value.get(name) for name in PLACE] if isinstance(value, dict) else [0, 0]
    start, end = places
    if not _are_places(start, end, text):
        rule = f"0 <= start < end <= {len(text)}"
        _refuse(f"must have passages with {rule}, not {checks.brief(value)}")
    return {"quote": text[start:end], "start": start, "end": end}


def _are_places(start: Any, end: Any, text: str) -> bool:  # JSON
    return type(start) is int and type(end) is int and 0 <= start < end <= len(text)


def _model_answer(answer: Code) -> Code:
    """Return an answer as a model writes it, with quotes in place of passages."""
    if isinstance(answer, list):
        return [_model_answer(part) for part in answer]
    is_passage = isinstance(answer, dict) and set(answer) == {"quote", *PLACE}
    return answer["quote"] if is_passage else answer


def _has_no_majority(answers: Sequence[Hashable]) -> bool:
    return 2 * Counter(answers).most_common(1)[0][1] <= len(answers)


def _refuse(problem: str) -> NoReturn:
    raise ArgumentError(problem, argument="value", code="unknown_choice")
