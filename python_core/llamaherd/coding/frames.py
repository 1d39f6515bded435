"""Columns of data frames of any kind: pandas, polars, Arrow, or a dict of lists.

narwhals handles the libraries; none of them is imported here. A record batch of Arrow is
used as a table.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from llamaherd.coding.codes import numbers_of
from llamaherd.coding.codes.cells import LARGEST
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import with_commas
from llamaherd.engine.core.plain import is_missing, plain
from llamaherd.engine.core.table import index_of as pandas_index
from llamaherd.engine.core.words import words

if TYPE_CHECKING:
    from llamaherd.engine.core.arrays import Floats

    Frame = nw.DataFrame[Any]

# Argument of any form that the documentation of a public function lists: a result of
# `annotate`, a data frame of any kind, columns, codes.
Input: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Categories:
    """Column of labels with a known set of possible values.

    pandas and polars have a type for such columns; other libraries get a column of texts.
    """

    values: Sequence[str | None]  # A label for each row, or None
    names: tuple[str, ...]  # All labels, in their order
    ordered: bool = False  # True if the order of labels is meaningful


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Integers:
    """Column of whole numbers; its type is integer even if all values are missing."""

    values: Sequence[int | None]  # A number for each row, or None


def n_rows(frame: object) -> int:
    """Return the number of rows."""
    if isinstance(frame, Mapping):
        return _length(frame)
    return len(_open(frame))


def names(frame: object) -> list[str]:
    """Return the names of the columns, in their order."""
    if isinstance(frame, Mapping):
        return [str(plain(name)) for name in frame]
    return list(_open(frame).columns)


def list_columns(frame: object) -> str:
    """List the first ten columns of the data, and the number of the other columns."""
    return with_commas(getattr(frame, "in_data", ()) or names(frame)) or "none"


def check_index(values: object, frame: object, argument: str) -> None:
    """Check that a pandas Series has the same index as a data frame."""
    if isinstance(values, (Mapping, list, tuple)):
        parts = values.values() if isinstance(values, Mapping) else values
        for part in parts:
            if hasattr(part, "index") and not isinstance(part, (str, list, tuple)):
                check_index(part, frame, argument)
        return
    index: Any = getattr(values, "index", None)
    other: Any = getattr(frame, "index", None)
    if not (hasattr(index, "equals") and hasattr(other, "equals")):
        return
    if len(index) == len(other) and not index.equals(other):
        raise ArgumentError(
            f"has another index than the data, but rows are matched by position: "
            f"pass {argument}.reindex(data.index), or {argument}.to_numpy() if the rows "
            "are in the same order",
            argument=argument,
        )


def in_order_of(frame: object, rows: Any, argument: str) -> Any:
    """Return a selection of rows, with flags of a pandas Series in the frame's order."""
    index: Any = getattr(frame, "index", None)
    index = index if hasattr(index, "equals") else range(n_rows(frame))
    hint = f"give {argument}.to_numpy() if the flags are in the order of the rows"
    if hasattr(rows, "get_indexer") and rows.dtype != bool:
        if list(index) == list(range(len(index))):
            return rows  # a label is the position of its row
        row_index, hint = None, f"give frame.index.isin({argument})"
    else:
        row_index = getattr(rows, "index", None)
        if not hasattr(row_index, "equals") or str(rows.dtype) not in ("bool", "boolean"):
            return rows
    if row_index is not None and list(row_index) == list(index):
        return rows.fillna(value=False).astype(bool)
    if row_index is not None and row_index.is_unique and set(row_index) == set(index):
        return rows.reindex(index).fillna(value=False).astype(bool)
    raise ArgumentError(
        f"has labels of another index than the data: {hint}",
        argument=argument,
        code="conflict",
    )


def index_of(values: object) -> list[Any] | None:
    """Return the index of a pandas Series or data frame; None for other types."""
    index = pandas_index(values)
    return None if index is None else list(index)


def column(frame: object, name: str, argument: str) -> list[Any]:
    """Return the values of a column as Python objects; None for NaN and missing ones."""
    name = plain(name)
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"must be the name of a column, not {checks.brief(name)}", argument=argument
        )
    existing = names(frame)
    if name not in existing:
        raise ArgumentError(
            f"must be a column of the {words().frame}, not {checks.brief(name)}; "
            f"there are {list_columns(frame)}{checks.meant(name, existing)}",
            argument=argument,
        )
    if isinstance(frame, Mapping):
        _length(frame, argument)
        return [_or_none(value) for value in _as_list(frame[name])]
    return [_or_none(value) for value in _open(frame)[name].to_list()]


def categories(frame: object, name: str) -> list[Any] | None:
    """Return all categories of a column, in their order; None without categories."""
    if isinstance(frame, Mapping):
        values = frame.get(name)
        return list(values.names) if isinstance(values, Categories) else None
    values = _open(frame)[name]
    native = values.to_native()
    if values.implementation.is_pandas() and hasattr(native, "cat"):
        return list(native.cat.categories)
    # The categories of polars' Categorical are in order of first use in the process.
    return list(values.dtype.categories) if isinstance(values.dtype, nw.Enum) else None


def are_ordered(frame: object, name: str) -> bool:
    """Return True if a column has categories whose order has a meaning."""
    if isinstance(frame, Mapping):
        values = frame.get(name)
        return isinstance(values, Categories) and values.ordered
    values = _open(frame)[name]
    native = values.to_native()
    is_of_pandas = values.implementation.is_pandas() and hasattr(native, "cat")
    return bool(is_of_pandas and native.cat.ordered)


def with_columns(frame: Any, new: Mapping[str, Any]) -> Any:
    """Return a data frame with additional columns; everything else is unchanged."""
    n = n_rows(frame)
    for name, values in new.items():
        has_values = isinstance(values, (Categories, Integers))
        n_values = len(values.values if has_values else values)
        if n_values != n:
            raise ArgumentError(
                f"column {name!r} must have {n} values, not {n_values}",
                argument="columns",
                place=(name,),
                code="wrong_length",
                form="{problem}",
            )
    if isinstance(frame, Mapping):
        return {
            **frame,
            **{name: _nulls(_as_list(values)) for name, values in new.items()},
        }
    opened = _open(frame)
    columns = [_series(opened, name, values) for name, values in new.items()]
    return opened.with_columns(*columns).to_native() if columns else frame


def with_rows(frame: Any, rows: Sequence[int]) -> Any:
    """Return some rows of a data frame, in the given order; the type stays the same."""
    if isinstance(frame, Mapping):
        columns = {name: _as_list(values) for name, values in frame.items()}
        return {name: [values[i] for i in rows] for name, values in columns.items()}
    return _open(frame)[list(rows)].to_native()


def table_like(
    frame: Any,
    columns: Mapping[str, Sequence[Any]],
    whole: Collection[str] = (),
) -> Any:  # of the same kind
    """Return a new data frame of the same kind as an existing data frame."""
    if isinstance(frame, Mapping):
        return {name: _nulls(list(values)) for name, values in columns.items()}
    opened = _open(frame)
    backend = opened.implementation
    first, *others = (
        nw.new_series(name, values, nw.Int64, backend=backend)
        if name in whole
        else _series(opened, name, values)
        for name, values in columns.items()
    )
    return first.to_frame().with_columns(*others).to_native()


def _series(frame: Frame, name: str, values: Any) -> nw.Series[Any]:
    backend = frame.implementation
    if isinstance(values, Categories):
        return _categorical(frame, name, values)
    if isinstance(values, Integers):
        if backend.is_pandas():
            return _whole(name, values.values)
        return nw.new_series(name, list(values.values), nw.Int64, backend=backend)
    is_array = isinstance(values, np.ndarray)
    if is_array and (backend.is_pandas() or values.dtype.kind != "f"):
        return nw.new_series(name, values, backend=backend)
    cells = list(values) if isinstance(values, Sequence) else _as_list(values)
    if backend.is_pandas():
        nullable = _nullable(name, cells)
        if nullable is not None:
            return nullable
    else:
        cells = _nulls(cells)
    is_text = all(value is None or isinstance(value, str) for value in cells)
    # The type is given for columns in which all values are missing.
    kind = nw.Float64 if is_array else nw.String if is_text else None
    return nw.new_series(name, cells, kind, backend=backend)


def _categorical(frame: Frame, name: str, values: Categories) -> nw.Series[Any]:
    """Return labels as categories if the library has this type, else as texts."""
    backend, texts = frame.implementation, list(values.values)
    if backend.is_polars():
        return nw.new_series(name, texts, nw.Enum(values.names), backend=backend)
    series = nw.new_series(name, texts, nw.String, backend=backend)
    if not backend.is_pandas():
        return series
    import pandas as pd

    kind = pd.CategoricalDtype(list(values.names), ordered=values.ordered)
    return nw.from_native(series.to_native().astype(kind), series_only=True)


def _whole(name: str, values: Sequence[int | None]) -> nw.Series[Any]:
    """Return pandas integers as a nullable series."""
    import pandas as pd

    series = pd.Series(pd.array(list(values), dtype="Int64"), name=name)
    wrapped: nw.Series[Any] = nw.from_native(series, series_only=True)
    return wrapped


def _nullable(name: str, values: list[Any]) -> nw.Series[Any] | None:
    """Return pandas integers or truth values as a nullable series."""
    import pandas as pd

    kinds = {type(value) for value in values if value is not None}
    if kinds not in ({int}, {bool}):
        return None
    try:
        array = pd.array(values, dtype="Int64" if int in kinds else "boolean")
    except OverflowError:
        array = pd.array(values, dtype=object)
    series: nw.Series[Any] = nw.from_native(pd.Series(array, name=name), series_only=True)
    return series


def _open(frame: object) -> Frame:
    arrow: Any = sys.modules.get("pyarrow")  # a batch exists only if it was imported
    if arrow is not None and isinstance(frame, arrow.RecordBatch):
        frame = arrow.Table.from_batches([frame])
    try:
        return nw.from_native(frame, eager_only=True)
    except DuplicateError as error:
        raise ArgumentError(
            f"the {words().frame} has columns of the same name: {error}",
            argument="data",
            code="duplicate",
            form="{problem}",
        ) from None
    except TypeError:
        hint = "; .collect() it first" if hasattr(frame, "collect") else ""
        raise ArgumentTypeError(
            f"the {words().frame} must be one of pandas, polars or pyarrow, or a dict of "
            f"lists, not {checks.brief(frame)}{hint}",
            argument="data",
            form="{problem}",
        ) from None


def _length(frame: Mapping[str, Any], argument: str = "columns") -> int:
    lengths = {}
    for name, values in frame.items():
        column = _as_list(values) if isinstance(values, Categories) else values
        if isinstance(column, (str, bytes)) or not hasattr(column, "__len__"):
            raise ArgumentTypeError(
                f"column {name!r} must be a list, not {checks.brief(column)}",
                argument="columns",
                place=(name,),
                form="{problem}",
            )
        lengths[name] = len(column)
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{name!r}: {n}" for name, n in lengths.items())
        raise ArgumentError(
            f"must have the same number of rows, not {counts}", argument=argument
        )
    return next(iter(lengths.values()), 0)


def _as_list(values: Any) -> list[Any]:
    """Return a list; numbers of arrays and series become Python numbers."""
    if isinstance(values, (Categories, Integers)):
        return list(values.values)
    column: Any = checks.column_as_list(values)
    return list(column)


def _nulls(values: list[Any]) -> list[Any]:
    """Return values with None for NaN, which only pandas takes for a missing value."""
    return [None if isinstance(x, float) and x != x else x for x in values]  # noqa: PLR0124


def _or_none(value: Any) -> Any:
    if type(value) is str:
        return value
    return None if is_missing(value) else plain(value)


def numbers_for(values: object, n_texts: int, argument: str) -> Floats:
    """Return numbers of N texts, float64[N]; missing numbers are NaN."""
    numbers: Floats = numbers_of(values, argument)
    if numbers.shape != (n_texts,):
        raise ArgumentError(
            f"must have {n_texts} values, one for each text, not "
            + " x ".join(map(str, numbers.shape)),
            argument=argument,
            code="wrong_length",
        )
    return numbers


def weights_of(
    frame: Any,  # a data frame of any kind
    weights: str | Sequence[float] | None,
    n_texts: int,
) -> Floats:
    """Return the survey weights of N texts, float64[N]."""
    if weights is None:
        raise ArgumentError(
            "must be a column, or a number for each text: the survey weights",
            argument="weights",
        )
    numbers: object = weights
    if isinstance(weights, str):
        numbers = column(frame, weights, "weights")
    values = numbers_for(numbers, n_texts, "weights")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(bad) > 0:
        first = values[bad[0]]
        weight = "missing" if np.isnan(first) else words().number(f"{first:g}")
        raise ArgumentError(
            f"must be finite and at least 0, not {weight}",
            argument="weights",
            place=(int(bad[0]),),
            code="out_of_range",
        )
    if values.sum() <= 0:
        raise ArgumentError(
            "must be above 0 for some texts", argument="weights", code="out_of_range"
        )
    if values.max() > LARGEST or values.max() < 1 / LARGEST:
        raise ArgumentError(
            f"must have a maximum between {1 / LARGEST:g} and {LARGEST:g}, "
            f"not {values.max():g}",
            argument="weights",
            code="out_of_range",
        )
    return np.asarray(values, dtype=np.float64)
