"""What is there already where an output goes: another run, or what would be lost."""

from __future__ import annotations

import json
import os
import sys
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from llamaherd.core.files import sha256_of
from llamaherd.journal.disks import network_type
from llamaherd.journal.file import shown
from llamaherd.runs.record import SAME
from llamaherd.runs.tables import METADATA_KEY

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from llamaherd.runs.record import Record

META = ".meta.json"
_LOCK = ".lock"


@contextmanager
def locked(name: str, path: Path) -> Iterator[None]:
    """Keeps other processes from writing the same file. The lock ends with the process.

    There is none on network drives, on Windows, and where none can be had.

    Args:
        name: What messages call the file.
        path: The file, absolute and without links.

    Raises:
        ValueError: Another process has it.
    """
    place = path.with_name(path.name + _LOCK)
    lock = None if network_type(place) else _taken(name, path, place)
    try:
        yield
    finally:
        if lock is not None:
            place.unlink(missing_ok=True)
            os.close(lock)


def _taken(name: str, path: Path, place: Path) -> int | None:
    """A descriptor of the file that is locked; None: nothing can be locked there."""
    if sys.platform == "win32":
        return None
    while True:
        try:
            lock = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(lock, place):
                os.ftruncate(lock, 0)
                os.write(lock, str(os.getpid()).encode())
                return lock
        except BlockingIOError:
            process = os.read(lock, 20).decode("ascii", "replace") or "that just began"
            os.close(lock)
            raise ValueError(
                f"{name} {shown(path)} is being written by another run, "
                f"process {process}: wait for its end, or give this one another name"
            ) from None
        except OSError:
            os.close(lock)
            return None
        os.close(lock)  # whoever had it is done, and removed it


def _is_at(lock: int, place: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), place.stat())
    return False


def found_output(path: Path, *, overwrite: bool) -> Mapping[str, Any]:
    """What an output that is there already says of its run; empty: there is none.

    Args:
        path: Of it.
        overwrite: Whether it may be lost, whatever it is.

    Raises:
        ValueError: It is not as llamaherd wrote it, so that it would be lost.
    """
    if overwrite or not path.exists() or path.stat().st_size == 0:
        return {}
    told = _told(path)
    if told is None:
        raise ValueError(
            f"output {shown(path)} is there already, and is not as llamaherd wrote it: "
            "give another name, or have it replaced (--overwrite)"
        )
    return told


def _told(path: Path) -> Mapping[str, Any] | None:
    """The record of an output that nobody changed; None: it has none, or was changed."""
    try:
        if path.suffix.lower() == ".parquet":
            from pyarrow import parquet  # noqa: PLC0415 - an extra

            metadata = parquet.read_schema(path).metadata or {}
            told = json.loads(metadata[METADATA_KEY])
        else:
            told = json.loads(path.with_name(path.name + META).read_bytes())
            if told["output_sha256"] != sha256_of(path):
                return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return told if isinstance(told, dict) else None


def warn_of_other_run(
    path: Path, told: Mapping[str, Any], record: Record, journal: object
) -> None:
    """Says that an output of another run is replaced.

    Args:
        path: Of the output.
        told: What it says of its run; empty: there is none.
        record: Of this run.
        journal: The path of this one's journal; None: it has none.
    """
    now = json.loads(record.meta())
    other = [what for key, what in SAME.items() if told.get(key) != now.get(key)]
    if told and other:
        kept = "" if journal is None else f"; what {journal} holds of it stays there"
        warnings.warn(
            f"{path.name} is of a run with another {' and another '.join(other)}: this "
            f"run's output takes its place{kept}",
            stacklevel=3,
        )
