"""Hashes of files; replacing, removing and locking files, also on Windows."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from llamaherd.engine.core.errors import ArgumentError, BadArgumentError
from llamaherd.engine.core.words import words

if TYPE_CHECKING:
    from collections.abc import Callable

    from filelock import FileLock

    from llamaherd.engine.core.argument import Name


_BLOCK = 1 << 20  # bytes; hashing them takes about a millisecond
# Errors if syncing is unavailable: no read permission, or some network drives.
_NO_SYNC = {errno.EACCES, errno.EINVAL, errno.ENOTSUP}
# Numbers of the errors for a full disk, a full quota and the largest size of a file.
_FULL = {getattr(errno, name, None) for name in ("ENOSPC", "EDQUOT", "EFBIG")} - {None}
# Errors of a file that can be written but not replaced: no permission in its folder, a
# folder in which only owners may remove files, a mounted file, a read-only folder.
_CANNOT_REPLACE = {errno.EACCES, errno.EPERM, errno.EBUSY, errno.EROFS, errno.EXDEV}
_IS_WINDOWS = sys.platform == "win32"
_RETRY_S = (0.05, 0.1, 0.2, 0.4, 0.8)  # virus scanners keep a new file open for a moment


def is_full(error: OSError) -> bool:
    """Return True if a write failed because a disk, quota or file system is full."""
    return error.errno in _FULL


def sqlite_code(error: BaseException | None) -> int:
    """Return SQLite's primary result code; 0 for other errors."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def has_working_folder() -> bool:
    """Return False if the working directory was deleted."""
    try:
        os.getcwd()  # noqa: PTH109
    except FileNotFoundError:
        return False
    return True


def digest_of(
    path: Path, is_cancelled: Callable[[], bool] = lambda: False
) -> bytes | None:
    """Return a file's SHA-256, 32 bytes; None if `is_cancelled()` after a block."""
    hasher = hashlib.sha256()
    block = memoryview(bytearray(_BLOCK))
    with path.open("rb", buffering=0) as file:
        while n_read := file.readinto(block):
            if is_cancelled():
                return None
            hasher.update(block[:n_read])
    return hasher.digest()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    return (digest_of(path) or b"").hex()


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable, if the system can."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def make_private_folder(folder: Path) -> None:
    """Create a folder, and its parents, for its owner alone; close an existing one."""
    if not folder.parent.exists():
        make_private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    if not _IS_WINDOWS and folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def replace(draft: Path, target: Path) -> None:
    """Rename a complete file over another one.

    Windows refuses to replace a file that another program has open, or a read-only one.
    """
    for delay in _RETRY_S if _IS_WINDOWS else ():
        try:
            draft.replace(target)
        except PermissionError:
            time.sleep(delay)
        else:
            return
    try:
        draft.replace(target)
    except PermissionError as error:
        if not _IS_WINDOWS:
            raise
        problem = "cannot be replaced while another program has it open: close it there"
        if target.exists() and not os.access(target, os.W_OK):
            problem = "cannot be replaced, because it is read-only"
        raise PermissionError(error.errno, problem, str(target)) from error


def check_free(
    path: Path, content: bytes | None = None, *, overwrite: bool, argument: Name = "path"
) -> None:
    """Check that a file is new, empty, a device, or has the new content already."""
    is_used = path.is_file() and path.stat().st_size > 0
    if overwrite or not (is_used or path.is_dir()):
        return
    if content is None or path.is_dir() or path.read_bytes() != content:
        raise ArgumentError(
            f"{str(path)!r} already exists: choose another name, or replace it with "
            f"{words().setting('overwrite', True)}",
            argument=argument,
            code="exists",
            form="{name}: {problem}",
        )


def write_new(path: Path, content: bytes, *, overwrite: bool = False) -> None:
    """Write the file `path` of a caller, unless it exists with other content."""
    check_free(path, content, overwrite=overwrite)
    write_whole(path, content, argument="path")


def write_whole(path: Path, content: bytes, *, argument: Name | None = None) -> None:
    """Write a file, replacing an existing file only if the new one is complete.

    A link keeps its target's name, a replaced file its permissions. Devices, pipes, and
    files that their folder or a mount does not let be replaced are written to directly.
    Errors name the argument that named the file.
    """

    def write(file: BinaryIO) -> None:
        file.write(content)

    try:
        _write_by(path, write)
    except OSError as error:
        if argument is None:
            raise
        raise _unusable(argument, path, error) from error


def _write_by(path: Path, write: Callable[[BinaryIO], None]) -> None:
    """Write a file as `write_whole` does; `write` writes the content, perhaps twice."""
    try:
        if is_special(path):  # as stdout it may be a file with earlier lines
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
                write(file)
            return
        target = Path(os.path.realpath(path))
        _check_writable(target)
        try:
            _replace_whole(target, write)
        except OSError as error:
            if error.errno not in _CANNOT_REPLACE or not target.exists():
                raise
            with target.open("wb") as file:
                write(file)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def is_special(path: Path) -> bool:
    """Return True for a device, a pipe, a folder, or an output of this process."""
    if str(path).startswith(("/dev/std", "/dev/fd/", "/proc/")):
        return True
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:  # there is none, perhaps no longer
        return False


def append_whole(path: Path, content: bytes) -> None:
    """Add all bytes to a file or none; bytes of another process stay."""
    before = path.stat().st_size if path.exists() else 0
    with path.open("ab", buffering=0) as file:
        try:
            rest = content
            while rest:
                rest = rest[file.write(rest) or 0 :]
        except OSError as error:
            size = path.stat().st_size
            if not is_special(path) and before < size < before + len(content):
                os.truncate(path, before)
            raise OSError(error.errno, error.strerror, str(path)) from error


def copy_whole(source: Path, target: Path) -> Path:
    """Copy a file to a path or folder as `write_whole` does; return the path."""
    if target.is_dir():
        target /= source.name
    if target.exists() and target.samefile(source):
        return target
    with source.open("rb") as content:

        def write(file: BinaryIO) -> None:
            content.seek(0)
            shutil.copyfileobj(content, file, _BLOCK)

        _write_by(target, write)
    return target


def why_unwritable(path: Path) -> str:
    """Return the system's reason why a file or folder cannot be written; "" if it can."""
    if os.access(path, os.W_OK):
        return ""
    is_read_only = not _IS_WINDOWS and os.statvfs(path).f_flag & os.ST_RDONLY
    return os.strerror(errno.EROFS if is_read_only else errno.EACCES)


def _check_writable(target: Path) -> None:
    if target.is_symlink():  # links that lead to each other
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _replace_whole(target: Path, write: Callable[[BinaryIO], None]) -> None:
    draft = target.with_name(f".llamaherd-{os.getpid()}-{secrets.token_hex(4)}")
    # Nobody else may read the draft, because the file that it replaces may be private.
    mode = 0o600 if target.exists() else 0o666
    number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with open(number, "wb") as file:  # noqa: PTH123 - a descriptor
            write(file)
        if target.exists():
            shutil.copymode(target, draft)
        replace(draft, target)
    finally:
        draft.unlink(missing_ok=True)


def discard(path: Path) -> None:
    """Remove a file, if it exists; on Windows, callers remove an open file later."""
    try:
        path.unlink(missing_ok=True)
    except PermissionError:
        if not _IS_WINDOWS:
            raise


_LONGEST_ID = 20  # digits of a process id


class LockHeldError(Exception):
    """Raised if another process holds a lock; its id is "" if unknown."""

    def __init__(self, process: str) -> None:
        super().__init__(f"the lock is held by process {process or '(unknown)'}")
        self.process = process


class LockFile:
    """Lock that this process holds; the system releases it when the process ends."""

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

    Returns None if the file system has no locks, the file cannot be created, or it is a
    symbolic link, a pipe, a device or a file of another program.
    """
    from filelock import FileLock, Timeout  # few programs lock files

    if path.is_symlink() or is_special(path):
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


# Programs that compress files, by the first bytes of the files.
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_COMPRESSED |= {b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
# Ends of the names of files of other kinds, with the reason against them.
_OTHER_KINDS = {
    **dict.fromkeys((".gz", ".zst", ".bz2", ".xz", ".zip"), "is written uncompressed"),
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods", ".numbers"), "is no workbook"),
    **dict.fromkeys((".parquet", ".feather", ".arrow"), "is written as text"),
    **dict.fromkeys((".sav", ".dta", ".rds", ".rdata"), "is written as text"),
}
_LINE = re.compile(r'"?sep=([^"\r\n])"?[\r\n]*', re.IGNORECASE)


class UnusableFileError(BadArgumentError, OSError):
    """An argument names a file that cannot be read or written."""

    def __str__(self) -> str:
        return self.message


class MissingFileError(UnusableFileError, FileNotFoundError):
    """An argument names a file, or a folder of it, that does not exist."""


def check_kind(path: Path, suffix: str) -> None:
    """Check that the name of a new file does not promise another kind of file."""
    reason = _OTHER_KINDS.get(path.suffix.lower())
    if reason is not None:
        raise ArgumentError(
            f"must not end with {path.suffix}: the file {reason}; use {suffix}",
            argument="path",
        )


def content_of(name: Name, path: Path) -> bytes:
    """Return the content of a file that an argument names."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unusable(name, path, error) from error


def why_unusable(path: str, error: OSError) -> str:
    """Return why a file cannot be read or written, without the error's number."""
    more = "; free space and try again" if is_full(error) else ""
    if not os.path.isabs(path) and has_working_folder():  # noqa: PTH117
        more += f"; relative to {str(Path.cwd())!r}"
    return f"{path!r} cannot be used: {error.strerror or error}{more}"


def _unusable(name: Name, path: Path, error: OSError) -> UnusableFileError:
    """Return the error of a file that an argument names."""
    is_missing = isinstance(error, FileNotFoundError)
    kind = MissingFileError if is_missing else UnusableFileError
    named = kind(
        why_unusable(str(path), error),
        argument=name,
        code="not_found",
        form="{name}: {problem}",
    )
    named.errno, named.strerror, named.filename = error.errno, error.strerror, str(path)
    return named


def text_of_file(name: Name, path: Path, encoding: str = "utf-8-sig") -> str:
    """Return the text of a file that an argument names."""
    content = content_of(name, path)
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        raise ArgumentError(
            f"{str(path)!r} is {not_utf8(error)}",
            argument=name,
            code="not_unicode",
            form="{name}: {problem}",
        ) from None


def not_utf8(error: UnicodeDecodeError, remedy: str = "save it as UTF-8") -> str:
    """Describe where the content of a file is not in UTF-8, and what to do."""
    content, start = error.object, error.start
    if content.startswith(b"PK\x03\x04"):
        return f"a workbook or another archive, not a text: {remedy}"
    for beginning, program in _COMPRESSED.items():
        if content.startswith(beginning):
            return f"compressed by {program}: decompress it first"
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return f"not in UTF-8 but in UTF-16: {remedy}"
    line = content.count(b"\n", 0, start) + 1
    return f"not in UTF-8: byte 0x{content[start]:02x} in line {line}: {remedy}"


def separator_in(line: str) -> str | None:
    """Return the separator that the first line names, without a byte order mark."""
    match = _LINE.fullmatch(line)
    return None if match is None else match[1]
