"""Call that runs other calls one after another, such as blocks of texts."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.calls.journal.journal import Journal
from llamaherd.calls.run.job import Job
from llamaherd.engine.core.errors import GenerationError
from llamaherd.engine.core.keeping import kept_results
from llamaherd.engine.core.stats import Progress, Stats

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.hosted import HostedCall


class CallBlock(NamedTuple):
    """Prompts that one call of a sequence processes."""

    call: HostedCall[Any]
    n_prompts: int  # number of prompts that `CallSequence.expect` counted
    store: Callable[[Any], None]  # converts and stores the results


class CallSequence:
    """Base class of calls that run other calls one after another.

    `failure` is the reason why the sequence ended early. Without a given `journal`,
    `_opened_journal` opens one while the sequence runs.
    """

    def __init__(self, context: Host, journal: Journal | None = None) -> None:
        self.context = context
        self.failure: str | None = None
        self.journal = journal
        self._lock = Lock()  # guards the next three attributes, which determine progress
        self._running: HostedCall[Any] | None = None
        self._finished: list[Progress] = []
        self._n_left = 0  # prompts of calls that are not prepared yet
        self._stats: list[Stats] = []
        self._is_cancelled = False
        self._error: Exception | None = None  # error to raise at the end of the sequence
        self._problem = ""
        self._started_s = time.perf_counter()

    @property
    def problem(self) -> str:
        """Problem about which the caller is warned; see `Runnable`."""
        running = self._running
        return self._problem or ("" if running is None else running.problem)

    def warn(self, problem: str) -> None:
        """Record a problem about which the caller is warned; the first one counts."""
        self._problem = self._problem or problem

    @property
    def progress(self) -> Progress:
        """Progress of all calls, without the tokens of prompts not prepared yet."""
        with self._lock:
            running, n_left = self._running, self._n_left
            parts = [*self._finished, *([] if running is None else [running.progress])]
        n_total = sum(part.n_total for part in parts) + n_left
        return _sum_of_progress(parts, n_total, self._elapsed_s)

    def expect(self, n_prompts: int) -> None:
        """Set the number of prompts that are not prepared yet."""
        with self._lock:
            self._n_left = n_prompts

    def count(self, n: int) -> None:
        """Count n of the expected prompts as done without a call."""
        with self._lock:
            self._n_left -= n
            done = _sum_of_progress([], n_total=n, elapsed_s=0.0)
            self._finished.append(replace(done, n_done=n))

    @property
    def _elapsed_s(self) -> float:
        return time.perf_counter() - self._started_s

    def cancel(self) -> None:
        """End the sequence soon; callable from any thread."""
        self._is_cancelled = True
        running = self._running
        if running is not None:
            running.cancel()

    def fail(self, reason: str | None) -> None:
        """End the sequence early for a reason; the first one counts."""
        self.failure = self.failure or reason

    def raise_error(self) -> None:
        """Raise the error that ended a call, once its finished results are stored."""
        if self._error is not None:
            raise self._error

    @property
    def is_over(self) -> bool:
        """True if no further call should run."""
        return self._is_cancelled or self.failure is not None

    @contextmanager
    def _opened_journal(self, path: str | os.PathLike[str] | None) -> Iterator[None]:
        """Open a journal for the block, if a path is set and none is open yet."""
        if path is None or self.journal is not None:
            yield
            return
        with closing(Journal(path)) as self.journal:
            yield

    def run_blocks(self, blocks: Iterator[CallBlock]) -> None:
        """Run calls one after another; the next one is prepared while one runs.

        It starts when the running one has ended: if blocks overlapped, rounding errors in
        the results would depend on timing. Overlap would only fill the slots that are
        empty at the end of a block, which saves less than 1% of the time.
        """
        running: tuple[CallBlock, Job[Any]] | None = None
        while True:
            try:
                block = None if self.is_over else next(blocks, None)
            except BaseException:
                if running is not None:
                    running[1].cancel()
                    self._store(*running)
                raise
            if running is not None:
                self._store(*running)
            if block is None:
                return
            running = block, self.start(block.call, block.n_prompts)

    def _store(self, block: CallBlock, job: Job[Any]) -> None:
        """Wait for the running block and store its results."""
        results = self.results(job)
        try:
            block.store(results)
        except Exception:
            self.raise_error()  # its results were not converted
            raise

    def start(self, call: HostedCall[Any], n_prompts: int) -> Job[Any]:
        """Start the next call; `results` waits for it."""
        with self._lock:
            self._n_left -= n_prompts
            self._running = call
        job = Job(call)
        if self.is_over:
            job.cancel()
        return job

    def results(self, job: Job[Any]) -> Any:  # of calls of all kinds
        """Wait for the running call; after an error return its finished results."""
        try:
            results = job.outcome()
        except GenerationError as error:
            self.fail(str(error))
            results = error.results
        except Exception as error:
            results = kept_results(error)
            if results is None:
                raise
            self.fail(str(error) or type(error).__name__)
            self._error = error  # raised when the finished results are stored
        finally:
            with self._lock:
                call, self._running = self._running, None
                if call is not None:
                    self.warn(call.problem)
                    self._finished.append(call.progress)
        self._stats.append(results.stats)
        return results


def _sum_of_progress(
    parts: Sequence[Progress], n_total: int, elapsed_s: float
) -> Progress:
    return Progress(
        n_done=sum(part.n_done for part in parts),
        n_failed=sum(part.n_failed for part in parts),
        n_total=n_total,
        n_prompt_tokens=sum(part.n_prompt_tokens for part in parts),
        n_prompt_tokens_total=sum(part.n_prompt_tokens_total for part in parts),
        n_generated_tokens=sum(part.n_generated_tokens for part in parts),
        elapsed_s=elapsed_s,
    )
