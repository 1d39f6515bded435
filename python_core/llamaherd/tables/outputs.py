"""Outputs of a run: existing files, and writing block by block."""

from __future__ import annotations

import errno
import json
import os
import re
import select
import shutil
import sys
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import psutil

from llamaherd.calls.journal.file import network_type, quoted
from llamaherd.calls.structured.columns import Column, valid_text
from llamaherd.coding.gold.forms import escape_cell
from llamaherd.engine.core import checks, files
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import (
    LockHeldError,
    is_full,
    sha256_of,
    sync_folder,
    take_lock,
    why_unwritable,
)
from llamaherd.engine.core.plain import DAMAGED, cell_text, json_value
from llamaherd.tables.record import SAME, Record
from llamaherd.tables.stored import STREAM, compressed_to, delimiter_of, format_of
from llamaherd.tables.table import METADATA_KEY, Block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from llamaherd.tables.inputs import Input
    from llamaherd.tables.parquet import ParquetWriter
    from llamaherd.tables.spec import RunSpec

META = ".meta.json"
_LOCK = ".lock"


@contextmanager
def locked_file(name: str, path: Path) -> Iterator[None]:
    """Lock a file against other writers, except on network drives."""
    lock_path = path.with_name(path.name + _LOCK)
    try:
        lock = None if network_type(lock_path) else take_lock(lock_path)
    except LockHeldError as error:
        raise ArgumentError(
            f"{quoted(path)} is being written by another run, "
            f"process {error.process or 'that just began'}: wait until it ends, or "
            "choose another name",
            argument=name,
        ) from None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def found_output(path: Path, *, overwrite: bool) -> Mapping[str, Any]:
    """Return the run description of an existing output; {} without an output."""
    if overwrite:
        return {}
    if not path.exists() or path.stat().st_size == 0:
        _check_beside(path)
        return {}
    old_record = record_in(path)
    if old_record is None:
        raise ArgumentError(
            f"{quoted(path)} exists already, and llamaherd did not write it, or it was "
            "edited later: choose another name, or replace it (--overwrite)",
            argument="output",
        )
    return old_record


def _check_beside(path: Path) -> None:
    """Check that the metadata file of a new output replaces no file of the user."""
    beside = path.with_name(path.name + META)
    if path.suffix.lower() == ".parquet" or not beside.exists():
        return
    try:
        is_own = "output_sha256" in json.loads(beside.read_bytes())
    except (OSError, *DAMAGED):
        is_own = False
    if not is_own:
        raise ArgumentError(
            f"{quoted(beside)} exists already, and llamaherd did not write it; the "
            "metadata of the output would replace it: choose another name, or replace it "
            "(--overwrite)",
            argument="output",
        )


def record_in(path: Path) -> Mapping[str, Any] | None:
    """Return the record in an output; None without one, or if the file was edited."""
    try:
        if path.suffix.lower() == ".parquet":
            from pyarrow import parquet  # optional dependency

            metadata = parquet.read_schema(path).metadata or {}
            old_record = json.loads(metadata[METADATA_KEY])
        else:
            old_record = json.loads(path.with_name(path.name + META).read_bytes())
            if old_record["output_sha256"] != sha256_of(path):
                return None
    except (OSError, *DAMAGED):
        return None
    return old_record if isinstance(old_record, dict) else None


def warn_of_other_run(
    path: Path, old_record: Mapping[str, Any], record: Record, journal: object
) -> None:
    """Warn that the output of another run will be replaced."""
    now = json.loads(record.meta())
    other = [what for key, what in SAME.items() if old_record.get(key) != now.get(key)]
    if old_record and other:
        kept = "" if journal is None else f"; its results in {journal} are kept"
        warnings.warn(
            f"{path.name} is the output of a run with another "
            f"{' and another '.join(other)}: this run replaces it{kept}",
            stacklevel=3,
        )


class TextWriter:
    """Writer of CSV, or JSON lines if `delimiter` is "", to a stream that stays open."""

    def __init__(
        self,
        stream: IO[bytes],
        columns: Iterable[str],
        new: Iterable[str],
        *,
        delimiter: str,
        spreadsheet: bool = False,
    ) -> None:
        self._stream = stream
        self._columns = list(columns)
        self._new = list(new)
        self._delimiter = delimiter
        self._escape = spreadsheet
        self._special = re.compile(f'["\r\n{re.escape(delimiter)}]|^\\s|\\s$')
        if delimiter:
            mark = "\ufeff" if spreadsheet else ""
            self._put([mark + self._line([*self._columns, *self._new])])

    def write(self, block: Block, new: Sequence[Sequence[object]]) -> None:
        """Write a block of input rows with the values of each new column."""
        lines = []
        for row, *cells in zip(block.rows, *new, strict=True):
            old = [row.get(name) for name in self._columns]
            lines.append(
                self._line([*old, *cells])
                if self._delimiter
                else self._object(old, cells)
            )
        self._put(lines)

    def close(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def _put(self, lines: Sequence[str]) -> None:
        self._stream.write("".join(lines).encode("utf-8", "replace"))
        self._stream.flush()  # whoever reads a pipe sees each block at once

    def _line(self, values: Sequence[object]) -> str:
        return self._delimiter.join(map(self._cell, values)) + "\n"

    def _cell(self, value: object) -> str:
        text = _json(value) if isinstance(value, np.ndarray) else cell_text(value)
        if self._escape and isinstance(value, str):
            text = escape_cell(text)
        # csv.writer does not quote a lone \r, which readers interpret as the end of a
        # row.
        return (
            f'"{text.replace(chr(34), chr(34) * 2)}"'
            if self._special.search(text)
            else text
        )

    def _object(self, old: Sequence[object], new: Sequence[object]) -> str:
        names = [*self._columns, *self._new]
        values = [*old, *new]
        inner = ", ".join(
            f"{json.dumps(name, ensure_ascii=False)}: {_json(value)}"
            for name, value in zip(names, values, strict=True)
        )
        return f"{{{inner}}}\n"


def check_reader() -> None:
    """Check that the program that reads stdout has not ended, as `head` does."""
    if not hasattr(select, "poll"):  # on Windows
        return
    try:
        watched = select.poll()
        watched.register(sys.stdout.fileno(), 0)
    except (AttributeError, OSError, ValueError):  # stdout is not a file of the system
        return
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in watched.poll(0)):
        raise BrokenPipeError(errno.EPIPE, "nobody reads stdout any more")


def _json(value: object) -> str:
    if isinstance(value, np.ndarray):  # float32[n], with the shortest digits
        return f"[{','.join(map(str, value))}]"
    return valid_text(json.dumps(json_value(value), ensure_ascii=False))


@contextmanager
def writing(
    spec: RunSpec, source: Input, new: Mapping[str, Column], meta: str
) -> Iterator[TextWriter | ParquetWriter]:
    """Write the output of a run with its metadata (JSON), complete or not at all."""
    columns = source.table.columns
    is_stream = spec.output == STREAM
    kind = source.format if is_stream else format_of(spec.output)

    def text(stream: IO[bytes]) -> TextWriter:
        delimiter = delimiter_of("" if is_stream else spec.output, spec.delimiter)
        return TextWriter(
            stream,
            columns,
            new,
            delimiter="" if kind == "jsonl" else delimiter,
            spreadsheet=spec.spreadsheet,
        )

    if is_stream:
        writer = text(sys.stdout.buffer)
        sys.stdout.buffer.flush()  # a closed pipe fails here at once, not after hours
        yield writer
        writer.close()
        return
    path = checked_output(spec)
    with replacing(path) as draft:
        if kind == "parquet":
            from llamaherd.tables import parquet  # optional dependency

            schema = getattr(source.table, "schema", None)
            rows = parquet.ParquetWriter(
                draft, columns, new, schema=schema, metadata=meta
            )
            try:
                yield rows
            finally:
                rows.close()
        else:
            with draft.open("wb") as file, compressed_to(spec.output, file) as stream:
                writer = text(stream)
                yield writer
                writer.close()
            # The metadata file is written before the output. An output without a metadata
            # file would be taken for a file of another program.
            sidecar = json.loads(meta) | {"output_sha256": sha256_of(draft)}
            with replacing(path.with_name(path.name + META)) as beside:
                beside.write_text(f"{json.dumps(sidecar, indent=2)}\n", encoding="utf-8")


def checked_output(spec: RunSpec) -> Path:
    """Return the path of the output."""
    path = check_place(spec.output, "output")
    if path.suffix.lower() != ".parquet":
        check_place(f"{path}{META}", "output")
    if spec.input != STREAM and path == Path(os.path.realpath(spec.input)):
        name = checks.brief(spec.output)
        raise ArgumentError(
            f"{name} is the input: choose another name", argument="output"
        )
    return path


def check_place(output: str, argument: str) -> Path:
    """Return the path of a file, which can be written there after hours of work."""
    path, name = Path(os.path.realpath(output)), checks.brief(output)
    if not path.parent.is_dir():
        raise ArgumentError(
            f"{name}: there is no folder {path.parent}",
            argument=argument,
            code="unknown_argument",
        )
    if not path.is_dir():
        _check_regular(Path(output), argument)
    reason = os.strerror(errno.EISDIR) if path.is_dir() else why_unwritable(path.parent)
    if reason:
        raise ArgumentError(f"{name} cannot be written: {reason}", argument=argument)
    return path


def _check_regular(path: Path, argument: str) -> None:
    """Check that a new file would not replace a pipe or a device."""
    if files.is_special(path):
        raise ArgumentError(
            f"{checks.brief(str(path))} is not a regular file: write to {STREAM!r}, and "
            "redirect stdout",
            argument=argument,
        )


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces `path` when it is complete on disk."""
    _check_regular(path, "output")
    _remove_drafts(path)
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    draft.unlink(missing_ok=True)  # of an earlier process with the same number
    # Nobody else may read the draft, because the file that it replaces may be private.
    mode = 0o600 if path.exists() else 0o666
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        if path.exists():
            shutil.copymode(path, draft)
        files.replace(draft, path)
        sync_folder(path.parent)
    except OSError as error:  # a failed write() does not name its file
        if error.filename is None and is_full(error):
            error.filename = str(path)
        raise
    finally:
        draft.unlink(missing_ok=True)


def _remove_drafts(path: Path) -> None:
    """Remove temporary files of processes that ended before they finished writing."""
    pattern = re.compile(re.escape(path.name) + r"\.([0-9]+)\.part")
    with suppress(PermissionError):
        for file in path.parent.iterdir():
            match = pattern.fullmatch(file.name)
            if match and not psutil.pid_exists(int(match[1])):
                with suppress(OSError):
                    file.unlink()
