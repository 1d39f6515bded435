"""Which columns answers have: what their schemas say, whatever the answers are."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.core import checks
from llamaherd.structured.places import Place, listed, parts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ColumnKind = Literal["string", "integer", "number", "boolean", "json"]

_COLUMN_KINDS: dict[str, ColumnKind] = {
    "string": "string",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}
_MOST_SCHEMAS = 1_000  # that are read for the kind of a column: references multiply them
_INT64 = range(-(2**63), 2**63)
_TOO_LARGE = "the whole number {} does not fit into 64 bits"
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
    """Types that values may have, beside null; {}: it does not say, or only null."""
    return _own_kinds(schema) or set()


def kinds_of_fields(schema: str) -> dict[str, ColumnKind]:
    """Kinds of the fields of objects that follow a schema, by name.

    Args:
        schema: As JSON text.

    Returns:
        {}: Not all that follows the schema are objects, or none has a field.
    """
    root = json.loads(schema)
    fields = fields_of([Place(root, root)], dotted=False)
    return {name: column_kind(field.places) for name, field in fields.items()}


def column_kind(places: Sequence[Place]) -> ColumnKind:
    """Kind of a column whose values follow one of some schemas, or are null.

    References, `anyOf`, `oneOf` and `allOf` count; what only narrows, as `not`, does not.
    """
    found: set[str] = set()
    n_left = [_MOST_SCHEMAS]
    for place in places:
        kinds = _kinds_at(place, n_left)
        if kinds is None:
            return "json"
        found |= kinds
    if found == {"integer", "number"}:
        return "number"
    [kind] = found if len(found) == 1 else {"json"}
    return _COLUMN_KINDS.get(kind, "json")


def held(kind: ColumnKind, value: Any) -> Any:  # noqa: ANN401 - of JSON
    """The value of a cell, as a column of the kind has it.

    A schema's "number" may be written without a point, its "integer" with one.

    Raises:
        ValueError: The column has no room for it.
    """
    if kind not in {"integer", "number"} or not isinstance(value, (int, float)):
        return value  # also what a validator has made of a number
    try:
        if kind == "number":
            return float(value)
        number = int(value)
    except OverflowError:
        if kind == "number":  # a whole number beyond all floats
            return math.inf if value > 0 else -math.inf
        raise ValueError(_TOO_LARGE.format(checks.shown(value))) from None
    if number not in _INT64:
        raise ValueError(_TOO_LARGE.format(checks.shown(value)))
    return number


def cells(
    name: str,
    values: Sequence[Any],
    convert: Callable[[Any], Any],
    problems: dict[int, str],
) -> list[Any]:
    """Values as a column has them, None in place of those that it has no room for.

    Args:
        name: Name of the column.
        values: One for each row.
        convert: Raises ValueError where the column has no room for a value.
        problems: Gets the reason for each row that misses a value.
    """

    def cell(i: int, value: Any) -> Any:  # noqa: ANN401 - of JSON
        try:
            return convert(value)
        except ValueError as error:
            problems.setdefault(i, f"{name}: {error}")
            return None

    return [cell(i, value) for i, value in enumerate(values)]


def _kinds_at(place: Place, n_left: list[int]) -> set[str] | None:
    """Types that values may have, beside null; None: any, or too many to read."""
    schema = place.schema
    n_left[0] -= 1
    if not isinstance(schema, dict) or n_left[0] < 0:
        return None
    found = _own_kinds(schema)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found = _both(found, _kinds_at(place.referred(), n_left))
    for each in listed(schema, "allOf"):
        found = _both(found, _kinds_at(place.at(each), n_left))
    for key in ("anyOf", "oneOf"):
        if choices := listed(schema, key):
            each = [_kinds_at(place.at(choice), n_left) for choice in choices]
            known = [kinds for kinds in each if kinds is not None]
            if len(known) == len(each):
                found = _both(found, set().union(*known))
    return found


def _both(one: set[str] | None, other: set[str] | None) -> set[str] | None:
    """Types that two schemas allow at once."""
    if one is None or other is None:
        return other if one is None else one
    found = one & other
    for few, many in ((one, other), (other, one)):
        if "integer" in few and "number" in many:
            found |= {"integer"}
    return found


def _own_kinds(schema: dict[str, Any]) -> set[str] | None:
    """Types that a schema itself names, beside null; None: it names none."""
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return {kinds} - {"null"}
    if isinstance(kinds, list):
        return {str(kind) for kind in kinds} - {"null"}
    if "const" in schema or isinstance(schema.get("enum"), list):
        values = [schema["const"]] if "const" in schema else listed(schema, "enum")
        return {_kind_of(each) for each in values if each is not None}
    return None


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "string"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return name
    return "any"
