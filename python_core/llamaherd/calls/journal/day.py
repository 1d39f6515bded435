"""Date of the first result in a journal."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from pathlib import Path

from llamaherd.calls.journal.sqlite_access import connect


def first_day(path: str) -> dt.date | None:
    """Return the date of the first result in a journal; None if it cannot be read.

    Errors in the file are not reported here, but when the journal is opened.
    """
    file = Path(path).expanduser().absolute()
    if not file.is_file():
        return None
    try:
        with closing(connect(file, "mode=ro")) as db:
            (created,) = db.execute("SELECT min(created) FROM result").fetchone()
            return None if created is None else dt.date.fromtimestamp(float(created))  # noqa: DTZ012 - as `_today`
    except (sqlite3.Error, TypeError, ValueError, OverflowError, OSError):
        return None
