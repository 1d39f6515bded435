"""How far a run is, over all its blocks."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from llamaherd.api.progress import reporting

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    # True: a bar; a function is called with each RunProgress.
    ProgressOption = bool | Callable[["RunProgress"], object]

_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far a run is.

    Attributes:
        n_done: Rows that are answered, or failed.
        n_failed: Those of them that failed.
        n_total: Rows in all.
        elapsed_s: Seconds since it began.
    """

    n_done: int
    n_failed: int
    n_total: int
    elapsed_s: float


class Meter:
    """Adds up the progress of blocks: `with Meter(option) as meter`.

    Attributes:
        n_total: Rows in all.
        n_done: Rows of the blocks that are over.
        n_failed: Those of them that failed.
    """

    def __init__(self, option: ProgressOption) -> None:
        self._option = option
        self._stack = ExitStack()
        self._report: Callable[[RunProgress], object] = lambda _: None
        self._started_s = perf_counter()
        self.n_total = self.n_done = self.n_failed = 0

    def __enter__(self) -> Meter:  # noqa: PYI034 - typing.Self is of Python 3.11
        bar = reporting(self._option, " rows", _annotate, _FORMAT)
        self._report = self._stack.enter_context(bar)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

    def block(self, n_known: int, n_failed: int) -> Callable[[Any], object]:
        """What to call with the progress of a block, some rows of which are known."""

        def report(progress: Any) -> None:  # noqa: ANN401 - of any task
            self._tell(n_known + progress.n_done, n_failed + progress.n_failed)

        return report

    def end_block(self, n_rows: int, n_failed: int) -> None:
        """Counts the rows of a block that is over."""
        self.n_done += n_rows
        self.n_failed += n_failed
        self._tell(0, 0)

    def _tell(self, n_done: int, n_failed: int) -> None:
        self._report(
            RunProgress(
                n_done=self.n_done + n_done,
                n_failed=self.n_failed + n_failed,
                n_total=self.n_total,
                elapsed_s=perf_counter() - self._started_s,
            )
        )


def _annotate(bar: Any, progress: RunProgress) -> None:  # noqa: ANN401 - tqdm is untyped
    rate = progress.n_done / max(progress.elapsed_s, 0.001)
    text = f"{rate:.1f} rows/s"
    if progress.n_failed:
        text += f", {progress.n_failed} failed"
    bar.set_postfix_str(text, refresh=False)
