"""Creation of private SQLite files, and checks of their tables."""

from __future__ import annotations

import functools
import os
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from llamaherd.calls.journal.sqlite_access import ROLLBACK, SHM, WAL, beside

if TYPE_CHECKING:
    from pathlib import Path

_OBJECTS = "SELECT type, name, sql FROM sqlite_master WHERE sql NOT NULL"
_PRIVATE = 0o600  # SQLite gives the same mode to the logs next to a file


def make_private(path: Path) -> None:
    """Create a file that only its owner may read; close an existing file to others.

    Raises:
        OSError: The file cannot be created, or belongs to somebody else.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, _PRIVATE))
    for suffix in ("", WAL, ROLLBACK, SHM):
        file = beside(path, suffix)
        with suppress(FileNotFoundError):
            if os.name == "posix" and file.stat().st_mode & ~_PRIVATE & 0o777:
                file.chmod(_PRIVATE)


def problem_of_schema(
    db: sqlite3.Connection,
    what: str,
    schema: str,
    optional: str = "",
    *,
    may_have_more: bool = False,
) -> str:
    """Return why the tables of a file are not those of a format; "" if they are.

    Triggers, views and indices are refused: a trigger could change or drop stored data, a
    view could replace a table, and an index on an expression could fail.

    Args:
        db: Connection to the file.
        what: Name of the format in messages, such as "journal".
        schema: SQL of the tables, which the file must have.
        optional: SQL of tables that the file may have.
        may_have_more: Whether the file may have tables with other names.
    """
    expected, known = tables_of(schema), tables_of(schema + optional)
    tables: dict[str, str] = {}
    for kind, name, sql in db.execute(_OBJECTS):
        if kind != "table":
            return f"it has the {kind} {name!r:.60}, which no {what} has: remove it"
        tables[name] = sql
    if not expected.items() <= tables.items():
        return f"its tables are not the tables of a {what}"
    for name, sql in tables.items():
        is_statistics = name.startswith("sqlite_stat")  # of SQLite's ANALYZE
        if known.get(name, sql if may_have_more or is_statistics else None) != sql:
            return f"its table {name!r:.60} is not one of a {what}"
    return ""


@functools.cache
def tables_of(schema: str) -> dict[str, str]:
    """Return the SQL text of each table, where a changed letter may rename a column."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(schema)
        return {name: sql for _, name, sql in db.execute(_OBJECTS)}
