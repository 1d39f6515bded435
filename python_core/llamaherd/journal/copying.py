"""Copying of a journal to another disk while it is in use."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from llamaherd.core import files
from llamaherd.core.errors import JournalError
from llamaherd.core.files import sync_folder
from llamaherd.journal.file import check, refusals
from llamaherd.journal.sqlite_access import look


def keep_journal(journal: str | os.PathLike[str], kept: str | os.PathLike[str]) -> None:
    """Copy the current content of a journal, with its log, to a file.

    First, SQLite makes a copy on the disk of the journal. This copy is then written to
    the other disk as a plain file, and renamed when it is complete.

    Args:
        journal: Path of the journal; the file is not changed.
        kept: Path of the copy; an older journal is replaced, and no other file.

    Raises:
        JournalError: A file is not a journal, or cannot be copied.
    """
    source, target = Path(journal), Path(kept)
    with refusals("journal", source):
        if not source.is_file():
            raise JournalError(f"journal: there is no {str(source)!r}")
        check("journal", source)
        with refusals("kept", target):
            if target.exists() and target.stat().st_size:
                check("kept", target)
        with tempfile.TemporaryDirectory(prefix=".keep-", dir=source.parent) as folder:
            draft = Path(folder) / source.name
            with closing(sqlite3.connect(draft)) as copy:
                look(source, lambda db: db.backup(copy))
            with refusals("kept", target):
                _replace(draft, target, source.stat().st_mode & 0o777)


def _replace(draft: Path, target: Path, mode: int) -> None:
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.unlink(missing_ok=True)  # of an earlier process with the same number
        # The copy is as private as the journal.
        opened = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with draft.open("rb") as source, os.fdopen(opened, "wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
            sink.flush()
            os.fsync(sink.fileno())
        files.replace(part, target)
        sync_folder(target.parent)
    finally:
        part.unlink(missing_ok=True)
