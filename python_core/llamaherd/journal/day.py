"""The day on which a journal was begun."""

from __future__ import annotations

import datetime as dt
import sqlite3
from contextlib import closing
from pathlib import Path

from llamaherd.journal.look import connect


def first_day(path: str) -> dt.date | None:
    """The day of a journal's first result; None: there is none that can be read.

    What is wrong with a file is told by those who use it.
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
