"""Input of a run: scanned once for its columns, and later read block by block."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.core.files import sha256_of
from llamaherd.tables.spec import STREAM
from llamaherd.tables.text_tables import CsvTable, JsonlTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.tables.spec import RunSpec
    from llamaherd.tables.table import Table

Format = Literal["csv", "jsonl", "parquet"]


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


def format_of(path: str) -> Format:
    """Return the format that a file's extension denotes."""
    suffix = Path(path).suffix.lower()
    return "parquet" if suffix == ".parquet" else "jsonl" if suffix == ".jsonl" else "csv"


def delimiter_of(spec: RunSpec, path: str) -> str:
    """Return the delimiter of a CSV file."""
    if spec.delimiter is not None:
        return spec.delimiter
    return "\t" if path.lower().endswith(".tsv") else ","


@contextmanager
def opened(spec: RunSpec) -> Iterator[Input]:
    """Open the input of a run.

    Stdin is copied to a file, because the input is read twice.

    Raises:
        ValueError: The file cannot be read, or its content does not match its extension.
        ImportError: The input is Parquet, and pyarrow is not installed.
    """
    if spec.input != STREAM:
        yield _looked_through(spec, spec.at("input"), format_of(spec.input))
        return
    with tempfile.TemporaryDirectory(prefix="llamaherd-") as folder:
        copy = Path(folder) / "stdin"
        with copy.open("wb") as out:
            shutil.copyfileobj(sys.stdin.buffer, out)
        with copy.open("rb") as file:
            start = file.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
        yield _looked_through(spec, copy, "jsonl" if start[:1] == b"{" else "csv")


def _looked_through(spec: RunSpec, file: Path, kind: Format) -> Input:
    name = "stdin" if spec.input == STREAM else file.name
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
            delimiter = delimiter_of(spec, spec.input)
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
    return Input(
        table=table, format=kind, sha256=sha256, name=name, _file=file, _state=state
    )


def _state_of(file: Path) -> tuple[int, ...]:
    status = os.stat(file)  # noqa: PTH116 - the same call everywhere
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
