"""Coding of a column of texts in blocks, with at most two blocks of prompts in memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.calls.asks.calibration import calibrate_batch, calibrate_contextual
from llamaherd.calls.chat.chat import chat_date
from llamaherd.calls.structured.quotable import Quoted, shifted
from llamaherd.coding.annotation.answers import (
    BLANK,
    Answers,
    answers_of_rows,
    best_parts,
    join_blocks,
    no_answers,
    sum_of_stats,
)
from llamaherd.coding.annotation.asking import Asking
from llamaherd.coding.annotation.call_sequence import CallSequence
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.columns import as_results, table_of
from llamaherd.coding.annotation.record import notes_of, record_of, thinking_record
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.annotation.texts import hash_of_texts, unique_texts
from llamaherd.coding.frames import with_columns
from llamaherd.coding.sentences import Notes
from llamaherd.engine.core.errors import (
    CANCELLED,
    Failure,
    GenerationError,
    code_of,
    is_cancelled,
)
from llamaherd.engine.core.keeping import keep, keep_made
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.asks.calibration import Calibration, Floats
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.hosted import LoopCall
    from llamaherd.calls.run.job import Job
    from llamaherd.coding.annotation.columns import CodedColumns
    from llamaherd.coding.annotation.settings import CodingWork, Settings
    from llamaherd.engine.core.stats import Stats
    from llamaherd.engine.loop.threaded import ThreadedLoop

note = Notes("llamaherd.coding.annotation")
# Number of prompts in a block; preparing them takes about a second. The next block is
# prepared while a block runs, and starts when the running block has ended. If blocks
# overlapped, rounding errors in the results would depend on timing. Overlap would only
# fill the slots that are empty at the end of a block, which saves less than 1% of the
# time.
BLOCK = 2048
# Content-free texts, from Zhao et al. 2021 (arXiv 2102.09690).
CONTENT_FREE = ("N/A", "[MASK]", "")


class _Block(NamedTuple):
    """Block of texts that one call processes."""

    call: LoopCall[Any]
    n_parts: list[int]
    offsets: list[int]


class Coding(CallSequence):
    """Coding of a column of texts, block by block, as one call.

    Args:
        context: Context to run in.
        work: Texts to code, with codebook and settings.
        journal: Open journal, used instead of the journal that `work` names.
        calibration: Calibration of an earlier coding of the same kind; None to fit one.

    Attributes:
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
        super().__init__(context, journal)
        self._work = work
        self._asking = Asking(context, work)
        self._unique, self._rows = unique_texts(work.texts)
        n_quotes = int(work.settings.evidence is not None)
        self._n_left = len(self._unique) * (self._asking.n_a_text + n_quotes)
        self._quotes: list[Quoted | None] = [None] * len(self._unique)
        self._unquoted: list[str] = []  # reasons why labels have no quote
        self.answers = Answers(errors=[])
        self.calibration = calibration
        self._is_calibrated = calibration is not None

    def check(self) -> None:
        """Raise an error for settings, labels or a data frame that cannot be used."""
        self._asking.check()
        if not isinstance(self._work.frame, Mapping):
            table = self._judged([])[1]
            with_columns(self._work.frame, _named(table, self._work))

    def run(self, loop: ThreadedLoop) -> Coded:  # noqa: ARG002 - it is the context's
        """Code the texts."""
        self._started_s = time.perf_counter()
        parts: list[Answers] = []
        with chat_date(self._work.settings.date):
            record = self._record()
            try:
                self._run_all(parts)
                coded = self._collected(parts, record)
            except Exception as error:
                if parts:
                    keep(error, tuple(parts), converted=True)  # if no result can be made
                    keep_made(error, lambda: self._collected(parts, record))
                raise
        if self.failure is not None and self._work.settings.on_error == "stop":
            row = next(i for i, e in enumerate(coded.errors) if is_failure(e))
            raise GenerationError(f"row {row} failed: {coded.errors[row]}", coded)
        return coded

    def nothing(self) -> Coded:
        """Return the result before any call has run."""
        with chat_date(self._work.settings.date):
            return self._collected([], self._record())

    # ---- private ----

    def _run_all(self, parts: list[Answers]) -> None:
        """Fit the calibration, run the blocks and let the model quote."""
        settings = self._work.settings
        with self._opened_journal(settings.journal if self._unique else None):
            is_asked = settings.calibrate == "contextual" and not self._is_calibrated
            if is_asked and self._unique:
                results = self._results(self._started(self._prepared(CONTENT_FREE)))
                if self._error is not None:
                    raise self._error
                if self.failure is not None:
                    raise GenerationError(self.failure, self.nothing())
                self.calibration = calibrate_contextual(results)
            self._run_blocks(parts)
            self._run_quotes(parts)
        if self._error is not None:
            raise self._error

    def _collected(self, parts: Sequence[Answers], record: dict[str, Any]) -> Coded:
        """Return the results so far in order, with unfinished texts as cancelled."""
        self.answers, table = self._judged(parts)
        calibration = self.calibration
        record["calibration"] = None if calibration is None else calibration.to_json()
        return coded_of(
            self._work,
            record,
            (self.answers, table),
            n_texts=len(self._unique),
            stats=replace(sum_of_stats(self._stats), wall_s=self._elapsed_s),
            raw=self.answers.probs,
            unquoted=self._unquoted,
        )

    def _judged(self, parts: Sequence[Answers]) -> tuple[Answers, CodedColumns]:
        """Return the answers so far by row, and the columns made from them."""
        work, n = self._work, len(self._unique)
        n_missing = n - sum(map(len, parts))
        missing = no_answers(n_missing, len(work.codebook.names), work.settings)
        answers = join_blocks([*parts, missing])
        if work.settings.evidence is not None:
            answers.quotes = list(self._quotes)
        answers.errors = [
            _with_advice(error, work.settings, has_passages=work.codebook.type == SPANS)
            for error in answers.errors
        ]
        answers = answers_of_rows(answers, self._rows, work.texts)
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
        rows_with_labels = zip(
            self._rows.tolist(), self._judged(parts)[1].labels, strict=True
        )
        for row, label in rows_with_labels:
            if row >= 0:
                labels[row] = label
        labelled = [(i, label) for i, label in enumerate(labels) if label is not None]
        with self._lock:
            self._n_left = len(labelled)
        names = self._work.codebook.names
        best = best_parts(parts, len(labels), len(names))
        for start in range(0, len(labelled), BLOCK):
            if self._is_over:
                break
            block = labelled[start : start + BLOCK]
            pieces = [
                self._asking.coded_part(self._unique[i], int(best[i, names.index(label)]))
                for i, label in block
            ]
            call = self._asking.quoting(
                [text for text, _ in pieces], [label for _, label in block], self._journal
            )
            results = self._results(self._start(call, len(block)))
            for (i, _), (_, offset), result in zip(block, pieces, results, strict=True):
                if isinstance(result.parsed, Quoted):
                    self._quotes[i] = shifted(result.parsed, offset)
                elif result.error is not None and not is_cancelled(result.error):
                    self._unquoted.append(result.error)
        with self._lock:
            self._n_left = 0

    def _record(self) -> dict[str, Any]:
        work = self._work
        return record_of(
            self.context, work.codebook, self._asking.around, work.settings, work.versions
        )

    def _run_blocks(self, parts: list[Answers]) -> None:
        """Run the blocks and append the answers obtained to `parts`."""
        size = max(1, BLOCK // self._asking.n_a_text)
        running: tuple[_Block, Job[Any]] | None = None
        for start in range(0, len(self._unique), size):
            if self._is_over:
                break
            try:
                block = self._prepared(self._unique[start : start + size])
            except BaseException:
                if running is not None:
                    running[1].cancel()
                    parts.append(self._answers(*running))
                raise
            if running is not None:
                parts.append(self._answers(*running))
            running = block, self._started(block)
        if running is not None:
            parts.append(self._answers(*running))

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

    def _started(self, block: _Block) -> Job[Any]:
        return self._start(block.call, len(block.n_parts) * self._asking.n_a_text)

    def _answers(self, block: _Block, job: Job[Any]) -> Answers:
        """Wait for the running block and return its answers."""
        results = self._results(job)
        try:
            answers = self._asking.answers(results, block.n_parts, block.offsets)
        except Exception:
            if self._error is not None:  # its results were not converted
                raise self._error from None
            raise
        if self._work.settings.on_error == "return" and self.failure is None:
            self.failure = next(filter(is_failure, answers.errors), None)
        return answers


def _named(table: CodedColumns, work: CodingWork) -> dict[str, Any]:
    """Return the new columns by name, without omitted columns."""
    return {name: table.columns[role] for role, name in work.columns.items()}


def coded_of(
    work: CodingWork,
    record: dict[str, Any],
    results: tuple[Answers, CodedColumns],
    *,
    n_texts: int,
    stats: Stats,
    raw: Floats | None = None,
    unquoted: Sequence[str] = (),
) -> Coded:
    """Return the caller's data frame with the results of its rows, and their record.

    Args:
        work: Texts, with codebook and settings.
        record: Record of the coding, which gets the counts and the notes.
        results: Answers by row, and the columns made from them.
        n_texts: Number of different texts.
        stats: Statistics of all calls.
        raw: float64[n, k], probabilities before calibration; None if unknown.
        unquoted: Reasons why labels have no quote.
    """
    answers, table = results
    settings = work.settings
    record |= {
        "n_rows": len(work.texts),
        "n_texts": n_texts,
        "texts_sha256": hash_of_texts(work.texts),
        "seconds": round(stats.wall_s, 3),
        "n_prompts": stats.n_prompts,
        "n_journal": stats.n_journal,
        "n_computed_tokens": stats.n_prefill_tokens + stats.n_decode_tokens,
    }
    if settings.thinks:
        record["thinking"] = thinking_record(settings, stats)
    record["notes"] = notes_of(
        table.labels,
        answers.coverage,
        work.codebook,
        settings.to_dict(),
        "" if settings.thinks else record["prompts"]["empty"],
        raw,
    )
    if unquoted:
        lost = note("without_quote", n=len(unquoted), error=unquoted[0])
        record["notes"].append(lost)

    def coded(frame: object) -> Coded:
        return Coded(
            frame=frame,
            text=work.text,
            codebook=work.codebook,
            columns=dict(work.columns),
            names=() if work.codebook.kind.is_generated else work.codebook.names,
            labels=table.labels,
            probs=table.probs,
            errors=table.errors,
            run=record,
            stats=stats,
        )

    columns = _named(table, work)
    try:
        frame = with_columns(work.frame, columns)
    except Exception as error:
        keep_made(error, lambda: coded(with_columns({work.text: work.texts}, columns)))
        raise
    return coded(frame)


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
