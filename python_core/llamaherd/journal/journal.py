"""Finished results on disk: an SQLite file that outlives the process that writes it.

A result lies under a key made of all that its text depends on (see `journal_key`). The
file is in WAL mode: processes may share it, and who reads does not block who writes. A
commit is on the disk when it returns (synchronous=FULL), so a power cut loses none.

A file is looked at without changing a byte of it before it is written to. One that is
removed, moved or replaced while it is open is made anew at its path, with all it held.
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

from llamaherd.core.errors import JournalError, JournalWarning
from llamaherd.journal import file as journal_file
from llamaherd.journal.entry import JournalEntry, entry_of, row_of
from llamaherd.journal.file import refusals, shown
from llamaherd.journal.key import MIXED_UP
from llamaherd.journal.look import SHM, WAL, beside, connect, identity, look

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

VERSION = version("llamaherd")

_RETRY_S = (0.0, 0.05, 0.5)

_ADD_ORIGIN = """
INSERT OR IGNORE INTO origin (model, model_sha256, settings, version) VALUES (?, ?, ?, ?)
"""
# An answer stays as it was stored first; a failure gives way to what comes after it.
_ADD_RESULT = """
INSERT INTO result (origin, key, prompt, n_prompt_tokens, seed, text, tokens,
                    finish_reason, error, numbers, created, digest)
VALUES ((SELECT id FROM origin WHERE model = ? AND model_sha256 = ? AND settings = ?
         AND version = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
  origin = excluded.origin, prompt = excluded.prompt,
  n_prompt_tokens = excluded.n_prompt_tokens, seed = excluded.seed,
  text = excluded.text, tokens = excluded.tokens,
  finish_reason = excluded.finish_reason, error = excluded.error,
  numbers = excluded.numbers,
  created = excluded.created, digest = excluded.digest
WHERE result.finish_reason = 'error'
"""
_SELECT = """
SELECT model, model_sha256, settings, version, key, prompt, n_prompt_tokens, seed, text,
       tokens, finish_reason, error, numbers, created, digest
FROM result LEFT JOIN origin ON origin.id = result.origin
"""
_SELECT_ALL = f"{_SELECT} ORDER BY result.id"
# Scores of earlier versions, whose keys could be those of other texts.
_COUNT_MIXED_UP = """
SELECT count(*) FROM result JOIN origin ON origin.id = result.origin
WHERE instr(settings, ?) > 0 AND finish_reason <> 'error'
"""
_SELECT_DONE = f"{_SELECT} WHERE key = ? AND finish_reason <> 'error'"


class Journal:
    """A journal that is open for writing, for one thread at a time.

    Args:
        path: The file; made if it is not there.

    Attributes:
        notice: What happened to the file while it was open; "" if nothing did.

    Raises:
        TypeError: `path` is neither text nor a path.
        JournalError: It cannot be written, is on a network drive, is no journal, or is
            damaged.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = journal_file.checked_path("journal", path)
        journal_file.check_local("journal", self.path)
        self.notice = ""
        self._open()

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
            if not all(os.access(each, os.W_OK) for each in both):
                raise JournalError(
                    f"journal: {shown(self.path)} cannot be used: the file, or its "
                    "folder, may only be read"
                )
            db = connect(self.path, "mode=rw")
            try:
                db.execute("PRAGMA synchronous = FULL")
                db.execute("PRAGMA journal_mode = WAL")  # VACUUM makes copies without it
                db.execute("BEGIN IMMEDIATE")  # fails where nothing can be written
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
        """The answer under a key; None if there is none, or only a failure.

        Raises:
            JournalError: It is damaged.
        """
        with refusals("journal", self.path):
            row = self._db.execute(_SELECT_DONE, (key,)).fetchone()
            return None if row is None else entry_of(row)

    def add(self, entries: Iterable[JournalEntry]) -> None:
        """Stores results, all or none. They are on the disk when it returns.

        Raises:
            sqlite3.Error: They could not be stored, for now or for good.
            JournalError: The file is not at its path any more, nor can it be made there.
        """
        if self._files is None:  # it could not be opened again the last time
            self._open()
        rows = [row_of(entry) for entry in entries]
        if rows:
            _store(self._db, rows)
        self._follow_path()

    def _follow_path(self) -> None:
        """Sees to it that the file at the path is the one that is open, or holds as much.

        Whoever removes a file leaves it to those who have it open, and to nobody else.
        """
        found = _Files.at(self.path)
        if self._files is None or found == self._files:
            return
        try:
            if found.file == self._files.file:
                self._open_again()
            else:
                self._make_anew(self._files)
        except (JournalError, sqlite3.Error, OSError) as error:
            raise JournalError(
                "it was removed, moved or replaced during the call, and its results "
                f"could not be stored at its path again: {error}"
            ) from error
        self.notice = (
            f"{shown(self.path)}, or SQLite's log beside it, was removed, moved or "
            "replaced during the call; all results are stored in the file that is there "
            "now"
        )

    def _open_again(self) -> None:
        """The log is gone from the file's side."""
        self._empty_log()
        self._files = None
        self._db.close()
        self._open()

    def _make_anew(self, files: _Files) -> None:
        """There is no file at the path any more, or another one.

        Args:
            files: Those that are open.
        """
        db = self._db
        self._empty_log()  # wherever the file is now, it is whole
        db.execute("BEGIN IMMEDIATE")  # all who have it open do this in turn
        try:
            if files.log is not None and _Files.at(self.path).log == files.log:
                for suffix in (WAL, SHM):  # else the new file would be given them
                    beside(self.path, suffix).unlink(missing_ok=True)
        finally:
            db.execute("ROLLBACK")
        self._open()
        try:
            rows = db.execute(_SELECT_ALL)
            while chunk := rows.fetchmany(1000):
                _store(self._db, chunk)
        except BaseException:
            self._db.close()
            self._db, self._files = db, files
            raise
        db.close()

    def _empty_log(self) -> None:
        """Moves all that is in the log into the file."""
        for delay in _RETRY_S:  # SQLite does not wait for another process's checkpoint
            time.sleep(delay)
            busy, *_ = self._db.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
            if not busy:
                return
        raise sqlite3.OperationalError("another process keeps its log in use")

    @property
    def n_mixed_up(self) -> int:
        """Number of scores that an earlier version stored, which are never read again."""
        with refusals("journal", self.path):
            (number,) = self._db.execute(_COUNT_MIXED_UP, (MIXED_UP,)).fetchone()
        return int(number)

    def find_model_hash(self, state: str) -> bytes | None:
        """SHA-256 of a model's file, if the file was seen in this very state."""
        with refusals("journal", self.path):
            row = self._db.execute(
                "SELECT sha256 FROM model_file WHERE state = ?", (state,)
            ).fetchone()
        return None if row is None else bytes(row[0])

    def add_model_hash(self, state: str, sha256: bytes) -> None:
        """Remembers the SHA-256 of a model's file. To fail costs time only."""
        with suppress(sqlite3.Error):
            self._db.execute(
                "INSERT OR REPLACE INTO model_file (state, sha256) VALUES (?, ?)",
                (state, sha256),
            )

    def close(self) -> None:
        """Closes the file. The last one to do so leaves nothing beside it."""
        self._db.close()


@dataclass(frozen=True, slots=True)
class _Files:
    """Which file is at a path, and which log beside it."""

    file: tuple[int, int] | None
    log: tuple[int, int] | None

    @classmethod
    def at(cls, path: Path) -> _Files:
        return cls(identity(path), identity(beside(path, WAL)))


def _store(db: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        db.executemany(_ADD_ORIGIN, {row[:4] for row in rows})
        db.executemany(_ADD_RESULT, rows)
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # SQLite may have done so by itself
            db.execute("ROLLBACK")
        raise


def mixed_up(path: Path, n: int) -> str:
    """Message about scores of an earlier version that are not read.

    Args:
        path: Path of the journal.
        n: Number of these scores.
    """
    return (
        f"{shown(path)} has {n} scores of an earlier version of llamaherd, which could "
        "store a score under another text's key: they are not read"
    )


def journal_read(path: str | os.PathLike[str]) -> list[JournalEntry]:
    """All results in a journal, in the order in which they were stored first.

    The journal may be in use by a call that runs. `pandas.DataFrame(journal_read(path))`
    is a table of it.

    Args:
        path: A file that `generate_parallel(journal=path)` wrote.

    Raises:
        TypeError: `path` is neither text nor a path.
        JournalError: There is no such file, it is no journal, or it is damaged.

    Warns:
        JournalWarning: Scores of an earlier version were left out.
    """
    file = journal_file.checked_path("path", path)
    with refusals("path", file):
        journal_file.check("path", file)
        rows = look(file, lambda db: db.execute(_SELECT_ALL).fetchall())
        found = [entry_of(row) for row in rows]
    read = [entry for entry in found if MIXED_UP not in entry.settings]
    if len(read) < len(found):
        told = mixed_up(file, len(found) - len(read))
        warnings.warn(f"path: {told}", JournalWarning, stacklevel=2)
    return read
