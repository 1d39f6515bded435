"""Checks of the parts of a codebook: texts, labels, schemas and examples."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from llamaherd.calls.structured.shape import schema_text, shape_of
from llamaherd.coding.codes import read
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument, Name
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MAX_LABELS = 10_000


def not_blank(name: Name, value: object) -> str:
    """Check that a text is not blank and has no NUL character; return the text."""
    text = checks.text(name, value)
    if not text.strip():
        raise ArgumentError("must not be empty", argument=name, code="empty")
    if "\0" in text:
        raise ArgumentError("must have no NUL character", argument=name)
    return text


def check_fields(
    content: Iterable[Any],
    known: Sequence[str],
    required: Iterable[str],
    what: str,
    place_of: Callable[[str], Name] = str,
) -> None:
    """Check the names of fields: all are known, and those that are required are there.

    `place_of` returns the place of a field, for messages.
    """
    for name in content:
        if name not in known:
            hint = checks.meant(name, known) or f"; it has {', '.join(known)}"
            raise ArgumentError(
                f"is not a field of {what}{hint}",
                argument=place_of(str(name)),
                code="unknown_argument",
            )
    for name in required:
        if name not in content:
            raise ArgumentError("is missing", argument=place_of(name), code="missing")


def checked_labels(
    labels: object, kind: str, *, least: int = 2, between: str = ""
) -> dict[str, str]:
    """Return definitions by label."""
    definitions: dict[str, str] = {}
    forms: set[str] = set()
    for i, (label, definition) in enumerate(_pairs(labels, kind, least)):
        name = not_blank(Argument("labels", (i,)), label)
        if name != name.strip() or "\n" in name:
            raise ArgumentError(
                f"must be one line without space at its ends, not {name!r}",
                argument="labels",
                place=(i,),
            )
        if between and between in name:
            raise ArgumentError(
                f"must not contain {between!r}, which separates labels: {name!r}",
                argument="labels",
                place=(i,),
            )
        if normalize("NFC", name) in forms:
            raise ArgumentError(
                f"occurs twice: {name!r}", argument="labels", place=(i,), code="duplicate"
            )
        forms.add(normalize("NFC", name))
        what = "" if definition is None else definition
        definitions[name] = checks.text(Argument("labels", (name,)), what)
    return definitions


def _pairs(labels: object, kind: str, least: int) -> list[tuple[Any, Any]]:
    """Return labels with their definitions."""
    if labels is None:
        raise ArgumentError(
            f"{setting('type', kind)} needs labels",
            argument="type",
            code="missing",
            form="{problem}",
        )
    labels = checks.column_as_list(labels)
    if isinstance(labels, (str, bytes)) or not isinstance(labels, (Mapping, Sequence)):
        raise ArgumentTypeError(
            "must be a list of labels, or a mapping from labels to definitions, not "
            f"{checks.shown(labels)}",
            argument="labels",
        )
    pairs = (
        list(labels.items())
        if isinstance(labels, Mapping)
        else [(label, "") for label in labels]
    )
    if not least <= len(pairs) <= _MAX_LABELS:
        raise ArgumentError(
            f"a codebook needs {least} to {_MAX_LABELS:,} labels; it has {len(pairs)}",
            argument="labels",
            code="out_of_range",
            form="{name}: {problem}",
        )
    return pairs


def known_label(name: Name, value: object, names: Sequence[str]) -> str:
    """Return the label among `names` that a value denotes."""
    label = read([[value]], names, argument=name).columns[0][0]
    if label not in names:
        allowed = ", ".join(repr(label) for label in names[:20])
        raise ArgumentError(
            f"must be one of the labels {allowed}, not {checks.shown(value)}"
            f"{checks.meant(value, names)}",
            argument=name,
            code="unknown_choice",
        )
    return str(label)


def checked_schema(schema: object) -> str:
    """Check that a schema describes an object with properties; return it as JSON text."""
    text, _ = schema_text(schema)
    root = json.loads(text)
    if not isinstance(root, dict) or "properties" not in root:
        raise ArgumentError(
            f"must describe an object with properties, not be {checks.shown(text)}",
            argument="schema",
        )
    try:
        shape_of(text)
    except ValueError as error:
        raise ArgumentError(f"cannot be used: {error}", argument="schema") from None
    return text


def checked_fields(name: Name, value: object, schema: str) -> dict[str, Any]:
    """Check that the fields of an example match the schema, and return them."""
    fields = dict(checks.instance(name, value, (Mapping,), "a mapping of fields"))
    try:
        text = json.dumps(fields, ensure_ascii=False)
        shape_of(schema).read(text)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"does not follow the schema: {error}", argument=name
        ) from None
    content: dict[str, Any] = json.loads(text)
    return content


def check_contradictions(examples: Sequence[tuple[str, Any]]) -> None:
    """Check that no text has several labels; spaces and line breaks do not count."""
    known: dict[str, tuple[int, Any]] = {}
    for i, (text, label) in enumerate(examples):
        first, other = known.setdefault(" ".join(text.split()), (i, label))
        if _comparable(label) != _comparable(other):
            raise ArgumentError(
                f"has the text {checks.shown(text)} with two different labels, "
                f"{checks.shown(other)} (example {first + 1}) and {checks.shown(label)} "
                f"(example {i + 1}): keep one of them",
                argument="examples",
                code="contradiction",
            )


def _comparable(label: object) -> str:
    """Return a label as text; the order of several labels does not count."""
    parts = label if isinstance(label, list) else [label]
    return str(sorted(json.dumps(part, sort_keys=True) for part in parts))
