"""Columns whose values define groups or strata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError, ArgumentTypeError


def named(by: object, argument: str = "by") -> list[str]:
    """Return one column name, or several, as a list.

    Raises:
        TypeError: `by` is not a name or a list of names.
        ValueError: A name is given twice.
    """
    if by is None:
        return []
    if isinstance(by, str):
        return [by]
    what = checks.no_list(by)
    if what or not isinstance(by, Iterable) or isinstance(by, (bytes, Mapping)):
        raise ArgumentTypeError(
            f"must be the name of a column, or a list of names, not "
            f"{what or checks.shown(by)}",
            argument=argument,
        )
    names = [checks.text(argument, each) for each in by]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ArgumentError(
                f"names the column {name!r} twice", argument=argument, code="duplicate"
            )
    return names
