"""Folder of files and batches, which survives the process.

SQLite stores everything except the content of files. A change is on disk when its method
returns. Only one server at a time may use the folder; any thread may call a method.
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
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from threading import Event, RLock
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.calls.journal.file import check_local
from llamaherd.calls.journal.sqlite import is_locked, make_private, problem_of_schema
from llamaherd.engine.core.checks import quoted
from llamaherd.engine.core.errors import LlamaHerdError
from llamaherd.engine.core.files import discard, make_private_folder, sync_folder
from llamaherd.engine.core.plain import DAMAGED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Status = Literal[
    "validating",
    "failed",
    "in_progress",
    "finalizing",
    "completed",
    "expired",
    "cancelling",
    "cancelled",
]
# Statuses of batches that the server still works on.
ACTIVE: tuple[Status, ...] = ("validating", "in_progress", "finalizing", "cancelling")
_IS_ACTIVE = "status IN ('validating', 'in_progress', 'finalizing', 'cancelling')"
_TIMES = (
    *("in_progress", "finalizing", "completed", "failed", "expired"),
    *("cancelling", "cancelled"),
)
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
"""  # noqa: S608 - own names
_COUNT = "SELECT count(*), coalesce(sum(status = 200), 0) FROM outcome WHERE batch = ?"
_SELECT_OUTCOMES = """
SELECT line, custom_id, status, body FROM outcome WHERE batch = ? AND line > ?
  AND (status = 200) = ? ORDER BY line LIMIT 16
"""
_ID = re.compile(r"(?:file-|batch_)[0-9a-f]{24}")
_FILES = re.compile(r"file-[0-9a-f]{24}(\.form)?")  # names that the store gives to files


class StoreError(LlamaHerdError, OSError):
    """The folder of a server's data cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a client, or the output of a batch; its id is its name on disk."""

    id: str
    filename: str
    purpose: str  # "batch" or "batch_output"
    n_bytes: int
    created: int  # seconds since 1970, like all times
    expires: int | None = None  # None: it is never removed

    @property
    def shape(self) -> dict[str, object]:
        """File in the format of OpenAI's API."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": self.n_bytes,
            "created_at": self.created,
            "expires_at": self.expires,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }


_FILE = ", ".join(each.name for each in fields(StoredFile))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """Progress of a batch for the page of the server."""

    id: str
    endpoint: str
    status: Status
    n_total: int  # 0 before the requests are counted
    n_done: int  # requests with an answer or an error
    n_here: int = 0  # requests that this server ran
    elapsed_s: float = 0.0  # since this server began to run the batch
    problem: str = ""  # reason why the batch waits

    @property
    def left_s(self) -> float | None:
        """Expected seconds until the end at the speed so far; None if it is unknown."""
        if not self.n_here or self.n_done > self.n_total:
            return None
        return (self.n_total - self.n_done) * self.elapsed_s / self.n_here


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of requests.

    `models` has the identity of the model for each name in the requests, "" for requests
    without a name; None before the first request. Only these models answer.
    """

    id: str
    endpoint: str
    input_file: str
    created: int
    expires: int  # no request starts later
    window: str  # `completion_window` of the client
    metadata: dict[str, str] = field(default_factory=dict)
    keep_s: int | None = None  # of the output files; None keeps them forever
    status: Status = "validating"
    times: dict[str, int] = field(default_factory=dict)  # start of each status so far
    n_total: int = 0  # 0 before the requests are counted
    n_done: int = 0
    n_failed: int = 0
    output_file: str | None = None
    error_file: str | None = None
    errors: list[dict[str, object]] = field(default_factory=list)  # of the input file
    models: dict[str, str] | None = None

    @property
    def is_active(self) -> bool:
        """Whether the server still works on the batch."""
        return self.status in ACTIVE

    @property
    def shape(self) -> dict[str, object]:
        """Batch in the format of OpenAI's API."""
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "input_file_id": self.input_file,
            "completion_window": self.window,
            "status": self.status,
            "output_file_id": self.output_file,
            "error_file_id": self.error_file,
            "created_at": self.created,
            "expires_at": self.expires,
            **{f"{name}_at": self.times.get(name) for name in _TIMES},
            "request_counts": {
                "total": self.n_total,
                "completed": self.n_done,
                "failed": self.n_failed,
            },
            "metadata": self.metadata or None,
        }


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """Outcome of one request of a batch."""

    line: int  # from 0
    custom_id: str
    status: int  # HTTP status; 0 if the request was not computed
    body: str  # answer as JSON, or the error of a request that was not computed

    def text(self, batch_id: str) -> str:
        """Return the line of the output file, or of the file of errors."""
        name = f"{batch_id.removeprefix('batch_')}_{self.line}"
        start = f'{{"id":"batch_req_{name}","custom_id":{json.dumps(self.custom_id)}'
        if not self.status:
            return f'{start},"response":null,"error":{self.body}}}\n'
        response = f'"status_code":{self.status},"request_id":"req_{name}"'
        return f'{start},"response":{{{response},"body":{self.body}}},"error":null}}\n'


class BatchStore:
    """Files and batches of a server.

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
        self.lock = RLock()  # held by each use of the database
        self.is_ending = Event()  # ends the writing of output files
        self._is_temporary = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="llamaherd-data-"))
        with ExitStack() as undo, _refusals(self.folder):
            if self._is_temporary:
                undo.callback(shutil.rmtree, self.folder, ignore_errors=True)
            check_local("data", self.folder)
            self._files = self.folder / "files"
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
        known = {row[0] for row in self._rows("SELECT id FROM file")}
        there = {path.name for path in self._files.iterdir()}
        for name in there - known:  # of uploads and removals that a crash interrupted
            if _FILES.fullmatch(name) and not is_new:
                discard(self._files / name)
        for name in known - there:
            with suppress(*NOT_STORED):
                self._drop(name)

    def _check_format(self) -> bool:
        """Check that the database has this format; return whether it is still empty."""
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
        values = tuple(asdict(file).values())
        marks = ", ".join("?" * len(values))
        self._db.execute(f"INSERT INTO file ({_FILE}) VALUES ({marks})", values)  # noqa: S608 - own names

    def files(self) -> list[StoredFile]:
        """Return all files, the newest first."""
        return self._select_files("ORDER BY rowid DESC")

    def _select_files(self, where: str, *values: object) -> list[StoredFile]:
        self.sweep()
        rows = self._rows(f"SELECT {_FILE} FROM file {where}", *values)  # noqa: S608
        names = _FILE.split(", ")
        return [StoredFile(**dict(zip(names, row, strict=True))) for row in rows]

    def file(self, file_id: str) -> StoredFile | None:
        """Return a file; None if it does not exist."""
        if not _ID.fullmatch(file_id):
            return None
        files = self._select_files("WHERE id = ?", file_id)
        return next((each for each in files if self.path(each).exists()), None)

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
        for (file_id,) in self._rows(_SELECT_EXPIRED, self.now):
            with suppress(*NOT_STORED):
                self._drop(file_id)

    def _drop(self, file_id: str) -> None:
        """Remove first the content, so that a full disk has space for the change."""
        discard(self._files / file_id)
        with self._change():
            self._db.execute("DELETE FROM file WHERE id = ?", (file_id,))

    # ---- batches ----

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
                *(batch.id, batch.created, batch.status, batch.input_file),
                json.dumps(asdict(batch)),
            ),
        )

    def update(self, batch: Batch, **changes: Any) -> Batch:  # noqa: ANN401
        """Store changes of a batch; return the stored batch."""
        with self._change():
            changed = replace(self.batch(batch.id) or batch, **changes)
            self._save(changed)
        return changed

    def move(self, batch: Batch, status: Status) -> Batch:
        """Store a new status of a batch; return the stored batch."""
        with self.lock:
            now = self.batch(batch.id) or batch
            if not now.is_active or status in now.times:
                return now
            return self.update(now, status=status, times={**now.times, status: self.now})

    def batches(self, *, is_active: bool = False) -> list[Batch]:
        """Return all batches, the newest first."""
        where = f"WHERE {_IS_ACTIVE} " if is_active else ""
        rows = self._rows(f"SELECT content FROM batch {where}ORDER BY rowid DESC")  # noqa: S608
        return [self._counted(_batch_of(row[0])) for row in rows]

    def last_ended(self, n: int) -> list[BatchProgress]:
        """Return the last n batches that have ended, the newest first."""
        rows = self._rows(
            f"SELECT content FROM batch WHERE NOT {_IS_ACTIVE} "  # noqa: S608
            "ORDER BY rowid DESC LIMIT ?",
            n,
        )
        return [
            BatchProgress(
                id=each.id,
                endpoint=each.endpoint,
                status=each.status,
                n_total=each.n_total,
                n_done=each.n_done + each.n_failed,
            )
            for each in (_batch_of(row[0]) for row in rows)
        ]

    def batch(self, batch_id: str) -> Batch | None:
        """Return a batch; None if it does not exist."""
        if not _ID.fullmatch(batch_id):
            return None
        rows = self._rows("SELECT content FROM batch WHERE id = ?", batch_id)
        return self._counted(_batch_of(rows[0][0])) if rows else None

    def _counted(self, batch: Batch) -> Batch:
        """Return a batch; set the current numbers of outcomes if it is running."""
        if not batch.is_active:
            return batch
        ((n, n_good),) = self._rows(_COUNT, batch.id)
        return replace(batch, n_done=n_good, n_failed=n - n_good)

    def done_lines(self, batch: Batch) -> set[int]:
        """Return the numbers of the lines that have an outcome."""
        rows = self._rows("SELECT line FROM outcome WHERE batch = ?", batch.id)
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

    def finish(self, batch: Batch) -> Batch:
        """Write the output files of a batch and store it without its outcomes.

        Other threads use the store meanwhile. If one of them cancels the batch, its
        answers are complete, but its status is "cancelled", as its client was told.

        After an error, for example of a full disk, the batch and its outcomes are
        unchanged, and no file remains.
        """
        made: dict[str, StoredFile] = {}
        with ExitStack() as undo:
            for name, is_good in (("output", True), ("error", False)):
                path = self.new_path()
                undo.callback(discard, path)
                if self._write(path, batch, is_good=is_good):
                    shown = f"{batch.id}_{name}.jsonl"
                    made[name] = self._file_at(path, shown, "batch_output", batch.keep_s)
            with self._change():
                now = self.batch(batch.id) or batch
                if not now.is_active:  # finished meanwhile, by another cancellation
                    return now
                last = self._last_status(now)
                ended = replace(
                    now,
                    status=last,
                    times={**now.times, last: self.now},
                    output_file=made["output"].id if "output" in made else None,
                    error_file=made["error"].id if "error" in made else None,
                )
                for file in made.values():
                    self._insert(file)
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
        at = -1
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(opened, "w", encoding="utf-8", newline="\n") as file:
            while rows := self._rows(_SELECT_OUTCOMES, batch.id, at, is_good):
                if self.is_ending.is_set():
                    raise StoreError("the server is stopping")
                for row in rows:
                    file.write(BatchOutcome(*row).text(batch.id))
                at = rows[-1][0]
            file.flush()
            os.fsync(file.fileno())
        if at < 0:
            path.unlink()
        return at >= 0


@contextmanager
def _refusals(folder: Path) -> Iterator[None]:
    """Convert errors of SQLite and the system to StoreError."""
    try:
        yield
    except StoreError:
        raise
    except (sqlite3.Error, OSError, LlamaHerdError) as error:
        text = f"data: {quoted(str(folder))} cannot be used: {error}"
        if isinstance(error, sqlite3.OperationalError):
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


def reason_of(error: Exception) -> str:
    """Return why something cannot be stored, without the paths of the server."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)
