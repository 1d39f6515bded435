"""Whole tables in memory, and the tables of `llamaherd annotate`."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.record import notes_of
from llamaherd.coding.annotation.spans import COLUMNS, spans_of_cell
from llamaherd.coding.annotation.texts import hash_of_texts
from llamaherd.engine.core import checks, files
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.plain import is_missing
from llamaherd.engine.core.stats import Stats
from llamaherd.tables.inputs import table_in
from llamaherd.tables.outputs import TextWriter, check_place, record_in, replacing
from llamaherd.tables.stored import (
    STREAM,
    check_name,
    check_package,
    compressed_to,
    delimiter_of,
    format_of,
    readable,
)
from llamaherd.tables.table import Block, Table
from llamaherd.tables.template import Template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_BLOCK = 10_000  # rows read at a time


def read_whole(path: str, numbers: Sequence[str] = ()) -> Any:  # of pyarrow, or a dict
    """Read a table: Parquet as an Arrow table, CSV and JSON lines as a dict of lists."""
    with readable(path) as source:
        if source.format == "parquet":
            import pyarrow.parquet as pq  # optional dependency

            return pq.read_table(source.file)
        table = table_in(source, encoding="utf-8", delimiter=delimiter_of(path, None))
        return _columns(table, numbers if source.format == "csv" else None)


def _columns(table: Table, numbers: Sequence[str] | None) -> dict[str, list[Any]]:
    """Return the columns of a table of text; None for `numbers`: values have types."""
    columns: dict[str, list[Any]] = {name: [] for name in table.columns}
    for block in table.blocks(_BLOCK):
        for row in block.rows:
            for name, values in columns.items():
                values.append(row.get(name))
    if numbers is not None:
        for name, values in columns.items():
            is_number = any(_matches(name, number) for number in numbers)
            columns[name] = [
                _cell(name, i, value, is_number) for i, value in enumerate(values)
            ]
    return columns


def write_whole(frame: Any, path: str, *, overwrite: bool) -> None:
    """Write a table. The file appears at its path only when it is complete."""
    if path == STREAM:
        _write_text(frame, sys.stdout.buffer, ",")
        return
    check_free(path, overwrite=overwrite)
    file, kind = Path(os.path.realpath(path)), format_of(path)
    with replacing(file) as draft:
        if kind == "parquet":
            import pyarrow as pa  # optional dependency
            import pyarrow.parquet as pq

            table = frame if isinstance(frame, pa.Table) else pa.table(frame)
            pq.write_table(table, draft, compression="zstd")
            return
        delimiter = "" if kind == "jsonl" else delimiter_of(path, None)
        with draft.open("wb") as out, compressed_to(path, out) as stream:
            _write_text(frame, stream, delimiter)


def check_free(path: str, *, overwrite: bool) -> None:
    """Check that an output can be written, and is new or may be replaced."""
    if path == STREAM:
        return
    check_name("out", path)
    files.check_free(Path(path), overwrite=overwrite, argument="out")
    check_place(path, "out")
    check_package(path)


def _write_text(frame: Any, stream: Any, delimiter: str) -> None:
    names = frames.names(frame)
    columns = [frames.column(frame, name, "table") for name in names]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    writer = TextWriter(stream, names, {}, delimiter=delimiter)
    writer.write(Block(0, rows), [])
    writer.close()


def _matches(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern


def _cell(name: str, row: int, value: Any, is_number: bool) -> Any:
    """Convert a cell of CSV: empty cells to None, cells of number columns to numbers."""
    if value in {"", None}:
        return None
    if not is_number:
        return value
    try:
        return float(value)
    except ValueError:
        raise ArgumentError(
            f"must be a number in column {name!r}, not {value!r}",
            argument="table",
            place=(row,),
        ) from None


_NUMBERS = ("prob", "margin", "entropy", "coverage", "mean", "sd", "between")
PROMPT = "text of the prompt"  # column of prompts that are made from several columns


def read_coded(path: str) -> Coded:
    """Read an output of `llamaherd annotate`, with the record of the run."""
    record = record_in(Path(path))
    if record is None or not record.get("coding"):
        raise ArgumentError(
            f"{checks.brief(path)} has no record of a coding, or was edited since: give "
            "an output of `llamaherd annotate` with its file .meta.json beside it",
            argument="table",
            code="missing",
            form="{problem}",
        )
    run: dict[str, Any] = json.loads(record["coding"])
    book = Codebook.from_dict(run["codebook"]["content"])
    if book.kind.is_generated:
        raise ArgumentError(
            f"has codes of the type {book.type!r}, of which `report` can only tell in "
            "Python or R",
            argument="table",
            code="conflict",
        )
    prefix = str(record["run"].get("prefix", ""))
    numbers = [f"{prefix}{role}" for role in (*_NUMBERS, "p_*")]
    data = read_whole(path, numbers)
    text, data, texts = _with_texts(data, record["run"]["prompt"])
    existing = frames.names(data)
    roles = {
        name.removeprefix(prefix): name
        for name in existing
        if name.startswith(prefix) and _is_role(name.removeprefix(prefix))
    }
    errors = _texts(data, roles.get("error"))
    labels = _texts(data, roles["label"])
    if book.kind.is_several:  # "": no label applies
        labels = [
            "" if label is None and error is None and words else label
            for label, error, words in zip(labels, errors, texts, strict=True)
        ]
    probabilities = [roles.get(f"p_{name}") for name in book.names]
    probs = None
    if all(probabilities):
        columns = [_floats(data, str(name)) for name in probabilities]
        probs = np.column_stack(columns) if columns else None
    coverage = _floats(data, roles["coverage"]) if "coverage" in roles else None
    modified = datetime.fromtimestamp(Path(path).stat().st_mtime, UTC)
    run |= {
        "started": modified.isoformat(timespec="seconds"),
        "n_rows": len(texts),
        "n_texts": len({text for text in texts if text}),
        "texts_sha256": hash_of_texts(texts),
        "notes": notes_of(labels, coverage, book, run["settings"], "", probs),
    }
    return Coded(
        frame=data,
        text=text,
        codebook=book,
        columns=roles,
        names=book.names,
        labels=labels,
        probs=probs,
        errors=errors,
        run=run,
        stats=Stats(),
    )


def _is_role(name: str) -> bool:
    return name in {*_NUMBERS, "label", "error"} or name.startswith("p_")


def _with_texts(data: Any, prompt: object) -> tuple[str, Any, list[str | None]]:
    """Return the column of texts, the data with this column, and its cells."""
    parts = prompt if isinstance(prompt, list) else None
    template = (
        Template.parsed(str(prompt))
        if parts is None
        else Template(tuple((str(a), bool(b)) for a, b in parts))
    )
    names = template.columns
    if len(template.parts) == 1:
        return names[0], data, _texts(data, names[0])
    columns = {name: frames.column(data, name, "table") for name in names}
    rows: Sequence[Mapping[str, object]] = [
        dict(zip(names, cells, strict=True))
        for cells in zip(*columns.values(), strict=True)
    ]
    texts = [template.filled(row)[0] or None for row in rows]
    return PROMPT, frames.with_columns(data, {PROMPT: texts}), texts


def _texts(data: Any, name: str | None) -> list[str | None]:
    """Return the cells of a column as texts; None for missing and empty cells."""
    if name is None:
        return []
    cells = frames.column(data, name, "table")
    return [None if is_missing(cell) or cell == "" else str(cell) for cell in cells]


def _floats(data: Any, name: str) -> Any:
    cells = frames.column(data, name, "table")
    return np.array([np.nan if is_missing(cell) else cell for cell in cells], float)


ROW = "row"


def write_spans(
    source: str,
    output: str = STREAM,
    *,
    column: str = "spans",
    id: str | None = None,  # noqa: A002 - name of the column
    overwrite: bool = False,
) -> int:
    """Write a table of passages, one per row, and return its number of rows.

    `id` is the column that identifies texts; None stands for the row number, from 0.
    """
    check_free(output, overwrite=overwrite)
    if format_of(output) == "parquet":
        raise ArgumentError(
            f"must end in .csv, .tsv or .jsonl, not {checks.brief(output)}",
            argument="output",
        )
    data = read_whole(source)
    known = frames.names(data)
    for argument, name in (("column", column), ("id", id)):
        if name is not None and name not in known:
            raise ArgumentError(
                f"there is no column {name!r}{checks.meant(name, known)}",
                argument=argument,
                code="unknown_argument",
                form="{problem}",
            )
    if id in COLUMNS:
        raise ArgumentError(
            f"must not be {id!r}, which is a column of passages", argument="id"
        )
    cells = frames.column(data, column, "column")
    names = range(len(cells)) if id is None else frames.column(data, id, "id")
    rows: list[tuple[object, ...]] = []
    for i, (name, cell) in enumerate(zip(names, cells, strict=True)):
        try:
            spans = spans_of_cell(cell)
        except ArgumentError as error:
            raise error.moved(argument=f"row {i}, column {column}") from None
        rows += [(name, *(span[column] for column in COLUMNS)) for span in spans]
    columns = {
        name: [row[j] for row in rows] for j, name in enumerate((id or ROW, *COLUMNS))
    }
    write_whole(columns, output, overwrite=overwrite)
    return len(rows)
