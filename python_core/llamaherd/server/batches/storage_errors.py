"""Errors of a server's data on disk."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from llamaherd.core.checks import quoted
from llamaherd.core.errors import LlamaHerdError
from llamaherd.journal.sqlite_access import is_locked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class StoreError(LlamaHerdError, OSError):
    """The folder of a server's data cannot be used."""


# Errors of a full disk, an unwritable folder or a failing disk. A later attempt may
# succeed. (A damaged database raises another class, and no attempt would succeed.)
NOT_STORED = (sqlite3.OperationalError, OSError)


def reason_of(error: Exception) -> str:
    """Return why something cannot be stored, without the paths of the server."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


@contextmanager
def refusals(folder: Path) -> Iterator[None]:
    """Convert errors of SQLite and the system to StoreError.

    Args:
        folder: Folder of the data.
    """
    try:
        yield
    except StoreError:
        raise
    except sqlite3.OperationalError as error:
        hint = "; does another server use it?" if is_locked(error) else ""
        text = f"data: {quoted(str(folder))} cannot be used{hint} ({error})"
        raise StoreError(text) from error
    except (sqlite3.Error, OSError, LlamaHerdError) as error:
        text = f"data: {quoted(str(folder))} cannot be used: {error}"
        raise StoreError(text) from error
