"""Thoughts of stored answers, in a separate table.

The table is created with the first thought, so that a journal without thoughts equals a
file of an earlier version.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from llamaherd.calls.journal.file import THOUGHT_TABLE, DamagedError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Iterator

    from llamaherd.calls.journal.entry import JournalEntry

# Text that occurs only in the settings of results after a thought, because JSON escapes
# quotes in texts.
THOUGHT = '"thought": {'

_EXISTS = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'thought'"
# A thought is stored only if its result is stored, because another process may have
# stored another result first.
_ADD = """
INSERT OR REPLACE INTO thought (key, text, n_tokens, complete, digest)
SELECT key, ?, ?, ?, ? FROM result WHERE key = ? AND digest = ?
"""
_SELECT = "SELECT text, n_tokens, complete, digest FROM thought WHERE key = ?"
_SELECT_ALL = """
SELECT thought.text, n_tokens, complete, thought.digest, result.key, result.digest
FROM thought JOIN result ON result.key = thought.key
"""


def row_of_thought(entry: JournalEntry, row: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the values that `add` stores for an entry's thought, or None.

    Args:
        entry: Result.
        row: Row of the entry, see `row_of`.
    """
    if THOUGHT not in entry.settings:
        return None
    complete = None if entry.thinking_complete is None else int(entry.thinking_complete)
    values = (entry.thinking, entry.n_thinking_tokens, complete)
    return (*values, _digest(row[-1], values), row[4], row[-1])


def add(db: sqlite3.Connection, thoughts: Iterable[tuple[Any, ...]]) -> None:
    """Store thoughts in the same transaction as their results."""
    rows = list(thoughts)
    if rows:
        db.execute(THOUGHT_TABLE)
        db.executemany(_ADD, rows)


def read(db: sqlite3.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of all thoughts."""
    if db.execute(_EXISTS).fetchone() is not None:
        yield from db.execute(_SELECT_ALL)


def with_thought(
    entry: JournalEntry, row: tuple[Any, ...], thought: tuple[Any, ...] | None
) -> JournalEntry:
    """Return an entry with its stored thought.

    Args:
        entry: Entry without the thought.
        row: Row of the entry.
        thought: Row of the thought; None if the journal has no thought for the entry.

    Raises:
        DamagedError: The thought is missing or differs from the written thought.
    """
    prompt = f"{entry.prompt!r:.60}"
    if thought is None:
        raise DamagedError(f"the thought before the answer to {prompt} is missing")
    *values, digest = thought[:4]
    if _digest(row[-1], tuple(values)) != digest:
        raise DamagedError(f"the thought stored for the prompt {prompt} was changed")
    text, n_tokens, complete = values
    return replace(
        entry,
        thinking=text,
        n_thinking_tokens=n_tokens,
        thinking_complete=None if complete is None else bool(complete),
    )


def found(
    db: sqlite3.Connection, entry: JournalEntry, row: tuple[Any, ...]
) -> JournalEntry:
    """Return an entry with its thought, if the request asked for a thought.

    Raises:
        DamagedError: The thought is missing or differs from the written thought.
    """
    if THOUGHT not in entry.settings:
        return entry
    has_table = db.execute(_EXISTS).fetchone() is not None
    thought = db.execute(_SELECT, (row[4],)).fetchone() if has_table else None
    return with_thought(entry, row, thought)


def _digest(of_result: bytes, values: tuple[Any, ...]) -> bytes:
    """Return a digest of a thought together with its result."""
    return blake2b(of_result + repr(values).encode(), digest_size=8).digest()
