"""Merge the shards of a run, without a model, after checking that none is missing."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.calls.journal.file import quoted
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, JournalError
from llamaherd.tables.execution import BLOCK, Outcome
from llamaherd.tables.inputs import open_input
from llamaherd.tables.outputs import (
    checked_output,
    found_output,
    locked_file,
    warn_of_other_run,
    writing,
)
from llamaherd.tables.record import SAME, Record, Stored, read_run, values_of
from llamaherd.tables.spec import RunSpec
from llamaherd.tables.stored import STREAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_MOST_SHOWN = 10
# Fields that must be equal in all journals, and their names in messages.
_SAME = {**SAME, "n_shards": "number of shards"}
_TABLES = """
CREATE TABLE row (place INTEGER PRIMARY KEY, value TEXT, vector BLOB, journal INTEGER);
"""


@dataclass(frozen=True, slots=True)
class _Shard:
    """Journal of a shard, after it was read."""

    path: str  # path of the journal
    record: Record  # record of the run
    n_rows: int  # number of rows in the journal


def merge_runs(
    journals: Sequence[str | os.PathLike[str]],
    output: str,
    *,
    source: str | None = None,
    overwrite: bool = False,
    block: int = BLOCK,
) -> Outcome:
    """Merge the shards of a run; the output equals the output of an undivided run."""
    if not journals:
        raise ArgumentError(
            "has no journal to merge", argument="journals", code="missing"
        )
    with (
        tempfile.TemporaryDirectory(prefix="llamaherd-") as folder,
        closing(sqlite3.connect(Path(folder) / "rows", isolation_level=None)) as db,
    ):
        db.executescript(_TABLES)
        shards: list[_Shard] = []
        for path in journals:
            shards.append(_read_shard(db, path, shards))
        _check_complete(shards)
        record = shards[0].record
        if output == STREAM:
            return _write(db, record, output, source, block)
        target = checked_output(_spec(record, output, source))
        with locked_file("output", target):
            old_record = found_output(target, overwrite=overwrite)
            warn_of_other_run(target, old_record, record, None)
            return _write(db, record, output, source, block)


def _read_shard(
    db: sqlite3.Connection, path: str | os.PathLike[str], before: Sequence[_Shard]
) -> _Shard:
    """Check that a journal belongs to the same run as the others, and copy its rows."""
    runs: list[tuple[Record, int]] = []

    def use(record: Record, rows: Iterator[Stored]) -> None:
        if before:
            _check_same(before[0], os.fspath(path), record)
        n_rows = 0
        if db.in_transaction:  # an earlier attempt to answer the row failed
            db.execute("ROLLBACK")
        db.execute("BEGIN")
        for row in rows:
            n_rows += 1
            _add(db, row, before, path)
        runs[:] = [(record, n_rows)]

    read_run(path, "journals", use)
    db.execute("COMMIT")
    return _Shard(os.fspath(path), *runs[0])


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
            f"row {row[0] + 1} is in {quoted(before[other].path)} and again in "
            f"{quoted(os.fspath(path))}: give each shard's journal once"
        ) from None


def _check_same(first: _Shard, path: str, record: Record) -> None:
    for name, what in _SAME.items():
        one, other = getattr(first.record, name), getattr(record, name)
        if one != other:
            differs = _difference(first.record, record) if name == "run_sha256" else ""
            raise JournalError(
                f"{quoted(path)} has another {what} than {quoted(first.path)}"
                f"{differs or f': {_brief(other)} and {_brief(one)}'}"
            )


def _brief(value: object) -> str:
    return f"{value[:12]}..." if isinstance(value, str) else str(value)


def _difference(one: Record, other: Record) -> str:
    """Describe the differing keys of two run descriptions."""
    flat = [_flat(record.run) for record in (one, other)]
    names = [
        name for name in {**flat[0], **flat[1]} if flat[0].get(name) != flat[1].get(name)
    ]
    differences = "; ".join(
        f"{name} is {_value(flat[1], name)} instead of {_value(flat[0], name)}"
        for name in names[:_MOST_SHOWN]
    )
    return f": {differences}"


def _value(settings: dict[str, object], name: str) -> str:
    return checks.brief(settings[name]) if name in settings else "not set"


def _flat(run: object, prefix: str = "") -> dict[str, object]:
    if not hasattr(run, "items"):
        return {prefix: run}
    settings: dict[str, object] = {}
    for name, value in run.items():
        settings |= _flat(value, f"{prefix}.{name}" if prefix else name)
    return settings


def _check_complete(shards: Sequence[_Shard]) -> None:
    """Check that no shard and no row is missing."""
    record = shards[0].record
    shard_numbers = {shard.record.shard for shard in shards}
    missing = [str(i) for i in range(1, record.n_shards + 1) if i not in shard_numbers]
    if missing:
        n_more = len(missing) - _MOST_SHOWN
        more = f" and {n_more} more" if n_more > 0 else ""
        raise _incomplete(
            f"missing shards ({len(missing)} of {record.n_shards}): "
            f"{', '.join(missing[:_MOST_SHOWN])}{more}"
        )
    for shard in shards:
        if shard.n_rows != shard.record.n_own:
            raise _incomplete(
                f"{quoted(shard.path)} has {shard.n_rows} of the {shard.record.n_own} "
                f"rows of shard {shard.record.shard}/{shard.record.n_shards}: run that "
                "shard again with this journal, to complete it",
                "incomplete",
            )
    n_rows = sum(shard.n_rows for shard in shards)
    if n_rows != record.n_rows:
        raise _incomplete(
            f"the shards have {n_rows} rows in total, but the input has {record.n_rows}"
        )


def _incomplete(problem: str, code: str = "missing") -> ArgumentError:
    return ArgumentError(
        problem, argument="journals", code=code, form="{name}: {problem}"
    )


def _spec(record: Record, output: str, source: str | None) -> RunSpec:
    """Return the description of the merged output."""
    run = record.run
    words = {
        name: run[name]
        for name in ("encoding", "delimiter", "header", "spreadsheet", "limit")
        if name in run
    }
    path = os.path.abspath(source) if source is not None else record.path  # noqa: PTH100
    if not path:
        raise ArgumentError(
            "is missing: the run read a stream; give the same rows as --input FILE",
            argument="input",
            code="missing",
        )
    return RunSpec(input=path, output=output, **words)


def _write(
    db: sqlite3.Connection, record: Record, output: str, source: str | None, block: int
) -> Outcome:
    spec = _spec(record, output, source)
    with open_input(spec) as table_input:
        if table_input.sha256 != record.input_sha256:
            raise ArgumentError(
                f"{spec.input} differs from the input of the shards: its SHA-256 is "
                f"{table_input.sha256}, not {record.input_sha256}; --input FILE names "
                "another file",
                argument="input",
                code="changed",
                form="{name}: {problem}",
            )
        n_failed = 0
        rows = db.execute("SELECT place, value, vector FROM row ORDER BY place")
        meta, types = record.meta(), record.types
        with writing(spec, table_input, types, meta) as writer:
            for part in table_input.table.blocks(block):
                values = [values_of(row) for row in rows.fetchmany(len(part.rows))]
                n_failed += sum(cells[-1] is not None for cells in values)
                writer.write(part, list(zip(*values, strict=True)))
        return Outcome(
            n_rows=record.n_rows, n_failed=n_failed, error_column=spec.error_column
        )
