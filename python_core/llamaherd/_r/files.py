"""Files that R writes, and SHA-256 sums."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import append_whole, sha256_of, write_whole
from llamaherd.engine.core.files import copy_whole as copied
from llamaherd.engine.core.words import words

if TYPE_CHECKING:
    from collections.abc import Sequence


def sha256(texts: Sequence[str | None]) -> list[str | None]:
    """Return the SHA-256 of the UTF-8 bytes of each text, in hexadecimal."""
    return [
        None if text is None else hashlib.sha256(text.encode()).hexdigest()
        for text in texts
    ]


def file_sha256(path: str) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    return sha256_of(Path(path))


def begin_log(path: str, lines: Sequence[str], append: bool) -> None:
    """Write the first lines of a log: a new file, or the end of an existing one."""
    log, content = Path(path), _bytes_of(lines)
    if not log.exists():
        write_whole(log, content)
    elif append:
        separator = b"\n" if log.stat().st_size else b""
        append_whole(log, separator + content)
    else:
        advice = f"name another file, or use {words().setting('append', True)}"
        raise ArgumentError(
            f"is {path!r}, which exists: {advice}", argument="path", code="exists"
        )


def append_lines(path: str, lines: Sequence[str]) -> None:
    """Add lines to a file: all of them, or none."""
    append_whole(Path(path), _bytes_of(lines))


def replace_lines(path: str, lines: Sequence[str]) -> None:
    """Write lines to a file, which stays as it is if they cannot be written."""
    write_whole(Path(path), _bytes_of(lines))


def copy_whole(source: str, target: str) -> str:
    """Copy a file whole or not at all; return the path of the copy."""
    return str(copied(Path(source), Path(target)))


def end_log(path: str, lines: Sequence[str]) -> str:
    """End a log, unless the file beside it with its SHA-256 cannot be written."""
    log, content = Path(path), _bytes_of(lines)
    append_whole(log, content)
    digest = sha256_of(log)
    try:
        sums = log.with_name(f"{log.name}.sha256")
        write_whole(sums, f"{digest}  {log.name}\n".encode())
    except OSError:
        if log.read_bytes().endswith(content):  # another process added no lines
            os.truncate(log, log.stat().st_size - len(content))
        raise
    return digest


def _bytes_of(lines: Sequence[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
