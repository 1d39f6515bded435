"""Checks of an existing output, so that no data of other programs is overwritten."""

from __future__ import annotations

import json
import os
import sys
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from llamaherd.core.errors import ArgumentError
from llamaherd.core.files import sha256_of
from llamaherd.journal.disks import network_type
from llamaherd.journal.file import shown
from llamaherd.tables.record import SAME
from llamaherd.tables.table import METADATA_KEY

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from llamaherd.tables.record import Record

META = ".meta.json"
_LOCK = ".lock"


@contextmanager
def locked(name: str, path: Path) -> Iterator[None]:
    """Lock a file against other writers; the lock is released when the process ends.

    Network drives, Windows and file systems without locks are not covered.

    Args:
        name: Name of the file in messages.
        path: Absolute path of the file, without symbolic links.

    Raises:
        ValueError: Another process holds the lock.
    """
    lock_path = path.with_name(path.name + _LOCK)
    lock = None if network_type(lock_path) else _taken(name, path, lock_path)
    try:
        yield
    finally:
        if lock is not None:
            lock_path.unlink(missing_ok=True)
            os.close(lock)


def _taken(name: str, path: Path, lock_path: Path) -> int | None:
    """Lock a file and return its descriptor; None if it cannot be locked."""
    if sys.platform == "win32":
        return None
    while True:
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(lock, lock_path):
                os.ftruncate(lock, 0)
                os.write(lock, str(os.getpid()).encode())
                return lock
        except BlockingIOError:
            process = os.read(lock, 20).decode("ascii", "replace") or "that just began"
            os.close(lock)
            raise ArgumentError(
                f"{shown(path)} is being written by another run, "
                f"process {process}: wait until it ends, or choose another name",
                argument=name,
            ) from None
        except OSError:
            os.close(lock)
            return None
        os.close(lock)  # the previous holder has finished and removed the file


def _is_at(lock: int, lock_path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), lock_path.stat())
    return False


def found_output(path: Path, *, overwrite: bool) -> Mapping[str, Any]:
    """Return the run description of an existing output; {} without an output.

    Args:
        path: Path of the output.
        overwrite: Whether to replace any existing file.

    Raises:
        ValueError: llamaherd did not write the file, or it was edited later.
    """
    if overwrite or not path.exists() or path.stat().st_size == 0:
        return {}
    old_record = _metadata_of(path)
    if old_record is None:
        raise ArgumentError(
            f"{shown(path)} exists already, and llamaherd did not write it, or it was "
            "edited later: choose another name, or replace it (--overwrite)",
            argument="output",
        )
    return old_record


def _metadata_of(path: Path) -> Mapping[str, Any] | None:
    """Return the record in an output; None if there is none or the file was edited."""
    try:
        if path.suffix.lower() == ".parquet":
            from pyarrow import parquet  # noqa: PLC0415 - optional dependency

            metadata = parquet.read_schema(path).metadata or {}
            old_record = json.loads(metadata[METADATA_KEY])
        else:
            old_record = json.loads(path.with_name(path.name + META).read_bytes())
            if old_record["output_sha256"] != sha256_of(path):
                return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return old_record if isinstance(old_record, dict) else None


def warn_of_other_run(
    path: Path, old_record: Mapping[str, Any], record: Record, journal: object
) -> None:
    """Warn that the output of another run will be replaced.

    Args:
        path: Path of the output.
        old_record: Record of the run that wrote the output; empty if there is no
            record.
        record: Record of this run.
        journal: Path of this run's journal; None without a journal.
    """
    now = json.loads(record.meta())
    other = [what for key, what in SAME.items() if old_record.get(key) != now.get(key)]
    if old_record and other:
        kept = "" if journal is None else f"; its results in {journal} are kept"
        warnings.warn(
            f"{path.name} is the output of a run with another "
            f"{' and another '.join(other)}: this run replaces it{kept}",
            stacklevel=3,
        )
