"""Reading an SQLite file that others may be writing to, and leaving it as it is."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

# Files that SQLite keeps beside its own. In the first two may be what is in nothing else.
WAL, ROLLBACK, SHM = "-wal", "-journal", "-shm"

_BUSY_S = 10.0  # wait for another process's commit, which takes milliseconds
_RETRY_S = (0.0, 0.05, 0.5)

_T = TypeVar("_T")


def look(
    path: Path, use: Callable[[sqlite3.Connection], _T], *, is_fixed: bool = False
) -> _T:
    """Reads a file with its log, and changes neither.

    Without a log beside it nobody has it open, and it can be read as if it could not
    change, which leaves no trace. Should somebody open it meanwhile, it is read again:
    halfway through moving the log into it, another process leaves a file that is damaged.

    Args:
        path: The file.
        use: Reads what is wanted.
        is_fixed: It never changes, so that the log need not be read.
    """
    failure: sqlite3.Error | None = None
    has_log = False
    for delay in _RETRY_S:
        time.sleep(delay)
        before = _state(path)
        has_log = not is_fixed and any(before[1:])
        try:
            found = _read(path, _query(before) if has_log else "immutable=1", use)
        except sqlite3.Error as error:
            if is_foreign(error):
                raise  # for good
            failure = error
            continue
        if has_log or is_fixed or _state(path) == before:
            return found
    # To read a log SQLite makes a third file, which takes room and a folder to write to.
    if has_log and _is_for_lack_of_room(failure):
        with suppress(OSError):
            return _look_at_copy(path, use)
    raise failure or sqlite3.OperationalError("it changes while it is read")


def _read(path: Path, query: str, use: Callable[[sqlite3.Connection], _T]) -> _T:
    with closing(connect(path, query)) as db:
        return use(db)


def _query(state: tuple[object, ...]) -> str:
    """A rollback journal, of a file not in WAL mode, is there to be undone."""
    return "mode=rw" if state[2] else "mode=ro"


def _is_for_lack_of_room(error: sqlite3.Error | None) -> bool:
    return isinstance(error, sqlite3.OperationalError) and "locked" not in str(error)


def is_foreign(error: sqlite3.Error) -> bool:
    """Whether the file was never SQLite's; its codes have names from Python 3.11 on."""
    return "not a database" in str(error)


def _look_at_copy(path: Path, use: Callable[[sqlite3.Connection], _T]) -> _T:
    before = _state(path)
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "journal"
        for suffix in ("", WAL, ROLLBACK):
            if beside(path, suffix).exists():
                shutil.copyfile(beside(path, suffix), beside(copy, suffix))
        if _state(path) != before:
            raise sqlite3.OperationalError("it changes while it is read")
        return _read(copy, "mode=rw", use)


def _state(path: Path) -> tuple[tuple[int, int] | None, ...]:
    """Of the file and its logs. It changes when one of them does."""
    return tuple(_stamp(beside(path, suffix)) for suffix in ("", WAL, ROLLBACK))


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_size, status.st_mtime_ns


def identity(file: Path) -> tuple[int, int] | None:
    """Which file it is that has this name; None if none has."""
    try:
        status = file.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def beside(path: Path, suffix: str) -> Path:
    """A file of SQLite's beside one of its files."""
    return path.with_name(path.name + suffix)


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
