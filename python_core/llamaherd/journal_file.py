"""The journal's file: made whole or not at all, looked at before it is touched."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from llamaherd.errors import JournalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

APPLICATION_ID = 0x6C686A6C  # "lhjl"
FORMAT = 1
SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
PRAGMA journal_mode = WAL;
CREATE TABLE model_file (
  state TEXT PRIMARY KEY,  -- device, inode, size and times, so that it is hashed once
  sha256 BLOB NOT NULL
);
CREATE TABLE origin (
  id INTEGER PRIMARY KEY,
  model TEXT NOT NULL,
  model_sha256 BLOB NOT NULL,
  settings TEXT NOT NULL,  -- JSON
  version TEXT NOT NULL,
  UNIQUE (model, model_sha256, settings, version)
);
CREATE TABLE result (
  id INTEGER PRIMARY KEY,
  key BLOB NOT NULL UNIQUE,
  origin INTEGER NOT NULL REFERENCES origin,
  prompt TEXT NOT NULL,
  n_prompt_tokens INTEGER NOT NULL,
  seed INTEGER NOT NULL,
  text TEXT,
  tokens BLOB NOT NULL,  -- int32, little-endian
  finish_reason TEXT NOT NULL CHECK (finish_reason IN ('stop', 'length', 'error')),
  error TEXT,
  created REAL NOT NULL,  -- seconds since 1970
  digest BLOB NOT NULL
);
"""

_BUSY_S = 10.0  # wait for another process's commit, which takes milliseconds
_RETRY_S = (0.0, 0.05, 0.5)

_T = TypeVar("_T")


class DamagedError(Exception):
    """What is stored is not what was stored."""


def checked_path(name: str, path: object) -> Path:
    """The absolute path of a file that may be there or not.

    Args:
        name: What messages call it.
        path: Text or a path.

    Raises:
        TypeError: It is neither.
        JournalError: It is a folder, or in a folder that is not there.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a str or a path, not {path!r}")
    file = Path(path)
    if file.is_dir():
        raise JournalError(f"{name}: {str(file)!r} is a folder")
    if not file.parent.is_dir():
        raise JournalError(f"{name}: there is no folder {str(file.parent)!r}")
    return file.absolute()


@contextmanager
def refusals(name: str, path: Path) -> Iterator[None]:
    """Makes a JournalError of what SQLite and the system say."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        what = (
            "cannot be used"
            if isinstance(error, sqlite3.OperationalError)
            else "is damaged"
        )
        raise JournalError(f"{name}: {str(path)!r} {what}: {error}") from error
    except OSError as error:
        raise JournalError(f"{name}: {str(path)!r} cannot be used: {error}") from error
    except (DamagedError, UnicodeDecodeError) as error:
        raise JournalError(f"{name}: {str(path)!r} is damaged: {error}") from error


def create(path: Path) -> None:
    """Makes an empty journal. It appears whole or not at all, whenever one is killed."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{time.time_ns():x}.new")
    try:
        with closing(connect(draft, "mode=rwc")) as db:
            db.executescript(SCHEMA)
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was faster
        except OSError:  # a file system without hard links, as on memory sticks
            draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
    if hasattr(os, "O_DIRECTORY"):  # POSIX: a name is durable when its folder is
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check(name: str, path: Path) -> None:
    """Checks that a file is a whole journal, without changing it.

    SQLite alone may open it: whoever else closes a file gives up all locks that the
    process has on it (POSIX), and with them the log of a call that is writing.

    Raises:
        JournalError: It is none.
    """
    if path.stat().st_size == 0:
        raise JournalError(f"{name}: {str(path)!r} is not a journal: it is empty")
    try:
        application, number = look(path, _kind, is_fixed=True)
    except sqlite3.DatabaseError as error:
        if not _is_foreign(error):
            raise
        raise JournalError(f"{name}: {str(path)!r} is not a journal: {error}") from error
    if application != APPLICATION_ID:
        raise JournalError(
            f"{name}: {str(path)!r} is an SQLite file of another application "
            f"(application_id {application:#x}), not a journal"
        )
    if number != FORMAT:
        raise JournalError(
            f"{name}: {str(path)!r} is a journal in format {number}; this version of "
            f"llamaherd has format {FORMAT}"
        )
    # Not quick_check: that one would not see that the index misses an answer.
    problems = look(path, lambda db: db.execute("PRAGMA integrity_check(1)").fetchall())
    if problems != [("ok",)]:
        raise DamagedError(str(problems[0][0]))


def _is_foreign(error: sqlite3.Error) -> bool:
    """Whether the file was never SQLite's; its codes have names from Python 3.11 on."""
    return "not a database" in str(error)


def _kind(db: sqlite3.Connection) -> tuple[int, int]:
    """Both are in the first page from the beginning, whatever else is in the log."""
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (number,) = db.execute("PRAGMA user_version").fetchone()
    return application, number


def look(
    path: Path, use: Callable[[sqlite3.Connection], _T], *, is_fixed: bool = False
) -> _T:
    """Reads a file without leaving a trace in it or beside it.

    Without a write-ahead log beside it nobody has it open, and it can be read as if it
    could not change. Should somebody open it meanwhile, it is read again: halfway through
    moving the log into it, another process leaves a file that is damaged.

    Args:
        path: The file.
        use: Reads what is wanted.
        is_fixed: It never changes, so that the log need not be read.
    """
    failure: sqlite3.Error | None = None
    for delay in _RETRY_S:
        time.sleep(delay)
        is_open = not is_fixed and path.with_name(f"{path.name}-wal").exists()
        before = path.stat()
        try:
            with closing(connect(path, "mode=ro" if is_open else "immutable=1")) as db:
                found = use(db)
        except sqlite3.Error as error:
            if _is_foreign(error):
                raise  # for good
            failure = error
            continue
        after = path.stat()
        same = (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        if is_open or is_fixed or same:
            return found
    raise failure or sqlite3.OperationalError("it changes while it is read")


def connect(path: Path, query: str) -> sqlite3.Connection:
    """A connection on which every statement is a transaction, unless one is begun.

    Args:
        path: The file, absolute.
        query: How to open it, as in a URI that SQLite takes.
    """
    return sqlite3.connect(
        f"{path.as_uri()}?{query}",
        uri=True,
        timeout=_BUSY_S,
        isolation_level=None,
        check_same_thread=False,  # the writer is another thread than the opener
    )
