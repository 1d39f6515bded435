"""The columns that a run adds to a table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.structured.columns import ColumnKind, cells, held, kinds_of_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llamaherd.runs.spec import RunSpec
    from llamaherd.runs.tables import Kind

_KINDS: dict[ColumnKind, Kind] = {
    "string": "string",
    "integer": "int64",
    "number": "double",
    "boolean": "bool",
    "json": "json",
}
_OF_KINDS = {kind: name for name, kind in _KINDS.items()}
ANSWER = ("answer", "finish_reason", "error")
PROBABILITIES = ("prob", "margin", "entropy", "coverage")


def new_columns(spec: RunSpec) -> dict[str, Kind]:
    """Names, without the prefix, and what they hold.

    "error" is always the last one. Of answers under a schema each property of an object
    has a column before that of the answer: texts, numbers and truth values as such,
    anything else as JSON.
    """
    if spec.task == "embed":
        return {"embedding": "vector", "error": "string"}
    found: dict[str, Kind] = {}
    if spec.task == "classify":
        found["label"] = "string"
        found |= dict.fromkeys(PROBABILITIES, "double")
        found |= {f"p_{name}": "double" for name in label_names(spec)}
        return {**found, "error": "string"}
    for name, kind in fields_of(spec.schema).items():
        found[name if name not in ANSWER else f"answer.{name}"] = kind
    return {**found, **dict.fromkeys(ANSWER, "string")}


def fields_of(schema: str | None) -> dict[str, Kind]:
    """The properties of objects that follow a JSON Schema, and what they hold."""
    if schema is None:
        return {}
    return {name: _KINDS[kind] for name, kind in kinds_of_fields(schema).items()}


def label_names(spec: RunSpec) -> list[str]:
    """What the caller gets for labels, each once."""
    labels: Any = spec.classify["labels"]
    is_mapping = hasattr(labels, "values")
    return list(dict.fromkeys(labels.values() if is_mapping else labels))


def prefixed(spec: RunSpec, given: Iterable[str]) -> dict[str, Kind]:
    """The new columns as they are written.

    Args:
        spec: The run.
        given: Names of the input's columns.

    Raises:
        ValueError: The input has a column of such a name.
    """
    found = {spec.prefix + name: kind for name, kind in new_columns(spec).items()}
    both = [name for name in given if name in found]
    if both:
        raise ValueError(
            f"the input has a column {both[0]!r} already, as the output would: give the "
            "new ones a prefix, such as prefix = 'llm_' (--prefix llm_)"
        )
    return found


def fields_in(
    kinds: Mapping[str, Kind], parsed: object
) -> tuple[list[object], str | None]:
    """Values of the fields of an answer, as their columns hold them.

    Returns:
        A value for each field, None where the answer has none or the column no room for
        it; and the reason for that, or None.
    """
    found = parsed if isinstance(parsed, dict) else {}
    problems: dict[int, str] = {}
    values = [
        cells(name, [found.get(name)], partial(held, _OF_KINDS[kind]), problems)[0]
        for name, kind in kinds.items()
    ]
    return values, problems.get(0)


def cleaned(text: object) -> str:
    """A text that UTF-8 can encode."""
    found = text if isinstance(text, str) else checks.shown(text)
    try:
        found.encode()
    except UnicodeEncodeError:
        return found.encode("utf-8", "replace").decode()
    return found
