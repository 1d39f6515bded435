"""Writes instances of JSON Schemas in the form of answers: compact, in schema order."""

from __future__ import annotations

import json
import re
from typing import Any

from jsonschema import validators
from jsonschema.exceptions import ValidationError
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012, EMPTY_REGISTRY

_MAX_DEPTH = 20
_Json = Any


def ways_to_write(schema: _Json, data: _Json) -> list[str]:
    """Return the different texts of a value, of up to three ways to write it.

    The properties are in their own order; in the order of the schema; or in this order,
    with whole numbers such as 1.0 written as 1.
    """
    ordered = in_order(schema, schema, data)
    texts = [
        json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        for value in (data, ordered, _whole(ordered))
    ]
    return list(dict.fromkeys(texts))


def in_order(schema: _Json, root: _Json, data: _Json) -> _Json:
    """Return the data with properties in the order of llguidance.

    For each part of the schema, the properties in `properties` come first, then those in
    `required`; all other properties follow.
    """
    parts = _parts(schema, root, data)
    if isinstance(data, list):
        return [_inner(_of_item(parts, i), root, item) for i, item in enumerate(data)]
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
    schemas = []
    for part in parts:
        items, first = part.get("items"), part.get("prefixItems")
        if isinstance(items, list):
            first, items = items, part.get("additionalItems")
        is_first = isinstance(first, list) and i < len(first)
        schemas.append(first[i] if is_first else items)
    return [schema for schema in schemas if isinstance(schema, dict)]


def _of_property(parts: list[_Json], key: str) -> list[_Json]:
    schemas = []
    for part in parts:
        matching = [(part.get("properties") or {}).get(key)]
        matching += [
            schema
            for pattern, schema in (part.get("patternProperties") or {}).items()
            if _matches(pattern, key)
        ]
        matching = [schema for schema in matching if schema is not None]
        schemas += matching or [part.get("additionalProperties")]
    return [schema for schema in schemas if isinstance(schema, dict)]


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
            inner = [part for part in value if _fits(part, root, data)][:1]
        for part in inner:
            parts += _parts(part, root, data, depth + 1)
    return parts


def _target(reference: _Json, root: _Json) -> _Json:
    registry = EMPTY_REGISTRY.with_resource("", DRAFT202012.create_resource(root))
    try:
        return registry.resolver().lookup(str(reference)).contents
    except Unresolvable:
        return None


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
        return [_whole(value) for value in data]
    if isinstance(data, dict):
        return {key: _whole(value) for key, value in data.items()}
    return data
