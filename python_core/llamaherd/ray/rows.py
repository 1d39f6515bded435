"""What is asked of each row of a batch: a column's text, or a template's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from llamaherd.core import checks
from llamaherd.run.requests import place_of
from llamaherd.runs.template import Template

_UINT64 = range(2**64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked of the n rows of a batch.

    Attributes:
        texts: n texts; "" where there is none.
        problems: n reasons why there is none; "": there is one.
        places: n uint64, for seeds.
    """

    texts: list[str]
    problems: list[str]
    places: list[int]


class Rows:
    """Where the texts of rows are.

    Args:
        prompt: A text with names of columns in braces; None: `column`.
        column: The column that has the texts; None: `prompt`.
        id_column: One whose values tell rows apart; None: the texts do.

    Raises:
        TypeError: An argument is no text.
        ValueError: Both or none of the first two are given; the template is none.
    """

    def __init__(
        self, *, prompt: str | None, column: str | None, id_column: str | None
    ) -> None:
        if column is not None and prompt is None:
            self._template = Template.of_column(checks.text("column", column))
        elif prompt is not None and column is None:
            self._template = Template.parsed(checks.text("prompt", prompt))
        else:
            raise ValueError(
                "one of prompt (a template such as 'Label this: {text}') and column (the "
                "name of a column of texts) must be given"
            )
        self._id = None if id_column is None else checks.text("id_column", id_column)

    def asked(self, table: pa.Table) -> Asked:
        """The texts of a batch.

        Raises:
            ValueError: It lacks a column.
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
    """Values of a column, each with what is wrong with it."""
    if name not in table.column_names:
        shown = ", ".join(map(repr, table.column_names[:20])) or "none"
        raise ValueError(f"the data has no column {name!r}; it has {shown}")
    column = table[name]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return [(value, "") for value in column.to_pylist()]
    # What a file calls text need not be text.
    raw = column.cast(pa.large_binary()).to_pylist()
    return [(None, "") if each is None else _decoded(each, name) for each in raw]


def _decoded(raw: bytes, name: str) -> tuple[str, str]:
    try:
        return raw.decode(), ""
    except UnicodeDecodeError as error:
        return "", f"column {name!r} is not valid UTF-8: {error.reason}"


def _place(value: object) -> int:
    """Whole numbers stand for themselves: all prompts in one call have them as places."""
    if isinstance(value, int) and value in _UINT64:
        return int(value)
    return place_of(json.dumps(value, default=str))
