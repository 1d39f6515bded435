"""What a file holds, in a hash."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_BLOCK = 1 << 20  # bytes, hashed in about a millisecond


def digest_of(
    path: Path, is_cancelled: Callable[[], bool] = lambda: False
) -> bytes | None:
    """SHA-256 of a file's content.

    Args:
        path: The file.
        is_cancelled: Asked after each block; True ends the work.

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
    """SHA-256 of a file's content, in hexadecimal."""
    return (digest_of(path) or b"").hex()
