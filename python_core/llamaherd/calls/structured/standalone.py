"""Conversion of a schema to a part that can be placed anywhere in another schema.

The result is of draft 2020-12, and its references are paths from the root of the whole
schema. Identifiers and anchors, which would be ambiguous beside other schemas, are
removed.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any
from urllib.parse import quote, urldefrag, urljoin

from llamaherd.calls.structured.subschemas import OF_MANY, OF_NAMED, OF_ONE, referred

_OLD = ("draft-03", "draft-04", "draft-06", "draft-07")  # siblings of $ref are ignored
_IDENTITY = ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
_BESIDE_REFERENCES = frozenset({"$ref", "$defs", "definitions", "title", "description"})


def standalone(schema: Any, start: str = "#") -> Any:  # noqa: ANN401 - JSON
    """Return a schema that keeps its meaning at a place in another schema."""
    if not isinstance(schema, dict):
        return schema
    return _Schema(deepcopy(schema), start).converted()


class _Schema:
    """A schema with the places of its parts."""

    def __init__(self, root: dict[str, Any], start: str) -> None:
        dialect = root.get("$schema")
        self._is_old = isinstance(dialect, str) and any(d in dialect for d in _OLD)
        self._id = "id" if "draft-04" in str(dialect) else "$id"
        self._root, self._start = root, start
        # Place of each resource by its address, and of each anchor with its fragment.
        self._places = {"": ""}
        self._parts: dict[int, tuple[dict[str, Any], str, str]] = {}
        self._moved: dict[str, str] = {}  # places that other keywords have in 2020-12

    def converted(self) -> dict[str, Any]:
        """Return the schema with its new references."""
        self._visit(self._root, "", "")
        n_visited = -1
        while n_visited != len(self._parts):  # targets may be in other keywords
            n_visited = len(self._parts)
            for part, _, base in list(self._parts.values()):
                place = self._target(part.get("$ref"), base)
                target = None if place is None else referred(f"#{place}", self._root)
                if place is not None and isinstance(target, dict):
                    self._visit(target, place, base)
        waiting = list(self._parts.values())
        for part, _, base in waiting:
            self._rewrite(part, base)
        for part, _, _ in waiting:
            self._upgrade(part)
        return self._root

    def _visit(self, schema: object, place: str, base: str) -> None:
        """Register a part and its subschemas."""
        waiting = [(schema, place, base)]
        while waiting:
            part, place, base = waiting.pop()
            if not isinstance(part, dict) or id(part) in self._parts:
                continue
            base = self._address(part, place, base)
            self._parts[id(part)] = (part, place, base)
            for key, value in part.items():
                inside = f"{place}/{token(key)}"
                if key in OF_NAMED and isinstance(value, dict):
                    waiting += [
                        (v, f"{inside}/{token(k)}", base) for k, v in value.items()
                    ]
                elif key in OF_MANY and isinstance(value, list):
                    if key == "items":
                        self._moved[inside] = f"{place}/prefixItems"
                        self._moved[f"{place}/additionalItems"] = inside
                    waiting += [(v, f"{inside}/{i}", base) for i, v in enumerate(value)]
                elif key in OF_ONE:
                    waiting.append((value, inside, base))

    def _address(self, part: dict[str, Any], place: str, base: str) -> str:
        """Register the identifier and anchors of a part; return its base address."""
        name = part.get(self._id)
        if isinstance(name, str) and not (self._is_old and "$ref" in part):
            address, fragment = urldefrag(_joined(base, name))
            if fragment:  # an anchor before draft 2019-09
                self._places.setdefault(f"{address}#{fragment}", place)
            else:
                base = address
                self._places.setdefault(base, place)
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(part.get(key), str):
                self._places.setdefault(f"{base}#{part[key]}", place)
        return base

    def _target(self, reference: object, base: str) -> str | None:
        """Return the place that a reference names; None if it is not in the schema."""
        if not isinstance(reference, str):
            return None
        address, fragment = urldefrag(_joined(base, reference))
        if fragment and not fragment.startswith("/"):
            return self._places.get(f"{address}#{fragment}")
        place = self._places.get(address)
        return None if place is None else place + fragment

    def _rewrite(self, part: dict[str, Any], base: str) -> None:
        """Rewrite the reference of a part, and remove what identifies the part."""
        for key in ("$dynamicRef", "$recursiveRef"):
            if self._target(part.get(key), base) is not None and "$ref" not in part:
                part["$ref"] = part.pop(key)
        if "$ref" in part:
            place = self._target(part["$ref"], base)
            if place is not None:
                part["$ref"] = self._start + self._moved_place(place)
            if self._is_old:
                for key in part.keys() - _BESIDE_REFERENCES:
                    del part[key]
        for key in (*_IDENTITY, *(["id"] if self._id == "id" else [])):
            if isinstance(part.get(key), (str, bool)):
                del part[key]

    def _moved_place(self, place: str) -> str:
        for old, new in self._moved.items():
            if place.startswith(f"{old}/") or (place == old and old.endswith("Items")):
                return new + place[len(old) :]
        return place

    def _upgrade(self, part: dict[str, Any]) -> None:
        """Replace keywords of older drafts."""
        others = part.pop("additionalItems", None) if self._has_tuple(part) else None
        if self._has_tuple(part):
            part["prefixItems"] = part.pop("items")
            if others is not None:
                part["items"] = others
        elif self._is_old:
            part.pop("additionalItems", None)
        for low in ("minimum", "maximum"):
            name = f"exclusive{low.capitalize()}"
            if isinstance(part.get(name), bool):
                is_exclusive = part.pop(name)
                if is_exclusive and low in part:
                    part[name] = part.pop(low)
        needs = part.get("dependencies")
        if self._is_old and isinstance(needs, dict):
            del part["dependencies"]
            names = {k: v for k, v in needs.items() if isinstance(v, list)}
            schemas = {k: v for k, v in needs.items() if not isinstance(v, list)}
            part |= {"dependentRequired": names} if names else {}
            part |= {"dependentSchemas": schemas} if schemas else {}

    @staticmethod
    def _has_tuple(part: dict[str, Any]) -> bool:
        return isinstance(part.get("items"), list) and "prefixItems" not in part


def _joined(base: str, reference: str) -> str:
    """Return an address relative to a base; a base may be a URN, which has no paths."""
    if not reference:
        return base
    if reference.startswith("#"):
        return base + reference
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


def token(name: str) -> str:
    """Return the name of a key as a part of a reference."""
    return quote(name.replace("~", "~0").replace("/", "~1"), safe="~")
