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
- object: an object of R; `class`, perhaps `numbers`, elements that are single numbers, as
  one vector with names; `parts` that have a `name`, `page` (the printed lines),
  and `json`, which R sends back for later calls, or None; R refuses edits if `is_fixed`
- ended: results of a call that ended early; `finished` and `running`, parts or None, and
  a `line` of counts or None

Vectors, matrices and tables may have a `class` of R and `attributes`, named parts.
R makes a data frame of each table, and one print() and as.data.frame() serve all objects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import starmap
from operator import attrgetter, itemgetter
from typing import Any, cast

import numpy as np

from llamaherd._r.boundary import clean, clean_or_none, form_of

Part = dict[str, Any]
_HEAD = re.compile(r"^<\w+(?:: (.*))?>(.*)$")  # first line of a printed result


def _numbers(values: Iterable[Any]) -> list[float]:
    return [math.nan if number is None else float(number) for number in values]


def _texts(values: Iterable[Any]) -> list[str | None]:
    return [None if text is None else clean(str(text)) for text in values]


_CONVERTED: dict[str, Callable[[Iterable[Any]], list[Any]]] = {
    "text": _texts,
    "number": _numbers,
    "integer": _numbers,  # R makes integers of them, because R's NA is no Python integer
    "flag": lambda values: [None if flag is None else bool(flag) for flag in values],
    "date": _texts,
    "time": lambda values: [time.timestamp() for time in values],
}


def vector(kind: str, values: Iterable[Any], name: str = "") -> Part:
    """Return a vector of a type of this module, other than "factor"."""
    return {"type": kind, "name": clean(name), "values": _CONVERTED[kind](values)}


def named_numbers(values: Mapping[str, float]) -> Part:
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
    codes = [0 if level is None else at.get(level, 0) for level in values]
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
    labels = [str(name) for name in names]
    return {**matrix(values, labels, labels), "type": "counts"}


@form_of.register(np.ndarray)
def array(values: Any, columns: Sequence[str] | None = None) -> Part:  # numpy
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


def table(
    columns: Sequence[Part],
    n: int,
    cls: str = "",
    **attributes: Any,  # see `part_of`
) -> Part:
    """Return a table of n rows; a class `cls`, without its prefix, has `attributes`."""
    part = {"type": "table", "columns": list(columns), "n": n}
    return with_class(part, cls, **attributes) if cls else part


def with_class(part: Part, cls: str, **attributes: Any) -> Part:
    """Return a part with a class, without its prefix, and attributes other than None."""
    contents = {
        name: content for name, content in attributes.items() if content is not None
    }
    return {**part, "class": f"llamaherd_{cls}", "attributes": _named_parts(contents)}


def with_attribute(part: Part, name: str, content: Any) -> Part:
    """Return a part with a further attribute, see `part_of`."""
    more = _named_parts({name: content})
    return {**part, "attributes": [*part["attributes"], *more]}


def parts(**contents: Any) -> Part:  # see `part_of`
    """Return a list of parts with names from contents, see `part_of`."""
    return {"type": "list", "parts": _named_parts(contents)}


def _named_parts(contents: Mapping[str, Any]) -> list[Part]:
    return [{**part_of(content), "name": name} for name, content in contents.items()]


def items(some: Iterable[Part | None], name: str = "") -> Part:
    """Return a list of parts without names."""
    return {"type": "list", "name": name, "parts": [e or value(None) for e in some]}


# Types of columns in all tables, by name; others are numbers, and "code_..." texts.
_NAMES_OF_KINDS = {
    "text": "about answer at between candidate choice code coder codes_sha256 "
    "coefficient content error finish_reason first folder group hash id kind label "
    "majority measure measured method model model_a model_b model_sha256 name node now "
    "outcome part path predictions prompt published quantization question role second "
    "settings sha256 source sources state term text then thinking truth type url "
    "variant verdict version what",
    "integer": "memory_gb n n_coders n_failed n_generated_tokens n_gold n_labels "
    "n_model n_pairs n_prompt_tokens n_reused_tokens n_thinking_tokens n_threads "
    "n_units n_votes pid rank round row wave",
    "flag": "complete consistent fits interrupted is_tie needs_target running stay "
    "thinking_complete",
    "time": "created modified",
}
_KINDS = {n: kind for kind, names in _NAMES_OF_KINDS.items() for n in names.split()}


def table_of(
    rows: Iterable[Any], columns: Iterable[str] = "", cls: str = "", *, numbers: str = ""
) -> Part:
    """Return a table from a mapping, an object or a tuple of cells per row.

    The names of columns may be words of a text; without any they are those of the first
    row. `numbers` are columns that are numbers in this table only.
    """
    all_rows = list(rows)
    first = all_rows[0] if all_rows else ()
    names = columns.split() if isinstance(columns, str) else list(columns)
    names = names or list(first)
    kinds = _KINDS | dict.fromkeys(numbers.split(), "number")

    def column(at: int, name: str) -> Part:
        kind = "text" if name.startswith("code_") else kinds.get(name, "number")
        cell: Callable[[Any], Any] = attrgetter(name)
        if isinstance(first, Mapping):
            cell = itemgetter(name)
        elif type(first) is tuple:
            cell = itemgetter(at)
        return vector(kind, map(cell, all_rows), name)

    return table(list(starmap(column, enumerate(names))), len(all_rows), cls)


def part_of(content: Any) -> Part:
    """Return a part from a part, a simple value, a mapping of numbers, or a sequence.

    Sequences of texts and None become vectors of texts, all other ones numbers.
    """
    if isinstance(content, np.generic):
        content = content.item()
    if content is None or isinstance(content, (str, bool, float)):
        return value(content)
    if isinstance(content, int):
        return vector("integer", [content])
    if isinstance(content, Mapping):
        return cast("Part", content) if "type" in content else named_numbers(content)
    if isinstance(content, np.ndarray):
        return vector("number", content.tolist())
    if isinstance(content, (list, tuple)):
        is_text = all(text is None or isinstance(text, str) for text in content)
        return vector("text" if is_text else "number", content)
    part: Part = form_of(content)
    return part


def fields(record: object, names: str, **renamed: str) -> dict[str, Part]:
    """Return attributes of an object as parts; `renamed` ones by their names in R."""
    attributes = {**{name: name for name in names.split()}, **renamed}
    return {name: part_of(getattr(record, field)) for name, field in attributes.items()}


def value(content: object) -> Part:
    """Return a single text, number, truth value or None."""
    text = clean(content) if isinstance(content, str) else content
    return {"type": "value", "value": text}


def r_object(
    cls: str,
    parts: Mapping[str, Any],
    *,
    page: object,
    json: str | None = None,
    is_fixed: bool = False,
    numbers: Mapping[str, float] | None = None,
) -> Part:
    """Return an object of an R class, named without its prefix "llamaherd_".

    as.data.frame() returns the first table of `parts`. The first line of `page` gets the
    name of R's class. With `json`, content for later calls, R refuses edits of elements.
    `numbers` come before `parts`, in one vector, which takes less time than parts.
    """
    name = f"llamaherd_{cls}"
    return {
        "type": "object",
        "class": name,
        "numbers": None if numbers is None else named_numbers(numbers),
        "parts": _named_parts(parts),
        "page": page_lines(str(page), name),
        "json": clean_or_none(json),
        "is_fixed": is_fixed or json is not None,
    }


def page_lines(page: str, name: str) -> list[str]:
    """Return the lines of a printed result, with R's name of its class in the first."""
    head, *others = clean(page).split("\n")
    match = _HEAD.match(head)
    if match:
        head = f"<{name}>" + (f" {match[1]}" if match[1] else "") + match[2]
    return [head, *others]
