"""Lock files, by which one process at a time writes a file, also on Windows."""

from __future__ import annotations

import importlib
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_IS_WINDOWS = sys.platform == "win32"
# Windows prevents other processes from reading a locked byte, so this byte comes after
# the text of the file.
_LOCKED_BYTE = 1 << 20
_LONGEST_ID = 20  # digits of a process id


class LockHeldError(Exception):
    """Raised if another process holds a lock.

    Attributes:
        process: Process id of the holder; "" until the holder has written it.
    """

    def __init__(self, process: str) -> None:
        super().__init__(f"the lock is held by process {process or '(unknown)'}")
        self.process = process


class LockFile:
    """Lock that this process holds; the system releases it when the process ends.

    Attributes:
        path: Path of the lock file.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def release(self) -> None:
        """Release the lock and remove its file."""
        if not _IS_WINDOWS and _is_at(self._descriptor, self.path):
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)
        if _IS_WINDOWS:  # only a file that no process has open can be removed
            with suppress(OSError):
                self.path.unlink()


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
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    if path.is_symlink():  # Windows has no O_NOFOLLOW
        return None
    while True:
        try:
            descriptor = os.open(path, flags, 0o644)
        except OSError:
            return None
        is_mine = False
        try:
            is_locked = _locked(descriptor)
            text = os.read(descriptor, _LONGEST_ID + 1).decode("ascii", "replace")
            if not is_locked:
                raise LockHeldError(text)
            if text and not text.isdigit():  # not written by this function
                return None
            is_mine = _is_at(descriptor, path)  # otherwise the previous holder removed it
            if is_mine:
                os.ftruncate(descriptor, 0)
                os.lseek(descriptor, 0, os.SEEK_SET)
                os.write(descriptor, str(os.getpid()).encode())
                return LockFile(path, descriptor)
        except OSError:
            is_mine = False
            return None
        finally:
            if not is_mine:
                os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Lock an open file; return False if another process has locked the file.

    Raises:
        OSError: The file system has no locks.
    """
    try:
        if _IS_WINDOWS:
            msvcrt: Any = importlib.import_module("msvcrt")
            os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            finally:
                os.lseek(descriptor, 0, os.SEEK_SET)
        else:
            fcntl: Any = importlib.import_module("fcntl")
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _is_at(descriptor: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False
