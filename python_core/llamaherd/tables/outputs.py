"""Checks of an existing output, so that no data of other programs is overwritten."""

from __future__ import annotations

import json
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from llamaherd.calls.journal.file import network_type, quoted
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.files import LockHeldError, sha256_of, take_lock
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.tables.record import SAME
from llamaherd.tables.table import METADATA_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from llamaherd.tables.record import Record

META = ".meta.json"
_LOCK = ".lock"


@contextmanager
def locked(name: str, path: Path) -> Iterator[None]:
    """Lock a file against other writers; the lock is released when the process ends.

    Network drives and file systems without locks are not covered.

    Args:
        name: Name of the file in messages.
        path: Absolute path of the file, without symbolic links.

    Raises:
        ValueError: Another process holds the lock.
    """
    lock_path = path.with_name(path.name + _LOCK)
    try:
        lock = None if network_type(lock_path) else take_lock(lock_path)
    except LockHeldError as error:
        raise ArgumentError(
            f"{quoted(path)} is being written by another run, "
            f"process {error.process or 'that just began'}: wait until it ends, or "
            "choose another name",
            argument=name,
        ) from None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def found_output(path: Path, *, overwrite: bool) -> Mapping[str, Any]:
    """Return the run description of an existing output; {} without an output.

    Args:
        path: Path of the output.
        overwrite: Whether to replace any existing file.

    Raises:
        ValueError: llamaherd did not write the file, or it was edited later.
    """
    if overwrite:
        return {}
    if not path.exists() or path.stat().st_size == 0:
        _check_beside(path)
        return {}
    old_record = record_in(path)
    if old_record is None:
        raise ArgumentError(
            f"{quoted(path)} exists already, and llamaherd did not write it, or it was "
            "edited later: choose another name, or replace it (--overwrite)",
            argument="output",
        )
    return old_record


def _check_beside(path: Path) -> None:
    """Check that the metadata file of a new output replaces no file of the user.

    Raises:
        ValueError: A file of another kind has its name.
    """
    beside = path.with_name(path.name + META)
    if path.suffix.lower() == ".parquet" or not beside.exists():
        return
    try:
        is_own = "output_sha256" in json.loads(beside.read_bytes())
    except (OSError, *DAMAGED):
        is_own = False
    if not is_own:
        raise ArgumentError(
            f"{quoted(beside)} exists already, and llamaherd did not write it; the "
            "metadata of the output would replace it: choose another name, or replace it "
            "(--overwrite)",
            argument="output",
        )


def record_in(path: Path) -> Mapping[str, Any] | None:
    """Return the record in an output; None without one, or if the file was edited."""
    try:
        if path.suffix.lower() == ".parquet":
            from pyarrow import parquet  # noqa: PLC0415 - optional dependency

            metadata = parquet.read_schema(path).metadata or {}
            old_record = json.loads(metadata[METADATA_KEY])
        else:
            old_record = json.loads(path.with_name(path.name + META).read_bytes())
            if old_record["output_sha256"] != sha256_of(path):
                return None
    except (OSError, *DAMAGED):
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
