"""Imitation of Windows' rules for files, for tests on Linux.

Windows refuses to replace, rename or remove a file that is open, or that is mapped into
memory, and to rename a file to the name of another one. Locks are those of `msvcrt`.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from llamaherd.core import files, locks

if TYPE_CHECKING:
    import pytest

_OPEN_FILES = Path("/proc/self/fd")
_MAPS = Path("/proc/self/maps")


def is_open(path: str | os.PathLike[str]) -> bool:
    """Whether this process has the file open or mapped."""
    real = Path(path).resolve()
    if not real.is_file():
        return False
    links = (_target(link) for link in _OPEN_FILES.iterdir())
    maps = _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return real in links or any(line.endswith(f" {real}") for line in maps)


def _target(link: Path) -> Path | None:
    try:
        return link.readlink()
    except FileNotFoundError:  # the descriptor of the listing
        return None


def _full(path: Any, folder: int | None) -> Any:
    if folder is None:
        return path
    return (_OPEN_FILES / str(folder)).readlink() / os.fsdecode(path)


def _refuse(path: Any) -> None:
    if is_open(path):
        reason = "The process cannot access the file because it is being used"
        raise PermissionError(errno.EACCES, reason, str(path))


def imitate(patch: pytest.MonkeyPatch) -> None:
    """Apply the rules until the patch is undone."""
    replace, rename, unlink = os.replace, os.rename, os.unlink

    def replaced(source: Any, target: Any, **folders: Any) -> None:
        _refuse(source)
        _refuse(target)
        replace(source, target, **folders)

    def renamed(source: Any, target: Any, **folders: Any) -> None:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "Cannot create a file", str(target))
        _refuse(source)
        rename(source, target, **folders)

    def unlinked(path: Any, *, dir_fd: int | None = None) -> None:
        _refuse(_full(path, dir_fd))
        unlink(path, dir_fd=dir_fd)

    for name, function in (
        ("replace", replaced),
        ("rename", renamed),
        ("unlink", unlinked),
        ("remove", unlinked),
    ):
        patch.setattr(os, name, function)
    patch.setattr(files, "_IS_WINDOWS", True)
    patch.setattr(files, "_RETRY_S", (0.0, 0.0))
    patch.setattr(locks, "_IS_WINDOWS", True)
    patch.delattr(os, "O_NOFOLLOW", raising=False)
    patch.delattr(os, "O_DIRECTORY", raising=False)
    patch.setitem(sys.modules, "msvcrt", _msvcrt())


def _msvcrt() -> ModuleType:
    """Locks of bytes: held by a descriptor, refused with EACCES."""
    import fcntl  # noqa: PLC0415 - of POSIX

    module: Any = ModuleType("msvcrt")
    module.LK_NBLCK = 2

    def locking(descriptor: int, mode: int, n_bytes: int) -> None:
        assert (mode, n_bytes) == (2, 1)
        assert os.lseek(descriptor, 0, os.SEEK_CUR) > 20  # others can read the text
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    module.locking = locking
    return module
