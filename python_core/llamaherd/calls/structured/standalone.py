"""Conversion of a schema to a part that can be placed anywhere in another schema.

The result is of draft 2020-12, and its references are paths from the root of the whole
schema. Identifiers and anchors, which would be ambiguous beside other schemas, are
removed.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator

    from referencing import Resource

_OLD = ("draft-03", "draft-04", "draft-06", "draft-07")  # siblings of $ref are ignored
_IDENTITY = ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
_BESIDE_REFERENCES = frozenset({"$ref", "$defs", "definitions", "title", "description"})


def standalone(schema: Any, start: str = "#") -> Any:  # noqa: ANN401 - JSON
    """Return a schema that keeps its meaning at a place in another schema."""
    if not isinstance(schema, dict):
        return schema
    root = deepcopy(schema)
    dialect = str(root.get("$schema"))
    is_old = any(draft in dialect for draft in _OLD)
    identity = (*_IDENTITY, "id") if "draft-04" in dialect else _IDENTITY
    parts = list(_parts(root, dialect))
    for part, _ in parts:
        _upgrade(part, is_old=is_old)
    places = dict(_places(root, start))
    for part, target in parts:
        for key in identity:
            if isinstance(part.get(key), (str, bool)):
                del part[key]
        if id(target) in places:
            part["$ref"] = places[id(target)]
        elif isinstance(part.get("$ref"), str) and part["$ref"].startswith("#"):
            part["$ref"] = start + part["$ref"][1:]
        if is_old and "$ref" in part:
            for key in part.keys() - _BESIDE_REFERENCES:
                del part[key]
    return root


def _parts(root: dict[str, Any], dialect: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield all subschemas, each once, with the target of its reference or None."""
    from referencing import Registry  # noqa: PLC0415 - slow to import
    from referencing.exceptions import Unresolvable  # noqa: PLC0415
    from referencing.jsonschema import (  # noqa: PLC0415
        DRAFT202012,
        UnknownDialect,
        specification_with,
    )

    try:
        kind = specification_with(dialect, default=DRAFT202012)
    except UnknownDialect:
        kind = DRAFT202012
    whole: Resource[Any] = kind.create_resource(root)
    registry: Registry[Any] = Registry().with_resource("", whole)
    waiting = [(whole, registry.resolver_with_root(whole))]
    known: set[int] = set()
    while waiting:
        resource, resolver = waiting.pop()
        part = resource.contents
        if not isinstance(part, dict) or id(part) in known:
            continue
        known.add(id(part))
        target = None
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(part.get(key), str) and target is None:
                try:
                    resolved = resolver.lookup(part[key])
                except Unresolvable:  # no reference is fetched
                    continue
                target = resolved.contents
                if key != "$ref" and isinstance(target, dict):
                    del part[key]
                waiting.append((kind.create_resource(target), resolved.resolver))
        yield part, target
        waiting += [
            (inner, resolver.in_subresource(inner)) for inner in resource.subresources()
        ]


def _places(value: object, place: str) -> Iterator[tuple[int, str]]:
    """Yield the id of each object in a schema with its place."""
    if isinstance(value, dict):
        yield id(value), place
        for key, inner in value.items():
            yield from _places(inner, f"{place}/{token(key)}")
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _places(inner, f"{place}/{i}")


def _upgrade(part: dict[str, Any], *, is_old: bool) -> None:
    """Replace keywords of older drafts."""
    is_tuple = isinstance(part.get("items"), list) and "prefixItems" not in part
    others = part.pop("additionalItems", None) if is_tuple or is_old else None
    if is_tuple:
        part["prefixItems"] = part.pop("items")
        if others is not None:
            part["items"] = others
    for low in ("minimum", "maximum"):
        name = f"exclusive{low.capitalize()}"
        if isinstance(part.get(name), bool):
            is_exclusive = part.pop(name)
            if is_exclusive and low in part:
                part[name] = part.pop(low)
    needs = part.get("dependencies")
    if is_old and isinstance(needs, dict):
        del part["dependencies"]
        names = {k: v for k, v in needs.items() if isinstance(v, list)}
        schemas = {k: v for k, v in needs.items() if not isinstance(v, list)}
        part |= {"dependentRequired": names} if names else {}
        part |= {"dependentSchemas": schemas} if schemas else {}


def token(name: str) -> str:
    """Return the name of a key as a part of a reference."""
    return quote(name.replace("~", "~0").replace("/", "~1"), safe="~$")
