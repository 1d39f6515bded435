"""Tables as they go out: a file appears whole or not at all."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

import psutil

from llamaherd.core import checks
from llamaherd.core.files import sha256_of, sync_folder
from llamaherd.research.estimation.gold_file import escaped
from llamaherd.runs.columns import cleaned
from llamaherd.runs.inputs import delimiter_of, format_of
from llamaherd.runs.outputs import META
from llamaherd.runs.spec import STREAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from llamaherd.runs.inputs import Input
    from llamaherd.runs.spec import RunSpec
    from llamaherd.runs.tables import Block, Kind


class Writer(Protocol):
    """What writes a table."""

    def write(self, block: Block, new: Sequence[Sequence[object]]) -> None:
        """Adds rows: a block of the input, and for each new column the values."""

    def close(self) -> None:
        """Ends the table."""


class TextWriter:
    """Writes CSV or JSON lines.

    Args:
        stream: Where to; is not closed.
        columns: Of the input.
        new: The columns that are added.
        delimiter: Of CSV; "": JSON lines.
        spreadsheet: Whether a spreadsheet will read it.
    """

    def __init__(
        self,
        stream: IO[bytes],
        columns: Sequence[str],
        new: Mapping[str, Kind],
        *,
        delimiter: str,
        spreadsheet: bool = False,
    ) -> None:
        self._stream = stream
        self._columns = columns
        self._new = new
        self._delimiter = delimiter
        self._escape = spreadsheet
        self._special = re.compile(f'["\r\n{re.escape(delimiter)}]|^\\s|\\s$')
        if delimiter:
            mark = "\ufeff" if spreadsheet else ""
            self._put([mark + self._line([*columns, *new])])

    def write(self, block: Block, new: Sequence[Sequence[object]]) -> None:
        """Adds rows."""
        lines = []
        for row, *own in zip(block.rows, *new, strict=True):
            old = [row.values.get(name) for name in self._columns]
            lines.append(
                self._line([*old, *own]) if self._delimiter else self._object(old, own)
            )
        self._put(lines)

    def close(self) -> None:
        """Sees to it that all is written."""
        self._stream.flush()

    def _put(self, lines: Sequence[str]) -> None:
        self._stream.write("".join(lines).encode("utf-8", "replace"))

    def _line(self, values: Sequence[object]) -> str:
        return self._delimiter.join(map(self._cell, values)) + "\n"

    def _cell(self, value: object) -> str:
        text = cell_text(value)
        if self._escape and isinstance(value, str):
            text = escaped(text)
        # csv.writer leaves a lone \r as it is, which ends a row for whoever reads it.
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


def cell_text(value: object) -> str:
    """A value as a cell of CSV has it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "null"
    if hasattr(value, "dtype"):  # float32[n], in as many digits as tell it from others
        return f"[{','.join(map(str, value))}]"  # type: ignore[call-overload]
    return cleaned(json.dumps(value, ensure_ascii=False, default=str))


@contextmanager
def writing(
    spec: RunSpec, source: Input, new: Mapping[str, Kind], meta: str, *, n_embd: int = 0
) -> Iterator[Writer]:
    """Writes the output of a run: to a file beside it, which takes its name at the end.

    Args:
        spec: The run.
        source: Its input.
        new: The columns that are added.
        meta: JSON, for the file's metadata or for one beside it.
        n_embd: Numbers of a vector.

    Raises:
        ValueError: The output cannot be written.
    """
    columns = source.table.columns
    if spec.output == STREAM:
        is_json = source.format == "jsonl"
        table = TextWriter(
            sys.stdout.buffer,
            list(columns),
            new,
            delimiter="" if is_json else delimiter_of(spec, ""),
            spreadsheet=spec.spreadsheet,
        )
        sys.stdout.buffer.flush()  # fails now, not after hours, if nobody can read it
        yield table
        sys.stdout.buffer.flush()
        return
    path = checked_output(spec)
    kind = format_of(spec.output)
    with replacing(path) as draft:
        if kind == "parquet":
            from llamaherd.runs.parquet import ParquetWriter  # noqa: PLC0415 - an extra

            schema = getattr(source.table, "schema", None)
            writer = ParquetWriter(
                draft, columns, new, schema=schema, n_embd=n_embd, metadata=meta
            )
            try:
                yield writer
            finally:
                writer.close()
        else:
            with draft.open("wb") as stream:
                text = TextWriter(
                    stream,
                    list(columns),
                    new,
                    delimiter="" if kind == "jsonl" else delimiter_of(spec, spec.output),
                    spreadsheet=spec.spreadsheet,
                )
                yield text
                text.close()
            # First: an output without it would be taken for another program's.
            told = json.loads(meta) | {"output_sha256": sha256_of(draft)}
            with replacing(path.with_name(path.name + META)) as beside:
                beside.write_text(f"{json.dumps(told, indent=2)}\n", encoding="utf-8")


def checked_output(spec: RunSpec) -> Path:
    """The output's path.

    Raises:
        ValueError: Nothing can be written there, or it is the input.
    """
    path = Path(os.path.realpath(spec.at("output")))
    shown = checks.shown(spec.output)
    if not path.parent.is_dir():
        raise ValueError(f"output {shown}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK) or path.is_dir():
        raise ValueError(f"output {shown} cannot be written")
    if spec.input != STREAM and path == Path(os.path.realpath(spec.at("input"))):
        raise ValueError(f"output {shown} is the input: give it another name")
    return path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write to, which takes the place of another when all is on the disk."""
    _remove_drafts(path)
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def _remove_drafts(path: Path) -> None:
    """Removes what processes left that ended while they wrote."""
    pattern = re.compile(re.escape(path.name) + r"\.([0-9]+)\.part")
    with suppress(PermissionError):
        for each in path.parent.iterdir():
            match = pattern.fullmatch(each.name)
            if match and not psutil.pid_exists(int(match[1])):
                with suppress(OSError):
                    each.unlink()
