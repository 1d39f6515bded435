"""Progress of a run, in rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.engine.core.progress import JobProgress

if TYPE_CHECKING:
    from collections.abc import Callable

    # True shows a bar; a function is called with each RunProgress.
    ProgressOption = bool | Callable[["RunProgress"], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress(JobProgress):
    """Progress of a run in rows."""

    n_done: int  # answered or failed
    n_failed: int
    n_total: int
    elapsed_s: float

    unit: ClassVar[str] = "rows"

    @property
    def line(self) -> str:
        """Return a line with the speed in rows per second."""
        text = f"{self.n_done / max(self.elapsed_s, 0.001):.1f} rows/s"
        return f"{text}, {self.n_failed} failed" if self.n_failed else text


@dataclass(slots=True)
class Meter:
    """Adds up the rows of finished blocks."""

    report: Callable[[RunProgress], object]  # as `reporter` yields it
    check: Callable[[], object]  # called before each report
    started_s: float = field(default_factory=perf_counter)
    n_total: int = 0  # rows of the run
    n_done: int = 0  # rows of finished blocks
    n_failed: int = 0
    n_cut: int = 0  # rows of finished blocks that `max_tokens` cut off

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
        self.check()
        self.report(
            RunProgress(
                n_done=self.n_done + n_done,
                n_failed=self.n_failed + n_failed,
                n_total=self.n_total,
                elapsed_s=perf_counter() - self.started_s,
            )
        )
