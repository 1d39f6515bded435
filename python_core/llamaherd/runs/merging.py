"""Shards put together again, without a model: all of one run, none missing or double."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.errors import JournalError
from llamaherd.journal.file import shown
from llamaherd.runs.doing import BLOCK, Outcome
from llamaherd.runs.inputs import opened
from llamaherd.runs.outputs import found_output, locked, warn_of_other_run
from llamaherd.runs.record import SAME
from llamaherd.runs.spec import STREAM, RunSpec
from llamaherd.runs.store import read_run, values_of
from llamaherd.runs.writing import checked_output, writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.runs.record import Record
    from llamaherd.runs.store import Stored

_MOST_SHOWN = 10
# What all journals must agree on, and what a message calls it.
_SAME = {**SAME, "n_shards": "number of shards"}
_TABLES = """
CREATE TABLE row (place INTEGER PRIMARY KEY, value TEXT, vector BLOB, journal INTEGER);
"""


@dataclass(frozen=True, slots=True)
class _Shard:
    """A journal that was read.

    Attributes:
        path: Of it.
        record: Of the run.
        n_rows: Rows that it holds.
    """

    path: str
    record: Record
    n_rows: int


def merge_runs(
    journals: Sequence[str | os.PathLike[str]],
    output: str,
    *,
    source: str | None = None,
    overwrite: bool = False,
    block: int = BLOCK,
) -> Outcome:
    """Puts the shards of a run together; the output is that of the run as a whole.

    Args:
        journals: Of all shards, in any order.
        output: Where the table goes, as in `RunSpec`.
        source: The input, if it is not where it was when the shards ran.
        overwrite: Whether an output that llamaherd did not write may be replaced.
        block: Rows that are written together.

    Raises:
        ValueError: A shard or a row is missing, or the input is another one.
        JournalError: A journal cannot be read, is of another run, or is there twice.
    """
    if not journals:
        raise ValueError("journals: there is none to merge")
    with (
        tempfile.TemporaryDirectory(prefix="llamaherd-") as folder,
        closing(sqlite3.connect(Path(folder) / "rows", isolation_level=None)) as db,
    ):
        db.executescript(_TABLES)
        shards: list[_Shard] = []
        for path in journals:
            shards.append(_read(db, path, shards))
        _check_complete(shards)
        record = shards[0].record
        if output == STREAM:
            return _write(db, record, output, source, block)
        place = checked_output(_spec(record, output, source))
        with locked("output", place):
            told = found_output(place, overwrite=overwrite)
            warn_of_other_run(place, told, record, None)
            return _write(db, record, output, source, block)


def _read(
    db: sqlite3.Connection, path: str | os.PathLike[str], before: Sequence[_Shard]
) -> _Shard:
    """Copies the rows of a journal, unless it is not of the same run."""
    found: list[tuple[Record, int]] = []

    def use(record: Record, rows: Iterator[Stored]) -> None:
        if before:
            _check_same(before[0], os.fspath(path), record)
        n_rows = 0
        if db.in_transaction:  # of a try that failed
            db.execute("ROLLBACK")
        db.execute("BEGIN")
        for row in rows:
            n_rows += 1
            _add(db, row, before, path)
        found[:] = [(record, n_rows)]

    read_run(path, "journals", use)
    db.execute("COMMIT")
    return _Shard(os.fspath(path), *found[0])


def _add(
    db: sqlite3.Connection,
    row: Stored,
    before: Sequence[_Shard],
    path: str | os.PathLike[str],
) -> None:
    try:
        db.execute("INSERT INTO row VALUES (?, ?, ?, ?)", (*row, len(before)))
    except sqlite3.IntegrityError:
        query = "SELECT journal FROM row WHERE place = ?"
        (other,) = db.execute(query, row[:1]).fetchone()
        raise JournalError(
            f"row {row[0] + 1} is in {shown(before[other].path)} and again in "
            f"{shown(os.fspath(path))}: give each shard's journal once"
        ) from None


def _check_same(first: _Shard, path: str, record: Record) -> None:
    for name, what in _SAME.items():
        one, other = getattr(first.record, name), getattr(record, name)
        if one != other:
            differs = _difference(first.record, record) if name == "run_sha256" else ""
            raise JournalError(
                f"{shown(path)} is of another {what} than {shown(first.path)}"
                f"{differs or f': {_brief(other)} and {_brief(one)}'}"
            )


def _brief(value: object) -> str:
    return f"{value[:12]}..." if isinstance(value, str) else str(value)


def _difference(one: Record, other: Record) -> str:
    """Which keys of two descriptions differ, and how."""
    flat = [_flat(each.run) for each in (one, other)]
    names = [
        name for name in {**flat[0], **flat[1]} if flat[0].get(name) != flat[1].get(name)
    ]
    told = "; ".join(
        f"{name} is {_value(flat[1], name)}, and there {_value(flat[0], name)}"
        for name in names[:_MOST_SHOWN]
    )
    return f": {told}"


def _value(found: dict[str, object], name: str) -> str:
    return checks.shown(found[name]) if name in found else "not set"


def _flat(run: object, prefix: str = "") -> dict[str, object]:
    if not hasattr(run, "items"):
        return {prefix: run}
    found: dict[str, object] = {}
    for name, value in run.items():
        found |= _flat(value, f"{prefix}.{name}" if prefix else name)
    return found


def _check_complete(shards: Sequence[_Shard]) -> None:
    """Checks that no shard and no row is missing."""
    record = shards[0].record
    there = {shard.record.shard for shard in shards}
    missing = [i for i in range(1, record.n_shards + 1) if i not in there]
    if missing:
        which = ", ".join(map(str, missing[:_MOST_SHOWN]))
        more = (
            f" and {len(missing) - _MOST_SHOWN} more"
            if len(missing) > _MOST_SHOWN
            else ""
        )
        raise ValueError(
            f"of {record.n_shards} shards {len(missing)} are missing: {which}{more}"
        )
    for shard in shards:
        n_own = shard.record.n_own
        if shard.n_rows != n_own:
            part = f"{shard.record.shard}/{shard.record.n_shards}"
            raise ValueError(
                f"{shown(shard.path)} has {shard.n_rows} of the {n_own} rows of shard "
                f"{part}: run that again with this journal, which goes on"
            )
    n_rows = sum(shard.n_rows for shard in shards)
    if n_rows != record.n_rows:
        raise ValueError(
            f"the shards have {n_rows} rows together, the input {record.n_rows}"
        )


def _spec(record: Record, output: str, source: str | None) -> RunSpec:
    """What is written, and from what."""
    run = record.run
    words = {
        name: run[name]
        for name in ("encoding", "delimiter", "spreadsheet")
        if name in run
    }
    path = os.path.abspath(source) if source is not None else record.path  # noqa: PTH100
    if not path:
        raise ValueError("the input was a stream: give the same rows as --input FILE")
    return RunSpec(input=path, output=output, **words)


def _write(
    db: sqlite3.Connection, record: Record, output: str, source: str | None, block: int
) -> Outcome:
    spec = _spec(record, output, source)
    with opened(spec) as found:
        if found.sha256 != record.input_sha256:
            raise ValueError(
                f"the input {spec.input} is not what the shards had: its SHA-256 is "
                f"{found.sha256}, that of theirs {record.input_sha256}; --input FILE "
                "names another one"
            )
        n_failed = 0
        rows = db.execute("SELECT place, value, vector FROM row ORDER BY place")
        meta, kinds = record.meta(), record.kinds
        with writing(spec, found, kinds, meta, n_embd=record.n_embd) as writer:
            for part in found.table.blocks(block):
                values = [values_of(row) for row in rows.fetchmany(len(part.rows))]
                n_failed += sum(own[-1] is not None for own in values)
                writer.write(part, list(zip(*values, strict=True)))
        return Outcome(n_rows=record.n_rows, n_failed=n_failed)
