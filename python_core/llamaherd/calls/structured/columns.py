"""Columns of tables and of the answers to schemas: types, cells, Arrow arrays."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.calls.structured.quoting import quote_rule
from llamaherd.calls.structured.subschemas import Reader, Subschema, resolve
from llamaherd.engine.core import checks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

# "json" has values of several types or of an unknown type, "enum" has some texts, and
# "vector" has float32[n]. Stored columns are never "enum" or "null", and always closed.
Kind = Literal[
    "string", "integer", "number", "boolean", "json",
    "array", "object", "vector", "enum", "null",
]  # fmt: skip

_MOST_DEEP = 50  # nesting levels of plain data
_MOST = 10_000  # maximum number of columns; a small schema may describe very many columns
INT64 = range(-(2**63), 2**63)
_TOO_LARGE = "the whole number {} does not fit into 64 bits"


@dataclass(frozen=True, slots=True)
class Column:
    """Type of a column; `items` is None for elements of any type.

    With `is_closed`, an array or object has only the elements or fields listed here.
    """

    kind: Kind
    items: Column | None = None
    fields: tuple[tuple[str, Column], ...] = ()
    levels: tuple[str, ...] = ()
    is_closed: bool = False

    def to_dict(self, n_deep: int = _MOST_DEEP) -> dict[str, Any]:
        """Return plain data; unknown types and those beyond `n_deep` are "any"."""
        if self.kind == "json" or n_deep == 0:
            return {"kind": "any"}
        plain: dict[str, Any] = {"kind": self.kind}
        if self.kind == "enum":
            plain["levels"] = list(self.levels)
        elif self.kind == "array":
            items = JSON if self.items is None else self.items
            plain["items"] = items.to_dict(n_deep - 1)
        elif self.kind == "object":
            plain["names"] = [name for name, _ in self.fields]
            plain["fields"] = [column.to_dict(n_deep - 1) for _, column in self.fields]
        return plain

    @property
    def stored(self) -> Column:
        """Type of the stored column: "json" for a type that is open or varies."""
        if self.kind == "enum":
            return STRING
        if self.kind == "null":
            return JSON
        if self.kind == "array":
            is_known = self.is_closed and self.items is not None
            return replace(self, items=self.items.stored) if is_known else JSON  # type: ignore[union-attr]
        if self.kind == "object":  # Parquet does not allow a struct without fields
            if not self.is_closed or not self.fields:
                return JSON
            fields = tuple((name, column.stored) for name, column in self.fields)
            return replace(self, fields=fields)
        return self

    def hold(self, value: Any) -> Any:  # of JSON
        """Convert a JSON value to the value of a cell; 1 and 1.0 are equal."""
        if self.kind in ("integer", "number"):
            return _number(self.kind, value)
        if self.kind == "array" and self.items is not None and isinstance(value, list):
            return [self.items.hold(item) for item in value]
        if self.kind == "object" and self.fields and isinstance(value, dict):
            known = dict(self.fields)
            return {
                name: known[name].hold(item) if name in known else item
                for name, item in value.items()
            }
        return value


STRING = Column("string")
INTEGER = Column("integer")
NUMBER = Column("number")
BOOLEAN = Column("boolean")
JSON = Column("json")
VECTOR = Column("vector")


def leaves(column: Column, *, dotted: bool) -> dict[str, tuple[tuple[str, ...], Column]]:
    """Return path and type of each column of a table; () is the whole answer."""
    if column.kind != "object" or not column.fields:
        return {"value": ((), column)}
    columns = list(_below(column, (), [_MOST if dotted else 0]))
    names = _unique([".".join(path) for path, _ in columns])
    return dict(zip(names, columns, strict=True))


def cells(
    name: str,
    values: Sequence[Any],
    convert: Callable[[Any], Any],
    problems: dict[int, str],
) -> list[Any]:
    """Convert values to cells; None and a problem where `convert` raises ValueError."""

    def cell(i: int, value: Any) -> Any:  # of JSON
        try:
            return convert(value)
        except ValueError as error:
            problems.setdefault(i, f"{name}: {error}")
            return None

    return [cell(i, value) for i, value in enumerate(values)]


def _number(kind: Kind, value: Any) -> Any:  # of JSON
    if not isinstance(value, (int, float)):
        return value  # None, or a value that a validator converted from a number
    try:
        if kind == "number":
            return float(value)
        number = int(value)
    except OverflowError:
        if kind == "number":  # a whole number larger than any float
            return math.inf if value > 0 else -math.inf
        raise ValueError(_TOO_LARGE.format(checks.brief(value))) from None
    if number not in INT64:
        raise ValueError(_TOO_LARGE.format(checks.brief(value)))
    return number


def _below(
    column: Column, path: tuple[str, ...], n_left: list[int]
) -> Iterator[tuple[tuple[str, ...], Column]]:
    """Yields the fields of an object; expands nested objects to `n_left` columns."""
    for name, inner in column.fields:
        n_left[0] -= 1
        if n_left[0] > 0 and inner.kind == "object" and inner.fields:
            yield from _below(inner, (*path, name), n_left)
        else:
            yield (*path, name), inner


def _unique(names: list[str]) -> list[str]:
    """Appends numbers to names that occurred before, as R does: "a.b", "a.b.1"."""
    taken = set(names)
    unique: dict[str, None] = {}
    for name in names:
        free, i = name, 0
        while free in unique or (i and free in taken):
            i += 1
            free = f"{name}.{i}"
        unique[free] = None
    return list(unique)


# ---- schemas

_MOST_SCHEMAS = 10_000  # most schemas to read; a small one may describe very many
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
    both = partial(_join_types, is_any=False)
    reader = Reader(_own_type, both, _either, unknown=JSON, n_left=_MOST_SCHEMAS)
    return _either(reader.read(Subschema(root, root)) for root in roots)


def columns_of(schema: str) -> dict[str, Column]:
    """Return the stored type of each known field of the answers to a schema."""
    root = read_columns([schema])
    return {name: column.stored for name, column in root.fields}


def has_others(schema: str) -> bool:
    """Returns whether answers may have fields that `columns_of` does not return."""
    root = json.loads(schema)
    target = resolve(root, root)
    if not isinstance(target, dict) or "patternProperties" in target:
        return True
    return target.get("additionalProperties") is not False or not columns_of(schema)


def _own_type(node: Subschema, read: Callable[[Subschema], Column]) -> Column:
    """Return the type that the keywords of a schema itself allow."""
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
    return _either(_column_of_type(str(kind), node, read) for kind in kinds)


def _column_of_type(
    kind: str, node: Subschema, read: Callable[[Subschema], Column]
) -> Column:
    schema = node.schema
    is_plain = not _NOT_PLAIN & schema.keys()
    if kind == "object" and isinstance(schema.get("properties"), dict):
        fields = tuple(
            (name, read(node.at(field))) for name, field in schema["properties"].items()
        )
        is_closed = is_plain and schema.get("additionalProperties") is False
        return Column("object", fields=fields, is_closed=is_closed) if fields else JSON
    if kind == "array":
        items = schema.get("items")
        if not isinstance(items, dict) or "prefixItems" in schema:
            return Column("array")
        return Column("array", items=read(node.at(items)), is_closed=is_plain)
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
        merged = column if merged is None else _join_types(merged, column, is_any=True)
        if merged.kind == "json":
            break
    return JSON if merged is None else merged


_WIDER = {"integer": "number", "enum": "string"}


def _join_types(one: Column, other: Column, *, is_any: bool) -> Column:
    """Return the type of values that both types allow, or at least one of them."""
    neutral = "null" if is_any else "json"
    if one == other or other.kind == neutral:
        return one
    if one.kind == neutral:
        return other
    for narrow, wide in ((one, other), (other, one)):
        if _WIDER.get(narrow.kind) == wide.kind:
            return wide if is_any else narrow
    return _of_parts(one, other, is_any=is_any) if one.kind == other.kind else JSON


def _of_parts(one: Column, other: Column, *, is_any: bool) -> Column:
    """Join two types of the same kind."""
    if one.kind == "enum" and is_any:
        return Column("enum", levels=tuple(dict.fromkeys([*one.levels, *other.levels])))
    if one.kind == "array":
        if one.items is None or other.items is None:
            return Column("array", None if is_any else one.items or other.items)
        return Column("array", _join_types(one.items, other.items, is_any=is_any))
    if one.kind == "object":
        fields = dict(one.fields)
        for name, field in other.fields:
            known = fields.get(name, field)
            fields[name] = _join_types(known, field, is_any=is_any)
        return Column("object", fields=tuple(fields.items()))
    return one


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
    import pyarrow as pa  # optional

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
    import pyarrow as pa  # optional

    if column.kind not in ("integer", "number", "boolean", "vector"):
        values = [_texts(column, value) for value in values]
    return pa.array(values, arrow_type(column), from_pandas=True)


def valid_text(text: str) -> str:
    """Replace characters that UTF-8 cannot encode by "?"."""
    return text.encode("utf-8", "replace").decode()


def _texts(column: Column, value: Any) -> Any:  # of JSON
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
