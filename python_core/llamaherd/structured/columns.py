"""Which columns answers have: what their schemas say, whatever the answers are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.structured.places import Place, listed, parts

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST = 10_000  # columns; a small schema may stand for a huge one


@dataclass(frozen=True, slots=True)
class Field:
    """What becomes a column.

    Attributes:
        path: Names that lead to it, from the outermost object on; (): the whole answer.
        places: Schemas that its values may follow.
    """

    path: tuple[str, ...]
    places: tuple[Place, ...]


def fields_of(places: Sequence[Place], *, dotted: bool) -> dict[str, Field]:
    """The columns of objects, by name.

    Args:
        places: Schemas that the objects may follow.
        dotted: Whether fields of objects within objects are columns of their own.

    Returns:
        {}: Not all that follows the schemas are objects, or none has a field.
    """
    found = _below(places, [_MOST] if dotted else [0])
    names = [".".join(field.path) for field in found]
    return dict(zip(_unique(names), found, strict=True))


def _below(places: Sequence[Place], n_left: list[int]) -> list[Field]:
    """Fields of objects; with more than `n_left` columns objects stay what they are."""
    found: list[Field] = []
    for name, inner in _named(places).items():
        n_left[0] -= 1
        below = _below(inner, n_left) if n_left[0] > 0 else []
        found += [Field((name, *each.path), each.places) for each in below] or [
            Field((name,), inner)
        ]
    return found


def _named(places: Sequence[Place]) -> dict[str, tuple[Place, ...]]:
    """Each field that is named, with its schemas; {}: not all are objects."""
    named: dict[str, tuple[Place, ...]] = {}
    for part in [part for place in places for part in parts(place) or [place]]:
        schema = part.schema
        if not isinstance(schema, dict) or kinds_of(schema) - {"object"}:
            return {}
        fields = schema.get("properties")
        for name, inner in fields.items() if isinstance(fields, dict) else ():
            named[name] = (*named.get(name, ()), part.at(inner))
    return named


def _unique(names: list[str]) -> list[str]:
    """Numbers those that were there before, as R does: "a.b", "a.b.1"."""
    taken = set(names)
    found: dict[str, None] = {}
    for name in names:
        own, i = name, 0
        while own in found or (i and own in taken):
            i += 1
            own = f"{name}.{i}"
        found[own] = None
    return list(found)


def kinds_of(schema: dict[str, Any]) -> set[str]:
    """Which types values may have, beside null; {}: it does not say."""
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return {kinds} - {"null"}
    if isinstance(kinds, list):
        return {str(kind) for kind in kinds} - {"null"}
    values = [schema["const"]] if "const" in schema else listed(schema, "enum")
    return {_kind_of(each) for each in values if each is not None}


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "string"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return name
    return "any"
