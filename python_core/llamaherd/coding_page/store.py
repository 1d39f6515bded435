"""SQLite file of codes, with an unchangeable entry for each code, skip and undo.

The current codes are computed from the entries. An undo is an entry as well, so no
earlier code is lost. Every entry is on the disk before its browser gets an answer.
"""

from __future__ import annotations

import json
import re
import secrets
import sqlite3
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from llamaherd.calls.journal.sqlite import make_private, problem_of_format
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding_page.sheet import Sheet

Kind = Literal["code", "skip", "undo"]

_APPLICATION_ID = 0x6C686370  # "lhcp"
_FORMAT = 1
_BUSY_S = 30.0
_SECRET = re.compile(r"[\w-]{32}", re.ASCII)  # 24 random bytes
_SCHEMA = f"""
BEGIN EXCLUSIVE;
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_FORMAT};
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS codebook (hash TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entry (
  n INTEGER PRIMARY KEY,
  coder TEXT NOT NULL,
  text_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('code', 'skip', 'undo')),
  value TEXT,  -- JSON
  note TEXT NOT NULL,
  seconds REAL,  -- spent on the text, as the browser measured
  at TEXT NOT NULL,  -- UTC
  codebook TEXT NOT NULL REFERENCES codebook
);
COMMIT;
"""


class NewAct(NamedTuple):
    """Code, skip or undo of a coder, to be stored."""

    coder: str
    text_id: str
    # "code", "skip", or "undo", which undoes the coder's last code or skip that was not
    # undone.
    kind: Kind
    value: Any = None  # code as JSON types; None for other kinds
    note: str = ""  # note of the coder; "" without a note
    seconds: float | None = None  # time that the coder spent on the text; None if unknown


class Entry(NamedTuple):
    """Stored code, skip or undo of a coder."""

    n: int  # number of the entry, from 1
    act: NewAct
    at: str  # time of storing, in UTC


class CodeStore:
    """File with the codes of a sheet, which several processes may use at once."""

    def __init__(self, path: Path, sheet: Sheet) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._is_closed = False
        with _refusals(path):
            if not path.exists() or path.stat().st_size == 0:
                make_private(path)
            self._db = sqlite3.connect(
                path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                self._open(sheet)
            except BaseException:
                self._db.close()
                raise
        self.secret = self._meta("secret")  # keys of the pages are derived from it
        self._codebook = sheet.codebook.hash

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        with self._lock:
            self._is_closed = True
            self._db.close()

    def entries(self, after: int = 0) -> list[Entry]:
        """Return the entries after a number, in order; none after `close`.

        One thread may close the store while another one reads the progress of coders.
        """
        with self._lock:
            if self._is_closed:
                return []
            rows = self._db.execute(
                "SELECT n, coder, text_id, kind, value, note, seconds, at FROM entry "
                "WHERE n > ? ORDER BY n",
                (after,),
            ).fetchall()
        try:
            return [
                Entry(n, NewAct(coder, key, kind, _parse_json(value), note, seconds), at)
                for n, coder, key, kind, value, note, seconds, at in rows
            ]
        except (ValueError, TypeError, RecursionError) as error:
            raise self._foreign(f"a code in it is damaged: {error}") from None

    @property
    def coders(self) -> tuple[str, ...]:
        """Names of all coders with an entry, in the order of their first entries."""
        return tuple(dict.fromkeys(entry.act.coder for entry in self.entries()))

    def add(self, act: NewAct) -> None:
        """Store a code, skip or undo. The entry is on the disk when the call returns."""
        written = json.dumps(act.value, ensure_ascii=False)
        row = (
            act.coder,
            act.text_id,
            act.kind,
            None if act.value is None else written,
            act.note,
            act.seconds,
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            self._codebook,
        )
        with self._lock:
            self._db.execute(
                "INSERT INTO entry (coder, text_id, kind, value, note, seconds, at, "
                "codebook) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )

    def _open(self, sheet: Sheet) -> None:
        """Create the tables, or check the tables of an existing file."""
        is_new = self._check_format()
        # With a rollback journal, only one file remains; EXTRA also synchronizes its
        # folder.
        self._db.execute("PRAGMA journal_mode = DELETE")
        self._db.execute("PRAGMA synchronous = EXTRA")
        if is_new:
            self._db.executescript(_SCHEMA)
        make_private(self.path)  # only the file's owner may read the secret
        new = {"sha256": sheet.sha256, "secret": secrets.token_urlsafe(24)}
        for key, value in new.items():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (key, value))
        if not _SECRET.fullmatch(self._meta("secret")):
            raise self._foreign("its secret, from which keys are computed, is damaged")
        if self._meta("sha256") != sheet.sha256:
            raise ArgumentError(
                f"{checks.brief(str(self.path))} has codes of other texts",
                argument="path",
                code="other_texts",
            )
        self._keep(sheet.codebook)

    def _check_format(self) -> bool:
        """Check the format of the file; return whether it is still empty."""
        format_ = {"application": _APPLICATION_ID, "version": _FORMAT}
        problem = problem_of_format(self._db, "file of codes", _SCHEMA, **format_)
        if problem:
            raise self._foreign(problem)
        return problem is None

    def _foreign(self, problem: str) -> ArgumentError:
        return ArgumentError(
            f"{checks.brief(str(self.path))} is an SQLite file, but has no codes that "
            f"can be used: {problem}",
            argument="path",
            code="foreign_file",
        )

    def _keep(self, codebook: Codebook) -> None:
        content = json.dumps(codebook.to_dict(), ensure_ascii=False)
        self._db.execute(
            "INSERT OR IGNORE INTO codebook VALUES (?, ?)", (codebook.hash, content)
        )

    def _meta(self, key: str) -> str:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return "" if row is None else str(row[0])


def _parse_json(value: str | None) -> Any:  # JSON
    return None if value is None else json.loads(value)


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Convert errors of SQLite to errors about the path."""
    try:
        yield
    except sqlite3.Error as error:
        raise ArgumentError(
            f"{checks.brief(str(path))} cannot be used for codes: {error}",
            argument="path",
            code="foreign_file",
        ) from error
