"""From a JSON Schema to types of Arrow: what it says of a field, it says of all batches.

Types that are guessed from values differ between batches: a whole number here, a fraction
there, and nothing but missing values in a third. Files of one data set must not.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Convert = Callable[[Any], Any]
_MOST_DEEP = 32  # of types within types; a schema may contain itself
_NO_TYPE = frozenset(
    {
        "allOf",
        "oneOf",
        "not",
        "if",
        "patternProperties",
        "prefixItems",
        "dependentSchemas",
    }
)
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of values that follow a schema.

    Attributes:
        type: Its type in Arrow.
        convert: Makes of what `json.loads` gives what an array of that type takes; raises
            ValueError where it has no room for it.
    """

    type: pa.DataType
    convert: Convert


def columns_of(schema: str) -> dict[str, Column]:
    """The columns of answers that follow a schema.

    Args:
        schema: As JSON text.

    Returns:
        For an object a column for each of its properties, by name; {}: it is none, or one
        whose properties are not known.

    Raises:
        ImportError: There is no pyarrow.
    """
    root = json.loads(schema)
    found = _resolved(root, root, 0) if isinstance(root, dict) else {}
    properties = found.get("properties")
    if not isinstance(properties, Mapping) or _NO_TYPE & found.keys():
        return {}
    return {name: _column(each, root, 0) for name, each in properties.items()}


def has_others(schema: str) -> bool:
    """Whether answers may have fields beside those of `columns_of`."""
    root = json.loads(schema)
    found = _resolved(root, root, 0) if isinstance(root, dict) else {}
    return found.get("additionalProperties") is not False or not columns_of(schema)


def _column(schema: object, root: Mapping[str, Any], depth: int) -> Column:
    if not isinstance(schema, Mapping) or depth > _MOST_DEEP:
        return _json()
    schema = _resolved(schema, root, depth)
    if _NO_TYPE & schema.keys():
        return _json()
    if "anyOf" in schema:
        return _any_of(schema["anyOf"], root, depth)
    kinds = _kinds(schema)
    if kinds == {"array"}:
        return _array(schema, root, depth)
    if kinds == {"object"}:
        return _object(schema, root, depth)
    return _scalar(kinds)


def _scalar(kinds: set[str]) -> Column:
    import pyarrow as pa  # noqa: PLC0415 - optional

    if kinds == {"string"}:
        return Column(type=pa.string(), convert=_same)
    if kinds == {"boolean"}:
        return Column(type=pa.bool_(), convert=_same)
    if kinds == {"integer"}:
        return Column(type=pa.int64(), convert=_whole)
    if kinds and kinds <= {"integer", "number"}:
        return Column(type=pa.float64(), convert=_real)
    return _json()


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Column:
    import pyarrow as pa  # noqa: PLC0415 - optional

    if not isinstance(schema.get("items"), Mapping):
        return _json()
    inner = _column(schema["items"], root, depth + 1)

    def convert(value: Any) -> Any:  # noqa: ANN401 - of JSON
        return None if value is None else [inner.convert(each) for each in value]

    return Column(type=pa.list_(inner.type), convert=convert)


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Column:
    import pyarrow as pa  # noqa: PLC0415 - optional

    properties = schema.get("properties")
    # Parquet has no struct without a field.
    if not properties or schema.get("additionalProperties") is not False:
        return _json()
    inner = {name: _column(each, root, depth + 1) for name, each in properties.items()}

    def convert(value: Any) -> Any:  # noqa: ANN401 - of JSON
        if value is None:
            return None
        return {name: each.convert(value.get(name)) for name, each in inner.items()}

    kind = pa.struct([(name, each.type) for name, each in inner.items()])
    return Column(type=kind, convert=convert)


def _any_of(choices: object, root: Mapping[str, Any], depth: int) -> Column:
    """What all of them are, beside null; otherwise JSON."""
    if not isinstance(choices, list):
        return _json()
    given = [each for each in choices if not (isinstance(each, dict) and _is_null(each))]
    if len(given) == 1:
        return _column(given[0], root, depth + 1)
    kinds: set[str] = set()
    for each in given:
        inner = _resolved(each, root, depth) if isinstance(each, dict) else {}
        if "anyOf" in inner or _NO_TYPE & inner.keys():
            return _json()
        kinds |= _kinds(inner) or {"any"}
    return _scalar(kinds)


def _kinds(schema: Mapping[str, Any]) -> set[str]:
    """Which types values may have, beside null; {}: it does not say."""
    kinds = schema.get("type")
    if kinds is None:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        return {_kind_of(each) for each in values or () if each is not None}
    return {kinds} if isinstance(kinds, str) else set(kinds) - {"null"}


def _kind_of(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "string"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return name
    return "any"


def _is_null(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "null"


def _resolved(
    schema: Mapping[str, Any], root: Mapping[str, Any], depth: int
) -> Mapping[str, Any]:
    """What a reference within the schema stands for."""
    for _ in range(_MOST_DEEP - depth):
        target = schema.get("$ref")
        if not isinstance(target, str):
            return schema
        found: Any = root
        for part in target.removeprefix("#").strip("/").split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if name:
                found = found.get(name) if isinstance(found, Mapping) else None
        if not target.startswith("#") or not isinstance(found, Mapping):
            return {}
        schema = found
    return {}


def _json() -> Column:
    """Values of several types, or of none that is known, as JSON text."""
    import pyarrow as pa  # noqa: PLC0415 - optional

    def convert(value: Any) -> Any:  # noqa: ANN401 - of JSON
        return None if value is None else json.dumps(value, ensure_ascii=False)

    return Column(type=pa.string(), convert=convert)


def _same(value: Any) -> Any:  # noqa: ANN401 - of JSON
    return value


def _whole(value: Any) -> Any:  # noqa: ANN401 - of JSON
    if value is None:
        return None
    number = int(value)  # 1.0 is an integer to JSON Schema
    if number not in _INT64:
        raise ValueError("a whole number of the answer does not fit into 64 bits")
    return number


def _real(value: Any) -> Any:  # noqa: ANN401 - of JSON
    if value is None:
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
