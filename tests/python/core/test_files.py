"""Tests of hashes of files."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from llamaherd.core.files import digest_of, sha256_of

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_hashed_whole(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000  # several blocks, the last one not full
    file = tmp_path / "file"
    file.write_bytes(content)
    assert sha256_of(file) == hashlib.sha256(content).hexdigest()
    assert digest_of(file) == hashlib.sha256(content).digest()
    (tmp_path / "empty").touch()
    assert sha256_of(tmp_path / "empty") == hashlib.sha256().hexdigest()


def test_hashing_ends_when_it_is_cancelled(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(4 << 20))
    asked: list[bool] = []

    def is_cancelled() -> bool:
        asked.append(True)
        return len(asked) == 2

    assert digest_of(file, is_cancelled) is None
    assert len(asked) == 2
