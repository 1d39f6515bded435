"""Declared options: fields of dataclasses, each with a check and its documentation."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, field, fields
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


def declared(default: _T, check: Callable[[str, Any], object], **more: object) -> _T:
    """Declare a field.

    Args:
        default: Value if none is given. Only a field with the default None may be None.
        check: Function of name and value that returns the normalized value, or raises.
        **more: Further metadata.
    """
    return field(default=default, metadata={"check": check, **more})


def check_fields(instance: object) -> None:
    """Check the fields of a dataclass and normalize their values.

    Default values are not checked: they must be declared in normalized form.
    """
    for name, default, check in _checks(type(instance)):  # type: ignore[arg-type]
        value = getattr(instance, name)
        if value is not default:
            object.__setattr__(instance, name, check(name, value))


@cache
def _checks(kind: type) -> list[tuple[str, object, Callable[[str, Any], object]]]:
    """Return the name, the default and the check of each field that has a check."""
    return [
        (each.name, each.default, each.metadata["check"])
        for each in fields(kind)
        if "check" in each.metadata
    ]


def suggests_names(kind: type[_T]) -> type[_T]:
    """Let the constructor of a dataclass suggest a name for a misspelt argument."""
    create = kind.__init__
    known = dict.fromkeys(each.name for each in fields(kind) if each.init)  # type: ignore[arg-type]

    @wraps(create)
    def init(self: object, *args: object, **given: object) -> None:
        for name in given:
            if name not in known:
                hint = checks.meant(name, known) or f"; it has {', '.join(known)}"
                raise ArgumentTypeError(
                    f"is not an argument of {kind.__name__}{hint}",
                    argument=name,
                    code="unknown_argument",
                )
        create(self, *args, **given)

    kind.__init__ = init  # type: ignore[method-assign]
    return kind


def defaults_of(kind: type) -> dict[str, Any]:
    """Return a dict from the names of fields to their default values."""
    found = {}
    for each in fields(kind):
        if each.default is not MISSING:
            found[each.name] = each.default
        elif each.default_factory is not MISSING:
            found[each.name] = each.default_factory()
    return found


def docs_of(kind: type) -> dict[str, str]:
    """Return a dict from the names of fields to their entries under "Attributes:".

    Entries of base classes are included. Without docstrings (`python -OO`) the result is
    empty.
    """
    docs: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        docs |= _entries(inspect.cleandoc(each.__doc__ or ""))
    return docs


def first_sentence(doc: str) -> str:
    """Return the first sentence of a field's documentation."""
    head, end, _ = doc.partition(". ")
    return f"{head}." if end else doc


def _entries(docstring: str) -> dict[str, str]:
    """Return the entries of the section "Attributes:", each as one line."""
    _, found, section = docstring.partition("Attributes:\n")
    entries: dict[str, str] = {}
    name = ""
    for line in section.splitlines() if found else ():
        if line and not line.startswith(" "):
            break
        text = line.strip()
        is_first = line.startswith("    ") and not line.startswith("     ")
        if is_first:
            name, _, text = text.partition(": ")
            entries[name] = text
        elif text and name:
            entries[name] += f" {text}"
    return entries
