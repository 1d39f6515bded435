"""Checks codes from browsers, and converts them to one form."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from llamaherd.coding.annotation.answer_types import TYPES
from llamaherd.coding.annotation.label_sets import in_order, joined_labels, none_of
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.codes.span_files import Unit
from llamaherd.coding_page.field_codes import FieldCodes, checked_fields, compared
from llamaherd.coding_page.form import form_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from llamaherd.coding.annotation.codebook import Codebook

# A label, a tuple of labels in the order of the codebook, a tuple of passages in the
# order of the text, or answers by field.
Value = str | tuple[str, ...] | tuple[Unit, ...] | FieldCodes


def are_spans(codebook: Codebook) -> bool:
    """Return True if the codes of a codebook are passages."""
    return codebook.kind is TYPES[SPANS]


def are_fields(codebook: Codebook) -> bool:
    """Return True if the codes of a codebook are answers by field."""
    return codebook.schema is not None


def checked_value(codebook: Codebook, text: str, value: object) -> Value:
    """Check a code of a text, and return it as `Value`.

    Args:
        codebook: Codebook of the code.
        text: The text.
        value: A label; a list of labels; a list of mappings with start, end and label; a
            mapping of fields.

    Raises:
        ArgumentError: The value is not a valid code by the codebook, or does not fit the
            text.
    """
    if are_fields(codebook):
        return checked_fields(codebook.schema, text, value)
    if are_spans(codebook):
        units = [_unit(codebook, text, each) for each in _listed(value)]
        most = codebook.max_spans
        if most is not None and len(units) > most:
            raise _wrong(f"must have at most {most} passages, not {len(units)}")
        return tuple(sorted(set(units)))
    if codebook.kind.is_several:
        labels = [_label(codebook, each) for each in _listed(value)]
        return in_order(labels, codebook.names)
    return _label(codebook, value)


def plain_value(value: Value) -> Any:  # noqa: ANN401 - JSON
    """Return a code as JSON types, which `checked_value` reads."""
    if isinstance(value, str):
        return value
    if isinstance(value, FieldCodes):
        return value.answers
    return [
        each if isinstance(each, str) else each._asdict()  # a Unit is a NamedTuple
        for each in value
    ]


def cell_of(codebook: Codebook, value: Value | None) -> str:
    """Return a code of labels as a cell of a coding sheet; "" without a code."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, FieldCodes):
        return value.content
    labels = [each for each in value if isinstance(each, str)]
    return joined_labels(labels) if labels else none_of(codebook.names)


def is_tie(codebook: Codebook, values: Sequence[Value]) -> bool:
    """Return True if there are at least two codes and none has a majority.

    With fields: return True if this holds for a field whose answers are compared.
    """
    columns = zip(*(compared_parts(codebook, each) for each in values), strict=True)
    return any(_has_no_majority(each) for each in columns)


def compared_parts(codebook: Codebook, value: Value) -> tuple[Hashable, ...]:
    """Return the parts of a code that are compared between coders, in a fixed order.

    With fields: return the answers of fields that are neither free text nor passages.
    """
    if not isinstance(value, FieldCodes):
        return (value,)
    answers = value.answers
    form = form_of(codebook.schema)
    return tuple(compared(each, answers.get(each.name)) for each in form if each.is_coded)


def _has_no_majority(values: Sequence[Hashable]) -> bool:
    if len(values) < 2:
        return False
    return 2 * Counter(values).most_common(1)[0][1] <= len(values)


def _listed(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(f"must be a list, not {checks.shown(value)}")
    return value


def _label(codebook: Codebook, value: object) -> str:
    if not isinstance(value, str) or value not in codebook.names:
        raise _wrong(f"must be a label of the codebook, not {checks.shown(value)}")
    return value


def _unit(codebook: Codebook, text: str, value: object) -> Unit:
    if not isinstance(value, dict):
        raise _wrong(f"must have start, end and label, not be {checks.shown(value)}")
    start, end = value.get("start"), value.get("end")
    if type(start) is int and type(end) is int and 0 <= start < end <= len(text):
        return Unit(start, end, _label(codebook, value.get("label")))
    raise _wrong(
        f"must have 0 <= start < end <= {len(text)}, not {checks.shown(start)} and "
        f"{checks.shown(end)}"
    )


def _wrong(problem: str) -> ArgumentError:
    return ArgumentError(problem, argument="value", code="unknown_choice")
