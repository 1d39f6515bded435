"""The columns that a run adds to a table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llamaherd.runs.spec import RunSpec
    from llamaherd.runs.tables import Kind

_KINDS: dict[str, Kind] = {
    "string": "string",
    "integer": "int64",
    "number": "double",
    "boolean": "bool",
}
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
    """The properties that a JSON Schema names at its top, and what they hold."""
    if schema is None:
        return {}
    found = json.loads(schema)
    properties = found.get("properties") if isinstance(found, dict) else None
    if not isinstance(properties, dict):
        return {}
    return {
        str(name): _KINDS.get(_type_of(inner), "json")
        for name, inner in properties.items()
    }


def _type_of(schema: object) -> str:
    """Its one type beside null; "": it has several, or does not say."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    kinds = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    several = [each for each in kinds if each != "null"]
    return str(several[0]) if len(several) == 1 else ""


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


def fields_in(kinds: Mapping[str, Kind], parsed: object) -> list[object]:
    """What an answer says of each field, as its column holds it; None: nothing."""
    if not isinstance(parsed, dict):
        return [None] * len(kinds)
    return [_held(kind, parsed.get(name)) for name, kind in kinds.items()]


def _held(kind: Kind, value: object) -> object:
    """A value that a column of the kind can hold.

    A schema's "number" may be written without a point, its "integer" with one.
    """
    if value is None or kind in ("string", "json"):
        return value
    if kind == "int64":
        number = int(value) if isinstance(value, (int, float)) else None
        is_held = number is not None and -(2**63) <= number < 2**63
        return number if is_held else None
    return float(value) if kind == "double" else value  # type: ignore[arg-type]


def cleaned(text: object) -> str:
    """A text that UTF-8 can encode."""
    found = text if isinstance(text, str) else checks.shown(text)
    try:
        found.encode()
    except UnicodeEncodeError:
        return found.encode("utf-8", "replace").decode()
    return found
