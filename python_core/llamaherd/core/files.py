"""Hashes of files, and durable changes of names in folders."""

from __future__ import annotations

import errno
import hashlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_BLOCK = 1 << 20  # bytes; hashing them takes about a millisecond
# Errors if syncing is unavailable: no read permission, or some network drives.
_NO_SYNC = {errno.EACCES, errno.EINVAL, errno.ENOTSUP}


def digest_of(
    path: Path, is_cancelled: Callable[[], bool] = lambda: False
) -> bytes | None:
    """Compute the SHA-256 of a file's content.

    Args:
        path: Path of the file.
        is_cancelled: Function called after each block; True ends the work.

    Returns:
        32 bytes; None if cancelled.
    """
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
    """Make the names of new and replaced files in a folder durable.

    Does nothing on Windows and on file systems without this operation.

    Raises:
        OSError: The disk fails.
    """
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
