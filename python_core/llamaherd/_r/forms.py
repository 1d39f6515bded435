"""The one form in which results cross to R: typed parts, the printed page, JSON.

A part is a dict with a `type`:

- text, number, integer, flag, date, time: a vector; `values`, with None or NaN for NA,
  and perhaps `names`
- factor: a vector; `values` count the `levels` from 1, 0 for NA
- table: `columns`, vectors that have a `name`; `n` rows; perhaps `class` and `attributes`
- list: `parts` that have a `name`
- matrix: a vector of numbers by row; `rows` and `columns` are names
- value: a single `value`; json: a `value` as JSON
- object: an object of R; `class`, `parts` that have a `name`, `page` (the printed lines),
  and `json`, which R sends back for later calls, or None
- codebook, gold: an object of these classes; `value`, its content
- ended: results of a call that ended early; `finished` and `running`, parts or None, and
  a `line` of counts or None

R makes a data frame of each table, and one print() and as.data.frame() serve all objects.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from llamaherd._r.boundary import clean, clean_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Part = dict[str, Any]
_HEAD = re.compile(r"^<\w+(?:: (.*))?>$")  # first line of a printed result


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


def factor(values: Iterable[str | None], levels: Sequence[str], name: str = "") -> Part:
    """Return a factor; values that are no level become NA."""
    at = {level: i + 1 for i, level in enumerate(levels)}
    codes = [0 if each is None else at.get(each, 0) for each in values]
    return {
        "type": "factor",
        "name": clean(name),
        "values": codes,
        "levels": list(map(clean, levels)),
    }


def matrix(values: Iterable[Iterable[float]], rows: Sequence[str], columns: Any) -> Part:  # noqa: ANN401 - names
    """Return a matrix of numbers with names of rows and columns."""
    return {
        "type": "matrix",
        "values": _numbers(value for row in values for value in row),
        "rows": list(map(clean, rows)),
        "columns": list(map(clean, columns)),
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
    if cls:
        named_parts = [{**each, "name": name} for name, each in attributes.items()]
        made |= {"class": f"llamaherd_{cls}", "attributes": named_parts}
    return made


def parts(**named_parts: Part | None) -> Part:
    """Return a list of parts with names; None is a part without a value."""
    some = {name: each or value(None) for name, each in named_parts.items()}
    return {"type": "list", "parts": [{**e, "name": name} for name, e in some.items()]}


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
    cls: str, parts: Mapping[str, Part], *, page: object, json: str | None = None
) -> Part:
    """Return an object of an R class.

    Args:
        cls: Class without its prefix "llamaherd_".
        parts: Elements by name; as.data.frame() returns the first table.
        page: The printed text; its first line gets the name of R's class.
        json: Content for later calls of Python. R then refuses edits of the elements.
    """
    name = f"llamaherd_{cls}"
    return {
        "type": "object",
        "class": name,
        "parts": [{**part, "name": key} for key, part in parts.items()],
        "page": page_lines(str(page), name),
        "json": clean_or_none(json),
    }


def page_lines(page: str, name: str) -> list[str]:
    """Return the lines of a printed result, with R's name of its class in the first."""
    head, *others = clean(page).split("\n")
    found = _HEAD.match(head)
    if found:
        head = f"<{name}>" + (f" {found[1]}" if found[1] else "")
    return [head, *others]
