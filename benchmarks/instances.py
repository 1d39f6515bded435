"""Writes instances of JSON Schemas in the form of answers: compact, in schema order."""

from __future__ import annotations

import json
import re
from typing import Any

from jsonschema import validators
from jsonschema.exceptions import ValidationError
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

_MAX_DEPTH = 20
_Json = Any


def ways_to_write(schema: _Json, data: _Json) -> list[str]:
    """Return the different texts of a value, of up to three ways to write it.

    The properties are in their own order; in the order of the schema; or in this order,
    with whole numbers such as 1.0 written as 1.
    """
    ordered = in_order(schema, schema, data)
    texts = [
        json.dumps(each, ensure_ascii=False, separators=(",", ":"))
        for each in (data, ordered, _whole(ordered))
    ]
    return list(dict.fromkeys(texts))


def in_order(schema: _Json, root: _Json, data: _Json) -> _Json:
    """Return the data with properties in the order of llguidance.

    For each part of the schema, the properties in `properties` come first, then those in
    `required`; all other properties follow.
    """
    parts = _parts(schema, root, data)
    if isinstance(data, list):
        return [_inner(_of_item(parts, i), root, each) for i, each in enumerate(data)]
    if not isinstance(data, dict):
        return data
    names = [name for part in parts for name in part.get("properties") or {}]
    for part in parts:
        required = part.get("required")
        names += required if isinstance(required, list) else []
    keys = [name for name in dict.fromkeys(names) if name in data]
    keys += [key for key in data if key not in keys]
    return {key: _inner(_of_property(parts, key), root, data[key]) for key in keys}


def _inner(schemas: list[_Json], root: _Json, data: _Json) -> _Json:
    return in_order({"allOf": schemas}, root, data) if schemas else data


def _of_item(parts: list[_Json], i: int) -> list[_Json]:
    found = []
    for part in parts:
        items, first = part.get("items"), part.get("prefixItems")
        if isinstance(items, list):
            first, items = items, part.get("additionalItems")
        is_first = isinstance(first, list) and i < len(first)
        found.append(first[i] if is_first else items)
    return [each for each in found if isinstance(each, dict)]


def _of_property(parts: list[_Json], key: str) -> list[_Json]:
    found = []
    for part in parts:
        own = [(part.get("properties") or {}).get(key)]
        own += [
            each
            for pattern, each in (part.get("patternProperties") or {}).items()
            if _matches(pattern, key)
        ]
        own = [each for each in own if each is not None]
        found += own or [part.get("additionalProperties")]
    return [each for each in found if isinstance(each, dict)]


def _matches(pattern: str, key: str) -> bool:
    try:
        return re.search(pattern, key) is not None
    except re.error:
        return False


def _parts(schema: _Json, root: _Json, data: _Json, depth: int = 0) -> list[_Json]:
    """Return all schemas that apply to the data itself, in the order of their text."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return []
    parts = [schema]
    for key, value in schema.items():
        inner: list[_Json] = []
        if key == "$ref":
            inner = [_target(value, root)]
        elif key == "allOf" and isinstance(value, list):
            inner = value
        elif key in ("anyOf", "oneOf") and isinstance(value, list):
            inner = [each for each in value if _fits(each, root, data)][:1]
        for each in inner:
            parts += _parts(each, root, data, depth + 1)
    return parts


def _target(reference: _Json, root: _Json) -> _Json:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    place = root
    for part in filter(None, reference[1:].split("/")):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(place, list) and key.isdigit() and int(key) < len(place):
            place = place[int(key)]
        else:
            place = place.get(key) if isinstance(place, dict) else None
    return place


def _fits(schema: _Json, root: _Json, data: _Json) -> bool:
    kind = validators.validator_for(root, default=validators.Draft202012Validator)
    try:
        validator = kind(root, registry=EMPTY_REGISTRY)
        return bool(validator.evolve(schema=schema).is_valid(data))
    except (Unresolvable, ValidationError, RecursionError):
        return False


def _whole(data: _Json) -> _Json:
    if isinstance(data, float) and data.is_integer():
        return int(data)
    if isinstance(data, list):
        return [_whole(each) for each in data]
    if isinstance(data, dict):
        return {key: _whole(each) for key, each in data.items()}
    return data
