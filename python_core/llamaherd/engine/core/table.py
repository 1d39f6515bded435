"""Tables of results: a row per prompt, a column per field of the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Protocol

from llamaherd.engine.core.errors import CANCELLED, Failure

if TYPE_CHECKING:
    import pyarrow as pa


class Framed(ABC):
    """Base class of results that notebooks show as a table."""

    __slots__ = ()

    @abstractmethod
    def to_pandas(self) -> Any:  # pandas is optional
        """Return the results as a data frame."""

    def _repr_html_(self) -> str | None:
        """Return the first and last rows in HTML; None without pandas."""
        try:
            frame = self.to_pandas()
        except ImportError:
            return None
        return f"<p>{escape(repr(self))}</p>{frame._repr_html_()}"


class Layout(Protocol):
    """Protocol of the columns that answers have by their schemas."""

    def paths(self, *, dotted: bool) -> dict[str, tuple[str, ...]]:
        """Map names of columns to paths of fields; () stands for the whole answer."""
        ...

    def kinds(self, *, dotted: bool) -> Mapping[str, str]:
        """Kinds of the columns: "string", "integer", "number", "boolean" or "json"."""
        ...

    def held(
        self, table: Mapping[str, Sequence[Any]], *, dotted: bool
    ) -> tuple[dict[str, list[Any]], dict[int, str]]:
        """Replace values that a column cannot store; also return the reasons by row."""
        ...

    def arrays(
        self, table: Mapping[str, Sequence[Any]], *, dotted: bool
    ) -> tuple[dict[str, pa.Array], dict[int, str]]:
        """Return the columns of `held` as Arrow arrays with the types of the schemas."""
        ...


def columns(
    values: Sequence[object], layout: Layout, *, dotted: bool
) -> dict[str, list[object]]:
    """Return a list of values for each column; a missing answer is None."""
    rows = [_plain(value) for value in values]
    paths = layout.paths(dotted=dotted)
    return {name: [_at(row, path) for row in rows] for name, path in paths.items()}


def of_kind(values: Sequence[object], kind: str) -> Any:  # of pandas
    """Return a pandas column of parsed JSON whose type depends only on its kind."""
    import pandas as pd  # optional dependency

    kinds: dict[str, tuple[tuple[type, ...], Any]] = {
        # Reasons are texts of a subclass. The dtype of texts is object before pandas 3.
        "string": ((str, Failure), pd.Series([""]).dtype),
        "integer": ((int,), "Int64"),
        "number": ((float, int), "float64"),
        "boolean": ((bool,), "boolean"),
    }
    types, dtype = kinds.get(kind, ((), "object"))
    if not all(value is None or type(value) in types for value in values):
        dtype = "object"  # values returned by a validator
    return pd.Series(list(values), dtype=dtype)


def index_of(values: object) -> Any:  # of pandas
    """Return the index of a pandas Series; None for other values."""
    index = getattr(values, "index", None)
    return None if callable(index) or not hasattr(index, "equals") else index


def set_index(results: object, index: object) -> None:
    """Give results the index of the Series that their prompts or texts came from."""
    if index is not None and hasattr(results, "index_of_prompts"):
        object.__setattr__(results, "index_of_prompts", index)


def with_index(frame: Any, index: Any) -> Any:  # of pandas
    """Return a data frame with a row per prompt, with the index of the prompts."""
    return frame if index is None else frame.set_axis(index, axis=0)


def in_pandas(
    cells: Mapping[str, Sequence[Any]], kinds: Mapping[str, str]
) -> dict[str, Any]:
    """Return columns whose types in pandas depend on their kinds only, see `of_kind`."""
    return {
        name: of_kind(values, kinds[name]) if name in kinds else values
        for name, values in cells.items()
    }


def reasons(
    errors: Sequence[str | None], finish_reasons: Sequence[str]
) -> list[str | None]:
    """Return the reason why each row lacks a result; None for a row with a result."""
    return [
        CANCELLED if error is None and reason == "cancelled" else error
        for error, reason in zip(errors, finish_reasons, strict=True)
    ]


def free_name(name: str, table: Mapping[str, object]) -> str:
    """Return the name of a further column, distinct from the names of fields."""
    while name in table:
        name = f".{name}"
    return name


def with_columns(
    table: Mapping[str, Any], more: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """Append columns to a table."""
    whole = dict(table)
    for name, values in more.items():
        whole[free_name(name, whole)] = values
    return whole


def _at(value: object, path: tuple[str, ...]) -> object:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _plain(value: object) -> object:
    """Convert a value to JSON types; models and dataclasses to their fields."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    from pydantic_core import to_jsonable_python  # imported by the maker of the value

    return to_jsonable_python(value, serialize_unknown=True)
