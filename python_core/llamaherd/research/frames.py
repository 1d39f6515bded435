"""Columns of data frames of any kind: pandas, polars, Arrow, or a dict of lists.

narwhals knows the libraries; none of them is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from llamaherd.core import checks
from llamaherd.research.codes import is_missing

if TYPE_CHECKING:
    Frame = nw.DataFrame[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Categories:
    """A column of labels, of which all that there may be are known.

    pandas and polars have a type for it; elsewhere it is a column of texts.

    Attributes:
        values: A label for each row, or None.
        names: All labels, in their order.
        ordered: Whether that order has a meaning.
    """

    values: Sequence[str | None]
    names: tuple[str, ...]
    ordered: bool = False


def n_rows(frame: object) -> int:
    """Number of rows.

    Raises:
        TypeError: `frame` is no data frame.
        ValueError: It is a dict of columns that differ in length.
    """
    if isinstance(frame, Mapping):
        return _length(frame)
    return len(_open(frame))


def names(frame: object) -> list[str]:
    """Names of the columns, in their order.

    Raises:
        TypeError: `frame` is no data frame.
        ValueError: Two columns have the same name.
    """
    if isinstance(frame, Mapping):
        return [str(name) for name in frame]
    return list(_open(frame).columns)


def check_index(values: object, frame: object, argument: str) -> None:
    """Checks that a Series of pandas is in the order of a data frame, as its index tells.

    Args:
        values: A Series or a data frame; several as a mapping or a list; else nothing is
            checked.
        frame: The data frame, or a Series.
        argument: What messages call `values`.

    Raises:
        ValueError: It has the same number of rows with another index.
    """
    if isinstance(values, (Mapping, list, tuple)):
        parts = values.values() if isinstance(values, Mapping) else values
        for each in parts:
            if hasattr(each, "index") and not isinstance(each, (str, list, tuple)):
                check_index(each, frame, argument)
        return
    own: Any = getattr(values, "index", None)
    other: Any = getattr(frame, "index", None)
    if not (hasattr(own, "equals") and hasattr(other, "equals")):
        return
    if len(own) == len(other) and not own.equals(other):
        raise ValueError(
            f"{argument} has another index than the data, and the order of rows counts: "
            f"give {argument}.reindex(data.index), or {argument}.to_numpy() if that is "
            "the same"
        )


def index_of(values: object) -> list[Any] | None:
    """Index of a Series or data frame of pandas; None: there is none."""
    index: Any = getattr(values, "index", None)
    if callable(index) or not hasattr(index, "equals"):
        return None
    return list(index)


def column(frame: object, name: str, argument: str) -> list[Any]:
    """The values of a column as Python has them; None where one is missing.

    Missing is what the library calls so, and NaN.

    Args:
        frame: A data frame.
        name: Of the column.
        argument: What messages call `name`.

    Raises:
        TypeError: `frame` is no data frame, or `name` no str.
        ValueError: It has no such column.
    """
    if not isinstance(name, str):
        raise TypeError(
            f"{argument} must be the name of a column, not {checks.shown(name)}"
        )
    there = names(frame)
    if name not in there:
        shown = ", ".join(repr(each) for each in there[:20]) or "none"
        more = f" and {len(there) - 20} more" if len(there) > 20 else ""
        raise ValueError(
            f"{argument} must be a column of the data frame, not {checks.shown(name)}; "
            f"there are {shown}{more}{checks.meant(name, there)}"
        )
    if isinstance(frame, Mapping):
        _length(frame)
        return [_or_none(value) for value in _listed(frame[name])]
    return [_or_none(value) for value in _open(frame)[name].to_list()]


def categories(frame: object, name: str) -> list[Any] | None:
    """All values that a column of categories may have, in their order; None: it is none.

    Raises:
        TypeError: `frame` is no data frame.
        ValueError: It has no such column.
    """
    if isinstance(frame, Mapping):
        given = frame.get(name)
        return list(given.names) if isinstance(given, Categories) else None
    values = _open(frame)[name]
    native = values.to_native()
    if values.implementation.is_pandas() and hasattr(native, "cat"):
        return list(native.cat.categories)
    # Those of polars' other kind come in the order in which a process saw them.
    return list(values.dtype.categories) if isinstance(values.dtype, nw.Enum) else None


def are_ordered(frame: object, name: str) -> bool:
    """Test for a column of categories whose order has a meaning."""
    if isinstance(frame, Mapping):
        given = frame.get(name)
        return isinstance(given, Categories) and given.ordered
    values = _open(frame)[name]
    native = values.to_native()
    is_of_pandas = values.implementation.is_pandas() and hasattr(native, "cat")
    return bool(is_of_pandas and native.cat.ordered)


def with_columns(frame: Any, new: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of any kind
    """The same data frame with more columns; rows, index and other columns stay.

    Args:
        frame: A data frame; it is not changed.
        new: Values by name: sequences with one for each row, arrays or `Categories`.

    Returns:
        A data frame of the same kind; of a mapping a dict.

    Raises:
        TypeError: `frame` is no data frame.
        ValueError: A column has another number of values than the frame has rows.
    """
    n = n_rows(frame)
    for name, values in new.items():
        given = len(values.values if isinstance(values, Categories) else values)
        if given != n:
            raise ValueError(f"column {name!r} must have {n} values, not {given}")
    if isinstance(frame, Mapping):
        plain = {name: _listed(values) for name, values in new.items()}
        return {**frame, **plain}
    opened = _open(frame)
    made = [_series(opened, name, values) for name, values in new.items()]
    return opened.with_columns(*made).to_native() if made else frame


def with_rows(frame: Any, rows: Sequence[int]) -> Any:  # noqa: ANN401 - of any kind
    """Some rows of a data frame, in that order, as one of the same kind.

    Args:
        frame: A data frame; of pandas the index stays with its rows.
        rows: Their places, from 0.

    Raises:
        TypeError: `frame` is no data frame.
    """
    if isinstance(frame, Mapping):
        columns = {name: _listed(values) for name, values in frame.items()}
        return {name: [values[i] for i in rows] for name, values in columns.items()}
    return _open(frame)[list(rows)].to_native()


def _series(frame: Frame, name: str, values: object) -> nw.Series[Any]:
    backend = frame.implementation
    if isinstance(values, Categories):
        texts = list(values.values)
        if backend.is_polars():
            return nw.new_series(name, texts, nw.Enum(values.names), backend=backend)
        made = nw.new_series(name, texts, nw.String, backend=backend)
        if not backend.is_pandas():
            return made
        import pandas as pd  # noqa: PLC0415 - the caller has it

        kind = pd.CategoricalDtype(list(values.names), ordered=values.ordered)
        return nw.from_native(made.to_native().astype(kind), series_only=True)
    if isinstance(values, np.ndarray):
        return nw.new_series(name, values, backend=backend)
    listed = list(values) if isinstance(values, Sequence) else _listed(values)
    nullable = _nullable(name, listed) if backend.is_pandas() else None
    if nullable is not None:
        return nullable
    is_text = all(value is None or isinstance(value, str) for value in listed)
    kind = nw.String if is_text else None  # also where all are missing
    return nw.new_series(name, listed, kind, backend=backend)


def _nullable(name: str, values: list[Any]) -> nw.Series[Any] | None:
    """Whole numbers or truth values of pandas, which stay so beside missing ones."""
    import pandas as pd  # noqa: PLC0415 - the caller has it

    kinds = {type(value) for value in values if value is not None}
    if kinds not in ({int}, {bool}):
        return None
    try:
        array = pd.array(values, dtype="Int64" if int in kinds else "boolean")
    except OverflowError:
        array = pd.array(values, dtype=object)
    made: nw.Series[Any] = nw.from_native(pd.Series(array, name=name), series_only=True)
    return made


def _open(frame: object) -> Frame:
    try:
        return nw.from_native(frame, eager_only=True)
    except DuplicateError as error:
        raise ValueError(
            f"the data frame has columns of the same name: {error}"
        ) from None
    except TypeError:
        hint = "; .collect() it first" if hasattr(frame, "collect") else ""
        raise TypeError(
            "the data frame must be one of pandas, polars or pyarrow, or a dict of "
            f"lists, not {checks.shown(frame)}{hint}"
        ) from None


def _length(frame: Mapping[str, Any]) -> int:
    lengths = {}
    for name, values in frame.items():
        each = _listed(values) if isinstance(values, Categories) else values
        if isinstance(each, (str, bytes)) or not hasattr(each, "__len__"):
            raise TypeError(f"column {name!r} must be a list, not {checks.shown(each)}")
        lengths[name] = len(each)
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name!r}: {n}" for name, n in lengths.items())
        raise ValueError(f"columns must have the same number of rows, not {told}")
    return next(iter(lengths.values()), 0)


def _listed(values: Any) -> list[Any]:  # noqa: ANN401 - of any kind
    """A list: of an array or a series with Python's own numbers."""
    if isinstance(values, Categories):
        return list(values.values)
    for method in ("to_list", "tolist", "to_pylist"):
        if hasattr(values, method):
            return list(getattr(values, method)())
    return list(values)


def _or_none(value: Any) -> Any:  # noqa: ANN401 - whatever a cell holds
    return None if type(value) is not str and is_missing(value) else value
