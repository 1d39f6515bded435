"""Thread that stores the results of a call in a journal.

Because a commit waits for the disk, the thread stores all results of a tenth of a second
in one commit.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING

from llamaherd.calls.journal.file import quoted
from llamaherd.calls.journal.sqlite import is_locked

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from llamaherd.calls.journal.entry import JournalEntry
    from llamaherd.calls.journal.journal import Journal

_GROUP_S = 0.1  # maximum time in seconds that a result waits for its commit
_REST = 20  # pause after a failed attempt, in multiples of its duration


class Writer:
    """Thread that stores results: `with writer: writer.put(entry)`.

    If the disk is full or another process locks the file, the thread keeps the results.
    It tries again together with later results, and a last time at the end.

    Args:
        on_failure: Function that the thread calls once, with the reason, when the first
            attempt and its repetition fail. A lock of another process is not reported,
            because it ends by itself.

    Attributes:
        first_problem: Reason passed to `on_failure`; "" if it was not called.
        problem: After the end: reason why results are not stored; "" if all results are
            stored.
    """

    def __init__(
        self, journal: Journal, on_failure: Callable[[str], object] = lambda _: None
    ) -> None:
        self._journal = journal
        self._on_failure = on_failure
        self._is_locked = False
        self._queue: SimpleQueue[JournalEntry | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="llamaherd-journal", daemon=True)
        self.first_problem = ""
        self.problem = ""

    def put(self, entry: JournalEntry) -> None:
        """Queue a result; the next commit, within a tenth of a second, stores it."""
        self._queue.put(entry)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        waiting: list[JournalEntry] = []
        is_open = True
        next_s = 0.0  # earliest time of the next attempt
        while is_open:
            group, is_open = self._next_group()
            waiting += group
            started_s = monotonic()
            if is_open and started_s < next_s:
                continue
            # The last attempt is repeated, because no later result follows, and so is the
            # first that fails, because its failure is reported.
            repeats = not is_open or not self.first_problem
            if self._is_stored(waiting) or (repeats and self._is_stored(waiting)):
                waiting = []
            else:  # an attempt takes longer if more results wait
                if is_open:  # the end has its own report
                    self._report()
                ended_s = monotonic()
                next_s = ended_s + _REST * (ended_s - started_s)

    def _is_stored(self, entries: list[JournalEntry]) -> bool:
        self.problem = ""
        self._is_locked = False
        path = quoted(self._journal.path)
        try:
            self._journal.add(entries)
        except Exception as error:  # noqa: BLE001 - whatever it is, the call must tell
            what = f"{len(entries)} results could not be stored in " if entries else ""
            self.problem = f"{what}{path}: {error}"
            self._is_locked = is_locked(error)
        return not self.problem

    def _report(self) -> None:
        if not self._is_locked and not self.first_problem:
            self.first_problem = self.problem
            self._on_failure(self.problem)

    def _next_group(self) -> tuple[list[JournalEntry], bool]:
        """Return the results of the next `_GROUP_S` seconds; True if more may follow."""
        group: list[JournalEntry] = []
        end = 0.0
        while True:
            try:
                left = end - monotonic() if group else None
                entry = self._queue.get(timeout=left if left is None else max(left, 0))
            except Empty:
                return group, True
            if entry is None:
                return group, False
            if not group:
                end = monotonic() + _GROUP_S
            group.append(entry)
