"""From a JSON Schema to types of Arrow: what it says of a field, it says of all batches.

Types that are guessed from values differ between batches: a whole number here, a fraction
there, and nothing but missing values in a third. Files of one data set must not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from llamaherd.structured.columns import (
    ColumnKind,
    Field,
    cells,
    column_kind,
    fields_of,
    held,
    kinds_of,
)
from llamaherd.structured.places import Place, is_null, listed, resolved

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

Convert = Callable[[Any], Any]
_MOST_DEEP = 32  # of types within types; a schema may contain itself
_MOST = 1_000  # of them in the columns of a table
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


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of answers that follow schemas, see `core.table.Layout`.

    Attributes:
        schemas: As JSON texts, one or more.
    """

    schemas: tuple[str, ...]

    def paths(self, *, dotted: bool) -> dict[str, tuple[str, ...]]:
        """Names of columns, and of the fields that lead to each; (): the whole answer."""
        return {name: field.path for name, field in self._fields(dotted=dotted).items()}

    def kinds(self, *, dotted: bool) -> dict[str, ColumnKind]:
        """Kinds of the columns that `paths` names."""
        fields = self._fields(dotted=dotted)
        return {name: column_kind(field.places) for name, field in fields.items()}

    def held(
        self, table: Mapping[str, Sequence[Any]], *, dotted: bool
    ) -> tuple[dict[str, list[Any]], dict[int, str]]:
        """The columns with the values that every kind of table has room for.

        Args:
            table: A list of values of JSON for each of `paths`.
            dotted: As there.

        Returns:
            The columns, with None in place of a value that has no room; and the reasons
            for that, by row.
        """
        columns: dict[str, list[Any]] = {}
        problems: dict[int, str] = {}
        for name, kind in self.kinds(dotted=dotted).items():
            columns[name] = cells(name, table[name], partial(held, kind), problems)
        return columns, problems

    def arrays(
        self, table: Mapping[str, Sequence[Any]], *, dotted: bool
    ) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """The columns as arrays of Arrow.

        Args:
            table: As for `held`.
            dotted: As there.

        Returns:
            As `held`, with arrays.

        Raises:
            ImportError: There is no pyarrow.
            pyarrow.ArrowInvalid: A value is not what the schema says.
        """
        import pyarrow as pa  # noqa: PLC0415 - optional

        arrays: dict[str, pa.Array] = {}
        problems: dict[int, str] = {}
        for name, column in _typed(self._fields(dotted=dotted)).items():
            values = cells(name, table[name], column.convert, problems)
            arrays[name] = pa.array(values, column.type)
        return arrays, problems

    def _fields(self, *, dotted: bool) -> dict[str, Field]:
        places = [_place_of(schema) for schema in self.schemas]
        return fields_of(places, dotted=dotted) or {"value": Field((), tuple(places))}


def columns_of(schema: str) -> dict[str, Column]:
    """The columns of answers that follow a schema.

    Args:
        schema: As JSON text.

    Returns:
        For objects a column for each of their properties, by name; {}: answers may be
        something else, or their properties are not known.

    Raises:
        ImportError: There is no pyarrow.
    """
    return _typed(fields_of([_place_of(schema)], dotted=False))


def has_others(schema: str) -> bool:
    """Whether answers may have fields beside those of `columns_of`."""
    root = json.loads(schema)
    found = resolved(root, root)
    if not isinstance(found, dict) or "patternProperties" in found:
        return True
    return found.get("additionalProperties") is not False or not columns_of(schema)


def _place_of(schema: str) -> Place:
    root = json.loads(schema)
    return Place(root, root)


def _typed(fields: Mapping[str, Field]) -> dict[str, Column]:
    reader = _Reader(_MOST + len(fields))
    return {name: reader.one_of(field.places, 0) for name, field in fields.items()}


class _Reader:
    """Reads the types of columns; after the first `n_left` types all is JSON."""

    def __init__(self, n_left: int) -> None:
        self._n_left = n_left

    def _column(self, place: Place, depth: int) -> Column:
        self._n_left -= 1
        kind = column_kind([place])
        if kind != "json":
            return _scalar(kind)
        schema = resolved(place.schema, place.root)
        is_known = isinstance(schema, dict) and not _NO_TYPE & schema.keys()
        if not is_known or depth > _MOST_DEEP or self._n_left < 0:
            return _json()
        place = place.at(schema)
        if "anyOf" in schema:
            choices = map(place.at, listed(schema, "anyOf"))
            return self.one_of(list(choices), depth + 1)
        kinds = kinds_of(schema)
        if kinds == {"array"} and isinstance(schema.get("items"), dict):
            return _array(self._column(place.at(schema["items"]), depth + 1))
        # Parquet has no struct without a field.
        if (
            kinds == {"object"}
            and schema.get("properties")
            and schema.get("additionalProperties") is False
        ):
            fields = schema["properties"].items()
            return _object(
                {name: self._column(place.at(each), depth + 1) for name, each in fields}
            )
        return _json()

    def one_of(self, places: Sequence[Place], depth: int) -> Column:
        """What all of them are, beside null; otherwise JSON."""
        given = [place for place in places if not is_null(place.schema)]
        if given and all(place == given[0] for place in given):
            return self._column(given[0], depth)
        return _scalar(column_kind(given))


def _scalar(kind: ColumnKind) -> Column:
    """A column of one of `column_kind`'s kinds."""
    import pyarrow as pa  # noqa: PLC0415 - optional

    types = {
        "string": pa.string(),
        "boolean": pa.bool_(),
        "integer": pa.int64(),
        "number": pa.float64(),
    }
    if kind == "json":
        return _json()
    return Column(type=types[kind], convert=partial(held, kind))


def _array(inner: Column) -> Column:
    import pyarrow as pa  # noqa: PLC0415 - optional

    def convert(value: Any) -> Any:  # noqa: ANN401 - of JSON
        return None if value is None else [inner.convert(each) for each in value]

    return Column(type=pa.list_(inner.type), convert=convert)


def _object(inner: Mapping[str, Column]) -> Column:
    import pyarrow as pa  # noqa: PLC0415 - optional

    def convert(value: Any) -> Any:  # noqa: ANN401 - of JSON
        if value is None:
            return None
        return {name: each.convert(value.get(name)) for name, each in inner.items()}

    kind = pa.struct([(name, each.type) for name, each in inner.items()])
    return Column(type=kind, convert=convert)


def _json() -> Column:
    """Values of several types or of an unknown one: texts as such, others as JSON."""
    import pyarrow as pa  # noqa: PLC0415 - optional

    def convert(value: Any) -> Any:  # noqa: ANN401 - of JSON
        is_text = value is None or isinstance(value, str)
        return value if is_text else json.dumps(value, ensure_ascii=False)

    return Column(type=pa.string(), convert=convert)
