"""Coding of a column of texts in blocks, with at most two blocks of prompts in memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from llamaherd.calls.asks.calibration import calibrate_batch, calibrate_contextual
from llamaherd.calls.chat.chat import chat_date
from llamaherd.calls.journal.journal import Journal
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.calls.run.job import Job
from llamaherd.coding.annotation.answers import (
    Answers,
    Quotes,
    answers_of_rows,
    best_parts,
    join_blocks,
    sum_of_stats,
)
from llamaherd.coding.annotation.asking import Asking
from llamaherd.coding.annotation.columns import as_results, coded_frame, table_of
from llamaherd.coding.annotation.record import notes_of, record_of, thinking_record
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.annotation.texts import hash_of_texts, is_blank, unique_texts
from llamaherd.coding.frames import with_columns
from llamaherd.engine.core.errors import CANCELLED, Failure, GenerationError, code_of
from llamaherd.engine.core.keeping import keep, keep_made, kept
from llamaherd.engine.core.stats import Progress
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from llamaherd.calls.asks.calibration import Calibration
    from llamaherd.calls.asks.thoughts import Thought
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.hosted import LoopCall
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.annotation.columns import CodedColumns
    from llamaherd.coding.annotation.settings import CodingWork, Settings
    from llamaherd.engine.core.stats import Stats
    from llamaherd.engine.loop.threaded import ThreadedLoop

# Number of prompts in a block; preparing them takes about a second. The next block is
# prepared while a block runs, and starts when the running block has ended. If blocks
# overlapped, rounding errors in the results would depend on timing. Overlap would only
# fill the slots that are empty at the end of a block, which saves less than 1% of the
# time.
BLOCK = 2048
BLANK = Failure("the text is empty", "empty")
# Content-free texts, from Zhao et al. 2021 (arXiv 2102.09690).
CONTENT_FREE = ("N/A", "[MASK]", "")


class _Block(NamedTuple):
    """Block of texts that one call processes.

    Attributes:
        call: The call.
        n_parts: Number of parts of each text.
        offsets: Position of each part in its text.
    """

    call: LoopCall[Any]
    n_parts: list[int]
    offsets: list[int]


class Coding:
    """Coding of a column of texts, block by block, as one call.

    Args:
        work: Texts to code, with codebook and settings.
        journal: Open journal, used instead of the journal that `work` names.
        calibration: Calibration of an earlier coding of the same kind; None to fit one.

    Attributes:
        context: Context to run in.
        answers: Answers by row before calibration, once the call has run.
        calibration: Calibration of the probabilities; None without calibration.
    """

    def __init__(
        self,
        context: Host,
        work: CodingWork,
        journal: Journal | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self._problem = ""
        self.context = context
        self._work = work
        self._asking = Asking(context, work)
        self._unique, self._rows = unique_texts(work.texts)
        self._lock = Lock()  # guards the next three attributes, which determine progress
        self._running: _Block | None = None
        self._done: list[Progress] = []
        n_quotes = int(work.settings.evidence is not None)
        self._n_left = len(self._unique) * (
            self._asking.n_a_text + n_quotes
        )  # prompts not yet prepared
        self._is_cancelled = False
        self._failure: str | None = None  # reason to end the call
        self._error: Exception | None = None  # error to raise at the end of the call
        self._quotes: Quotes | None = None
        self._stats: list[Stats] = []
        self.answers = Answers(errors=[])
        self.calibration = calibration
        self._is_calibrated = calibration is not None
        self._journal = journal  # open only while the call runs
        self._started_s = time.perf_counter()

    @property
    def progress(self) -> Progress:
        """Return the progress, without the tokens of texts that are not prepared yet."""
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

    @property
    def failure(self) -> str | None:
        """Reason why the coding ended early; None if it was not ended early."""
        return self._failure

    def cancel(self) -> None:
        """End the coding soon; callable from any thread."""
        self._is_cancelled = True
        block = self._running
        if block is not None:
            block.call.cancel()

    def check(self) -> None:
        """Raise an error for settings, labels or a data frame that cannot be used."""
        self._asking.check()
        if not isinstance(self._work.frame, Mapping):
            table = self._judged([])[1]
            columns = self._work.columns
            new = {name: table.columns[role] for role, name in columns.items()}
            with_columns(self._work.frame, new)

    def run(self, loop: ThreadedLoop) -> Coded:  # noqa: ARG002 - it is the context's
        """Code the texts."""
        with chat_date(self._work.settings.date):
            return self._coded()

    def _coded(self) -> Coded:
        self._started_s = time.perf_counter()
        record = self._record()
        settings = self._work.settings
        parts: list[Answers] = []
        try:
            self._run_all(parts)
            coded = self.collected(parts, record, self._quotes)
        except Exception as error:
            if parts:
                keep(error, tuple(parts), converted=True)  # if no result can be made
                keep_made(error, lambda: self.collected(parts, record, self._quotes))
            raise
        if self._failure is not None and settings.on_error == "stop":
            row = next(i for i, e in enumerate(coded.errors) if is_failure(e))
            raise GenerationError(f"row {row} failed: {coded.errors[row]}", coded)
        return coded

    def _run_all(self, parts: list[Answers]) -> None:
        """Fit the calibration, run the blocks and let the model quote."""
        with self._opened_journal():
            is_asked = self._work.settings.calibrate == "contextual"
            if is_asked and not self._is_calibrated and self._unique:
                results = self._results(self._started(self._prepared(CONTENT_FREE)))
                if self._error is not None:
                    raise self._error
                if self._failure is not None:
                    raise GenerationError(self._failure, self.nothing())
                self.calibration = calibrate_contextual(results)
            self._run_blocks(parts)
            self._run_quotes(parts)
        if self._error is not None:
            raise self._error

    def collected(
        self,
        parts: Sequence[Answers],
        record: dict[str, Any],
        quotes: Quotes | None = None,
    ) -> Coded:
        """Return the results so far in order, with unfinished texts as cancelled."""
        work = self._work
        answers, table = self._judged(parts, quotes)
        self.answers = answers
        new = {name: table.columns[role] for role, name in work.columns.items()}
        wall_s = time.perf_counter() - self._started_s
        stats = replace(sum_of_stats(self._stats), wall_s=wall_s)
        record["n_rows"] = len(work.texts)
        record["n_texts"] = len(self._unique)
        record["texts_sha256"] = hash_of_texts(work.texts)
        record["calibration"] = (
            None if self.calibration is None else self.calibration.to_json()
        )
        record["seconds"] = round(wall_s, 3)
        record["n_prompts"], record["n_journal"] = stats.n_prompts, stats.n_journal
        record["n_computed_tokens"] = stats.n_prefill_tokens + stats.n_decode_tokens
        if work.settings.thinks:
            record["thinking"] = thinking_record(work.settings, stats)
        how = work.settings.to_dict()
        record["notes"] = notes_of(
            table.labels,
            answers.coverage,
            work.codebook,
            how,
            "" if work.settings.thinks else record["prompts"]["empty"],
            answers.probs,
        )
        if quotes is not None and quotes.note:
            record["notes"].append(quotes.note)
        return coded_frame(
            work,
            new,
            names=() if work.codebook.kind.is_generated else work.codebook.names,
            labels=table.labels,
            probs=table.probs,
            errors=table.errors,
            run=record,
            stats=stats,
        )

    def nothing(self) -> Coded:
        """Return the result before any call has run."""
        with chat_date(self._work.settings.date):
            return self.collected([], self._record())

    # ---- private ----

    def _judged(
        self, parts: Sequence[Answers], quotes: Quotes | None = None
    ) -> tuple[Answers, CodedColumns]:
        """Return the answers so far by row, and the columns made from them."""
        work = self._work
        found = self._filled(parts)
        if work.settings.evidence is not None:
            n = len(self._unique)
            found.quotes = [None] * n if quotes is None else quotes.each
        answers = answers_of_rows(found, self._rows)
        errors = [
            BLANK
            if is_blank(text)
            else _with_advice(
                error, work.settings, has_passages=work.codebook.type == SPANS
            )
            for text, error in zip(work.texts, answers.errors, strict=True)
        ]
        answers = replace(answers, errors=errors)
        is_fitted = work.settings.calibrate == "batch" and not self._is_calibrated
        if is_fitted and answers.probs is not None:
            scored = as_results(answers.probs, work.codebook.names)
            if any(label is not None for label in scored.labels):
                self.calibration = calibrate_batch(scored)
        return answers, table_of(answers, work.codebook, self.calibration)

    def _run_quotes(self, parts: Sequence[Answers]) -> None:
        """Let the model quote support for its labels, with `evidence`."""
        if self._work.settings.evidence is None:
            return
        labels: list[str | None] = [None] * len(self._unique)
        for row, label in zip(
            self._rows.tolist(), self._judged(parts)[1].labels, strict=True
        ):
            if row >= 0:
                labels[row] = label
        found = self._quotes = Quotes(labels)
        with self._lock:
            self._n_left = len(found.labelled)
        names = self._work.codebook.names
        best = best_parts(parts, len(labels), len(names))

        def part_of(i: int, label: str) -> tuple[str, int]:
            return self._asking.coded_part(
                self._unique[i], int(best[i, names.index(label)])
            )

        for start in range(0, len(found.labelled), BLOCK):
            if self._is_cancelled or self._failure is not None:
                break
            block = found.block(start, BLOCK, part_of)
            texts, of_texts = [one.text for one in block], [one.label for one in block]
            call = self._asking.quoting(texts, of_texts, self._journal)
            made = _Block(call, [1] * len(block), [0] * len(block))
            job = self._started(made, len(block))
            found.take(block, self._results(job))
        with self._lock:
            self._n_left = 0

    def _record(self) -> dict[str, Any]:
        work = self._work
        return record_of(
            self.context,
            work.codebook,
            self._asking.around,
            work.settings,
            work.versions,
        )

    @contextmanager
    def _opened_journal(self) -> Iterator[None]:
        """Open the journal, if a journal is set and some texts are not computed yet."""
        path = self._work.settings.journal
        if self._journal is not None or path is None or not self._unique:
            yield
            return
        with closing(Journal(path)) as self._journal:
            yield

    def _run_blocks(self, parts: list[Answers]) -> None:
        """Run the blocks and append the answers obtained to `parts`."""
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
                    parts.append(self._answers(job))
                raise
            if job is not None:
                parts.append(self._answers(job))
            job = self._started(block)
        if job is not None:
            parts.append(self._answers(job))

    def _prepared(self, texts: Sequence[str]) -> _Block:
        """Prepare a block of texts."""
        cut = [self._asking.parts(text) for text in texts]
        call = self._asking.call([part for parts in cut for part in parts], self._journal)
        offsets = [
            offset
            for text, parts in zip(texts, cut, strict=True)
            for offset in self._asking.offsets(text, parts)
        ]
        return _Block(call, [len(parts) for parts in cut], offsets)

    @property
    def problem(self) -> str:
        """Problem about which the caller is warned; see `LoopCall`."""
        running = self._running
        return self._problem or ("" if running is None else running.call.problem)

    def _started(self, block: _Block, n_prompts: int | None = None) -> Job[Any]:
        """Start the call of a block of texts."""
        if n_prompts is None:
            n_prompts = len(block.n_parts) * self._asking.n_a_text
        with self._lock:
            self._n_left -= n_prompts
            self._running = block
        job = Job(HostedCall(self.context, block.call))
        if self._is_cancelled or self._failure is not None:
            job.cancel()
        return job

    def _answers(self, job: Job[Any]) -> Answers:
        """Wait for the running block and return its results."""
        block = self._running
        n_parts, offsets = ([], []) if block is None else (block.n_parts, block.offsets)
        results = self._results(job)
        try:
            answers = self._asking.answers(results, n_parts, offsets)
        except Exception:
            if self._error is not None:  # its results were not converted
                raise self._error from None
            raise
        if self._work.settings.on_error == "return" and self._failure is None:
            self._failure = next(filter(is_failure, answers.errors), None)
        return answers

    def _results(self, job: Job[Any]) -> Any:  # noqa: ANN401 - of calls of both kinds
        """Wait for the running block and return its results."""
        try:
            results = job.outcome()
        except GenerationError as error:
            self._failure = self._failure or str(error)
            results = error.results
        except Exception as error:
            results = kept(error)
            if results is None:
                raise
            self._failure = self._failure or str(error)
            self._error = error  # raised when the finished results are collected
        finally:
            with self._lock:
                if self._running is not None:
                    self._problem = self._problem or self._running.call.problem
                    self._done.append(self._running.call.progress)
                self._running = None
        self._stats.append(results.stats)
        return results

    def _filled(self, parts: Sequence[Answers]) -> Answers:
        """Return answers for all unique texts, with unfinished texts as cancelled."""
        n, k = len(self._unique), len(self._work.codebook.names)
        n_missing = n - sum(map(len, parts))
        return join_blocks([*parts, _none(n_missing, k, self._work.settings)])


def _none(n: int, k: int, settings: Settings) -> Answers:
    thoughts: list[Thought | None] | None = [None] * n if settings.thinks else None
    if settings.method == "generate":
        return Answers(errors=[CANCELLED] * n, values=[None] * n, thoughts=thoughts)
    return Answers(
        errors=[CANCELLED] * n,
        probs=np.full((n, k), np.nan),
        coverage=np.full(n, np.nan),
        between=np.full((n, k), np.nan) if settings.n_thoughts > 1 else None,
        thoughts=thoughts,
    )


def is_failure(error: str | None) -> bool:
    """Return True if the error shows a failure, not a cancelled or blank text."""
    return code_of(error) not in (None, CANCELLED.code, BLANK.code)


def _with_advice(
    error: str | None, settings: Settings, *, has_passages: bool
) -> str | None:
    """Return the error of a text; one of a text that is too long names `split`."""
    if error is None or settings.split is not None or code_of(error) != "too_long":
        return error
    way = "mean" if settings.method == "classify" else "all" if has_passages else "first"
    advice = f"or code the text in parts, by {setting('split', way)}"
    return Failure(f"{error}; {advice}", "too_long")
