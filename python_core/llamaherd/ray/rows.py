"""Texts of the rows of a batch, from a column or a template."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from llamaherd.asks.requests import place_of
from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.tables.template import Template

_UINT64 = range(2**64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Texts of the n rows of a batch.

    Attributes:
        texts: n texts; "" for a row without a text.
        problems: n reasons why a row has no text; "" for a row with a text.
        places: n uint64 numbers from which seeds are derived.
    """

    texts: list[str]
    problems: list[str]
    places: list[int]


class Rows:
    """Source of the texts of rows.

    Args:
        prompt: Template with names of columns in braces; None if `column` is given.
        column: Column that contains the texts; None if `prompt` is given.
        id_column: Column whose values identify rows; None to identify rows by their
            texts.

    Raises:
        TypeError: An argument is not a string.
        ValueError: Both or neither of `prompt` and `column` are given, or the template is
            invalid.
    """

    def __init__(
        self, *, prompt: str | None, column: str | None, id_column: str | None
    ) -> None:
        if column is not None and prompt is None:
            self._template = Template.of_column(checks.text("column", column))
        elif prompt is not None and column is None:
            self._template = Template.parsed(checks.text("prompt", prompt))
        else:
            raise ArgumentError(
                "one of prompt (a template such as 'Label this: {text}') and column (the "
                "name of a column of texts) must be given",
                argument="prompt",
                code="missing" if prompt is None else "conflict",
                form="{problem}",
            )
        self._id = None if id_column is None else checks.text("id_column", id_column)

    def asked(self, table: pa.Table) -> Asked:
        """Return the texts of a batch.

        Raises:
            ValueError: A column is missing in the batch.
        """
        names = self._template.columns
        columns = [_values(table, name) for name in names]
        texts, problems = [], []
        for i in range(table.num_rows):
            bad = next((found[i][1] for found in columns if found[i][1]), "")
            row = {name: found[i][0] for name, found in zip(names, columns, strict=True)}
            text, problem = ("", bad) if bad else self._template.filled(row)
            texts.append(text)
            problems.append(problem)
        if self._id is None:
            return Asked(
                texts=texts, problems=problems, places=[place_of(text) for text in texts]
            )
        ids = _values(table, self._id)
        problems = [a or b for a, (_, b) in zip(problems, ids, strict=True)]
        places = [_place(value) for value, _ in ids]
        return Asked(texts=texts, problems=problems, places=places)


def _values(table: pa.Table, name: str) -> list[tuple[Any, str]]:
    """Return pairs of a value and its problem; the problem of a valid value is ""."""
    if name not in table.column_names:
        shown = ", ".join(map(repr, table.column_names[:20])) or "none"
        raise ArgumentError(
            f"the data has no column {name!r}; it has {shown}",
            argument="data",
            place=(name,),
            code="unknown_column",
            form="{problem}",
        )
    column = table[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return [(value, "") for value in column.to_pylist()]
    # A file's string column may contain invalid UTF-8.
    raw = column.cast(pa.large_binary()).to_pylist()
    return [(None, "") if each is None else _decoded(each, name) for each in raw]


def _decoded(raw: bytes, name: str) -> tuple[str, str]:
    try:
        return raw.decode(), ""
    except UnicodeDecodeError as error:
        return "", f"column {name!r} is not valid UTF-8: {error.reason}"


def _place(value: object) -> int:
    """Return the number from which a row's seed is derived; keep integers unchanged."""
    if isinstance(value, int) and value in _UINT64:
        return int(value)
    return place_of(json.dumps(value, default=str))
