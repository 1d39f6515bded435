"""Coding a column of texts, block by block, so that memory holds two blocks' prompts."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llamaherd.core.calibration import calibrate_batch, calibrate_contextual
from llamaherd.core.errors import GenerationError
from llamaherd.core.stats import Progress
from llamaherd.core.table import CANCELLED
from llamaherd.journal.journal import Journal
from llamaherd.model.dates import chat_date
from llamaherd.research.coding.answers import Answers, bound, of_rows, summed
from llamaherd.research.coding.asking import Asking
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.columns import as_results, table_of
from llamaherd.research.coding.notes import notes_of
from llamaherd.research.coding.record import record_of
from llamaherd.research.coding.texts import hash_of_texts, is_blank, unique_texts
from llamaherd.research.frames import with_columns
from llamaherd.run.job import Job

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.core.calibration import Calibration
    from llamaherd.core.stats import Stats
    from llamaherd.research.coding.work import Work
    from llamaherd.run.group import GroupLoop
    from llamaherd.run.host import Host
    from llamaherd.run.job import Runnable

# Prompts that are prepared together, in about a second, before the first of them runs.
# The next block is prepared while one runs, and starts when that has ended. In the same
# batches last bits would depend on the moment, and nothing would be won: slots that are
# empty at a block's end cost less than a hundredth of it.
BLOCK = 2048
BLANK = "the text is empty"
# Texts without content, as Zhao et al. 2021 take them (arXiv 2102.09690).
CONTENT_FREE = ("N/A", "[MASK]", "")


class _Block(NamedTuple):
    """Texts that are asked about in one call.

    Attributes:
        call: It is.
        n_parts: Parts of each text that it asks about.
    """

    call: Runnable[Any]
    n_parts: list[int]


class Coding:
    """Runs the blocks of a column of texts, as one call.

    Args:
        context: Where.
        work: What.

    Attributes:
        context: Where.
        problem: What the caller must be warned of; see `Runnable`.
    """

    def __init__(self, context: Host, work: Work) -> None:
        self.problem = ""
        self.context = context
        self._work = work
        self._asking = Asking(context, work)
        self._unique, self._rows = unique_texts(work.texts)
        self._lock = Lock()  # of the next three, which progress is made of
        self._running: _Block | None = None
        self._done: list[Progress] = []
        self._n_left = len(self._unique) * self._asking.n_a_text  # not yet prepared
        self._is_cancelled = False
        self._failure: str | None = None  # why the call must end
        self._stats: list[Stats] = []
        self._calibration: Calibration | None = None
        self._journal: Journal | None = None  # open while the call runs
        self._started_s = time.perf_counter()

    @property
    def progress(self) -> Progress:
        """How far it is. Of texts to come, what there is to read is not known yet."""
        with self._lock:
            block, n_left = self._running, self._n_left
            parts = [*self._done, *([] if block is None else [block.call.progress])]
        return Progress(
            n_done=sum(part.n_done for part in parts),
            n_failed=sum(part.n_failed for part in parts),
            n_total=sum(part.n_total for part in parts) + n_left,
            n_prompt_tokens=sum(part.n_prompt_tokens for part in parts),
            n_prompt_tokens_total=sum(part.n_prompt_tokens_total for part in parts),
            n_generated_tokens=sum(part.n_generated_tokens for part in parts),
            elapsed_s=time.perf_counter() - self._started_s,
        )

    def cancel(self) -> None:
        """Ends it soon; from any thread."""
        self._is_cancelled = True
        block = self._running
        if block is not None:
            block.call.cancel()

    def check(self) -> None:
        """Raises what is wrong with settings and labels, before anything runs."""
        self._asking.check()

    def run(self, loop: GroupLoop) -> Coded:  # noqa: ARG002 - it is the context's
        """Codes the texts.

        Raises:
            GenerationError: A text failed, and `on_error` is "stop".
            ContextClosedError: The context was closed.
            ContextError: There is not enough memory.
            JournalError: The journal is damaged.
        """
        with chat_date(self._work.settings.date):
            return self._coded()

    def _coded(self) -> Coded:
        self._started_s = time.perf_counter()
        record = self._record()
        settings = self._work.settings
        with self._opened_journal():
            if settings.calibrate == "contextual" and self._unique:
                results = self._results(self._started(self._prepared(CONTENT_FREE)))
                if self._failure is not None:
                    raise GenerationError(self._failure, self.nothing())
                self._calibration = calibrate_contextual(results)
            parts = self._run_blocks()
        coded = self.collected(parts, record)
        if self._failure is not None and settings.on_error == "stop":
            row = next(i for i, e in enumerate(coded.errors) if _is_failure(e))
            raise GenerationError(f"row {row} failed: {coded.errors[row]}", coded)
        return coded

    def collected(self, parts: Sequence[Answers], record: dict[str, Any]) -> Coded:
        """What has been found, in place; the rest counts as cancelled."""
        work = self._work
        answers = of_rows(self._filled(parts), self._rows)
        errors = [
            BLANK if is_blank(text) else error
            for text, error in zip(work.texts, answers.errors, strict=True)
        ]
        answers = replace(answers, errors=errors)
        if work.settings.calibrate == "batch" and answers.probs is not None:
            found = as_results(answers.probs, work.codebook.names)
            if any(label is not None for label in found.labels):
                self._calibration = calibrate_batch(found)
        table = table_of(answers, work.codebook, self._calibration)
        new = {name: table.columns[role] for role, name in work.columns.items()}
        wall_s = time.perf_counter() - self._started_s
        stats = replace(summed(self._stats), wall_s=wall_s)
        record["n_rows"] = len(work.texts)
        record["n_texts"] = len(self._unique)
        record["texts_sha256"] = hash_of_texts(work.texts)
        record["calibration"] = (
            None if self._calibration is None else self._calibration.to_json()
        )
        record["seconds"] = round(wall_s, 3)
        record["n_prompts"], record["n_journal"] = stats.n_prompts, stats.n_journal
        how = work.settings.to_dict()
        record["notes"] = notes_of(table.labels, answers.coverage, work.codebook, how)
        return Coded(
            frame=with_columns(work.frame, new),
            text=work.text,
            codebook=work.codebook,
            columns=dict(work.columns),
            names=work.codebook.names,
            labels=table.labels,
            probs=table.probs,
            errors=answers.errors,
            run=record,
            stats=stats,
        )

    def nothing(self) -> Coded:
        """What there is before anything has run."""
        with chat_date(self._work.settings.date):
            return self.collected([], self._record())

    # ---- inside ----

    def _record(self) -> dict[str, Any]:
        work = self._work
        return record_of(
            self.context,
            work.codebook,
            self._asking.around,
            work.settings.to_dict(),
            work.versions,
        )

    @contextmanager
    def _opened_journal(self) -> Iterator[None]:
        """Has the calls' results stored, if there is a journal and anything to ask."""
        path = self._work.settings.journal
        if path is None or not self._unique:
            yield
            return
        with closing(Journal(path)) as self._journal:
            yield

    def _run_blocks(self) -> list[Answers]:
        """Answers of texts, as far as it comes."""
        parts: list[Answers] = []
        size = max(1, BLOCK // self._asking.n_a_text)
        job: Job[Any] | None = None
        for start in range(0, len(self._unique), size):
            if self._is_cancelled or self._failure is not None:
                break
            try:
                block = self._prepared(self._unique[start : start + size])
            except BaseException:
                if job is not None:
                    job.cancel()
                    job.wait()  # it stores what it has
                raise
            if job is not None:
                parts.append(self._answers(job))
            job = self._started(block)
        if job is not None:
            parts.append(self._answers(job))
        return parts

    def _prepared(self, texts: Sequence[str]) -> _Block:
        """A block of texts."""
        cut = [self._asking.parts(text) for text in texts]
        call = self._asking.call([part for parts in cut for part in parts], self._journal)
        return _Block(call, [len(parts) for parts in cut])

    def _started(self, block: _Block) -> Job[Any]:
        """Has a block run."""
        with self._lock:
            self._n_left -= len(block.n_parts) * self._asking.n_a_text
            self._running = block
        job = Job(self.context, block.call)
        if self._is_cancelled or self._failure is not None:
            job.cancel()
        return job

    def _answers(self, job: Job[Any]) -> Answers:
        """Those of the block that runs, at its end."""
        n_parts = [] if self._running is None else self._running.n_parts
        answers = self._asking.answers(self._results(job), n_parts)
        if self._work.settings.on_error == "return" and self._failure is None:
            self._failure = next(filter(_is_failure, answers.errors), None)
        return answers

    def _results(self, job: Job[Any]) -> Any:  # noqa: ANN401 - of calls of both kinds
        """Those of the block that runs, at its end."""
        try:
            results = job.outcome()
        except GenerationError as error:
            self._failure = self._failure or str(error)
            results = error.results
        finally:
            with self._lock:
                if self._running is not None:
                    self.problem = self.problem or self._running.call.problem
                    self._done.append(self._running.call.progress)
                self._running = None
        self._stats.append(results.stats)
        return results

    def _filled(self, parts: Sequence[Answers]) -> Answers:
        """Answers of all unique texts: those that have none were cancelled."""
        n, k = len(self._unique), len(self._work.codebook.names)
        n_missing = n - sum(map(len, parts))
        return bound([*parts, _none(n_missing, k, self._work.settings.method)])


def _none(n: int, k: int, method: str) -> Answers:
    if method == "generate":
        return Answers(errors=[CANCELLED] * n, values=[None] * n)
    return Answers(
        errors=[CANCELLED] * n,
        probs=np.full((n, k), np.nan),
        coverage=np.full(n, np.nan),
    )


def _is_failure(error: str | None) -> bool:
    return error not in (None, CANCELLED, BLANK)
