"""Lock files, by which one process at a time writes a file."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

if TYPE_CHECKING:
    from pathlib import Path

_LONGEST_ID = 20  # digits of a process id


class LockHeldError(Exception):
    """Raised if another process holds a lock.

    Attributes:
        process: Process id of the holder; "" if it cannot be read, as on Windows.
    """

    def __init__(self, process: str) -> None:
        super().__init__(f"the lock is held by process {process or '(unknown)'}")
        self.process = process


class LockFile:
    """Lock that this process holds; the system releases it when the process ends.

    Attributes:
        path: Path of the lock file.
    """

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self._lock = lock

    def release(self) -> None:
        """Release the lock and remove its file."""
        with suppress(OSError):  # Windows removes no open file: FileLock does it later
            self.path.unlink()  # while it is held; who waits for it notices
        self._lock.release()


def take_lock(path: Path) -> LockFile | None:
    """Lock a file against other processes, and write the process id into it.

    Args:
        path: Path of the lock file; a symbolic link is not followed.

    Returns:
        The lock; None if the file system has no locks, the file cannot be created, or
        it is a file of another program.

    Raises:
        LockHeldError: Another process, or this one, holds the lock.
    """
    if path.is_symlink():
        return None
    holder = ""
    try:
        with suppress(FileNotFoundError, PermissionError):  # Windows locks its text, too
            holder = path.read_bytes()[: _LONGEST_ID + 1].decode("ascii", "replace")
        if holder and not holder.isdigit():  # not written by this function
            return None
        lock = FileLock(path, fallback_to_soft=False, thread_local=False)
        lock.acquire(blocking=False)
    except Timeout:
        raise LockHeldError(holder) from None
    except OSError:
        return None
    with suppress(OSError):
        path.write_text(str(os.getpid()), encoding="ascii")
    return LockFile(path, lock)
