"""File of a journal, created atomically and checked before changes; network drives."""

from __future__ import annotations

import datetime as dt
import os
import re
import sqlite3
import stat
import sys
import tempfile
import time
import traceback
from contextlib import closing, contextmanager, suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import psutil

from llamaherd.calls.journal.sqlite import (
    ROLLBACK,
    SHM,
    WAL,
    beside,
    connect,
    identity,
    is_foreign,
    look,
    problem_of_schema,
)
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import JournalError
from llamaherd.engine.core.files import discard, sqlite_code, sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator


# Types of file systems that several machines share.
_NETWORK = re.compile(
    r"(fuse\.|fuseblk\.)?"
    r"(nfs[0-9]*|cifs|smb[0-9]*|smbfs|ncpfs|afs|afpfs|webdav|davfs2?|9p|lustre|gpfs|mmfs"
    r"|beegfs|fhgfs|ceph(-fuse)?|cephfs|glusterfs|orangefs|pvfs2?|panfs|wekafs|gfs2?|ocfs2"
    r"|quobyte|moosefs|mfs|lizardfs|saunafs|juicefs|sshfs|rclone|s3fs|gcsfuse|blobfuse2?"
    r"|goofys|hdfs|vboxsf|prl_fs|acfs|dvs)",
    re.IGNORECASE,
)


def network_type(path: Path) -> str | None:
    """Return the type of the network drive of a path, such as "nfs4"; None if unknown.

    The path is absolute and without symbolic links; the file need not exist.
    """
    if sys.platform == "win32" and _is_share(path):
        return "smb"
    try:
        parts = psutil.disk_partitions(all=True)
    except OSError:
        return None
    mounts = [(PurePath(part.mountpoint), i, part) for i, part in enumerate(parts)]
    # A later mount hides earlier mounts at the same path.
    above = [mount for mount in mounts if mount[0] in {path, *path.parents}]
    if not above:
        return None
    *_, part = max(above, key=lambda mount: (len(mount[0].parts), mount[1]))
    kind = "smb" if "remote" in part.opts.split(",") else part.fstype  # on Windows
    return kind if _NETWORK.fullmatch(kind) else None


def _is_share(path: PurePath) -> bool:
    r"""Whether a path of Windows names a shared folder, as `\\server\folder`."""
    text = str(path).upper()
    is_device = text.startswith(("\\\\?\\", "\\\\.\\"))
    return text.startswith("\\\\?\\UNC\\" if is_device else "\\\\")


APPLICATION_ID = 0x6C686A6C  # "lhjl"
FORMAT = 1  # version of SCHEMA; the SQL text of the tables in a file must equal SCHEMA
# Advice by SQLite's error code: SQLITE_IOERR, SQLITE_FULL, SQLITE_CANTOPEN.
_ADVICE = {
    10: "; is the disk full?",
    13: "; is the disk full?",
    14: "; may you read and write the file and its folder?",
}
_SOUND = "ok"  # result of SQLite's integrity_check for an undamaged file
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
# Thoughts before answers; created with the first thought.
THOUGHT_TABLE = """
CREATE TABLE IF NOT EXISTS thought (
  key BLOB PRIMARY KEY,  -- that of the result
  text TEXT,
  n_tokens INTEGER NOT NULL,
  complete INTEGER,
  digest BLOB NOT NULL
);
"""
# Rows of runs on tables; created by the first run.
RUN_TABLES = """
CREATE TABLE IF NOT EXISTS run (
  id BLOB PRIMARY KEY,
  record TEXT NOT NULL,  -- JSON, see Record
  started REAL NOT NULL  -- seconds since 1970
);
CREATE TABLE IF NOT EXISTS run_row (
  run BLOB NOT NULL REFERENCES run,
  place INTEGER NOT NULL,  -- in the whole table, from 0
  value TEXT NOT NULL,  -- of the new columns, JSON
  vector BLOB,  -- float32, little-endian
  digest BLOB NOT NULL,
  PRIMARY KEY (run, place)
) WITHOUT ROWID;
"""
OPTIONAL = THOUGHT_TABLE + RUN_TABLES

# Limits in bytes. SQLite opens paths of up to 504 bytes; file systems allow names of up
# to 255 bytes. The name of a draft has 29 additional bytes, the name of a rollback
# journal 8.
_LONGEST_PATH = 504 - 29
_LONGEST_NAME = 255 - 29 - 8


class DamagedError(Exception):
    """Stored data differ from the written data."""


def checked_path(name: str, path: object) -> Path:
    """Check and return the real path of a file, which may not exist yet."""
    text = str(checks.path(name, path))
    with refusals(name, text):
        # SQLite creates its log next to the file itself, not next to a symbolic link.
        file = Path(os.path.realpath(text))
        n_path, n_name = (len(os.fsencode(part)) for part in (file, file.name))
        if n_path > _LONGEST_PATH or n_name > _LONGEST_NAME:
            raise JournalError(
                f"{name}: {quoted(text)} cannot be used: its name has {n_name} bytes and "
                f"its path {n_path}; at most {_LONGEST_NAME} and {_LONGEST_PATH} can be "
                "used"
            )
        if not file.parent.is_dir():
            raise JournalError(
                f"{name}: there is no folder {quoted(file.parent)}; make it first"
            )
        with suppress(FileNotFoundError):
            mode = file.stat().st_mode
            if not stat.S_ISREG(mode):
                kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
                raise JournalError(f"{name}: {quoted(text)} is {kind}")
    return file


def check_local(name: str, path: Path) -> None:
    """Check that a journal to write is on a local disk."""
    kind = network_type(path)
    if kind is not None:
        folder = os.environ.get("TMPDIR") or tempfile.gettempdir()
        raise JournalError(
            f"{name}: {quoted(path)} is on a network drive ({kind}). A journal is an "
            "SQLite file with a write-ahead log, which machines cannot share over a "
            "network and may damage there: keep it on a disk of this machine, such as "
            f"{folder}, and copy it when the run is over"
        )


def quoted(path: str | Path) -> str:
    """Return a path in quotes for a message; a long path is shortened."""
    text = repr(str(path))
    return text if len(text) <= 300 else f"{text[:200]}...{text[-80:]}"


@contextmanager
def refusals(name: str, path: str | Path) -> Iterator[None]:
    """Convert errors of SQLite and the system to JournalError."""
    try:
        yield
    except JournalError:
        raise
    except (DamagedError, sqlite3.Error, OSError, ValueError) as error:
        # A cursor in a frame of the error would keep the file open after its connection
        # is closed, and Windows would refuse to remove or replace the damaged journal.
        traceback.clear_frames(error.__traceback__)
        raise JournalError(f"{name}: {quoted(path)} {_what_is_wrong(error)}") from error


def _what_is_wrong(error: Exception) -> str:
    if isinstance(error, OSError):  # the text of the error contains the full name
        return f"cannot be used: {error.strerror or error}"
    is_name = isinstance(error, ValueError) and not isinstance(error, UnicodeDecodeError)
    is_usable = not is_name and not isinstance(error, sqlite3.OperationalError)
    advice = _ADVICE.get(sqlite_code(error), "")
    return f"{'is damaged' if is_usable else 'cannot be used'}: {error}{advice}"


def create(name: str, path: Path) -> None:
    """Create an empty journal atomically, even if the process is killed."""
    _check_no_log(name, path)
    draft = path.with_name(f"{path.name}.{os.getpid()}-{time.time_ns():x}.new")
    try:
        with closing(connect(draft, "mode=rwc")) as db:
            # WAL mode is set last, so that no log exists before. Data that `close`
            # could not move from a log into the file would be lost without an error.
            db.executescript(SCHEMA)
            db.execute("PRAGMA journal_mode = WAL")
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process has created it first
        except OSError:  # a file system without hard links, such as FAT
            if not path.exists():
                draft.rename(path)
    finally:
        _remove(draft)
    sync_folder(path.parent)


def _check_no_log(name: str, path: Path) -> None:
    """Refuse the log of a removed file, because SQLite would apply it to the new file."""
    for log in (beside(path, WAL), beside(path, ROLLBACK)):
        if log.exists() and log.stat().st_size > 0 and not path.exists():
            raise JournalError(
                f"{name}: {quoted(path)} does not exist, but its log {log.name!r} "
                "does: the journal was removed or moved. Restore the journal, or remove "
                "the log; results that only the log contains are then lost"
            )


def _drafts(path: Path) -> list[Path]:
    """Return drafts of a journal: unfinished files, also those of killed processes."""
    pattern = re.compile(re.escape(path.name) + r"\.[0-9]+-[0-9a-f]+\.new")
    with suppress(PermissionError):  # the folder may not be readable
        return [file for file in path.parent.iterdir() if pattern.fullmatch(file.name)]
    return []


def remove_drafts(path: Path) -> None:
    """Remove drafts of processes that ended before they finished a journal."""
    for draft in _drafts(path):
        pid = int(draft.name.split(".")[-2].split("-")[0])
        if not psutil.pid_exists(pid) or identity(draft) == identity(path):
            _remove(draft)


def _remove(draft: Path) -> None:
    # On Windows, a draft remains while another process has the finished journal open,
    # which is the same file. Journals ignore such drafts.
    for suffix in (
        WAL,
        ROLLBACK,
        SHM,
        "",
    ):  # the draft itself is removed last, so that a later call still finds it
        discard(beside(draft, suffix))


def check(name: str, path: Path) -> None:
    """Check that a file is a complete journal, without changing it.

    Only SQLite may open the file. If another descriptor of the file were closed, all
    POSIX locks of the process on the file would be released, including the locks of a
    call that is writing.
    """
    if path.stat().st_size == 0:
        raise JournalError(f"{name}: {quoted(path)} is not a journal: it is empty")
    _check_names(name, path)
    try:
        application = look(path, _application, is_fixed=True)
    except sqlite3.DatabaseError as error:
        if not is_foreign(error):
            raise
        raise JournalError(f"{name}: {quoted(path)} is not a journal: {error}") from error
    if application != APPLICATION_ID:
        raise JournalError(
            f"{name}: {quoted(path)} is an SQLite file of another application "
            f"(application_id {application:#x}), not a journal"
        )
    number, checked = look(path, _format_and_problem)
    if number != FORMAT:
        raise JournalError(
            f"{name}: {quoted(path)} is a journal in format {number}; this version of "
            f"llamaherd has format {FORMAT}"
        )
    if checked != _SOUND:
        raise DamagedError(checked)


def _check_names(name: str, path: Path) -> None:
    """Check that the file has only one name (hard link). SQLite finds the log by name."""
    if path.stat().st_nlink <= 1:
        return
    drafts = [draft for draft in _drafts(path) if identity(draft) == identity(path)]
    n_names = path.stat().st_nlink - len(drafts)
    if n_names > 1:
        raise JournalError(
            f"{name}: {quoted(path)} is a file with {n_names} names (hard links), and "
            "results under one of them can be missing under another: remove the other "
            "names, or copy the file"
        )


def _application(db: sqlite3.Connection) -> int:
    """Read the application id from the first page of the file, without the log."""
    # Without this setting, SQLite refuses a file that is shorter than its first page
    # states, for example after a crash during a checkpoint.
    db.execute("PRAGMA writable_schema = ON")
    (application,) = db.execute("PRAGMA application_id").fetchone()
    return int(application)


def _format_and_problem(db: sqlite3.Connection) -> tuple[int, str]:
    (number,) = db.execute("PRAGMA user_version").fetchone()
    # quick_check would not detect missing entries of the index.
    (checked,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if checked == _SOUND:
        # Users may add tables of their own.
        problem = problem_of_schema(db, "journal", SCHEMA, OPTIONAL, may_have_more=True)
        checked = problem or _SOUND
    return number, checked


def first_day(path: str) -> dt.date | None:
    """Return the date of the first result in a journal; None if it cannot be read."""
    file = Path(path).expanduser().absolute()
    if not file.is_file():
        return None
    try:
        with closing(connect(file, "mode=ro")) as db:
            (created,) = db.execute("SELECT min(created) FROM result").fetchone()
            return None if created is None else dt.date.fromtimestamp(float(created))  # noqa: DTZ012 - as `_today`
    except (sqlite3.Error, TypeError, ValueError, OverflowError, OSError):
        return None
