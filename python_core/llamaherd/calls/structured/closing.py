"""Closing of the objects of a schema while answers are generated.

In JSON Schema an object may have fields that its schema does not name. A small model
would invent such fields without end. So an answer has only the named fields, unless the
schema says `additionalProperties` or `unevaluatedProperties`.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from llamaherd.calls.structured.enforce import Enforced, SchemaError, enforceable_part
from llamaherd.calls.structured.subschemas import (
    list_at,
    standalone,
    subschemas,
    target_of,
    token,
)

_VALUES = frozenset({"items", "additionalProperties", "unevaluatedItems"})
_NAMED_VALUES = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_SAID = frozenset({"additionalProperties", "const", "enum"})
_CHOICES = ("anyOf", "oneOf")
_CONDITIONS = ("if", "then", "else")
_PARTS_A_SCHEMA = 30  # maximum number of parts that are read, for each subschema
_COPIES = "x-llamaherd-open"  # keyword with copies of targets that are not closed
_MOST_DEPTH = 64  # maximum length of a chain of references and choices


class _TooManyError(Exception):
    """The schema has too many parts."""


class _OwnFields(NamedTuple):
    """Fields that an object may have, and whether a part of it has `properties`."""

    names: dict[str, None]
    patterns: dict[str, None]
    has_properties: bool = False

    def joined(self, other: _OwnFields) -> _OwnFields:
        """Return the fields of both."""
        return _OwnFields(
            self.names | other.names,
            self.patterns | other.patterns,
            self.has_properties or other.has_properties,
        )


class _Around(NamedTuple):
    """Fields that the schema around a choice names for the same object.

    `is_open`: whether it allows other fields, or forbids them itself.
    """

    fields: _OwnFields
    is_open: bool


_NONE = _OwnFields({}, {})
_ALONE = _Around(_NONE, is_open=False)


@lru_cache(maxsize=256)
def enforced_closed(text: str) -> Enforced:
    """Return the part of a schema with closed objects that masks can enforce."""
    schema = json.loads(text)
    narrow = close_objects(schema)
    if narrow == schema:
        return enforceable_part(text)
    try:
        return enforceable_part(
            json.dumps(narrow, ensure_ascii=False, separators=(",", ":"))
        )
    except SchemaError:  # the reason is about the schema as given
        return enforceable_part(text)


def close_objects(schema: object) -> object:
    """Return a schema whose objects have no other fields than those that it names.

    The parts of `allOf`, and a schema beside `$ref`, `anyOf` or `oneOf`, name the fields
    of one object together. An object stays as it is if a part of it has
    `additionalProperties`, `unevaluatedProperties` other than false, `const` or `enum`,
    if no part has `properties`, or if `minProperties` demands more fields than it names.
    """
    try:
        root = standalone(schema)
    except Exception:  # noqa: BLE001 - whatever a schema that is not valid brings about
        return schema  # its check names the reason
    try:
        return _Closer(root).all() if isinstance(root, dict) else schema
    except (_TooManyError, RecursionError):
        return schema


class _Closer:
    """Closes the objects of a schema.

    Where the fields of several parts are closed together, the target of a reference is
    copied, because elsewhere it is closed for itself; values refer to the original.
    """

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._n_left = 1_000 + _PARTS_A_SCHEMA * len(subschemas(root))
        self._copied: list[str] = []  # references that are being copied
        self._copies: dict[str, Any] = {}

    def all(self) -> dict[str, Any]:
        """Return the closed schema."""
        root: dict[str, Any] = self.value(self._root)
        if self._copies:
            root = {**root, _COPIES: self._copies}
        return root

    def value(self, schema: object, place: str | None = None) -> Any:  # JSON
        """Return the closed schema of a value; in a copy, a reference to `place`."""
        if place is not None and isinstance(schema, dict):
            return {"$ref": place}
        return self._object(schema, _ALONE, None)

    def _object(self, schema: object, around: _Around, place: str | None) -> Any:
        """Return the closed schema of an object, or of a choice for an object."""
        if not isinstance(schema, dict) or not _may_be_object(schema):
            return self._copy(schema, {}, place)
        parts = self._parts(schema)
        fields = self._fields(parts)
        naming = [part for part in parts if self._is_naming(part)]
        if (
            around == _ALONE
            and naming != [schema]
            and len(naming) <= 1
            and fields == self._fields(naming)
        ):  # each part is closed for itself
            return self._copy(schema, None, place)
        fields = around.fields.joined(fields)
        is_open = around.is_open or any(map(_is_said, parts))
        choices = {
            id(alternatives): alternatives
            for part in parts
            for alternatives in self._choices(part)
        }
        inner = {
            key: _Around(fields.joined(self._of_others(choices, key)), is_open)
            for key in choices
        }
        result = self._copy(schema, inner, place)
        n_least = max(_count(part.get("minProperties")) for part in parts)
        is_open |= n_least > len(fields.names) and not fields.patterns
        if choices or is_open or not fields.has_properties:
            return result
        return _with_fields(result, fields)

    def _copy(
        self, schema: object, inner: dict[int, _Around] | None, place: str | None
    ) -> Any:
        """Return a schema with closed values; `inner` surrounds its choices, by id."""
        if not isinstance(schema, dict):
            return schema
        copy: dict[str, Any] = {}
        for key, value in schema.items():
            at = None if place is None else f"{place}/{token(key)}"
            if key in _NAMED_VALUES and isinstance(value, dict):
                if at is None or key in ("properties", "patternProperties"):
                    copy[key] = {k: self.value(v, _at(at, k)) for k, v in value.items()}
            elif key in _VALUES:
                copy[key] = self.value(value, at)
            elif key == "prefixItems" and isinstance(value, list):
                copy[key] = [self.value(v, _at(at, i)) for i, v in enumerate(value)]
            elif key == "allOf" and isinstance(value, list):
                copy[key] = [
                    self._object(v, _ALONE, _at(at, i))
                    if inner is None
                    else self._copy(v, inner, _at(at, i))
                    for i, v in enumerate(value)
                ]
            elif key in _CHOICES and isinstance(value, list):
                around = _ALONE if inner is None else inner.get(id(value), _ALONE)
                copy[key] = [
                    self._object(v, around, _at(at, i)) for i, v in enumerate(value)
                ]
            else:
                copy[key] = value
        if inner is not None and isinstance(schema.get("$ref"), str):
            self._put_target(copy, inner)
        return copy

    def _put_target(self, copy: dict[str, Any], inner: dict[int, _Around]) -> None:
        """Replace a reference by a copy of its target, if it names fields."""
        place = copy["$ref"]
        target = target_of(place, self._root)
        is_naming = isinstance(target, dict) and any(
            map(self._is_naming, self._parts(target))
        )
        if not is_naming or place in self._copied or len(self._copied) > _MOST_DEPTH:
            return
        self._copied.append(place)
        name = str(len(self._copies))
        self._copies[name] = None  # the name is taken
        self._copies[name] = self._copy(target, inner, place)
        self._copied.pop()
        copy["$ref"] = f"#/{_COPIES}/{name}"

    # ---- the fields of an object

    def _parts(self, schema: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the schemas that an object follows: members of allOf, and targets."""
        by_id: dict[int, dict[str, Any]] = {}
        waiting: list[object] = [schema]
        while waiting:
            part = waiting.pop(0)
            if not isinstance(part, dict) or id(part) in by_id:
                continue
            self._n_left -= 1
            if self._n_left < 0:
                raise _TooManyError
            by_id[id(part)] = part
            waiting += [target_of(part.get("$ref"), self._root), *list_at(part, "allOf")]
        return list(by_id.values())

    def _is_naming(self, part: dict[str, Any]) -> bool:
        """Whether a part has a say in the fields of its object."""
        naming = {"properties", "patternProperties", "unevaluatedProperties"} | _SAID
        return not naming.isdisjoint(part) or bool(self._choices(part))

    def _choices(self, part: dict[str, Any]) -> list[list[object]]:
        """Return the lists of choices that name fields."""
        lists = [list_at(part, key) for key in _CHOICES]
        return [
            alternatives
            for alternatives in lists
            if any(self._names_fields(alternative, 0) for alternative in alternatives)
        ]

    def _names_fields(self, schema: object, depth: int) -> bool:
        if not isinstance(schema, dict) or depth > _MOST_DEPTH:
            return False
        return any(
            "properties" in part
            or "patternProperties" in part
            or any(
                self._names_fields(inner, depth + 1)
                for key in _CHOICES
                for inner in list_at(part, key)
            )
            for part in self._parts(schema)
        )

    def _fields(self, parts: list[dict[str, Any]], depth: int = 0) -> _OwnFields:
        """Return the fields that the parts of an object name, outside of its choices."""
        fields = _NONE
        for part in parts:
            fields = fields.joined(_own_fields(part))
            others = [part.get(key) for key in _CONDITIONS]
            others += _mapping(part.get("dependentSchemas")).values()
            for key in _CHOICES:
                if (
                    alternatives := list_at(part, key)
                ) and alternatives not in self._choices(part):
                    others += alternatives
            fields = fields.joined(self._all_fields(others, depth))
        return fields

    def _all_fields(self, schemas: list[object], depth: int = 0) -> _OwnFields:
        """Return the fields that schemas name, with their choices."""
        fields = _NONE
        for schema in schemas:
            if isinstance(schema, dict) and depth < _MOST_DEPTH:
                parts = self._parts(schema)
                inside = [
                    c
                    for part in parts
                    for alternatives in self._choices(part)
                    for c in alternatives
                ]
                fields = fields.joined(self._fields(parts, depth + 1))
                fields = fields.joined(self._all_fields(inside, depth + 1))
        return fields._replace(has_properties=False)

    def _of_others(self, choices: dict[int, list[object]], key: int) -> _OwnFields:
        """Return the fields that the other lists of choices name."""
        others = [alternatives for k, alternatives in choices.items() if k != key]
        return self._all_fields(
            [choice for alternatives in others for choice in alternatives]
        )


def _own_fields(part: dict[str, Any]) -> _OwnFields:
    names: list[object] = [*_mapping(part.get("properties")), *list_at(part, "required")]
    for name, needed in _mapping(part.get("dependentRequired")).items():
        names += [name, *(needed if isinstance(needed, list) else [])]
    return _OwnFields(
        {name: None for name in names if isinstance(name, str)},
        dict.fromkeys(_mapping(part.get("patternProperties"))),
        "properties" in part,
    )


def _is_said(part: dict[str, Any]) -> bool:
    """Whether a part itself says which other fields are allowed."""
    other = part.get("unevaluatedProperties", False)
    return not _SAID.isdisjoint(part) or other is not False


def _may_be_object(schema: dict[str, Any]) -> bool:
    types = schema.get("type", "object")
    return "object" in (types if isinstance(types, list) else [types])


def _with_fields(schema: dict[str, Any], fields: _OwnFields) -> dict[str, Any]:
    """Return a schema that allows only some fields."""
    properties = _mapping(schema.get("properties"))
    patterns = _mapping(schema.get("patternProperties"))
    others = [name for name in fields.names if name not in properties]
    all_names = {**properties, **dict.fromkeys(others, True)}
    all_patterns = {**dict.fromkeys(fields.patterns, True), **patterns}
    closing: dict[str, Any] = {"properties": all_names, "additionalProperties": False}
    if all_patterns:
        closing["patternProperties"] = all_patterns
    if "allOf" not in schema:
        return {**schema, **closing}
    closing["properties"] = dict.fromkeys(all_names, True)
    if all_patterns:
        closing["patternProperties"] = dict.fromkeys(all_patterns, True)
    # At the end, it does not change the order of the fields.
    return {**schema, "allOf": [*schema["allOf"], closing]}


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if is_number else 0  # type: ignore[return-value]


def _at(place: str | None, key: object) -> str | None:
    return None if place is None else f"{place}/{token(str(key))}"
