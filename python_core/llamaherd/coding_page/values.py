"""Checks codes from browsers, and converts them to one form."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.research.codes.span_files import Unit
from llamaherd.research.coding.answer_types import TYPES
from llamaherd.research.coding.label_sets import in_order, joined, none_of
from llamaherd.research.coding.span_type import SPANS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.research.coding.codebook import Codebook

# A label, a tuple of labels in the order of the codebook, or a tuple of passages in the
# order of the text.
Value = str | tuple[str, ...] | tuple[Unit, ...]


def are_spans(codebook: Codebook) -> bool:
    """Return True if the codes of a codebook are passages."""
    return codebook.kind is TYPES[SPANS]


def checked_value(codebook: Codebook, text: str, value: object) -> Value:
    """Check a code of a text, and return it as `Value`.

    Args:
        codebook: Codebook of the code.
        text: The text.
        value: A label; a list of labels; a list of mappings with start, end and label.

    Raises:
        ArgumentError: The value is not a valid code by the codebook, or does not fit the
            text.
    """
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
    return [
        each if isinstance(each, str) else each._asdict()  # a Unit is a NamedTuple
        for each in value
    ]


def cell_of(codebook: Codebook, value: Value | None) -> str:
    """Return a code as a cell of a coding sheet; "" without a code."""
    if value is None or isinstance(value, str):
        return value or ""
    labels = [each for each in value if isinstance(each, str)]
    return joined(labels) if labels else none_of(codebook.names)


def is_tie(values: Sequence[Value]) -> bool:
    """Return True if there are at least two codes and none has a majority."""
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
