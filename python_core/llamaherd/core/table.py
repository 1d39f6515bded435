"""Results as a table: a row for each prompt, a column for each field of the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

CANCELLED = "not computed: the call ended before"


class Layout(Protocol):
    """Which columns answers have, by the schemas that they follow."""

    def paths(self, *, dotted: bool) -> dict[str, tuple[str, ...]]:
        """Names of columns, and of the fields that lead to each; (): the whole answer."""
        ...

    def kinds(self, *, dotted: bool) -> Mapping[str, str]:
        """Kinds of the columns: "string", "integer", "number", "boolean" or "json"."""
        ...

    def held(
        self, table: Mapping[str, Sequence[Any]], *, dotted: bool
    ) -> tuple[dict[str, list[Any]], dict[int, str]]:
        """The columns without values that a table has no room for; the reasons by row."""
        ...

    def arrays(
        self, table: Mapping[str, Sequence[Any]], *, dotted: bool
    ) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """The columns of `held` as arrays of Arrow, of the types that the schemas say."""
        ...


def columns(
    values: Sequence[object], layout: Layout, *, dotted: bool
) -> dict[str, list[object]]:
    """A list of values for each column.

    Args:
        values: What answers say; None where there is none.
        layout: Of their schemas.
        dotted: Whether fields of objects within objects get columns of their own, such as
            "author.name".
    """
    rows = [_plain(value) for value in values]
    paths = layout.paths(dotted=dotted)
    return {name: [_at(row, path) for row in rows] for name, path in paths.items()}


def nullable(values: Sequence[object], kind: str) -> Any:  # noqa: ANN401 - of pandas
    """A column of pandas that keeps whole numbers and truth values beside missing ones.

    Args:
        values: What JSON has.
        kind: "integer" or "boolean"; of another kind values stay as they are.
    """
    import pandas as pd  # noqa: PLC0415 - optional

    kinds = {"integer": (int, "Int64"), "boolean": (bool, "boolean")}
    if kind not in kinds:
        return values
    wanted, dtype = kinds[kind]
    if all(value is None or type(value) is wanted for value in values):
        return pd.array(list(values), dtype=dtype)
    return values  # what a validator has made of them


def reasons(
    errors: Sequence[str | None], finish_reasons: Sequence[str]
) -> list[str | None]:
    """Why each row of a table has nothing; None where it has what was asked for."""
    return [
        CANCELLED if error is None and reason == "cancelled" else error
        for error, reason in zip(errors, finish_reasons, strict=True)
    ]


def name_of_errors(table: Mapping[str, object]) -> str:
    """What the column of reasons is called; a field may be called so as well."""
    name = "error"
    while name in table:
        name = f".{name}"
    return name


def _at(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _plain(value: object) -> object:
    """What JSON has: of a pydantic instance or a dataclass its fields."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - it made the value

    return to_jsonable_python(value, serialize_unknown=True)
