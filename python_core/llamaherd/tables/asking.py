"""Runs the prompts of a block and returns the new cells of their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.errors import Interrupted, is_cancelled
from llamaherd.engine.core.keeping import kept

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.engine.model.model import Model
    from llamaherd.tasks.task import Cells, Keep, Report, Task

    # Cells of a row's new columns; the last cell is the reason for a failure.
    Values = list[object]


class Unfinished(KeyboardInterrupt):
    """Raised when Ctrl-C or SIGTERM ended a run.

    Attributes:
        values: Cells of each row that no journal has stored; None for a row without a
            result.
    """

    def __init__(self, values: Sequence[Values | None] = ()) -> None:
        super().__init__("interrupted")
        self.values = values


class Asker:
    """Runs a task on the rows of blocks.

    Args:
        task: The task.
        host: Context that runs the prompts; for embeddings, a model.
        journal: Journal that stores the results; None without a journal.
    """

    def __init__(
        self, task: Task[Any], host: Host | Model, journal: Journal | None
    ) -> None:
        self._task = task
        self._host = host
        self._journal = journal
        self._has_noted = False

    def ask(
        self,
        prompts: Sequence[str],
        positions: Sequence[int],
        report: Report,
        keep: Keep | None = None,
    ) -> list[Values]:
        """Return the new cells of each row.

        Args:
            prompts: Prompts, one per row.
            positions: Positions of the rows in the whole table.
            report: Progress callback.
            keep: Function that stores finished rows, for a task without a journal.

        Raises:
            Unfinished: The run was interrupted by Ctrl-C.
            Exception: The progress callback failed, or the call. For a task without a
                journal, its `results` are like `Unfinished.values`.
        """
        task = self._task
        try:
            found = task.answer(
                self._host,
                prompts,
                positions,
                journal=self._journal,
                report=report,
                keep=keep,
            )
        except Interrupted as error:
            if task.is_journalled:
                raise Unfinished from None
            rows = _rows(task.rows(error.results))
            raise Unfinished(_done(rows)) from None
        except Exception as error:
            results = kept(error)
            if not task.is_journalled and results is not None:
                vars(error)["results"] = _done(_rows(task.rows(results)))
            raise
        if not self._has_noted:  # the warning is issued once per run, in its first block
            self._has_noted = True
            warn_notes(task.notes(found))
        return _rows(found)


def _done(rows: Sequence[Values]) -> list[Values | None]:
    """Replace unfinished rows by None."""
    return [None if is_cancelled(row[-1]) else row for row in rows]


def _rows(cells: Cells) -> list[Values]:
    return [list(row) for row in zip(*cells.values(), strict=True)]
