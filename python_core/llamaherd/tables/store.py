"""Storage of a run's rows in a journal; another machine can merge journals."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.journal import file as journal_file
from llamaherd.calls.journal.file import RUN_TABLES, DamagedError, quoted, refusals
from llamaherd.calls.journal.sqlite import connect, look
from llamaherd.engine.core.errors import JournalError
from llamaherd.tables.record import Record

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from llamaherd.tables.table import Values

# Each start time is later than all earlier ones, even if the clock was set back.
_BEGIN = """
INSERT INTO run VALUES (
  ?, ?, max(?, (SELECT coalesce(max(started), 0) + 0.001 FROM run WHERE id <> ?))
)
ON CONFLICT (id) DO UPDATE SET record = excluded.record, started = excluded.started
"""
_ROWS = "SELECT place, value, vector, digest FROM run_row WHERE run = ?"
Stored = tuple[int, str, "bytes | None"]


class Store:
    """Rows of one run in a journal file, which may be open elsewhere in the process."""

    def __init__(self, path: Path, record: Record) -> None:
        self.path = path
        self._record = record
        self._id = record.identity()

    def begin(self) -> None:
        """Record in the journal that this run has begun."""
        self.add([], [])

    def add(self, positions: Sequence[int], values: Sequence[Values]) -> None:
        """Store rows in one transaction; rows stored earlier are replaced."""
        rows = [_row(i, cells) for i, cells in zip(positions, values, strict=True)]
        with refusals("journal", self.path), closing(self._connect()) as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute(_BEGIN, (self._id, self._record.to_json(), time.time(), self._id))
            db.executemany(
                "INSERT OR REPLACE INTO run_row VALUES (?, ?, ?, ?, ?)",
                [(self._id, *row, _digest(row)) for row in rows],
            )
            db.execute("COMMIT")

    def find(self, first: int, last: int) -> dict[int, Values]:
        """Return the stored rows in a range of positions, without failed rows."""
        with refusals("journal", self.path), closing(self._connect()) as db:
            query = f"{_ROWS} AND place BETWEEN ? AND ?"
            rows = db.execute(query, (self._id, first, last)).fetchall()
            stored = {row[0]: values_of(_checked(row)) for row in rows}
        return {i: values for i, values in stored.items() if values[-1] is None}

    @property
    def n_rows(self) -> int:
        """Number of stored rows."""
        with refusals("journal", self.path), closing(self._connect()) as db:
            query = "SELECT count(*) FROM run_row WHERE run = ?"
            (number,) = db.execute(query, (self._id,)).fetchone()
        return int(number)

    def _connect(self) -> sqlite3.Connection:
        db = connect(self.path, "mode=rw")
        db.execute("PRAGMA synchronous = FULL")
        for statement in RUN_TABLES.split(";\n"):
            db.execute(statement)
        return db


def read_run(
    path: str | os.PathLike[str],
    name: str,
    use: Callable[[Record, Iterator[Stored]], None],
) -> None:
    """Read the last started run in a journal."""
    file = journal_file.checked_path(name, path)

    def read(db: sqlite3.Connection) -> None:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        latest = "SELECT id, record FROM run ORDER BY started DESC LIMIT 1"
        run = db.execute(latest).fetchone() if "run_row" in tables else None
        if run is None:
            raise JournalError(
                f"{name}: {quoted(file)} has no rows to merge: it is not the journal of "
                "a run with --shard i/n"
            )
        rows = db.execute(f"{_ROWS} ORDER BY place", (run[0],))
        use(Record.of_json(run[1]), map(_checked, rows))

    with refusals(name, file):
        if not file.is_file():
            raise FileNotFoundError(2, "there is no such file")
        journal_file.check(name, file)
        look(file, read)


def values_of(stored: Stored) -> Values:
    """Return the values of the new columns of a stored row."""
    values: list[object] = json.loads(stored[1])
    if stored[2] is not None:
        vector = np.frombuffer(stored[2], dtype="<f4").astype(np.float32)
        values[values.index(_VECTOR)] = vector
    return values


_VECTOR: Mapping[str, Any] = {"vector": True}  # marks the column of the embedding


def _row(position: int, values: Values) -> Stored:
    vector = None
    plain: list[object] = []
    for value in values:
        if isinstance(value, np.ndarray):
            vector = value.astype("<f4").tobytes()
            plain.append(_VECTOR)
        else:
            plain.append(value)
    text = json.dumps(plain, ensure_ascii=True, separators=(",", ":"), default=str)
    return position, text, vector


def _checked(row: tuple[Any, ...]) -> Stored:
    stored: Stored = (row[0], row[1], row[2])
    if _digest(stored) != row[3]:
        raise DamagedError(f"the data stored for row {row[0] + 1} were changed")
    return stored


def _digest(row: Stored) -> bytes:
    return hashlib.blake2b(repr(row).encode(), digest_size=8).digest()
