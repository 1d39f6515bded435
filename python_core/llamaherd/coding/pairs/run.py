"""A call that compares pairs of texts, round by round."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.calls.api.classify import prepare_classify
from llamaherd.calls.journal.journal import Journal
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.calls.run.job import Job
from llamaherd.coding.pairs.comparison import comparison_of
from llamaherd.coding.pairs.design import ComparedPair, PairDesign
from llamaherd.engine.core.keeping import keep, keep_made, kept
from llamaherd.engine.core.stats import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.calls.asks.options import ClassifyOptions
    from llamaherd.calls.asks.scores import ClassifyResults
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.hosted import LoopCall
    from llamaherd.coding.pairs.bradley_terry import Pair
    from llamaherd.coding.pairs.comparison import PairComparison
    from llamaherd.coding.pairs.question import PairWork
    from llamaherd.engine.loop.group import GroupLoop

_LEAST = -700.0  # lower bound of log-probabilities, so that log-odds are finite


class PairRun:
    """Comparison of texts in rounds of pairs, run as one call.

    Args:
        context: Context that runs the prompts.
        work: Texts, question and design.
        options: Options of the classification in each round.

    Attributes:
        context: Context that runs the prompts.
    """

    def __init__(self, context: Host, work: PairWork, options: ClassifyOptions) -> None:
        self.context = context
        self._problem = ""
        self._work = work
        self._options = options
        self._design = PairDesign(len(work.texts), work.n_pairs, work.design, work.seed)
        self._lock = Lock()  # guards the next two attributes, which determine progress
        self._running: LoopCall[ClassifyResults] | None = None
        self._done: list[Progress] = []
        self._is_cancelled = False
        self._error: Exception | None = None
        self._notes: dict[str, None] = {}
        self._journal: Journal | None = None
        self._started_s = time.perf_counter()

    @property
    def progress(self) -> Progress:
        """Numbers of prompts; each pair has two prompts."""
        with self._lock:
            parts = [
                *self._done,
                *([] if self._running is None else [self._running.progress]),
            ]
        return Progress(
            n_done=sum(part.n_done for part in parts),
            n_failed=sum(part.n_failed for part in parts),
            n_total=2 * self._work.n_pairs,
            n_prompt_tokens=sum(part.n_prompt_tokens for part in parts),
            n_prompt_tokens_total=sum(part.n_prompt_tokens_total for part in parts),
            n_generated_tokens=sum(part.n_generated_tokens for part in parts),
            elapsed_s=time.perf_counter() - self._started_s,
        )

    def cancel(self) -> None:
        """Stop the comparison soon; any thread may call this."""
        self._is_cancelled = True
        running = self._running
        if running is not None:
            running.cancel()

    def check(self) -> None:
        """Raise an error for invalid settings or labels, before any prompt runs."""
        self._call([])

    def run(self, loop: GroupLoop) -> PairComparison:  # noqa: ARG002 - it is the context's
        """Compare the pairs of all rounds."""
        self._started_s = time.perf_counter()
        try:
            self._run_rounds()
            return self.result()
        except Exception as error:
            if self._design.results:
                raw = tuple(self._design.results)
                keep(error, raw, converted=True)  # if no result can be made
                keep_made(error, self.result)
            raise

    def _run_rounds(self) -> None:
        with self._opened_journal():
            while not self._is_cancelled and (pairs := self._design.next()):
                self._design.take(self._compared(pairs))
                if self._error is not None:
                    raise self._error

    def result(self) -> PairComparison:
        """Return the result of all rounds so far."""
        return comparison_of(self._work, self._design, list(self._notes))

    # ---- private ----

    @contextmanager
    def _opened_journal(self) -> Iterator[None]:
        path = self._options.journal
        if path is None:
            yield
            return
        with closing(Journal(path)) as self._journal:
            yield

    @property
    def problem(self) -> str:
        """Problem about which the caller is warned; see `LoopCall`."""
        running = self._running
        return self._problem or ("" if running is None else running.problem)

    def _call(self, pairs: Sequence[Pair]) -> LoopCall[ClassifyResults]:
        texts, question = self._work.texts, self._work.question
        orders = [order for i, j in pairs for order in ((i, j), (j, i))]
        prompts = [question.prompt(texts[i], texts[j]) for i, j in orders]
        options = replace(self._options, journal=None)
        return prepare_classify(
            self.context, prompts, options, journal=self._journal
        ).call

    def _compared(self, pairs: Sequence[Pair]) -> list[ComparedPair]:
        """Score both orders of each pair; pairs that were cancelled are left out."""
        call = self._call(pairs)
        with self._lock:
            self._running = call
        job = Job(HostedCall(self.context, call))
        if self._is_cancelled:
            job.cancel()
        try:
            results: ClassifyResults = job.outcome()
        except Exception as error:
            results = kept(error)
            if results is None:
                raise
            self._error = error  # raised when the finished pairs are stored
        finally:
            with self._lock:
                self._problem = self._problem or call.problem
                self._done.append(call.progress)
                self._running = None
        if not self._notes:
            self._notes.update(dict.fromkeys(results.notes))
        found = (
            _pair(pair, self._design.round, results, k) for k, pair in enumerate(pairs)
        )
        return [each for each in found if each is not None]


def _pair(
    pair: Pair, number: int, results: ClassifyResults, k: int
) -> ComparedPair | None:
    """Return the result of pair k; None if the pair was cancelled."""
    at = slice(2 * k, 2 * k + 2)
    if "cancelled" in results.finish_reasons[at]:
        return None
    failed = next((each for each in results.errors[at] if each is not None), None)
    logs = np.maximum(results.logprobs[at], _LEAST)
    odds = logs[:, 0] - logs[:, 1]
    return ComparedPair(
        first=pair[0],
        second=pair[1],
        round=number,
        forward=float("nan") if failed else float(odds[0]),
        backward=float("nan") if failed else float(-odds[1]),
        coverage=float("nan") if failed else float(results.coverage[at].mean()),
        error=failed,
    )
