"""Columns of the answers to schemas, as values and as Arrow arrays."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.calls.structured.columns import (
    BOOLEAN,
    INTEGER,
    JSON,
    NUMBER,
    STRING,
    Column,
    cells,
    leaves,
)
from llamaherd.calls.structured.quoting import quote_rule
from llamaherd.calls.structured.subschemas import Subschema, list_at, resolved

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa


_MOST = 10_000  # most schemas to read; a small one may describe very many
_MOST_DEEP = 32
# Keywords that allow values outside the columns from `items` and `properties`.
_NOT_PLAIN = frozenset(
    {
        *("allOf", "anyOf", "oneOf", "not", "if", "patternProperties", "prefixItems"),
        *("dependentSchemas",),
    }
)

_NULL = Column("null")
QUOTE = Column(
    "object",
    fields=(("quote", STRING), ("start", INTEGER), ("end", INTEGER)),
    is_closed=True,
)
_SCALARS: dict[str, Column] = {
    column.kind: column for column in (STRING, INTEGER, NUMBER, BOOLEAN, _NULL)
}


def read_columns(schemas: Sequence[str]) -> Column:
    """Return the type of whole answers that follow any of these JSON texts."""
    roots = [json.loads(schema) for schema in dict.fromkeys(schemas)]
    return _either(_Reader().read(Subschema(root, root), 0) for root in roots)


def columns_of(schema: str) -> dict[str, Column]:
    """Return the stored type of each known field of the answers to a schema."""
    root = read_columns([schema])
    return {name: column.stored for name, column in root.fields}


def has_others(schema: str) -> bool:
    """Returns whether answers may have fields that `columns_of` does not return."""
    root = json.loads(schema)
    target = resolved(root, root)
    if not isinstance(target, dict) or "patternProperties" in target:
        return True
    return target.get("additionalProperties") is not False or not columns_of(schema)


class _Reader:
    """Reads the types of schemas.

    After the first `_MOST` schemas, all types are "json".
    """

    def __init__(self) -> None:
        self._n_left = _MOST

    def read(self, node: Subschema, depth: int) -> Column:
        """Returns the type of the values other than null that a schema allows."""
        schema = node.schema
        self._n_left -= 1
        if not isinstance(schema, dict) or self._n_left < 0 or depth > _MOST_DEEP:
            return JSON
        column = self._own(node, depth)
        for part in list_at(schema, "allOf"):
            column = _both(column, self.read(node.at(part), depth + 1))
        for key in ("anyOf", "oneOf"):
            if choices := list_at(schema, key):
                part = (self.read(node.at(choice), depth + 1) for choice in choices)
                column = _both(column, _either(part))
        if isinstance(schema.get("$ref"), str):
            column = _both(column, self.read(node.referred(), depth + 1))
        return column

    def _own(self, node: Subschema, depth: int) -> Column:
        """Returns the type that the keywords of the schema itself allow."""
        schema = node.schema
        if quote_rule(schema) is not None:
            return QUOTE
        if "const" in schema:
            return _of_values([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return _of_values(schema["enum"])
        kinds = schema.get("type")
        if kinds is None:
            kinds = "object" if isinstance(schema.get("properties"), dict) else (
                "array" if isinstance(schema.get("items"), dict) else "json"
            )  # fmt: skip
        kinds = kinds if isinstance(kinds, list) else [kinds]
        return _either(self._typed(str(kind), node, depth) for kind in kinds)

    def _typed(self, kind: str, node: Subschema, depth: int) -> Column:
        schema = node.schema
        is_plain = not _NOT_PLAIN & schema.keys()
        if kind == "object" and isinstance(schema.get("properties"), dict):
            fields = tuple(
                (name, self.read(node.at(field), depth + 1))
                for name, field in schema["properties"].items()
            )
            is_closed = is_plain and schema.get("additionalProperties") is False
            return (
                Column("object", fields=fields, is_closed=is_closed) if fields else JSON
            )
        if kind == "array":
            items = schema.get("items")
            if not isinstance(items, dict) or "prefixItems" in schema:
                return Column("array")
            inner = self.read(node.at(items), depth + 1)
            return Column("array", items=inner, is_closed=is_plain)
        return _SCALARS.get(kind, JSON)


def _of_values(values: Sequence[object]) -> Column:
    """Returns the common type of constants."""
    known = [value for value in values if value is not None]
    if not known:
        return _NULL
    if all(isinstance(value, str) for value in known):
        return Column("enum", levels=tuple(dict.fromkeys(map(str, known))))
    if all(isinstance(value, bool) for value in known):
        return BOOLEAN
    if not all(type(value) in (int, float) for value in known):
        return JSON
    is_whole = all(isinstance(v, int) or v.is_integer() for v in known)  # type: ignore[attr-defined]
    return INTEGER if is_whole else NUMBER


def _either(columns: Iterator[Column] | Sequence[Column]) -> Column:
    """Joins the types of alternatives."""
    merged: Column | None = None
    for column in columns:
        merged = column if merged is None else _any_of(merged, column)
        if merged.kind == "json":
            break
    return JSON if merged is None else merged


def _any_of(one: Column, other: Column) -> Column:  # noqa: PLR0911 - a case each
    """Returns the type of the values that at least one of two types allows."""
    kinds = {one.kind, other.kind}
    if one == other or other.kind == "null":
        return one
    if one.kind == "null":
        return other
    if kinds == {"integer", "number"}:
        return NUMBER
    if kinds == {"enum", "string"}:
        return STRING
    if len(kinds) > 1:
        return JSON
    if one.kind == "enum":
        return Column("enum", levels=tuple(dict.fromkeys([*one.levels, *other.levels])))
    if one.kind == "array":
        known = one.items is not None and other.items is not None
        return Column("array", _any_of(one.items, other.items) if known else None)  # type: ignore[arg-type]
    return Column("object", fields=_merged(one, other, _any_of))


def _both(one: Column, other: Column) -> Column:  # noqa: PLR0911 - a case each
    """Returns the type of the values that both types allow: the more specific type."""
    kinds = {one.kind, other.kind}
    if one == other or other.kind == "json":
        return one
    if one.kind == "json":
        return other
    if kinds == {"integer", "number"}:
        return INTEGER
    if kinds == {"enum", "string"}:
        return one if one.kind == "enum" else other
    if len(kinds) > 1:
        return JSON  # no value fits both types
    if one.kind == "array":
        known = one.items is not None and other.items is not None
        items = _both(one.items, other.items) if known else one.items or other.items  # type: ignore[arg-type]
        return Column("array", items)
    if one.kind == "object":
        return Column("object", fields=_merged(one, other, _both))
    return one


def _merged(
    one: Column, other: Column, how: Callable[[Column, Column], Column]
) -> tuple[tuple[str, Column], ...]:
    fields = dict(one.fields)
    for name, field in other.fields:
        fields[name] = how(fields[name], field) if name in fields else field
    return tuple(fields.items())


@dataclass(frozen=True, slots=True)
class SchemaLayout:
    """Columns of answers that follow schemas, see `core.table.Layout`."""

    schemas: tuple[str, ...]

    def paths(self, *, dotted: bool) -> dict[str, tuple[str, ...]]:
        """Return the path of each column's field; () is the whole answer."""
        columns = leaves(read_columns(self.schemas), dotted=dotted)
        return {name: path for name, (path, _) in columns.items()}

    def kinds(self, *, dotted: bool) -> dict[str, str]:
        """Return a dict from the names in `paths` to kinds of columns."""
        return {
            name: column.kind for name, column in self._columns(dotted=dotted).items()
        }

    def held(
        self, table: Mapping[str, Sequence[Any]], *, dotted: bool
    ) -> tuple[dict[str, list[Any]], dict[int, str]]:
        """Return columns, None where a table cannot store a value, and reasons by row."""
        problems: dict[int, str] = {}
        columns = {
            name: cells(name, table[name], column.hold, problems)
            for name, column in self._columns(dotted=dotted).items()
        }
        return columns, problems

    def arrays(
        self, table: Mapping[str, Sequence[Any]], *, dotted: bool
    ) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """Return the result of `held`, with Arrow arrays."""
        columns, problems = self.held(table, dotted=dotted)
        types = self._columns(dotted=dotted)
        return {n: array(column, types[n]) for n, column in columns.items()}, problems

    def _columns(self, *, dotted: bool) -> dict[str, Column]:
        columns = leaves(read_columns(self.schemas), dotted=dotted)
        return {name: column.stored for name, (_, column) in columns.items()}


def arrow_type(column: Column) -> pa.DataType:
    """Return the Arrow type of a column.

    A vector has no fixed size in this type: before version 26, pyarrow cannot write or
    read a Parquet file with lists of a fixed size of which one is missing.
    """
    import pyarrow as pa  # noqa: PLC0415 - optional

    if column.kind == "array" and column.items is not None:
        return pa.list_(arrow_type(column.items))
    if column.kind == "object":
        return pa.struct([(name, arrow_type(field)) for name, field in column.fields])
    if column.kind == "vector":
        return pa.list_(pa.float32())
    types = {"boolean": pa.bool_(), "integer": pa.int64(), "number": pa.float64()}
    return types.get(column.kind, pa.string())


def array(values: Sequence[Any], column: Column) -> pa.Array:
    """Return the cells of a column as an Arrow array; NaN is a missing number."""
    import pyarrow as pa  # noqa: PLC0415 - optional

    if column.kind not in ("integer", "number", "boolean", "vector"):
        values = [_texts(column, value) for value in values]
    return pa.array(values, arrow_type(column), from_pandas=True)


def valid_text(text: str) -> str:
    """Replace characters that UTF-8 cannot encode by "?"."""
    return text.encode("utf-8", "replace").decode()


def _texts(column: Column, value: Any) -> Any:  # noqa: ANN401 - of JSON
    """Convert values of "json" columns to text: keep texts, write others as JSON."""
    if value is None:
        return None
    if column.kind == "array" and column.items is not None and isinstance(value, list):
        return [_texts(column.items, item) for item in value]
    if column.kind == "object" and isinstance(value, dict):
        return {name: _texts(field, value.get(name)) for name, field in column.fields}
    if column.kind == "json" and not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, default=str)
    return valid_text(value) if isinstance(value, str) else value
