"""Progress of a run, in rows."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.engine.core.progress import JobProgress, reporter

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

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


class Meter:
    """Adds up the rows of finished blocks. Use: `with Meter(option) as meter`."""

    def __init__(
        self, option: ProgressOption, check: Callable[[], object] = lambda: None
    ) -> None:
        self._option = option
        self._check = check
        self._stack = ExitStack()
        self._report: Callable[[RunProgress], object] = lambda _: None
        self._started_s = perf_counter()
        # Rows of the run; done, failed, and cut off by `max_tokens` in finished blocks.
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
