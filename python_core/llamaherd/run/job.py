"""A call that runs in a thread of its own, so that its caller stays free to act."""

from __future__ import annotations

import os
import sys
import warnings
from threading import Event
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, TypeVar

from llamaherd.core import checks
from llamaherd.core.errors import JournalWarning
from llamaherd.run.threads import start_thread, wait_for

if TYPE_CHECKING:
    from llamaherd.core.stats import Progress
    from llamaherd.run.group import GroupLoop
    from llamaherd.run.host import Host
    from llamaherd.run.threads import Worker


_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)


class Runnable(Protocol[_R_co]):
    """A call, or one whose results are stored as they come."""

    @property
    def progress(self) -> Progress:
        """How far it is."""
        ...

    @property
    def problem(self) -> str:
        """After the run: what the caller must be warned of; "" if nothing."""
        ...

    def cancel(self) -> None:
        """Ends it soon; from any thread."""
        ...

    def run(self, loop: GroupLoop) -> _R_co:
        """Answers the prompts."""
        ...


class Job(Generic[_R]):
    """A call under way, in a thread that prepares it, waits and collects its results.

    Args:
        context: Where to run.
        call: What to run; its results are the job's.
        owner: Is kept alive: a Llama whose model the context uses, perhaps.

    Raises:
        RuntimeError: The interpreter is ending, or no thread can be started.
    """

    def __init__(self, context: Host, call: Runnable[_R], owner: object = None) -> None:
        self._owner = owner
        self._context = context
        self._call = call
        self._is_done = Event()
        self._results: _R | None = None
        self._error: BaseException | None = None
        self._worker: Worker | None = None
        self._worker = start_thread(self, self._run)

    @property
    def progress(self) -> Progress:
        """How far the call is."""
        return self._call.progress

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until the call is over; Ctrl-C ends the wait, not the call.

        Args:
            timeout_s: Longest time to wait, in seconds; None: as long as it takes.

        Returns:
            Whether the call is over.

        Raises:
            ForkError: This process was forked; the call runs in its parent.
        """
        return wait_for(self._is_done, timeout_s, self._worker)

    def cancel(self) -> None:
        """Ends the call within a fraction of a second; what is finished is kept."""
        self._call.cancel()

    def results(self) -> _R:
        """Waits for the call and returns its results.

        Raises:
            GenerationError: A prompt failed, and `on_error` is "stop".
            ContextClosedError: The context was closed.
            ContextError: There is not enough memory.
            JournalError: The journal is damaged.
            ForkError: This process was forked; the call runs in its parent.
        """
        self.wait()
        if self._call.problem:
            warnings.warn(f"journal: {self._call.problem}", JournalWarning, stacklevel=2)
        return self.outcome()

    def outcome(self) -> _R:
        """As `results`, but that the call's `problem` is the caller's business."""
        self.wait()
        self._settle()
        if self._error is not None:
            raise self._error
        if self._results is None:
            raise MemoryError("the call's thread ended for want of memory")
        return self._results

    def __reduce__(self) -> NoReturn:
        checks.stays_here(self)

    def _settle(self) -> None:
        """Leaves no thread behind that still ends: see `Loop.settle`."""
        if self._worker is not None:
            self._worker.join()
        self._context.loop.settle()

    def _run(self) -> None:
        try:
            self._results = self._call.run(self._context.loop)
            if os.environ.get("NEWRLLAMA_DEBUG", "0") not in ("", "0"):
                stats = getattr(self._results, "stats", self._results)
                sys.stderr.write(f"llamaherd: {stats}\n")
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        finally:
            self._is_done.set()
