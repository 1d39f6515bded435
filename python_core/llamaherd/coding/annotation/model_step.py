"""Coding step of a model: texts in blocks, with at most two blocks in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.calls.asks.calibration import calibrate_batch, calibrate_contextual
from llamaherd.calls.structured.quotable import Quoted, shifted
from llamaherd.coding.annotation.answers import BLANK, no_answers
from llamaherd.coding.annotation.asking import Asking
from llamaherd.coding.annotation.columns import CodedRows, as_results
from llamaherd.coding.annotation.steps import MODEL, Step
from llamaherd.engine.core.errors import (
    CANCELLED,
    code_of,
    is_cancelled,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.asks.calibration import Calibration
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.hosted import LoopCall
    from llamaherd.calls.run.job import Job
    from llamaherd.coding.annotation.answers import Answers
    from llamaherd.coding.annotation.asking import Part
    from llamaherd.coding.annotation.call_sequence import CallSequence
    from llamaherd.coding.annotation.prompts import Frame
    from llamaherd.coding.annotation.settings import CodingWork
    from llamaherd.coding.annotation.texts import Integers

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

    start: int  # position of the first text in its step
    parts: list[list[Part]]
    call: LoopCall[Any]


class ModelStep(Step):
    """Labels of some of the texts by a model, block by block.

    Args:
        calls: Sequence of calls that this step is a part of.
        context: Context of the model.
        work: Codebook and settings.
        rows: int64[n], index of the text of each row to which a calibration is fitted.

    Attributes:
        calibration: Calibration of the probabilities; None without calibration.
        unquoted: Reasons why labels have no quote.
    """

    def __init__(
        self,
        calls: CallSequence,
        context: Host,
        work: CodingWork,
        *,
        name: str,
        at: Integers,
        texts: list[str],
        rows: Integers,
    ) -> None:
        answers = no_answers(len(texts), len(work.codebook.names), work.settings)
        super().__init__(name, at, texts, answers)
        self.calibration: Calibration | None = None
        self.unquoted: list[str] = []
        self._calls = calls
        self._context = context
        self._work = work
        self._rows = rows
        self._asking = Asking(context, work)

    @property
    def by(self) -> str:
        """Name of the model's file."""
        return self._context.model.file.name

    @property
    def n_a_text(self) -> int:
        """Number of prompts for each text."""
        return self._asking.n_a_text

    @property
    def around(self) -> Frame:
        """Parts of the prompt before and after each text."""
        return self._asking.around

    def check(self) -> None:
        """Raise an error for invalid settings or labels before anything runs."""
        self._asking.check()

    def run(self) -> None:
        """Fit the calibration, run the blocks and let the model quote."""
        is_asked = self._work.settings.calibrate == "contextual"
        if is_asked and self.calibration is None and self.texts:
            block = self._prepared(CONTENT_FREE)
            results = self._calls.results(self._started(block.call, 0))
            self._calls.raise_error()
            if self._calls.is_over:
                return
            self.calibration = calibrate_contextual(results)
        self._run_blocks()
        self._run_quotes()

    @property
    def judged(self) -> Answers:
        """Answers so far, with calibrated probabilities."""
        probs = self.answers.probs
        if self._work.settings.calibrate == "batch" and self.name == MODEL:
            self.calibration = self._batch_calibration()
        if probs is None or self.calibration is None:
            return self.answers
        return replace(self.answers, probs=self.calibration.apply(probs), raw=probs)

    # ---- private ----

    def _batch_calibration(self) -> Calibration | None:
        """Fit a calibration to the labels so far; None without any."""
        assert self.answers.probs is not None  # noqa: S101 - see settings.py
        results = as_results(self.answers.probs[self._rows], self._work.codebook.names)
        is_any = any(label is not None for label in results.labels)
        return calibrate_batch(results) if is_any else None

    def _run_blocks(self) -> None:
        size = max(1, BLOCK // self.n_a_text)
        running: tuple[_Block, Job[Any]] | None = None
        for start in range(0, len(self.texts), size):
            if self._calls.is_over:
                break
            try:
                block = self._prepared(self.texts[start : start + size], start)
            except BaseException:
                if running is not None:
                    running[1].cancel()
                    self._store(*running)
                raise
            if running is not None:
                self._store(*running)
            running = block, self._started(block.call, len(block.parts) * self.n_a_text)
        if running is not None:
            self._store(*running)

    def _prepared(self, texts: Sequence[str], start: int = 0) -> _Block:
        """Prepare a block of texts."""
        parts = [self._asking.parts(text) for text in texts]
        sent = [part.text for text_parts in parts for part in text_parts]
        return _Block(start, parts, self._asking.call(sent, self._calls.journal))

    def _started(self, call: LoopCall[Any], n_prompts: int) -> Job[Any]:
        return self._calls.start(call, n_prompts, self._context)

    def _store(self, block: _Block, job: Job[Any]) -> None:
        """Wait for the running block and store its answers."""
        results = self._calls.results(job)
        try:
            answers = self._asking.answers(results, block.parts)
        except Exception:
            self._calls.raise_error()  # its results were not converted
            raise
        self.put(block.start, answers)
        if self._work.settings.on_error == "return":
            self._calls.fail(next(filter(is_failure, answers.errors), None))

    def _run_quotes(self) -> None:
        """Let the model quote support for its labels, with `evidence`."""
        if self.answers.quotes is None:
            return
        names, best = self._work.codebook.names, self.answers.best
        labels = CodedRows(self.judged, self._work.codebook).labels
        labelled = [(i, label) for i, label in enumerate(labels) if label is not None]
        self._calls.expect(len(labelled))
        for start in range(0, len(labelled), BLOCK):
            if self._calls.is_over:
                break
            block = labelled[start : start + BLOCK]
            parts = [
                self._asking.parts(self.texts[i])[
                    0 if best is None else int(best[i, names.index(label)])
                ]
                for i, label in block
            ]
            call = self._asking.quoting(
                [part.text for part in parts],
                [label for _, label in block],
                self._calls.journal,
            )
            results = self._calls.results(self._started(call, len(block)))
            for (i, _), part, result in zip(block, parts, results, strict=True):
                if isinstance(result.parsed, Quoted):
                    self.answers.quotes[i] = shifted(result.parsed, part.start)
                elif result.error is not None and not is_cancelled(result.error):
                    self.unquoted.append(result.error)
        self._calls.expect(0)


def is_failure(error: str | None) -> bool:
    """Return True if the error shows a failure, not a cancelled or blank text."""
    return code_of(error) not in (None, CANCELLED.code, BLANK.code)
