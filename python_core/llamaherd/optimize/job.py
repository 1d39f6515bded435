"""`model_optimize` in a thread of its own, so that its caller stays free to act."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, NoReturn

from llamaherd.api.progress import reporting
from llamaherd.core import checks
from llamaherd.optimize.measure import Stop, Stopped
from llamaherd.run.threads import start_thread, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from llamaherd.optimize.report import OptimizeReport
    from llamaherd.run.threads import Worker

    # Is called with what stops it, and with a function to which it tells the name of each
    # step that it starts.
    Work = Callable[[Stop, Callable[[str], None]], OptimizeReport]
    # True: a progress bar; a function is called with each OptimizeProgress.
    ProgressOption = bool | Callable[["OptimizeProgress"], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeProgress:
    """How far it is.

    Attributes:
        n_done: Steps that are over.
        n_total: Steps in all.
        step: What is being done, such as "comparing Q8_0".
        elapsed_s: Seconds since it started.
    """

    n_done: int
    n_total: int
    step: str
    elapsed_s: float


class OptimizeJob:
    """`model_optimize` under way.

    Args:
        work: Does it.
        n_steps: How many steps there are.

    Raises:
        RuntimeError: The interpreter is ending, or no thread can be started.
    """

    def __init__(self, work: Work, n_steps: int) -> None:
        self._work = work
        self._n_steps = n_steps
        self._steps: list[str] = []
        self._start = monotonic()
        self._stop = Stop()
        self._is_done = Event()
        self._report: OptimizeReport | None = None
        self._error: BaseException | None = None
        self._worker: Worker | None = None
        self._worker = start_thread(self, self._run)

    @property
    def progress(self) -> OptimizeProgress:
        """How far it is."""
        n_started = len(self._steps)
        return OptimizeProgress(
            n_done=self._n_steps if self._report else max(0, n_started - 1),
            n_total=self._n_steps,
            step=self._steps[n_started - 1] if n_started else "",
            elapsed_s=monotonic() - self._start,
        )

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until it is over; Ctrl-C ends the wait, not the work.

        Args:
            timeout_s: Longest time to wait, in seconds; None: as long as it takes.

        Returns:
            Whether it is over.

        Raises:
            ForkError: This process was forked; the work runs in its parent.
        """
        return wait_for(self._is_done, timeout_s, self._worker)

    def cancel(self) -> None:
        """Ends it within a fraction of a second, but for a file that is being written."""
        self._stop.set()

    def result(self) -> OptimizeReport | None:
        """Waits for the end. None: it was cancelled, and has left nothing.

        Raises:
            QuantizeError: A file could not be made.
            ContextError: There is not enough memory.
        """
        self.wait()
        if self._error is not None:
            raise self._error
        if not self._is_done.is_set():
            raise MemoryError("the thread of model_optimize ended for want of memory")
        return self._report

    def __reduce__(self) -> NoReturn:
        checks.stays_here(self)

    def _run(self) -> None:
        try:
            self._report = self._work(self._stop, self._steps.append)
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        finally:
            self._is_done.set()


def reporter(
    option: ProgressOption,
) -> AbstractContextManager[Callable[[OptimizeProgress], object]]:
    """What to call with each `OptimizeProgress`, on the thread that made the call.

    Raises:
        TypeError: `option` is neither a bool nor callable.
    """
    return reporting(option, " steps", _show_step)


def _show_step(bar: Any, progress: OptimizeProgress) -> None:  # noqa: ANN401 - untyped
    bar.set_description(progress.step, refresh=False)
