"""Input of a run: scanned once for its columns, read in blocks, divided into shards."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.calls.asks.options import PromptOptions
from llamaherd.calls.asks.rendering import rendered_prompts
from llamaherd.calls.asks.requests import parsing, tokens_or_problem
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import sha256_of
from llamaherd.engine.model.tokens import prompt_tokens
from llamaherd.engine.schedule.shards import plan_shards
from llamaherd.tables.stored import STREAM, Format, Readable, delimiter_of, readable
from llamaherd.tables.table import CsvTable, FirstRows, JsonlTable, Table

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from llamaherd.engine.model.model import Model
    from llamaherd.tables.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Input table, with the name and hash of its file."""

    table: Table  # the table
    format: Format  # file format
    sha256: str  # SHA-256 of the file's content, in hexadecimal
    name: str  # file name, without folders
    _file: Path
    _state: tuple[int, ...]

    def check_unchanged(self) -> None:
        """Check that the file has not changed since it was scanned."""
        try:
            state = _state_of(self._file)
        except FileNotFoundError:
            return  # removed; its rows were read from the open file
        if state != self._state:
            raise ArgumentError(
                "was changed while it was read: start the run again",
                argument="input",
                code="changed",
                form=f"the {{name}} {self.name} {{problem}}",
            )


@contextmanager
def open_input(spec: RunSpec) -> Iterator[Input]:
    """Open the input of a run."""
    path = spec.input
    with ExitStack() as stack:
        try:
            source = stack.enter_context(readable(path))
        except OSError as error:
            if path == STREAM:  # the command line knows why
                raise
            why = error.strerror or error
            text = f"{checks.brief(spec.input)} cannot be read: {why}"
            raise ArgumentError(text, argument="input") from None
        yield _looked_through(spec, source)


def _looked_through(spec: RunSpec, source: Readable) -> Input:
    if source.format != "csv" and not spec.header:
        raise ArgumentError(
            "= false (--no-header) is for CSV: other files name their columns",
            argument="header",
            code="not_together",
        )
    try:
        state = _state_of(source.file)
        sha256 = sha256_of(source.file)
        table = table_in(
            source,
            encoding=spec.encoding,
            delimiter=delimiter_of(spec.input, spec.delimiter),
            has_header=spec.header,
        )
    except OSError as error:
        name = checks.brief(spec.input)
        raise ArgumentError(
            f"{name} cannot be read: {error.strerror or error}", argument="input"
        ) from None
    if spec.limit is not None:
        table = FirstRows(table, spec.limit)
    return Input(
        table=table,
        format=source.format,
        sha256=sha256,
        name=source.name,
        _file=source.file,
        _state=state,
    )


def table_in(
    source: Readable, *, encoding: str, delimiter: str, has_header: bool = True
) -> Table:
    """Return the table in a file, after it was read to its end."""
    try:
        if source.format == "parquet":
            from llamaherd.tables.parquet import ParquetTable  # optional dependency

            return ParquetTable(source.file)
        if source.format == "jsonl":
            return JsonlTable(source.file, encoding)
        return CsvTable(source.file, encoding, delimiter, has_header=has_header)
    except ArgumentError as error:
        raise error.moved(file=source.name) from None
    except ValueError as error:
        raise ArgumentError(
            str(error), argument="input", form="{problem}", file=source.name
        ) from None


def _state_of(file: Path) -> tuple[int, ...]:
    status = os.stat(file)  # noqa: PTH116 - the same call everywhere
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def own_rows(
    spec: RunSpec, model: Model, table: Table, shard: tuple[int, int], size: int
) -> NDArray[np.bool_]:
    """Return a mask of the rows of a shard, which keeps common prefixes together.

    Texts to embed have none; they are divided into rows of about as many bytes.
    """
    i, n = shard
    if not 1 <= i <= n:
        raise ArgumentError(
            f"must be i/n with 1 <= i <= n, such as 3/50, not {i}/{n}", argument="shard"
        )
    if spec.task == "embed":
        sizes = [
            len(prompt.encode())
            for part in _prompts(spec, table, size)
            for prompt in part
        ]
        return np.asarray(shard_of(np.array(sizes, dtype=np.int64), n) == i - 1)
    is_own = np.zeros(table.n_rows, dtype=np.bool_)
    tokens = _tokens(spec, model, table, size)
    is_own[plan_shards(tokens, n, spec.row_task.n_answer).members[i - 1]] = True
    return is_own


def shard_of(sizes: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Divide rows into consecutive shards of equal size; return each row's shard."""
    before = np.cumsum(sizes + 1) - 1  # an empty row also has a cost
    total = int(before[-1]) + 1 if len(before) else 1
    return np.asarray(np.minimum(before * n // total, n - 1), dtype=np.int64)


def _prompts(spec: RunSpec, table: Table, size: int) -> Iterator[list[str]]:
    """Yield the prompts of all rows; a row without a text has an empty prompt."""
    template = spec.template
    for block in table.blocks(size):
        yield [template.filled(row)[0] for row in block.rows]


def _tokens(spec: RunSpec, model: Model, table: Table, size: int) -> Iterator[array[int]]:
    """Yield the tokens of each row's prompt; no tokens for a row that fails."""
    chat = spec.chat and spec.task != "annotate"  # prompts of a codebook share a prefix
    parse = parsing("auto", chat=chat)
    tokenize = partial(prompt_tokens, model, parse_special=parse)
    options = PromptOptions(chat=chat, **(spec.chat_options if chat else {}))
    n = 0
    for part in _prompts(spec, table, size):
        for one in rendered_prompts(model, part, options, is_constrained=False):
            yield tokens_or_problem(model, f"prompts[{n}]", one.prompt, tokenize)[0]
            n += 1
