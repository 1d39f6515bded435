"""The one form in which results cross to R: typed parts, the printed page, JSON.

A part is a dict with a `type`:

- text, number, integer, flag, date, time: a vector; `values`, with None or NaN for NA,
  and perhaps `names`
- factor: a vector; `values` count the `levels` from 1, 0 for NA; perhaps `ordered`
- table: `columns`, vectors and lists that have a `name`; `n` rows
- list: `parts`, with a `name` each or without names
- matrix: `values` by row, as numbers, or as bytes of numbers of `size` bytes; numbers of
  `rows` and `columns`, or their names; perhaps `dims`, the names of both dimensions
- counts: a matrix of whole numbers, as table() returns it
- value: a single `value`; json: a `value` as JSON
- object: an object of R; `class`, `parts` that have a `name`, `page` (the printed lines),
  and `json`, which R sends back for later calls, or None; R refuses edits if `is_fixed`
- ended: results of a call that ended early; `finished` and `running`, parts or None, and
  a `line` of counts or None

Vectors, matrices and tables may have a `class` of R and `attributes`, named parts.
R makes a data frame of each table, and one print() and as.data.frame() serve all objects.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd._r.boundary import clean, clean_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Part = dict[str, Any]
_HEAD = re.compile(r"^<\w+(?:: (.*))?>(.*)$")  # first line of a printed result


def _numbers(values: Iterable[Any]) -> list[float]:
    return [math.nan if each is None else float(each) for each in values]


def _texts(values: Iterable[Any]) -> list[str | None]:
    return [None if each is None else clean(str(each)) for each in values]


_CONVERTED: dict[str, Callable[[Iterable[Any]], list[Any]]] = {
    "text": _texts,
    "number": _numbers,
    "integer": _numbers,  # R makes integers of them, because R's NA is no Python integer
    "flag": lambda values: [None if each is None else bool(each) for each in values],
    "date": _texts,
    "time": lambda values: [each.timestamp() for each in values],
}


def vector(kind: str, values: Iterable[Any], name: str = "") -> Part:
    """Return a vector of a type of this module, other than "factor"."""
    return {"type": kind, "name": clean(name), "values": _CONVERTED[kind](values)}


def named(values: Mapping[str, float]) -> Part:
    """Return a vector of numbers with names."""
    return {**vector("number", values.values()), "names": list(map(clean, values))}


def factor(
    values: Iterable[str | None],
    levels: Sequence[str],
    name: str = "",
    *,
    ordered: bool = False,
) -> Part:
    """Return a factor; values that are no level become NA."""
    at = {level: i + 1 for i, level in enumerate(levels)}
    codes = [0 if each is None else at.get(each, 0) for each in values]
    return {
        "type": "factor",
        "name": clean(name),
        "values": codes,
        "levels": list(map(clean, levels)),
        "ordered": ordered,
    }


def matrix(
    values: Iterable[Iterable[float]],
    rows: Sequence[str],
    columns: Sequence[str],
    dims: Sequence[str] = (),
) -> Part:
    """Return a matrix of numbers with names of rows and columns."""
    return {
        "type": "matrix",
        "values": _numbers(value for row in values for value in row),
        "rows": list(map(clean, rows)),
        "columns": list(map(clean, columns)),
        "dims": list(dims),
    }


def counts(values: Iterable[Iterable[int]], names: Iterable[object]) -> Part:
    """Return counts of pairs of labels, as table() of R does."""
    labels = [str(each) for each in names]
    return {**matrix(values, labels, labels), "type": "counts"}


def array(values: Any, columns: Sequence[str] | None = None) -> Part:  # noqa: ANN401 - numpy
    """Return an array of two dimensions as bytes, perhaps with names of columns."""
    size = 4 if values.dtype == np.float32 else 8
    n_rows, n_columns = values.shape
    return {
        "type": "matrix",
        "values": bytearray(values.astype(f"<f{size}").tobytes()),
        "size": size,
        "rows": n_rows,
        "columns": n_columns if columns is None else list(map(clean, columns)),
    }


def table(columns: Sequence[Part], n: int, cls: str = "", **attributes: Part) -> Part:
    """Return a table of n rows from vectors with names.

    Args:
        columns: The vectors.
        n: Number of rows.
        cls: Class of the data frame without its prefix "llamaherd_"; "" for none.
        attributes: Its attributes.
    """
    made = {"type": "table", "columns": list(columns), "n": n}
    return attributed(made, cls, **attributes) if cls else made


def attributed(part: Part, cls: str, **attributes: Part | None) -> Part:
    """Return a part with a class, without its prefix, and attributes other than None."""
    kept = [{**a, "name": name} for name, a in attributes.items() if a is not None]
    return {**part, "class": f"llamaherd_{cls}", "attributes": kept}


def parts(**named_parts: Part | None) -> Part:
    """Return a list of parts with names; None is a part without a value."""
    some = {name: each or value(None) for name, each in named_parts.items()}
    return {"type": "list", "parts": [{**e, "name": name} for name, e in some.items()]}


def items(some: Iterable[Part | None], name: str = "") -> Part:
    """Return a list of parts without names."""
    return {"type": "list", "name": name, "parts": [e or value(None) for e in some]}


def table_of(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]) -> Part:
    """Return a table from a dict per row.

    Args:
        rows: The rows.
        kinds: Type of each column, in the order of the columns.
    """
    made = [
        vector(kind, [row[name] for row in rows], name) for name, kind in kinds.items()
    ]
    return table(made, len(rows))


def table_of_objects(
    objects: Iterable[object], kinds: Mapping[str, str], cls: str = ""
) -> Part:
    """Return a table from objects with the same attributes.

    Args:
        objects: The objects, one for each row.
        kinds: Type of each column, by the name of the attribute.
        cls: As in `table`.
    """
    rows = list(objects)
    columns = [
        vector(kind, [getattr(row, name) for row in rows], name)
        for name, kind in kinds.items()
    ]
    return table(columns, len(rows), cls)


def value(given: object) -> Part:
    """Return a single text, number, truth value or None."""
    shown = clean_or_none(given) if given is None or isinstance(given, str) else given
    return {"type": "value", "value": shown}


def r_object(
    cls: str,
    parts: Mapping[str, Part | None],
    *,
    page: object,
    json: str | None = None,
    is_fixed: bool = False,
) -> Part:
    """Return an object of an R class.

    Args:
        cls: Class without its prefix "llamaherd_".
        parts: Elements by name; as.data.frame() returns the first table.
        page: The printed text; its first line gets the name of R's class.
        json: Content for later calls of Python. R then refuses edits of the elements.
        is_fixed: True if R also refuses edits without `json`.
    """
    name = f"llamaherd_{cls}"
    return {
        "type": "object",
        "class": name,
        "parts": [{**(part or value(None)), "name": key} for key, part in parts.items()],
        "page": page_lines(str(page), name),
        "json": clean_or_none(json),
        "is_fixed": is_fixed or json is not None,
    }


def page_lines(page: str, name: str) -> list[str]:
    """Return the lines of a printed result, with R's name of its class in the first."""
    head, *others = clean(page).split("\n")
    found = _HEAD.match(head)
    if found:
        head = f"<{name}>" + (f" {found[1]}" if found[1] else "") + found[2]
    return [head, *others]
