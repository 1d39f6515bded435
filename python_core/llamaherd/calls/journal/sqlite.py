"""Read-only access to SQLite files that other processes write, and their schemas."""

from __future__ import annotations

import functools
import os
import shutil
import sqlite3
import sys
import time
from contextlib import closing, suppress
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from llamaherd.engine.core.files import sqlite_code
from llamaherd.engine.core.progress import say

if TYPE_CHECKING:
    from collections.abc import Callable


# Files that SQLite creates next to a database. The first two may contain data that are
# not in the database yet.
WAL, ROLLBACK, SHM = "-wal", "-journal", "-shm"

_BUSY, _LOCKED, _NOTADB = 5, 6, 26  # SQLite's primary result codes
_BUSY_S = 10.0  # maximum wait for a commit of another process, which takes milliseconds
_SILENT_S = 1.0  # part of this wait after which `_say_waiting` tells of it
_RETRY_S = (0.0, 0.05, 0.5)

_T = TypeVar("_T")


def look(
    path: Path, use: Callable[[sqlite3.Connection], _T], *, is_fixed: bool = False
) -> _T:
    """Read a file with its log, without changing the file or the log.

    If there is no log, no process has the file open. The file is then read as
    immutable, which creates no other files. If another process opens the file during
    the read, the file is read again, because it can be inconsistent during a
    checkpoint.
    """
    failure: sqlite3.Error | None = None
    has_log = False
    for attempt, delay in enumerate(_RETRY_S):
        time.sleep(delay)
        before = _state(path)
        has_log = not is_fixed and any(before[1:])
        # To apply a rollback journal, SQLite needs write access.
        query = ("mode=rw" if before[2] else "mode=ro") if has_log else "immutable=1"
        try:
            result = _read_query(path, query, use, _BUSY_S if attempt else _silent_s())
        except sqlite3.Error as error:
            if is_foreign(error):
                raise  # a permanent error
            failure = error
            if is_locked(error) and not attempt:
                _say_waiting(path)
            continue
        if has_log or is_fixed or _state(path) == before:
            return result
    # To read a log, SQLite creates a third file, which needs space and a writable folder.
    if (
        has_log
        and isinstance(failure, sqlite3.OperationalError)
        and not is_locked(failure)
    ):
        with suppress(OSError):
            return _look_at_copy(path, use)
    raise failure or sqlite3.OperationalError("it changes while it is read")


def _read_query(
    path: Path, query: str, use: Callable[[sqlite3.Connection], _T], busy_s: float
) -> _T:
    with closing(connect(path, query, busy_s)) as db:
        return use(db)


def is_foreign(error: sqlite3.Error) -> bool:
    """Return True if a file that could not be read was never an SQLite file."""
    return sqlite_code(error) == _NOTADB


def _look_at_copy(path: Path, use: Callable[[sqlite3.Connection], _T]) -> _T:
    before = _state(path)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "journal"
        for suffix in ("", WAL, ROLLBACK):
            if beside(path, suffix).exists():
                shutil.copyfile(beside(path, suffix), beside(copy, suffix))
        if _state(path) != before:
            raise sqlite3.OperationalError("it changes while it is read")
        return _read_query(copy, "mode=rw", use, _BUSY_S)


def _state(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """Return a state that changes whenever the file or one of its logs changes."""
    return tuple(_stamp(beside(path, suffix)) for suffix in ("", WAL, ROLLBACK))


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns


def identity(file: Path) -> tuple[int, int] | None:
    """Return the identity of a file (device, inode); None if it does not exist."""
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def beside(path: Path, suffix: str) -> Path:
    """Return the path of a file that SQLite creates next to a database."""
    return path.with_name(path.name + suffix)


def uri_of(path: PurePath, query: str) -> str:
    r"""Return the URI of a file for SQLite.

    Python's URI of a file in a shared folder of Windows (`\\server\folder`) begins with
    `file://server/`. SQLite refuses this server, and opens `file:////server/` instead.

    Source: https://www.sqlite.org/uri.html, section 3.1.
    """
    # Before PurePath.as_uri() is removed in Python 3.19, Python 3.14 warns of it.
    name = quote(os.fsencode(path.as_posix()), safe="/:")
    return f"file://{'' if name.startswith('/') else '/'}{name}?{query}"


def is_locked(error: BaseException) -> bool:
    """Return whether a statement failed because another process locks the file."""
    return sqlite_code(error) in (_BUSY, _LOCKED)


class WriteLock:
    """Begins transactions that write; says once if another process holds the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._has_said = False

    def begin(self, db: sqlite3.Connection) -> None:
        """Begin a transaction, after those of other processes."""
        try:
            _begin(db, _silent_s())
        except sqlite3.OperationalError as error:
            if not is_locked(error):
                raise
            if not self._has_said:
                self._has_said = True
                _say_waiting(self._path)
            _begin(db, _BUSY_S)


def _begin(db: sqlite3.Connection, busy_s: float) -> None:
    db.execute(f"PRAGMA busy_timeout = {round(1000 * busy_s)}")
    try:
        db.execute("BEGIN IMMEDIATE")
    finally:
        db.execute(f"PRAGMA busy_timeout = {round(1000 * _BUSY_S)}")


def _silent_s() -> float:
    return min(_SILENT_S, _BUSY_S)


def _say_waiting(path: Path) -> None:
    # R's thread alone may write to the stream that RStudio puts in the place of stderr.
    stream = sys.__stderr__ if "rpytools" in sys.modules else None
    say(f"llamaherd: another process holds {str(path)!r}: waiting for it", stream)


def connect(path: Path, query: str, busy_s: float | None = None) -> sqlite3.Connection:
    """Return a connection in autocommit mode, which waits so long for locks."""
    return sqlite3.connect(
        uri_of(path, query),
        uri=True,
        timeout=_BUSY_S if busy_s is None else busy_s,
        isolation_level=None,
        check_same_thread=False,  # the writer is another thread
    )


_OBJECTS = "SELECT type, name, sql FROM sqlite_master WHERE sql NOT NULL"
_PRIVATE = 0o600  # SQLite gives the same mode to the logs next to a file


def make_private(path: Path) -> None:
    """Create a file that only its owner may read; close an existing file to others."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE))
    for suffix in ("", WAL, ROLLBACK, SHM):
        file = beside(path, suffix)
        with suppress(FileNotFoundError):
            if os.name == "posix" and file.stat().st_mode & ~_PRIVATE & 0o777:
                file.chmod(_PRIVATE)


def problem_of_schema(
    db: sqlite3.Connection,
    what: str,
    schema: str,
    optional: str = "",
    *,
    may_have_more: bool = False,
) -> str:
    """Return why tables are not those of a format, or ""; a trigger could change data."""
    expected, known = tables_of(schema), tables_of(schema + optional)
    tables: dict[str, str] = {}
    for kind, name, sql in db.execute(_OBJECTS):
        if kind != "table":
            return f"it has the {kind} {name!r:.60}, which no {what} has: remove it"
        tables[name] = sql
    if not expected.items() <= tables.items():
        return f"its tables are not the tables of a {what}"
    for name, sql in tables.items():
        is_statistics = name.startswith("sqlite_stat")  # of SQLite's ANALYZE
        if known.get(name, sql if may_have_more or is_statistics else None) != sql:
            return f"its table {name!r:.60} is not one of a {what}"
    return ""


def problem_of_format(
    db: sqlite3.Connection, what: str, schema: str, *, application: int, version: int
) -> str | None:
    """Return why a database has another format, "" if it has this, None if it is new."""
    application_of_file, version_of_file, n_tables = (
        db.execute(query).fetchone()[0]
        for query in (
            "PRAGMA application_id",
            "PRAGMA user_version",
            "SELECT count(*) FROM sqlite_master",
        )
    )
    if not (application_of_file or version_of_file or n_tables):
        return None
    if application_of_file != application:
        return "it is an SQLite file of another program"
    if version_of_file != version:
        return f"it has format {version_of_file}, and this version of llamaherd {version}"
    return problem_of_schema(db, what, schema)


@functools.cache
def tables_of(schema: str) -> dict[str, str]:
    """Return the SQL text of each table, where a changed letter may rename a column."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema)
        return {name: sql for _, name, sql in db.execute(_OBJECTS)}
