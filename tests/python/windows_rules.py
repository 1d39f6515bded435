"""Imitation of Windows' rules for files, for tests on Linux.

Windows refuses to replace, rename or remove a file that is open (under any of its names)
or mapped into memory, to replace or remove a file that is not writable, and to rename a
file to the name of another one.

`PYTHONPATH=tests/python pytest -p windows_rules TESTS` applies the rules to whole tests.
Tests that are skipped on Windows, or that set the retries of `core.files`, may fail then.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPEN_FILES = Path("/proc/self/fd")
_MAPS = Path("/proc/self/maps")


def is_open(path: str | os.PathLike[str]) -> bool:
    """Whether this process has the file open or mapped."""
    real = Path(path).resolve()
    if not real.is_file():
        return False
    identity = _identity(real)
    if identity in (_identity(link) for link in _OPEN_FILES.iterdir()):
        return True
    maps = _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return any(line.endswith(f" {real}") for line in maps)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:  # the descriptor of the listing
        return None
    return status.st_dev, status.st_ino


def _full(path: Any, folder: int | None) -> Any:
    if folder is None:
        return path
    return (_OPEN_FILES / str(folder)).readlink() / os.fsdecode(path)


def _refuse(path: Any) -> None:
    if is_open(path):
        reason = "The process cannot access the file because it is being used"
        raise PermissionError(errno.EACCES, reason, str(path))


def _refuse_read_only(path: Any) -> None:
    if Path(path).is_file() and not Path(path).stat().st_mode & stat.S_IWUSR:
        raise PermissionError(errno.EACCES, "Access is denied", str(path))


def imitate(patch: pytest.MonkeyPatch) -> None:
    """Apply the rules until the patch is undone."""
    replace, rename, unlink = os.replace, os.rename, os.unlink

    def replaced(source: Any, target: Any, **folders: Any) -> None:
        _refuse(source)
        _refuse(target)
        _refuse_read_only(target)
        replace(source, target, **folders)

    def renamed(source: Any, target: Any, **folders: Any) -> None:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, "Cannot create a file", str(target))
        _refuse(source)
        rename(source, target, **folders)

    def unlinked(path: Any, *, dir_fd: int | None = None) -> None:
        _refuse(_full(path, dir_fd))
        _refuse_read_only(_full(path, dir_fd))
        unlink(path, dir_fd=dir_fd)

    for name, function in (
        ("replace", replaced),
        ("rename", renamed),
        ("unlink", unlinked),
        ("remove", unlinked),
    ):
        patch.setattr(os, name, function)
    # Imported here, because pytest loads this module as a plugin before it measures.
    from llamaherd.engine.core import files
    from llamaherd.optimize import requantize

    for module in (files, requantize):
        patch.setattr(module, "_IS_WINDOWS", True)
    patch.setattr(files, "_RETRY_S", (0.0, 0.0))
    patch.delattr(os, "O_NOFOLLOW", raising=False)
    patch.delattr(os, "O_DIRECTORY", raising=False)


@pytest.fixture(autouse=True)
def _windows_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Apply the rules to each test, if this module is a plugin."""
    with monkeypatch.context() as patch:
        imitate(patch)
        yield
