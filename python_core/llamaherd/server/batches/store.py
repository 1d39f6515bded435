"""Folder of files and batches, which survives the process.

SQLite stores everything except the content of files. A change is on disk when its method
returns. Only one server at a time may use the folder.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import sqlite3
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.core.checks import quoted
from llamaherd.core.files import discard, make_private_folder, sync_folder
from llamaherd.core.json_text import DAMAGED
from llamaherd.journal.file import check_local
from llamaherd.journal.sqlite_schema import make_private, problem_of_schema
from llamaherd.server.batches.records import (
    ACTIVE,
    Batch,
    BatchOutcome,
    BatchProgress,
    StoredFile,
)
from llamaherd.server.batches.storage_errors import NOT_STORED, StoreError, refusals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from llamaherd.server.batches.records import Status
    from llamaherd.server.batches.turns import ShortSteps

_APPLICATION_ID = 0x6C686261  # "lhba"
_TABLES = """
CREATE TABLE IF NOT EXISTS file (id TEXT PRIMARY KEY, filename TEXT, purpose TEXT,
  n_bytes INTEGER, created INTEGER, expires INTEGER);
CREATE TABLE IF NOT EXISTS batch (id TEXT PRIMARY KEY, created INTEGER, status TEXT,
  input_file TEXT, content TEXT);
CREATE TABLE IF NOT EXISTS outcome (batch TEXT, line INTEGER, custom_id TEXT,
  status INTEGER, body TEXT, PRIMARY KEY (batch, line));
"""
_SELECT_EXPIRED = """
SELECT id FROM file WHERE expires IS NOT NULL AND expires <= ? AND id NOT IN
  (SELECT input_file FROM batch WHERE status IN
    ('validating', 'in_progress', 'finalizing', 'cancelling'))
"""
_COUNT = """
SELECT count(*), coalesce(sum(status = 200), 0) FROM outcome WHERE batch = ?
"""
_SELECT_OUTCOMES = """
SELECT line, custom_id, status, body FROM outcome WHERE batch = ? AND line > ?
  AND (status = 200) = ? ORDER BY line LIMIT 64
"""
_STEP_BYTES = 1 << 18  # characters that are written in one step, and at least one answer
_VERSION = 1
_ID = re.compile(r"(?:file-|batch_)[0-9a-f]{24}")
_FILES = re.compile(r"file-[0-9a-f]{24}(\.form)?")  # names that the store gives to files
_FILE = tuple(field.name for field in fields(StoredFile))


class BatchStore:
    """Files and batches of a server. One thread uses it at a time.

    Args:
        folder: Folder, created if it does not exist; None for a temporary folder, which
            `close` removes.
        clock: Returns the time in seconds since 1970.

    Raises:
        StoreError: The folder cannot be used, or another server uses it.
    """

    def __init__(
        self, folder: Path | None, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self._is_temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="llamaherd-data-"))
        with ExitStack() as undo, refusals(self.folder):
            if self._is_temporary:
                undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
            check_local("data", self.folder)
            self._files = self.folder / "files"
            database = self.folder / "batches.sqlite"
            if _is_new(self.folder, database):
                if not self.folder.exists():
                    make_private_folder(self.folder)
                make_private(database)
            self._db = sqlite3.connect(
                database,
                isolation_level=None,
                check_same_thread=False,
                timeout=1.0,
            )
            try:
                self._open()
            except BaseException:
                self._db.close()
                raise
            undo.pop_all()

    def _open(self) -> None:
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        is_new = self._check_format()  # before anything is changed
        make_private_folder(self._files)
        make_private(self.folder / "batches.sqlite")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with self._change():
            if self._check_format():  # a server also starts if the disk is full
                for table in _TABLES.split(";"):
                    self._db.execute(table)
                self._db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                self._db.execute(f"PRAGMA user_version = {_VERSION}")
        self.sweep()
        known = {row[0] for row in self._db.execute("SELECT id FROM file")}
        there = {path.name for path in self._files.iterdir()}
        for name in there - known:  # of uploads and removals that a crash interrupted
            if _FILES.fullmatch(name) and not is_new:
                discard(self._files / name)
        for name in known - there:
            with suppress(*NOT_STORED):
                self._drop(name)

    def _check_format(self) -> bool:
        """Check that the database has this format; return whether it is still empty.

        Raises:
            StoreError: The database is of another program or version, or was changed.
        """
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        (n_objects,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not (application or version or n_objects):
            return True
        problem = problem_of_schema(self._db, "server's database", _TABLES)
        if application not in (0, _APPLICATION_ID):  # earlier versions set none
            problem = f"application_id {application:#x} is of another program"
        elif version != _VERSION:
            problem = f"unknown version: {version}"
        if problem:
            text = f"data: {quoted(str(self.folder))} has a foreign batches.sqlite: "
            raise StoreError(text + problem)
        return False

    def close(self) -> None:
        """Close the folder; remove it if it is temporary."""
        self._db.close()
        if self._is_temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def now(self) -> int:
        """Time in seconds since 1970."""
        return int(self._clock())

    @contextmanager
    def _change(self) -> Iterator[None]:
        """Apply all changes of the block, or none of them after an error."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # SQLite itself ends some that fail
                self._db.execute("ROLLBACK")
            raise

    # Files

    def new_path(self) -> Path:
        """Return the path of a file that is being written."""
        return self._files / new_id("file-")

    def path(self, file: StoredFile) -> Path:
        """Return the path of the content of a file."""
        return self._files / file.id

    def add_file(
        self, path: Path, filename: str, purpose: str, keep_s: int | None = None
    ) -> StoredFile:
        """Add a file that was written to a path of `new_path`."""
        file = self._file_at(path, filename, purpose, keep_s)
        with self._change():
            self._insert(file)
        return file

    def _file_at(
        self, path: Path, filename: str, purpose: str, keep_s: int | None
    ) -> StoredFile:
        sync_folder(self._files)
        return StoredFile(
            id=path.name,
            filename=filename,
            purpose=purpose,
            n_bytes=path.stat().st_size,
            created=self.now,
            expires=None if keep_s is None else self.now + keep_s,
        )

    def _insert(self, file: StoredFile) -> None:
        marks = ", ".join("?" * len(_FILE))
        values = [getattr(file, name) for name in _FILE]
        names = ", ".join(_FILE)
        self._db.execute(f"INSERT INTO file ({names}) VALUES ({marks})", values)  # noqa: S608 - own names

    def files(self) -> list[StoredFile]:
        """Return all files, the newest first."""
        self.sweep()
        rows = self._db.execute(
            f"SELECT {', '.join(_FILE)} FROM file ORDER BY rowid DESC"  # noqa: S608
        )
        return [StoredFile(**dict(zip(_FILE, row, strict=True))) for row in rows]

    def file(self, file_id: str) -> StoredFile | None:
        """Return a file; None if it does not exist."""
        if not _ID.fullmatch(file_id):
            return None
        self.sweep()
        row = self._db.execute(
            f"SELECT {', '.join(_FILE)} FROM file WHERE id = ?",  # noqa: S608
            (file_id,),
        ).fetchone()
        if row is None or not (self._files / file_id).exists():
            return None
        return StoredFile(**dict(zip(_FILE, row, strict=True)))

    def is_in_use(self, file: StoredFile) -> bool:
        """Whether a batch still reads a file."""
        return any(batch.input_file == file.id for batch in self.batches(is_active=True))

    def remove_file(self, file: StoredFile) -> None:
        """Remove a file.

        On Windows, content that a client is reading remains until the next start.
        """
        self._drop(file.id)

    def sweep(self) -> None:
        """Remove expired files; later, if the disk is full."""
        rows = self._db.execute(_SELECT_EXPIRED, (self.now,)).fetchall()
        for (file_id,) in rows:
            with suppress(*NOT_STORED):
                self._drop(file_id)

    def _drop(self, file_id: str) -> None:
        """Remove first the content, so that a full disk has space for the change."""
        discard(self._files / file_id)
        with self._change():
            self._db.execute("DELETE FROM file WHERE id = ?", (file_id,))

    # Batches

    def save(self, batch: Batch) -> None:
        """Store a new or changed batch."""
        with self._change():
            self._save(batch)

    def _save(self, batch: Batch) -> None:
        self._db.execute(
            "INSERT INTO batch (id, created, status, input_file, content) "
            "VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET "
            "status = excluded.status, content = excluded.content",
            (
                batch.id,
                batch.created,
                batch.status,
                batch.input_file,
                json.dumps(asdict(batch)),
            ),
        )

    def batches(self, *, is_active: bool = False) -> list[Batch]:
        """Return all batches, the newest first."""
        where = f"WHERE status IN ({_listed(ACTIVE)}) " if is_active else ""
        rows = self._db.execute(f"SELECT content FROM batch {where}ORDER BY rowid DESC")  # noqa: S608
        return [self._counted(_batch_of(row[0])) for row in rows]

    def last_ended(self, n: int) -> list[BatchProgress]:
        """Return the last n batches that have ended, the newest first."""
        rows = self._db.execute(
            f"SELECT content FROM batch WHERE status NOT IN ({_listed(ACTIVE)}) "  # noqa: S608
            "ORDER BY rowid DESC LIMIT ?",
            (n,),
        )
        found = [_batch_of(row[0]) for row in rows]
        return [
            BatchProgress(
                id=each.id,
                endpoint=each.endpoint,
                status=each.status,
                n_total=each.n_total,
                n_done=each.n_done + each.n_failed,
            )
            for each in found
        ]

    def batch(self, batch_id: str) -> Batch | None:
        """Return a batch; None if it does not exist."""
        if not _ID.fullmatch(batch_id):
            return None
        row = self._db.execute(
            "SELECT content FROM batch WHERE id = ?", (batch_id,)
        ).fetchone()
        return None if row is None else self._counted(_batch_of(row[0]))

    def _counted(self, batch: Batch) -> Batch:
        """Return a batch; set the current numbers of outcomes if it is running."""
        if not batch.is_active:
            return batch
        n, n_good = self._db.execute(_COUNT, (batch.id,)).fetchone()
        return replace(batch, n_done=n_good, n_failed=n - n_good)

    def done_lines(self, batch: Batch) -> set[int]:
        """Return the numbers of the lines that have an outcome."""
        rows = self._db.execute("SELECT line FROM outcome WHERE batch = ?", (batch.id,))
        return {row[0] for row in rows}

    def add_outcomes(self, batch: Batch, outcomes: Iterable[BatchOutcome]) -> None:
        """Store outcomes, which are on disk when the call returns."""
        rows = [
            (batch.id, each.line, each.custom_id, each.status, each.body)
            for each in outcomes
        ]
        with self._change():
            self._db.executemany(
                "INSERT OR IGNORE INTO outcome VALUES (?, ?, ?, ?, ?)", rows
            )

    def finish(self, batch: Batch) -> ShortSteps[Batch]:
        """Write the output files of a batch and store it without its outcomes.

        The batch may be cancelled between two steps. Then its answers are complete, but
        its status is "cancelled", as its client was told.

        After an error, for example of a full disk, the batch and its outcomes are
        unchanged, and no file remains.
        """
        batch = self._counted(batch)
        made: dict[str, StoredFile] = {}
        with ExitStack() as undo:
            for name, is_good in (("output", True), ("error", False)):
                path = self.new_path()
                undo.callback(discard, path)
                if (yield from self._write(path, batch, is_good=is_good)):
                    shown = f"{batch.id}_{name}.jsonl"
                    made[name] = self._file_at(path, shown, "batch_output", batch.keep_s)
            now = self.batch(batch.id) or batch
            if not now.is_active:  # finished meanwhile, by another cancellation
                return now
            batch = replace(batch, times={**batch.times, **now.times})
            last = self._last_status(batch)
            ended = replace(
                batch,
                status=last,
                times={**batch.times, last: self.now},
                output_file=made["output"].id if "output" in made else None,
                error_file=made["error"].id if "error" in made else None,
            )
            with self._change():
                for file in made.values():
                    self._insert(file)
                self._save(ended)
                self._db.execute("DELETE FROM outcome WHERE batch = ?", (batch.id,))
            undo.pop_all()
        return ended

    def _last_status(self, batch: Batch) -> Status:
        if "cancelling" in batch.times:
            return "cancelled"
        (n_expired,) = self._db.execute(
            "SELECT count(*) FROM outcome WHERE batch = ? AND status = 0", (batch.id,)
        ).fetchone()
        return "expired" if n_expired else "completed"

    def _write(self, path: Path, batch: Batch, *, is_good: bool) -> ShortSteps[bool]:
        """Write outcomes to a file; return False if there are none."""
        n, n_before, at = 0, -1, -1
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8", newline="\n") as file:
            # Each step has its own query, because other batches change the table between.
            while n > n_before:
                n_before, n_bytes = n, 0
                rows = self._db.execute(_SELECT_OUTCOMES, (batch.id, at, is_good))
                for row in rows:
                    n_bytes += file.write(BatchOutcome(*row).text(batch.id))
                    n, at = n + 1, row[0]
                    if n_bytes > _STEP_BYTES:
                        break
                rows.close()
                yield
            file.flush()
            os.fsync(file.fileno())
        if n == 0:
            path.unlink()
        return n > 0


def _is_new(folder: Path, database: Path) -> bool:
    """Return whether a folder has no database of a server yet.

    Raises:
        StoreError: The folder has other files, which the user could lose.
    """
    with suppress(FileNotFoundError):
        if database.stat().st_size:
            return False
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    names -= {"lost+found", database.name, f"{database.name}-journal"}
    files = folder / "files"
    if files.is_dir() and not files.is_symlink() and not any(files.iterdir()):
        names.discard(files.name)  # a server was killed before it created its database
    other = sorted(each for each in names if not each.startswith("."))
    if other:
        raise StoreError(
            f"data: {quoted(str(folder))} has other files, such as {other[0]!r}, and no "
            "data of a server: name a new or empty folder"
        )
    return True


def _batch_of(content: str) -> Batch:
    try:
        return Batch(**json.loads(content))
    except (*DAMAGED, TypeError) as error:
        raise StoreError(f"data: a batch in it cannot be read: {error}") from None


def new_id(start: str) -> str:
    """Return a new identifier of a file or a batch."""
    return f"{start}{secrets.token_hex(12)}"


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)
