"""Identity of a model file: a hash of its content, which is computed once per file."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from llamaherd.engine.core.files import digest_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path


class ModelFile:
    """Files of a model.

    The object records the state of the files when it is created, before they are loaded.

    Args:
        path: Path of the file, or of the first file of a split model
            ("-00001-of-00003.gguf").
    """

    def __init__(self, path: Path) -> None:
        self._paths = parts_of(path.absolute())
        self._state = self._state_now()
        self._sha256: bytes | None = None

    @property
    def name(self) -> str:
        """Name of the first file without folders; "?" replaces invalid UTF-8."""
        return self._paths[0].name.encode(errors="replace").decode()

    @property
    def size_bytes(self) -> int:
        """Size of the files when this object was created."""
        return sum(size for _, _, size, *_ in self._state)

    @property
    def state(self) -> str:
        """Text that identifies the files in their present state."""
        return repr(self._state)

    @property
    def is_unchanged(self) -> bool:
        """Whether the files are unchanged since the creation of this object."""
        try:
            now = self._state_now()
        except OSError:
            return False
        # The ctime is not used, because it also changes with a new name or permission.
        return [part[:-1] for part in now] == [part[:-1] for part in self._state]

    def remember(self, sha256: bytes) -> None:
        """Store a hash that was computed for files in this state."""
        self._sha256 = sha256

    def sha256(self, is_cancelled: Callable[[], bool] = lambda: False) -> bytes | None:
        """Return the SHA-256 of the file; for several files, the SHA-256 of their hashes.

        The first call takes about one second per GB.

        Args:
            is_cancelled: Function called after each block; the computation ends if it
                returns True.

        Returns:
            The hash; None if cancelled.
        """
        if self._sha256 is None:
            hashes = []
            for path in self._paths:
                part = digest_of(path, is_cancelled)
                if part is None:
                    return None
                hashes.append(part)
            is_single = len(hashes) == 1
            joined = b"".join(hashes)
            self._sha256 = joined if is_single else hashlib.sha256(joined).digest()
        return self._sha256

    def sha256_of_loaded(self) -> bytes | None:
        """Return `sha256`; None if the files changed before it could be computed."""
        if self._sha256 is not None:
            return self._sha256
        was_unchanged = self.is_unchanged
        with suppress(OSError):
            found = self.sha256() if was_unchanged else None
            self._sha256 = found if self.is_unchanged else None
        return self._sha256

    def _state_now(self) -> list[tuple[int, ...]]:
        return [_state(path.stat()) for path in self._paths]


def _state(status: os.stat_result) -> tuple[int, ...]:
    return (
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def parts_of(path: Path) -> list[Path]:
    """Return all files of a split model in llama.cpp's notation, or the file itself."""
    match = re.fullmatch(r"(.*)-00001-of-(\d{5})\.gguf", path.name)
    if match is None:
        return [path]
    n_parts = int(match[2])
    parts = [
        path.with_name(f"{match[1]}-{i:05}-of-{n_parts:05}.gguf")
        for i in range(1, n_parts + 1)
    ]
    return parts if all(part.is_file() for part in parts) else [path]
