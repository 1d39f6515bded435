"""Prompts of a block: names of the new columns, their cells, and progress."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.errors import ArgumentError, Interrupted, is_cancelled
from llamaherd.engine.core.keeping import kept
from llamaherd.engine.core.progress import JobProgress, reporter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from llamaherd.calls.structured.columns import Column
    from llamaherd.tables.spec import RunSpec
    from llamaherd.tasks.task import Task

    # True shows a bar; a function is called with each RunProgress.
    ProgressOption = bool | Callable[["RunProgress"], object]
    from collections.abc import Sequence

    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.engine.model.model import Model
    from llamaherd.tasks.task import Cells, Keep, Report

    # Cells of a row's new columns; the last cell is the reason for a failure.
    Values = list[object]


def prefixed(spec: RunSpec, task: Task[Any], given: Iterable[str]) -> dict[str, Column]:
    """Return the types of a run's new columns, by name in the output."""
    found = {spec.prefix + role: column for role, column in task.columns.items()}
    both = [name for name in given if name in found]
    if both:
        raise ArgumentError(
            f"the input already has a column {both[0]!r}, which this run would add: give "
            "the new columns a prefix, such as prefix = 'llm_' (--prefix llm_)",
            code="taken",
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress(JobProgress):
    """Progress of a run.

    Attributes:
        n_done: Number of rows that were answered or failed.
        n_failed: Number of rows that failed.
        n_total: Number of rows of the run.
        elapsed_s: Seconds since the run began.
    """

    n_done: int
    n_failed: int
    n_total: int
    elapsed_s: float

    unit: ClassVar[str] = "rows"

    @property
    def line(self) -> str:
        """Return a line with the speed in rows per second."""
        text = f"{self.n_done / max(self.elapsed_s, 0.001):.1f} rows/s"
        return f"{text}, {self.n_failed} failed" if self.n_failed else text


class Meter:
    """Adds up the progress of blocks. Use: `with Meter(option) as meter`.

    Attributes:
        n_total: Number of rows of the run.
        n_done: Number of rows in finished blocks.
        n_failed: Number of failed rows in finished blocks.
        n_cut: Number of rows whose answer `max_tokens` ended, in finished blocks.
    """

    def __init__(
        self, option: ProgressOption, check: Callable[[], object] = lambda: None
    ) -> None:
        self._option = option
        self._check = check
        self._stack = ExitStack()
        self._report: Callable[[RunProgress], object] = lambda _: None
        self._started_s = perf_counter()
        self.n_total = self.n_done = self.n_failed = self.n_cut = 0

    def __enter__(self) -> Meter:  # noqa: PYI034 - typing.Self needs Python 3.11
        self._report = self._stack.enter_context(reporter(self._option))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def block(self, n_known: int, n_failed: int) -> Callable[[Any], object]:
        """Return the progress callback of a block with `n_known` known rows."""

        def report(progress: Any) -> None:  # noqa: ANN401 - of any task
            self._report_progress(n_known + progress.n_done, n_failed + progress.n_failed)

        return report

    def end_block(self, n_rows: int, n_failed: int, n_cut: int) -> None:
        """Add the rows of a finished block to the totals."""
        self.n_cut += n_cut
        self.n_done += n_rows
        self.n_failed += n_failed
        self._report_progress(0, 0)

    def _report_progress(self, n_done: int, n_failed: int) -> None:
        self._check()
        self._report(
            RunProgress(
                n_done=self.n_done + n_done,
                n_failed=self.n_failed + n_failed,
                n_total=self.n_total,
                elapsed_s=perf_counter() - self._started_s,
            )
        )


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
    """Runs a task on the rows of blocks."""

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
        """Return the new cells of each row."""
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
