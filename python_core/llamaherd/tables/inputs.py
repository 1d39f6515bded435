"""Input of a run: scanned once for its columns, and later read block by block."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import sha256_of
from llamaherd.tables.stored import STREAM, delimiter_of, readable
from llamaherd.tables.table import FirstRows
from llamaherd.tables.text_tables import CsvTable, JsonlTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llamaherd.tables.spec import RunSpec
    from llamaherd.tables.stored import Format, Readable
    from llamaherd.tables.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """Input table, with the name and hash of its file.

    Attributes:
        table: The table.
        format: File format.
        sha256: SHA-256 of the file's content, in hexadecimal.
        name: File name, without folders.
    """

    table: Table
    format: Format
    sha256: str
    name: str
    _file: Path
    _state: tuple[int, ...]

    def check_unchanged(self) -> None:
        """Check that the file has not changed since it was scanned.

        Raises:
            ValueError: The file has changed.
        """
        if _state_of(self._file) != self._state:
            raise ArgumentError(
                "was changed while it was read: start the run again",
                argument="input",
                code="changed",
                form=f"the {{name}} {self.name} {{problem}}",
            )


@contextmanager
def opened(spec: RunSpec) -> Iterator[Input]:
    """Open the input of a run.

    A stream or a compressed file is copied, because the input is read twice.

    Raises:
        ValueError: The file cannot be read, or its content does not match its extension.
        ImportError: The input is Parquet or .zst, and pyarrow is not installed.
    """
    path = spec.input if spec.input == STREAM else str(spec.at("input"))
    with ExitStack() as stack:
        try:
            source = stack.enter_context(readable(path))
        except OSError as error:
            if path == STREAM:  # the command line knows why
                raise
            why = error.strerror or error
            text = f"{checks.shown(spec.input)} cannot be read: {why}"
            raise ArgumentError(text, argument="input") from None
        yield _looked_through(spec, source)


def _looked_through(spec: RunSpec, source: Readable) -> Input:
    file, kind, name = source
    try:
        state = _state_of(file)
        sha256 = sha256_of(file)
        table: Table
        if kind == "parquet":
            from llamaherd.tables.parquet import ParquetTable  # noqa: PLC0415 - optional dependency

            table = ParquetTable(file)
        elif kind == "jsonl":
            table = JsonlTable(file, spec.encoding)
        else:
            delimiter = delimiter_of(spec.input, spec.delimiter)
            table = CsvTable(file, spec.encoding, delimiter)
    except OSError as error:
        shown = checks.shown(spec.input)
        raise ArgumentError(
            f"{shown} cannot be read: {error.strerror}", argument="input"
        ) from None
    except ArgumentError as error:
        raise error.moved(file=name) from None
    except ValueError as error:
        raise ArgumentError(
            str(error), argument="input", form="{problem}", file=name
        ) from None
    if spec.limit is not None:
        table = FirstRows(table, spec.limit)
    return Input(
        table=table, format=kind, sha256=sha256, name=name, _file=file, _state=state
    )


def _state_of(file: Path) -> tuple[int, ...]:
    status = os.stat(file)  # noqa: PTH116 - the same call everywhere
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
