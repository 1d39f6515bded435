"""Writes a journal on a disk that fails at one call, and runs again; tests each call.

    python disk.py OUT.json

Runs with disk.cpp preloaded (see `run` in faults.py). Each run is a forked process: it
stores the missing entries in a journal, in several commits, with several checkpoints of
SQLite's log. Entries that the run reports as stored must be in the journal afterwards.
"""

from __future__ import annotations

import ctypes
import json
import os
import sqlite3
import sys
import tempfile
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd import JournalError, journal_read
from llamaherd.calls.journal.entry import JournalEntry
from llamaherd.calls.journal.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable

N_GROUPS = 12
GROUP = 3
LOG_PAGES = 8  # SQLite's default is 1000
ENDED = 42  # `kEnded` of disk.cpp
NEVER = 1 << 40


class Action(IntEnum):
    """`Action` of disk.cpp."""

    END = 1
    TEAR = 2
    FULL = 3
    FULL_ONCE = 4
    SHORT = 5
    FAIL_SYNC = 6


WHAT = {
    Action.END: "the process ends before the k-th write, truncation, sync or (un)link",
    Action.TEAR: "the process ends halfway through the k-th write",
    Action.FULL: "the disk is full from the k-th write on",
    Action.FULL_ONCE: "the disk is full at the k-th write only",
    Action.SHORT: "from the k-th write on, each write stores only half of its data",
    Action.FAIL_SYNC: "the k-th sync fails",
}


def entry(i: int) -> JournalEntry:
    """Return the i-th entry that all runs store."""
    return JournalEntry(
        prompt=f"prompt {i}",
        text=f"answer {i} " * 40,
        complete=True,
        finish_reason="stop",
        error=None,
        n_prompt_tokens=2,
        tokens=list(range(100)),
        seed=i,
        model="m.gguf",
        model_sha256="ab" * 32,
        settings='{"max_tokens": 9}',
        created=datetime(2026, 1, 2, tzinfo=UTC),
        version="0",
        key=f"{i:064x}",
    )


ENTRIES = [entry(i) for i in range(N_GROUPS * GROUP)]


def store(path: Path, tell: Callable[[int], None]) -> None:
    """Store the missing entries; report the number of each entry that is stored."""
    journal = Journal(path)
    journal._db.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
    keys = [bytes.fromhex(stored.key) for stored in ENTRIES]
    missing = [i for i, key in enumerate(keys) if journal.find(key) is None]
    waiting: list[int] = []
    for start in range(0, len(missing), GROUP):
        waiting += missing[start : start + GROUP]
        with suppress(sqlite3.Error):
            journal.add([ENTRIES[i] for i in waiting])
            for i in waiting:
                tell(i)
            waiting = []
    if waiting:
        journal.add([ENTRIES[i] for i in waiting])
        for i in waiting:
            tell(i)
    journal.close()


class Disk:
    """Runs in separate processes, with a fault of the disk.

    Args:
        folder: Folder that contains only the journal.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.sqlite"
        self._library = ctypes.CDLL(os.environ["LLAMAHERD_FAULTS"])
        self._library.disk_arm.argtypes = [
            *(ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64)
        ]
        self._library.disk_disarm.restype = ctypes.c_int64

    def run(self, action: Action, at: int) -> tuple[set[int], int, list[str]]:
        """Run with a fault at one of the calls to which the fault applies.

        Returns:
            Entries reported as stored; number of calls, -1 if the process ended before;
            errors.
        """

        def body(tell: Callable[[str], None]) -> None:
            self._library.disk_arm(os.fsencode(self.path.parent), action, at)
            try:
                store(self.path, lambda i: tell(f"stored {i}"))
            except (sqlite3.OperationalError, JournalError) as error:
                tell(f"refused {error}")
            tell(f"calls {self._library.disk_disarm()}")

        lines = forked(body)
        numbers = [int(line[6:]) for line in lines if line.startswith("calls ")]
        return (
            {int(line[7:]) for line in lines if line.startswith("stored ")},
            numbers[0] if numbers else -1,
            [line for line in lines if line.startswith(("refused ", "Traceback"))],
        )

    def problems(self, stored: set[int]) -> list[str]:
        """Return the problems of the journal that a run left, and of the next run."""

        def body(tell: Callable[[str], None]) -> None:
            entries = journal_read(self.path) if self.path.exists() else []
            by_key = {record.key: record for record in entries}
            if len(by_key) != len(entries):
                tell("some are there twice")
            if any(by_key.get(ENTRIES[i].key) != ENTRIES[i] for i in stored):
                tell("some are lost, or changed")
            if any(ENTRIES[int(key, 16)] != record for key, record in by_key.items()):
                tell("there are some that nobody stored")
            store(self.path, lambda _i: None)
            if sorted(journal_read(self.path), key=lambda record: record.key) != ENTRIES:
                tell("the next run did not make it whole")
            left = sorted(file.name for file in self.path.parent.iterdir())
            if left != [self.path.name]:
                tell(f"left beside it: {left}")

        lines = forked(body)
        for file in self.path.parent.iterdir():
            file.unlink()
        return lines


def forked(body: Callable[[Callable[[str], None]], None]) -> list[str]:
    """Run `body` in a child process; return the lines that it reports."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)

        def tell(line: str) -> None:
            os.write(writer, f"{line}\n".encode())

        try:
            body(tell)
        except BaseException:  # noqa: BLE001 - told, and shown by the parent
            tell("Traceback: " + traceback.format_exc().replace("\n", " | "))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        lines = pipe.read().splitlines()
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) not in {0, ENDED}:
        lines.append(f"Traceback: the process ended with {status}")
    return lines


def tries(disk: Disk, action: Action) -> dict[str, object]:
    """Run with a fault at each call to which it applies, each time with a second run."""
    _, n_calls, _ = disk.run(action, NEVER)
    problems = [f"without a fault: {line}" for line in disk.problems(set())]
    for at in range(n_calls):
        stored, n_told, refused = disk.run(action, at)
        errors = [line for line in refused if line.startswith("Traceback")]
        if action in {Action.END, Action.TEAR}:
            # The fault also occurs in the next run, while it repairs the journal.
            again, _, refused = disk.run(action, (7 * at + 3) % n_calls)
            stored |= again
            errors += refused
        elif n_told < 0:
            errors.append("the run ended the process")
        elif action is Action.SHORT and (refused or len(stored) != len(ENTRIES)):
            errors.append(f"not all is stored: {refused}")
        errors += disk.problems(stored)
        problems += [f"at {at}: {line}" for line in errors]
    n_bad = len({line.split(":")[0] for line in problems})
    return {"tries": n_calls, "held": n_calls - n_bad, "problems": problems[:20]}


def main() -> None:
    """Write numbers of tries and of passed tries, and problems, by fault, as JSON."""
    room = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=room) as name:
        disk = Disk(Path(name))
        tallies = {WHAT[action]: tries(disk, action) for action in WHAT}
    Path(sys.argv[1]).write_text(json.dumps(tallies, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
