"""The input of a run: opened, looked through once, then read block by block."""

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
from llamaherd.core.files import sha256_of
from llamaherd.runs.spec import STREAM
from llamaherd.runs.text_tables import CsvTable, JsonlTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llamaherd.runs.spec import RunSpec
    from llamaherd.runs.tables import Table

Format = Literal["csv", "jsonl", "parquet"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """A table and which one it is.

    Attributes:
        table: Its rows.
        format: Of its file.
        sha256: Of the file's content, in hexadecimal.
        name: Of the file, without folders.
    """

    table: Table
    format: Format
    sha256: str
    name: str
    _file: Path
    _state: tuple[int, ...]

    def check_unchanged(self) -> None:
        """Checks that the file is the one that was looked through.

        Raises:
            ValueError: It was changed meanwhile.
        """
        if _state_of(self._file) != self._state:
            raise ValueError(
                f"the input {self.name} was changed while it was read: run it again"
            )


def format_of(path: str) -> Format:
    """The format that a file's name tells."""
    suffix = Path(path).suffix.lower()
    return "parquet" if suffix == ".parquet" else "jsonl" if suffix == ".jsonl" else "csv"


def delimiter_of(spec: RunSpec, path: str) -> str:
    """What stands between the cells of a CSV file."""
    if spec.delimiter is not None:
        return spec.delimiter
    return "\t" if path.lower().endswith(".tsv") else ","


@contextmanager
def opened(spec: RunSpec) -> Iterator[Input]:
    """The input of a run. Stdin is copied to a file first, since it is read twice.

    Raises:
        ValueError: It cannot be read, or is not what its name says.
        ImportError: It is Parquet, and there is no pyarrow.
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
            from llamaherd.runs.parquet import ParquetTable  # noqa: PLC0415 - an extra

            table = ParquetTable(file)
        elif kind == "jsonl":
            table = JsonlTable(file, spec.encoding)
        else:
            delimiter = delimiter_of(spec, spec.input)
            table = CsvTable(file, spec.encoding, delimiter)
    except OSError as error:
        shown = checks.shown(spec.input)
        raise ValueError(f"input {shown} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"input {name}: {error}") from None
    return Input(
        table=table, format=kind, sha256=sha256, name=name, _file=file, _state=state
    )


def _state_of(file: Path) -> tuple[int, ...]:
    status = os.stat(file)  # noqa: PTH116 - as tables are told apart everywhere
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
