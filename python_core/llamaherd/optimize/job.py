"""`model_optimize` as the work of a job."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from llamaherd.calls.run.job import Job
from llamaherd.engine.core.progress import JobProgress
from llamaherd.optimize.measure import Stop, Stopped
from llamaherd.optimize.report import OptimizeReport

if TYPE_CHECKING:
    from collections.abc import Callable

    # Function called with a `Stop` that may end the search, and with a function that
    # must be called with the name of each step when the step begins.
    Search = Callable[[Stop, Callable[[str], None]], OptimizeReport]
    # True shows a progress bar; a function is called with each OptimizeProgress.
    ProgressOption = bool | Callable[["OptimizeProgress"], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeProgress(JobProgress):
    """Progress of `model_optimize`.

    Attributes:
        n_done: Number of finished steps.
        n_total: Total number of steps.
        step: Current step, such as "comparing Q8_0".
        elapsed_s: Seconds since the start.
    """

    n_done: int
    n_total: int
    step: str
    elapsed_s: float

    unit: ClassVar[str] = "steps"

    @property
    def line(self) -> str:
        """Return the current step."""
        return self.step


class OptimizeWork:
    """Search for the fastest type, as the work of an `OptimizeJob`.

    Args:
        search: Function that writes and measures the files.
        n_steps: Number of steps.
    """

    problem = ""

    def __init__(self, search: Search, n_steps: int) -> None:
        self._search = search
        self._n_steps = n_steps
        self._steps: list[str] = []
        self._start = monotonic()
        self._stop = Stop()
        self._is_complete = False

    @property
    def progress(self) -> OptimizeProgress:
        """Number of finished steps, and the current one."""
        n_started = len(self._steps)
        return OptimizeProgress(
            n_done=self._n_steps if self._is_complete else max(0, n_started - 1),
            n_total=self._n_steps,
            step=self._steps[n_started - 1] if n_started else "",
            elapsed_s=monotonic() - self._start,
        )

    def cancel(self) -> None:
        """End the search in a fraction of a second, or after the current file."""
        self._stop.set()

    def run(self) -> OptimizeReport | None:
        """Run the search. A cancelled search leaves no file and returns None.

        Raises:
            QuantizeError: A file could not be created.
            ContextError: Memory is insufficient.
        """
        try:
            report = self._search(self._stop, self._steps.append)
        except Stopped:
            return None
        self._is_complete = True
        return report


class OptimizeJob(Job[OptimizeReport | None]):
    """The `Job` of `start_optimize`; its result is an `OptimizeReport`.

    A cancelled job leaves no file, and its result is None.
    """
