"""Parts of schemas: subschemas, targets of references, costs, parts for other schemas."""

from __future__ import annotations

import json
import math
import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, unquote

from llamaherd.engine.core import checks
from llamaherd.engine.core.request import check_wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from referencing import Resource

_T = TypeVar("_T")
_DEEPEST_READ = 32
_MOST_REFERENCES = 32  # maximum length of a chain of references

OF_ONE = frozenset(
    {"items", "additionalItems", "additionalProperties", "not", "if", "then", "else"}
) | {"contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
OF_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
OF_NAMED = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
) | {"dependencies"}


def subschemas(schema: object) -> list[dict[str, Any]]:
    """Return the schema and all its subschemas, each once, outermost first."""
    check_wanted()
    by_id: dict[int, dict[str, Any]] = {}
    waiting = [schema]
    while waiting:
        current = waiting.pop()
        if not isinstance(current, dict) or id(current) in by_id:
            continue
        by_id[id(current)] = current
        waiting += [target_of(current.get("$ref"), schema), *inner_schemas(current)]
    return list(by_id.values())


def inner_schemas(schema: dict[str, Any]) -> list[Any]:
    """Return the schemas in the keywords of a schema; no targets of references."""
    schemas: list[Any] = []
    for key, value in schema.items():
        if key in OF_NAMED and isinstance(value, dict):
            schemas += value.values()
        elif key in OF_MANY and isinstance(value, list):
            schemas += value
        elif key in OF_ONE:
            schemas.append(value)
    return schemas


def target_of(reference: object, root: object) -> Any:  # JSON
    """Return the target of a reference within a schema; None if it is missing."""
    if not isinstance(reference, str) or not (reference + "/").startswith("#/"):
        return None
    target: Any = root
    for part in unquote(reference).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict):
            target = target.get(name)
        elif isinstance(target, list) and (i := checks.digits(name)) is not None:
            target = target[i] if i < len(target) else None
        else:
            return None
    return target


def resolve(schema: object, root: object) -> Any:  # JSON
    """Return a schema, or the target of its reference; None if the target is missing."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, dict) or "$ref" not in schema:
            return schema
        schema = target_of(schema["$ref"], root)
    return None


class Subschema(NamedTuple):
    """A subschema with its whole schema.

    `references` were followed to it; a repeated one is a cycle.
    """

    schema: Any
    root: Any
    references: frozenset[str] = frozenset({"#"})

    def referred(self) -> Subschema:
        """Return the target of `$ref`; for a cycle, a schema that accepts any value."""
        reference = self.schema["$ref"]
        if reference in self.references:
            return self.at(None)
        return Subschema(
            target_of(reference, self.root), self.root, self.references | {reference}
        )

    def at(self, schema: object) -> Subschema:
        """Return a `Subschema` for a part of this schema, with the same whole schema."""
        return self._replace(schema=schema)


def parts(node: Subschema, *, is_sure: bool = False) -> list[Subschema]:
    """Return the schemas that a value other than null may follow, each once."""
    by_id: dict[int, Subschema] = {}
    waiting = [node]
    for current in waiting:  # the list grows during the loop
        schema = current.schema
        if not isinstance(schema, dict) or id(schema) in by_id:
            continue
        by_id[id(schema)] = current
        if isinstance(schema.get("$ref"), str):
            waiting.append(current.referred())
        waiting += map(current.at, list_at(schema, "allOf"))
        for key in ("anyOf", "oneOf"):
            choices = [one for one in list_at(schema, key) if not is_null(one)]
            if len(choices) == 1 or not is_sure:
                waiting += map(current.at, choices)
    return list(by_id.values())


class Reader(Generic[_T]):
    """What a schema says of its values, combined from its parts.

    It is `unknown` after `n_left` schemas, and for parts that are nested too deep.

    Args:
        keywords: Function of a schema's own keywords, given `read` for schemas in them.
    """

    def __init__(
        self,
        keywords: Callable[[Subschema, Callable[[Subschema], _T]], _T],
        both: Callable[[_T, _T], _T],
        either: Callable[[Iterator[_T]], _T],
        *,
        unknown: _T,
        n_left: int,
    ) -> None:
        self._own, self._both, self._either = keywords, both, either
        self._unknown, self._n_left = unknown, n_left

    def read(self, node: Subschema, depth: int = 0) -> _T:
        """Return what a schema says."""

        def inner(part: Subschema) -> _T:
            return self.read(part, depth + 1)

        schema = node.schema
        self._n_left -= 1
        if not isinstance(schema, dict) or self._n_left < 0 or depth > _DEEPEST_READ:
            return self._unknown
        facts = self._own(node, inner)
        for part in list_at(schema, "allOf"):
            facts = self._both(facts, inner(node.at(part)))
        for key in ("anyOf", "oneOf"):
            if choices := list_at(schema, key):
                facts = self._both(facts, self._either(map(inner, map(node.at, choices))))
        if isinstance(schema.get("$ref"), str):
            facts = self._both(facts, inner(node.referred()))
        return facts


def list_at(schema: dict[str, Any], key: str) -> list[Any]:
    """Return the list of a keyword; [] if the keyword is missing."""
    value = schema.get(key)
    return value if isinstance(value, list) else []


def is_null(schema: object) -> bool:
    """Return whether a schema accepts only null."""
    return isinstance(schema, dict) and (
        schema.get("type") == "null" or schema.get("const", 0) is None
    )


# llguidance tests whether any text has all patterns. The states of this test are products
# of the states of the patterns: 14 patterns like ".*a.*" take a second, 26 all memory.
_MOST_COST = 3**12
_DEEPEST = 100
# It also intersects the patterns of all names of an object by pairs: 200 patterns take
# half a second, 400 take 14.
_MOST_PAIRS = 1 << 14

_CHOICES = re.compile(r"[*+?{|]")
_JSON_RULE = re.compile(r"%json\s*(?=\{)")


def costs_too_much(schema: object) -> bool:
    """Return whether llguidance would need too long to intersect a schema's patterns."""
    return _cost(schema, schema, {}, 0) > _MOST_COST


def has_costly_names(schema: dict[str, Any]) -> bool:
    """Return whether llguidance would need too long for the names of an object."""
    patterns, names = schema.get("patternProperties"), schema.get("properties")
    n_patterns = len(patterns) if isinstance(patterns, dict) else 0
    n_names = len(names) if isinstance(names, dict) else 0
    return n_patterns * (n_patterns + n_names) > _MOST_PAIRS


def costly_rule(lark: str) -> bool:
    """Return whether a Lark grammar contains a JSON Schema that costs too much."""
    decoder = json.JSONDecoder()
    for rule in _JSON_RULE.finditer(lark):
        try:
            schema, _ = decoder.raw_decode(lark, rule.end())
        except (ValueError, RecursionError):
            continue  # llguidance reports it
        if costs_too_much(schema):
            return True
    return False


def _cost(schema: object, root: object, known: dict[int, float], depth: int) -> float:
    """Return a bound of the states of the patterns that apply to the same text."""
    if not isinstance(schema, dict):
        return 1
    if id(schema) in known:
        return known[id(schema)]
    if depth > _DEEPEST or has_costly_names(schema):
        return math.inf
    known[id(schema)] = 1  # a reference to a schema around this one

    def largest(parts: list[Any]) -> float:
        return max((_cost(part, root, known, depth + 1) for part in parts), default=1)

    pattern = schema.get("pattern")
    cost = 1.0
    if isinstance(pattern, str):
        cost = 2 + len(_CHOICES.findall(pattern))
    for part in list_at(schema, "allOf"):
        cost *= _cost(part, root, known, depth + 1)
    for key in ("anyOf", "oneOf"):
        cost *= largest(list_at(schema, key))
    cost *= _cost(target_of(schema.get("$ref"), root), root, known, depth + 1)
    others = schema.keys() - {"$defs", "definitions", "allOf", "anyOf", "oneOf"}
    cost *= largest(inner_schemas({key: schema[key] for key in others}))
    known[id(schema)] = cost
    return cost


# ---- parts for other schemas

_OLD = ("draft-03", "draft-04", "draft-06", "draft-07")  # siblings of $ref are ignored
_IDENTITY = ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor")
_BESIDE_REFERENCES = frozenset({"$ref", "$defs", "definitions", "title", "description"})


def standalone(schema: Any, start: str = "#") -> Any:  # JSON
    """Return a schema that keeps its meaning at a place in another schema.

    The result is of draft 2020-12, and its references are paths from the root of the
    whole schema. Identifiers and anchors, which would be ambiguous beside other schemas,
    are removed.
    """
    if not isinstance(schema, dict):
        return schema
    root = deepcopy(schema)
    dialect = str(root.get("$schema"))
    is_old = any(draft in dialect for draft in _OLD)
    identity = (*_IDENTITY, "id") if "draft-04" in dialect else _IDENTITY
    with_targets = list(_with_targets(root, dialect))
    for part, _ in with_targets:
        _upgrade_keywords(part, is_old=is_old)
    places = dict(_places(root, start))
    for part, target in with_targets:
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


def _with_targets(
    root: dict[str, Any], dialect: str
) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield all subschemas, each once, with the target of its reference or None."""
    from referencing import Registry  # slow to import
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import (
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
                    lookup = resolver.lookup(part[key])
                except Unresolvable:  # no reference is fetched
                    continue
                target = lookup.contents
                if key != "$ref" and isinstance(target, dict):
                    del part[key]
                waiting.append((kind.create_resource(target), lookup.resolver))
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


def _upgrade_keywords(part: dict[str, Any], *, is_old: bool) -> None:
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
