"""The journal's file: made whole or not at all, looked at before it is touched."""

from __future__ import annotations

import functools
import os
import re
import sqlite3
import stat
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from llamaherd.core.errors import JournalError
from llamaherd.core.files import sync_folder
from llamaherd.journal.disks import network_type
from llamaherd.journal.look import (
    ROLLBACK,
    SHM,
    WAL,
    beside,
    connect,
    identity,
    is_foreign,
    look,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

APPLICATION_ID = 0x6C686A6C  # "lhjl"
FORMAT = 1  # of SCHEMA, to the letter: it is compared with what is in the file
SCHEMA = f"""
BEGIN;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
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
  numbers BLOB,  -- float64, little-endian: log-probabilities, if there are any
  created REAL NOT NULL,  -- seconds since 1970
  digest BLOB NOT NULL
);
COMMIT;
"""

# Bytes. SQLite opens paths of 504, file systems take names of 255. The name of a draft is
# longer by 29, that of a rollback journal by 8.
_LONGEST_PATH = 504 - 29
_LONGEST_NAME = 255 - 29 - 8


class DamagedError(Exception):
    """What is stored is not what was stored."""


def checked_path(name: str, path: object) -> Path:
    """The real path of a file that may be there or not.

    Args:
        name: What messages call it.
        path: Text or a path.

    Raises:
        TypeError: It is neither.
        JournalError: Nothing of this name can be a journal, or its folder is not there.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a str or a path, not {path!r}")
    given = os.fsdecode(path)
    with refusals(name, given):
        # SQLite keeps its log beside the file itself, not beside a link to it.
        file = Path(os.path.realpath(given))
        n_path, n_name = (len(os.fsencode(part)) for part in (file, file.name))
        if n_path > _LONGEST_PATH or n_name > _LONGEST_NAME:
            raise JournalError(
                f"{name}: {shown(given)} cannot be used: its name has {n_name} bytes and "
                f"its path {n_path}; at most {_LONGEST_NAME} and {_LONGEST_PATH} can be "
                "used"
            )
        if not file.parent.is_dir():
            raise JournalError(
                f"{name}: there is no folder {shown(file.parent)}; make it first"
            )
        with suppress(FileNotFoundError):
            mode = file.stat().st_mode
            if not stat.S_ISREG(mode):
                kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
                raise JournalError(f"{name}: {shown(given)} is {kind}")
    return file


def check_local(name: str, path: Path) -> None:
    """Checks that a journal that is to be written is on a disk of this machine.

    Raises:
        JournalError: It is on a network drive.
    """
    kind = network_type(path)
    if kind is not None:
        raise JournalError(
            f"{name}: {shown(path)} is on a network drive ({kind}). A journal is an "
            "SQLite file with a write-ahead log, which machines cannot share over a "
            "network and may damage there: keep it on a disk of this machine, such as "
            f"{os.environ.get('TMPDIR') or '/tmp'}, and copy it when the run is over"  # noqa: S108 - shown
        )


def shown(path: str | Path) -> str:
    """A path for a message, which it does not fill."""
    text = repr(str(path))
    return text if len(text) <= 300 else f"{text[:200]}...{text[-80:]}"


@contextmanager
def refusals(name: str, path: str | Path) -> Iterator[None]:
    """Makes a JournalError of what SQLite and the system say."""
    try:
        yield
    except JournalError:
        raise
    except (DamagedError, sqlite3.Error, OSError, ValueError) as error:
        raise JournalError(f"{name}: {shown(path)} {_what_is_wrong(error)}") from error


def _what_is_wrong(error: Exception) -> str:
    if isinstance(
        error, OSError
    ):  # its own text has the name in it, however long that is
        return f"cannot be used: {error.strerror or error}"
    is_name = isinstance(error, ValueError) and not isinstance(error, UnicodeDecodeError)
    is_usable = not is_name and not isinstance(error, sqlite3.OperationalError)
    return f"{'is damaged' if is_usable else 'cannot be used'}: {error}"


def create(name: str, path: Path) -> None:
    """Makes an empty journal. It appears whole or not at all, whenever one is killed.

    Raises:
        JournalError: The log of another journal lies where its own would lie.
    """
    _check_no_log(name, path)
    draft = path.with_name(f"{path.name}.{os.getpid()}-{time.time_ns():x}.new")
    try:
        with closing(connect(draft, "mode=rwc")) as db:
            # Last, and with nothing to log: what closing could not move into the file
            # would be lost without a word.
            db.executescript(SCHEMA)
            db.execute("PRAGMA journal_mode = WAL")
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was faster
        except OSError:  # a file system without hard links, as on memory sticks
            if not path.exists():
                draft.rename(path)
    finally:
        _remove(draft)
    sync_folder(path.parent)


def _check_no_log(name: str, path: Path) -> None:
    """SQLite would take the log of a file that is gone for the new one's."""
    for log in (beside(path, WAL), beside(path, ROLLBACK)):
        if log.exists() and log.stat().st_size > 0 and not path.exists():
            raise JournalError(
                f"{name}: {shown(path)} is not there, but {log.name!r} is, the log of a "
                "journal that was removed or moved. Bring that journal back, or remove "
                "its log, with the results that are in nothing else"
            )


def _drafts(path: Path) -> list[Path]:
    """Journals in the making, or left by a process that ended while it made one."""
    pattern = re.compile(re.escape(path.name) + r"\.[0-9]+-[0-9a-f]+\.new")
    with suppress(PermissionError):  # a folder may be one that cannot be listed
        return [each for each in path.parent.iterdir() if pattern.fullmatch(each.name)]
    return []


def remove_drafts(path: Path) -> None:
    """Removes what processes left that ended while they made a journal."""
    for draft in _drafts(path):
        pid = int(draft.name.split(".")[-2].split("-")[0])
        if not psutil.pid_exists(pid) or identity(draft) == identity(path):
            _remove(draft)


def _remove(draft: Path) -> None:
    for suffix in (WAL, ROLLBACK, SHM, ""):  # the draft last, so that it is found again
        beside(draft, suffix).unlink(missing_ok=True)


def check(name: str, path: Path) -> None:
    """Checks that a file is a whole journal, without changing it.

    SQLite alone may open it: whoever else closes a file gives up all locks that the
    process has on it (POSIX), and with them the log of a call that is writing.

    Raises:
        JournalError: It is none.
    """
    if path.stat().st_size == 0:
        raise JournalError(f"{name}: {shown(path)} is not a journal: it is empty")
    _check_names(name, path)
    try:
        application = look(path, _application, is_fixed=True)
    except sqlite3.DatabaseError as error:
        if not is_foreign(error):
            raise
        raise JournalError(f"{name}: {shown(path)} is not a journal: {error}") from error
    if application != APPLICATION_ID:
        raise JournalError(
            f"{name}: {shown(path)} is an SQLite file of another application "
            f"(application_id {application:#x}), not a journal"
        )
    number, problem = look(path, _format_and_problem)
    if number != FORMAT:
        raise JournalError(
            f"{name}: {shown(path)} is a journal in format {number}; this version of "
            f"llamaherd has format {FORMAT}"
        )
    if problem != "ok":
        raise DamagedError(problem)


def _check_names(name: str, path: Path) -> None:
    """SQLite finds the log by the file's name: each name has another one."""
    if path.stat().st_nlink <= 1:
        return
    drafts = [draft for draft in _drafts(path) if identity(draft) == identity(path)]
    n_names = path.stat().st_nlink - len(drafts)
    if n_names > 1:
        raise JournalError(
            f"{name}: {shown(path)} is a file with {n_names} names (hard links), and "
            "results under one of them can be missing under another: remove the other "
            "names, or copy the file"
        )


def _application(db: sqlite3.Connection) -> int:
    """It is in the first page from the beginning, whatever else is in the log."""
    # Else SQLite refuses a file that is shorter than its first page says, as it is after
    # a crash in the middle of moving the log into it.
    db.execute("PRAGMA writable_schema = ON")
    (application,) = db.execute("PRAGMA application_id").fetchone()
    return int(application)


def _format_and_problem(db: sqlite3.Connection) -> tuple[int, str]:
    (number,) = db.execute("PRAGMA user_version").fetchone()
    # Not quick_check: that one would not see that the index misses an answer.
    (problem,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if problem == "ok":
        problem = _problem_of_schema(db) or "ok"
    return number, problem


def _problem_of_schema(db: sqlite3.Connection) -> str:
    """Why its tables cannot be those of a journal; "": they can.

    Runs add tables of their own, and ANALYZE adds SQLite's. A trigger can change what is
    stored behind the writer's back, a view can stand for a table, and an index made by
    hand can be of an expression that fails.
    """
    if not _tables() <= _tables_of(db):
        return "its tables are not those that were made"
    query = "SELECT type, name FROM sqlite_master WHERE type <> 'table' AND sql NOT NULL"
    for kind, name in db.execute(query):
        return f"it has the {kind} {name!r:.60}, which no journal has: remove it"
    return ""


@functools.cache
def _tables() -> set[str]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        return _tables_of(db)


def _tables_of(db: sqlite3.Connection) -> set[str]:
    """How each was made: SQLite takes a changed letter there for another column."""
    return {sql for (sql,) in db.execute("SELECT sql FROM sqlite_master")}
