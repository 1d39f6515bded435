"""Folder of files and batches, which survives the process.

SQLite stores everything except the content of files. A change is on disk when its method
returns. Only one server at a time may use the folder; any thread may call a method.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, astuple, fields, replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from llamaherd.calls.journal.file import check_local
from llamaherd.calls.journal.sqlite import is_locked, make_private, problem_of_format
from llamaherd.engine.core.checks import quoted
from llamaherd.engine.core.errors import LlamaHerdError
from llamaherd.engine.core.files import discard, make_private_folder, sync_folder
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.server.batches.batch import (
    ACTIVE,
    Batch,
    BatchOutcome,
    Status,
    StoredFile,
    new_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


_IS_ACTIVE = f"status IN {ACTIVE}"
# Errors of a full disk, an unwritable folder or a failing disk. A later attempt may
# succeed. (A damaged database raises another class, and no attempt would succeed.)
NOT_STORED = (sqlite3.OperationalError, OSError)
_APPLICATION_ID = 0x6C686261  # "lhba"
_VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS file (id TEXT PRIMARY KEY, filename TEXT, purpose TEXT,
  n_bytes INTEGER, created INTEGER, expires INTEGER);
CREATE TABLE IF NOT EXISTS batch (id TEXT PRIMARY KEY, created INTEGER, status TEXT,
  input_file TEXT, content TEXT);
CREATE TABLE IF NOT EXISTS outcome (batch TEXT, line INTEGER, custom_id TEXT,
  status INTEGER, body TEXT, PRIMARY KEY (batch, line));
"""
_SELECT_EXPIRED = f"""
SELECT id FROM file WHERE expires IS NOT NULL AND expires <= ? AND id NOT IN
  (SELECT input_file FROM batch WHERE {_IS_ACTIVE})
"""  # noqa: S608 - constants
_COUNT = "SELECT count(*), coalesce(sum(status = 200), 0) FROM outcome WHERE batch = ?"
_SELECT_OUTCOMES = """
SELECT line, custom_id, status, body FROM outcome WHERE batch = ? AND line > ?
  AND (status = 200) = ? ORDER BY line LIMIT 16
"""
_SAVE = """
INSERT INTO batch (id, created, status, input_file, content) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (id) DO UPDATE SET status = excluded.status, content = excluded.content
"""
_COLUMNS = [column.name for column in fields(StoredFile)]
_SELECT_FILES = f"SELECT {', '.join(_COLUMNS)} FROM file"  # noqa: S608 - constants
_FILES = re.compile(r"file-[0-9a-f]{24}(\.form)?")  # names that the store gives to files


class StoreError(LlamaHerdError, OSError):
    """The folder of a server's data cannot be used."""


class BatchStore:
    """Files and batches of a server."""

    def __init__(
        self, folder: Path | None, clock: Callable[[], float] = time.time
    ) -> None:
        self._clock = clock
        self.lock = RLock()  # held by each use of the database
        self._is_temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="llamaherd-data-"))
        self._files = self.folder / "files"
        with ExitStack() as undo, _refusals(self.folder):
            if self._is_temporary:
                undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
            check_local("data", self.folder)
            database = self.folder / "batches.sqlite"
            if _is_new(self.folder, database):
                if not self.folder.exists():
                    make_private_folder(self.folder)
                make_private(database)
            options: Any = {"isolation_level": None, "check_same_thread": False}
            self._db = sqlite3.connect(database, timeout=1.0, **options)
            undo.callback(self._db.close)
            self._open()
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
        stored = {row[0] for row in self._rows("SELECT id FROM file")}
        on_disk = {path.name for path in self._files.iterdir()}
        for name in on_disk - stored:  # of uploads and removals that a crash interrupted
            if _FILES.fullmatch(name) and not is_new:
                discard(self._files / name)
        for name in stored - on_disk:
            with suppress(*NOT_STORED):
                self.remove_file(name)

    def _check_format(self) -> bool:
        """Check that the database has this format; return whether it is still empty."""
        format_ = {"application": _APPLICATION_ID, "version": _VERSION}
        problem = problem_of_format(self._db, "server's database", _TABLES, **format_)
        if problem:
            text = f"data: {quoted(str(self.folder))} has a foreign batches.sqlite: "
            raise StoreError(text + problem)
        return problem is None

    def close(self) -> None:
        """Close the folder; remove it if it is temporary."""
        with self.lock:
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
        with self.lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite itself ends some that fail
                    self._db.execute("ROLLBACK")
                raise

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self.lock:
            rows: list[Any] = self._db.execute(query, values).fetchall()
            return rows

    # ---- files ----

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
        self._db.execute("INSERT INTO file VALUES (?, ?, ?, ?, ?, ?)", astuple(file))

    def files(self) -> list[StoredFile]:
        """Return all files that have not expired, the newest first."""
        return self._select_files("ORDER BY rowid DESC")

    def file(self, file_id: str) -> StoredFile | None:
        """Return a file; None if it does not exist."""
        files = self._select_files("WHERE id = ?", file_id)
        return next((file for file in files if self.path(file).exists()), None)

    def _select_files(self, where: str, *values: object) -> list[StoredFile]:
        self.sweep()
        rows = self._rows(f"{_SELECT_FILES} {where}", *values)
        return [StoredFile(**dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    def sweep(self) -> None:
        """Remove expired files; later, if the disk is full."""
        for (file_id,) in self._rows(_SELECT_EXPIRED, self.now):
            with suppress(*NOT_STORED):
                self.remove_file(file_id)

    def remove_file(self, file_id: str) -> None:
        """Remove first the content, so that a full disk has space for the change.

        On Windows, content that a client is reading remains until the next start.
        """
        discard(self._files / file_id)
        with self._change():
            self._db.execute("DELETE FROM file WHERE id = ?", (file_id,))

    # ---- batches ----

    def save(self, batch: Batch) -> None:
        """Store a new or changed batch."""
        with self._change():
            self._save(batch)

    def _save(self, batch: Batch) -> None:
        columns = (batch.id, batch.created, batch.status, batch.input_file)
        self._db.execute(_SAVE, (*columns, json.dumps(asdict(batch))))

    def update(self, batch: Batch, **changes: Any) -> Batch:
        """Store changes of a batch; return the stored batch."""
        with self._change():
            changed = replace(self.batch(batch.id) or batch, **changes)
            self._save(changed)
        return changed

    def move(self, batch: Batch, status: Status) -> Batch:
        """Store a new status of a batch; return the stored batch."""
        with self.lock:
            stored = self.batch(batch.id) or batch
            moved = stored.at(status, self.now)
            if moved is not stored:
                self.save(moved)
            return moved

    def batches(self, *, is_active: bool | None = None) -> list[Batch]:
        """Return the batches, the newest first; None for those that ended, too."""
        where = {None: "", True: f"WHERE {_IS_ACTIVE}", False: f"WHERE NOT {_IS_ACTIVE}"}
        return self._batches(f"{where[is_active]} ORDER BY rowid DESC")

    def batch(self, batch_id: str) -> Batch | None:
        """Return a batch; None if it does not exist."""
        return next(iter(self._batches("WHERE id = ?", batch_id)), None)

    def _batches(self, where: str, *values: object) -> list[Batch]:
        """Return batches; running ones with their current numbers of outcomes."""
        batches = []
        for (content,) in self._rows(f"SELECT content FROM batch {where}", *values):  # noqa: S608
            try:
                batch = Batch(**json.loads(content))
            except (*DAMAGED, TypeError) as error:
                text = f"data: a batch in it cannot be read: {error}"
                raise StoreError(text) from None
            if batch.is_active:
                ((n, n_good),) = self._rows(_COUNT, batch.id)
                batch = replace(batch, n_done=n_good, n_failed=n - n_good)
            batches.append(batch)
        return batches

    def done_lines(self, batch: Batch) -> set[int]:
        """Return the numbers of the lines that have an outcome."""
        rows = self._rows("SELECT line FROM outcome WHERE batch = ?", batch.id)
        return {row[0] for row in rows}

    def add_outcomes(self, batch: Batch, outcomes: Iterable[BatchOutcome]) -> None:
        """Store outcomes, which are on disk at the end; a stored one stays as it is."""
        rows = [(batch.id, *astuple(outcome)) for outcome in outcomes]
        with self._change():
            self._db.executemany(
                "INSERT OR IGNORE INTO outcome VALUES (?, ?, ?, ?, ?)", rows
            )

    def finish(self, batch: Batch) -> Batch:
        """Write the output files of a batch and store it without its outcomes.

        Other threads use the store meanwhile. If one of them cancels the batch, its
        answers are complete, but its status is "cancelled", as its client was told.

        After an error, for example of a full disk, the batch and its outcomes are
        unchanged, and no file remains.
        """
        files: dict[str, StoredFile] = {}
        with ExitStack() as undo:
            for name, is_good in (("output", True), ("error", False)):
                path = self.new_path()
                undo.callback(discard, path)
                if self._write(path, batch, is_good=is_good):
                    filename = f"{batch.id}_{name}.jsonl"
                    keep_s = batch.keep_s
                    file = self._file_at(path, filename, "batch_output", keep_s)
                    files[f"{name}_file"] = file
            with self._change():
                stored = self.batch(batch.id) or batch
                if not stored.is_active:  # finished meanwhile, by another cancellation
                    return stored
                for file in files.values():
                    self._insert(file)
                ids: Any = {name: file.id for name, file in files.items()}
                ended = replace(stored.at(self._last_status(stored), self.now), **ids)
                self._save(ended)
                self._db.execute("DELETE FROM outcome WHERE batch = ?", (batch.id,))
            undo.pop_all()
        return ended

    def _last_status(self, batch: Batch) -> Status:
        if "cancelling" in batch.times:
            return "cancelled"
        lost = "SELECT 1 FROM outcome WHERE batch = ? AND status = 0 LIMIT 1"
        return "expired" if self._rows(lost, batch.id) else "completed"

    def _write(self, path: Path, batch: Batch, *, is_good: bool) -> bool:
        """Write outcomes to a file; return False if there are none."""
        last = -1
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8", newline="\n") as file:
            while rows := self._rows(_SELECT_OUTCOMES, batch.id, last, is_good):
                file.writelines(BatchOutcome(*row).text(batch.id) for row in rows)
                last = rows[-1][0]
            file.flush()
            os.fsync(file.fileno())
        if last < 0:
            path.unlink()
        return last >= 0


@contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    """Convert errors of SQLite and the system to StoreError."""
    try:
        yield
    except StoreError:
        raise
    except (sqlite3.Error, OSError, LlamaHerdError) as error:
        hint = "; does another server use it?" if is_locked(error) else ""
        text = f"data: {quoted(str(folder))} cannot be used{hint} ({error})"
        raise StoreError(text) from error


def _is_new(folder: Path, database: Path) -> bool:
    """Return whether a folder has no database of a server yet."""
    with suppress(FileNotFoundError):
        if database.stat().st_size:
            return False
    names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    names -= {"lost+found", database.name, f"{database.name}-journal"}
    files = folder / "files"
    if files.is_dir() and not files.is_symlink() and not any(files.iterdir()):
        names.discard(files.name)  # a server was killed before it created its database
    foreign = sorted(name for name in names if not name.startswith("."))
    if foreign:
        raise StoreError(
            f"data: {quoted(str(folder))} has other files, such as {foreign[0]!r}, and "
            "no data of a server: name a new or empty folder"
        )
    return True


def reason_of(error: Exception) -> str:
    """Return why something cannot be stored, without the paths of the server."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
