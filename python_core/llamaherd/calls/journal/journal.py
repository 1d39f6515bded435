"""Journals: SQLite files that keep finished results even if the writing process ends.

The key of a result is a hash of everything that affects it (see `journal_key`). The file
is in WAL mode: processes may share it, and readers do not block writers. A commit is on
disk when it returns (synchronous=FULL), so a power cut loses no committed result.

A file is checked, without any change, before it is written. If the file is removed,
moved or replaced while it is open, it is created again at its path with its whole
content.
"""

from __future__ import annotations

import os
import sqlite3
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from llamaherd.calls.journal import file as journal_file
from llamaherd.calls.journal.entry import (
    COLUMNS,
    MIXED_UP,
    THOUGHT,
    JournalEntry,
    add_thoughts,
    entry_of,
    entry_with_thought,
    read_thoughts,
    row_of,
    row_of_thought,
    with_thought,
)
from llamaherd.calls.journal.file import quoted, refusals
from llamaherd.calls.journal.sqlite import (
    SHM,
    WAL,
    WriteLock,
    beside,
    connect,
    identity,
    look,
)
from llamaherd.engine.core.errors import JournalError, JournalWarning
from llamaherd.engine.core.phrases import MOST_ROWS, count_of, first_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

VERSION = version("llamaherd")

_WORDS = 40  # characters of a prompt or an answer in a printed list
_RETRY_S = (0.0, 0.05, 0.5)

_ORIGIN, _RESULT = [*COLUMNS][:4], [*COLUMNS, "digest"][4:]
_ADD_ORIGIN = f"""
INSERT OR IGNORE INTO origin ({", ".join(_ORIGIN)}) VALUES (?, ?, ?, ?)
"""  # noqa: S608 - names of columns, here and below
# A stored answer is not replaced; a failure is replaced by a later result.
_ADD_RESULT = f"""
INSERT INTO result (origin, {", ".join(_RESULT)})
VALUES ((SELECT id FROM origin WHERE {" AND ".join(f"{name} = ?" for name in _ORIGIN)}),
        {", ".join("?" * len(_RESULT))})
ON CONFLICT (key) DO UPDATE SET
  {", ".join(f"{name} = excluded.{name}" for name in ("origin", *_RESULT))}
WHERE result.finish_reason = 'error'
"""  # noqa: S608
_SELECT = f"""
SELECT {", ".join([*_ORIGIN, *_RESULT])}
FROM result LEFT JOIN origin ON origin.id = result.origin
"""  # noqa: S608
_SELECT_ALL = f"{_SELECT} ORDER BY result.id"
# Counts scores stored by earlier versions, whose keys were not unique.
_COUNT_MIXED_UP = """
SELECT count(*) FROM result JOIN origin ON origin.id = result.origin
WHERE instr(settings, ?) > 0 AND finish_reason <> 'error'
"""
_COUNT_DONE = "SELECT count(*) FROM result WHERE finish_reason <> 'error'"
_SELECT_DONE = f"{_SELECT} WHERE key = ? AND finish_reason <> 'error'"


class Journal:
    """Journal that is open for writing, for one thread at a time.

    `notice` says that the open file was removed or moved. With `is_required`, a call
    stops with a JournalError when it cannot store its results; otherwise it warns.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = journal_file.checked_path("journal", path)
        journal_file.check_local("journal", self.path)
        self.notice = ""
        self.is_required = False
        self._lock = WriteLock(self.path)
        self._open()

    def take_notice(self) -> str:
        """Return `notice`, and clear it, so that it is told once."""
        notice, self.notice = self.notice, ""
        return notice

    def _open(self) -> None:
        with refusals("journal", self.path):
            if not self.path.exists():
                journal_file.remove_drafts(self.path)
                journal_file.create("journal", self.path)
            elif self.path.stat().st_nlink > 1:
                journal_file.remove_drafts(self.path)
            file = identity(self.path)
            journal_file.check("journal", self.path)
            both = (self.path, self.path.parent)
            if not all(os.access(candidate, os.W_OK) for candidate in both):
                raise JournalError(
                    f"journal: {quoted(self.path)} cannot be used: the file, or its "
                    "folder, is read-only"
                )
            db = connect(self.path, "mode=rw")
            try:
                db.execute("PRAGMA synchronous = FULL")
                db.execute(
                    "PRAGMA journal_mode = WAL"
                )  # copies that VACUUM made are not in WAL mode
                self._lock.begin(db)  # this fails for a read-only file
                db.execute("ROLLBACK")
            except BaseException:
                db.close()
                raise
            if identity(self.path) != file:
                db.close()
                raise sqlite3.OperationalError("it was replaced while it was opened")
        self._db = db
        self._files: _Files | None = _Files.at(self.path)

    def find(self, key: bytes) -> JournalEntry | None:
        """Return the answer stored under a key; None without one or for a failure."""
        with refusals("journal", self.path):
            row = self._db.execute(_SELECT_DONE, (key,)).fetchone()
            return (
                None if row is None else entry_with_thought(self._db, entry_of(row), row)
            )

    def add(self, entries: Iterable[JournalEntry]) -> None:
        """Store results atomically; they are on disk when the call returns."""
        if self._files is None:  # an earlier attempt to reopen the file failed
            self._open()
        rows = [(entry, row_of(entry)) for entry in entries]
        if rows:
            behind = (row_of_thought(entry, row) for entry, row in rows)
            self._store([row for _, row in rows], [row for row in behind if row])
        self._follow_path()

    def _store(
        self,
        rows: Sequence[tuple[Any, ...]],
        of_thoughts: Sequence[tuple[Any, ...]] = (),
    ) -> None:
        db = self._db
        self._lock.begin(db)
        try:
            db.executemany(_ADD_ORIGIN, {row[:4] for row in rows})
            db.executemany(_ADD_RESULT, rows)
            add_thoughts(db, of_thoughts)
            db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # if SQLite has already rolled back
                db.execute("ROLLBACK")
            raise

    def _follow_path(self) -> None:
        """Ensure that the file at the path has the content of the open file.

        A removed file still exists, but only for processes that have it open.
        """
        files = _Files.at(self.path)
        if self._files is None or files == self._files:
            return
        try:
            if files.file == self._files.file:
                self._empty_log()  # the log was removed
                self._files = None
                self._db.close()
                self._open()
            else:
                self._make_anew(self._files)
        except (JournalError, sqlite3.Error, OSError) as error:
            raise JournalError(
                "it was removed, moved or replaced during the call, and its results "
                f"could not be stored at its path again: {error}"
            ) from error
        self.notice = (
            f"{quoted(self.path)}, or SQLite's log next to it, was removed, moved or "
            "replaced during the call; all results are stored in the new file at this "
            "path"
        )

    def _make_anew(self, files: _Files) -> None:
        """Create the journal again at its path, after it was removed or replaced."""
        db = self._db
        self._empty_log()  # this completes the open file, even if it was moved
        self._lock.begin(db)  # only one process at a time makes the file
        try:
            if files.log is not None and _Files.at(self.path).log == files.log:
                for suffix in (WAL, SHM):  # SQLite would apply these logs to the new file
                    beside(self.path, suffix).unlink(missing_ok=True)
        finally:
            db.execute("ROLLBACK")
        self._open()
        try:
            rows = db.execute(_SELECT_ALL)
            while chunk := rows.fetchmany(1000):
                self._store(chunk)
            self._store([], list(read_thoughts(db)))
        except BaseException:
            self._db.close()
            self._db, self._files = db, files
            raise
        db.close()

    def _empty_log(self) -> None:
        """Move the content of the log into the file (checkpoint)."""
        for delay in _RETRY_S:  # another process may run a checkpoint
            time.sleep(delay)
            busy, *_ = self._db.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            if not busy:
                return
        raise sqlite3.OperationalError("another process keeps its log in use")

    @property
    def n_mixed_up(self) -> int:
        """Number of scores of an earlier version, which are ignored."""
        with refusals("journal", self.path):
            (number,) = self._db.execute(_COUNT_MIXED_UP, (MIXED_UP,)).fetchone()
        return int(number)

    @property
    def n_results(self) -> int:
        """Number of stored results, without failures."""
        with refusals("journal", self.path):
            (number,) = self._db.execute(_COUNT_DONE).fetchone()
        return int(number)

    def find_model_hash(self, state: str) -> bytes | None:
        """Return the stored SHA-256 of a model file in this state, or None."""
        with refusals("journal", self.path):
            row = self._db.execute(
                "SELECT sha256 FROM model_file WHERE state = ?", (state,)
            ).fetchone()
        return None if row is None else bytes(row[0])

    def add_model_hash(self, state: str, sha256: bytes) -> None:
        """Store the SHA-256 of a model file; failures are ignored, it is hashed again."""
        with suppress(sqlite3.Error):
            self._db.execute(
                "INSERT OR REPLACE INTO model_file (state, sha256) VALUES (?, ?)",
                (state, sha256),
            )

    def close(self) -> None:
        """Close the file. The last process removes the log."""
        self._db.close()


@dataclass(frozen=True, slots=True)
class _Files:
    """Identities of the file at a path and of its log."""

    file: tuple[int, int] | None
    log: tuple[int, int] | None

    @classmethod
    def at(cls, path: Path) -> _Files:
        return cls(identity(path), identity(beside(path, WAL)))


def _read_all(
    db: sqlite3.Connection,
) -> tuple[list[tuple[Any, ...]], dict[bytes, tuple[Any, ...]]]:
    """Return the rows of all results, and a dict from keys to rows of thoughts."""
    db.execute("BEGIN")  # all reads see one state of the file
    rows = db.execute(_SELECT_ALL).fetchall()
    return rows, {thought[4]: thought for thought in read_thoughts(db)}


def mixed_up(path: Path, n: int) -> str:
    """Return the message about ignored scores of an earlier version."""
    return (
        f"{quoted(path)} has {n} scores of an earlier version of llamaherd, which could "
        "store a score under another text's key: they are not read"
    )


class JournalEntries(list[JournalEntry]):
    """List of all results in a journal; its `repr` shows the first results."""

    def __repr__(self) -> str:
        rows = [
            f"{_first_words(entry.prompt)} -> {_first_words(entry.text or entry.error)}"
            for entry in self[:MOST_ROWS]
        ]
        head = f"<{count_of(len(self), 'result')} of a journal>"
        return "\n".join([head, *first_rows(rows, n=len(self))])


def _first_words(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= _WORDS else f"{line[: _WORDS - 3]}..."


def journal_read(path: str | os.PathLike[str]) -> JournalEntries:
    """Return all results in a journal, in the order of their first storage.

    A running call may use the journal at the same time.
    `pandas.DataFrame(journal_read(path))` converts the results to a table.

    Args:
        path: Path of a file that `generate_parallel(journal=path)` wrote.

    Raises:
        TypeError: `path` is neither text nor a path.
        JournalError: The file does not exist, is not a journal, or is damaged.

    Warns:
        JournalWarning: Scores of an earlier version were omitted.
    """
    file = journal_file.checked_path("path", path)
    with refusals("path", file):
        journal_file.check("path", file)
        rows, behind = look(file, _read_all)
        entries = [
            with_thought(entry, row, behind.get(row[4]))
            if THOUGHT in entry.settings
            else entry
            for entry, row in ((entry_of(row), row) for row in rows)
        ]
    read = [entry for entry in entries if MIXED_UP not in entry.settings]
    if len(read) < len(entries):
        message = mixed_up(file, len(entries) - len(read))
        warnings.warn(JournalWarning(message, "path"), stacklevel=2)
    return JournalEntries(read)
