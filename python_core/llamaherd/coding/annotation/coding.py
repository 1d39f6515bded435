"""Coding of a column of texts: by a model, then by a head, then again for unsure texts.

1. The model labels all texts, or `until` texts drawn at random.
2. A classifier on embeddings (head) is fitted to the model's probabilities and labels the
   rest.
3. The least sure texts are labelled again by a larger model. Without a larger model, the
   same model labels the least sure of the texts that the head labelled.

Without `until` and `larger` there is only the first step.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.chat.chat import chat_date
from llamaherd.coding.annotation.answers import (
    Answers,
    answers_of_rows,
    no_answers,
    sum_of_stats,
)
from llamaherd.coding.annotation.call_sequence import CallSequence
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.columns import CodedRows
from llamaherd.coding.annotation.head_step import HeadStep
from llamaherd.coding.annotation.model_step import ModelStep, is_failure
from llamaherd.coding.annotation.record import (
    model_record,
    notes_of,
    record_of,
    thinking_record,
)
from llamaherd.coding.annotation.spans import SPANS
from llamaherd.coding.annotation.steps import (
    MODEL,
    UNSURE,
    Step,
    StepModels,
    draw_positions,
    kept_labels,
    record_of_steps,
    unsure_of,
)
from llamaherd.coding.annotation.texts import hash_of_texts, unique_texts
from llamaherd.coding.frames import with_columns
from llamaherd.coding.sentences import Notes
from llamaherd.engine.core.errors import Failure, GenerationError, code_of
from llamaherd.engine.core.keeping import keep, keep_made
from llamaherd.engine.core.words import number_of, setting

if TYPE_CHECKING:
    from llamaherd.calls.asks.options import OnError
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.coding.annotation.settings import CodingWork, Settings
    from llamaherd.engine.core.arrays import Ints

note = Notes("llamaherd.coding.annotation")


class Coding(CallSequence):
    """Coding of a column of texts, step by step and block by block, as one call."""

    def __init__(
        self,
        context: Host,
        work: CodingWork,
        models: StepModels,
        journal: Journal | None = None,
    ) -> None:
        super().__init__(context, journal)
        self._work = work
        self._models = models
        self._unique, self._rows = unique_texts(work.texts)
        n, settings = len(self._unique), work.settings
        self._sample = draw_positions(n, settings.until, settings.seed)
        self._first = self._model_step(MODEL, context, self._sample)
        self._steps: list[Step] = []  # those that have begun
        self._head: HeadStep | None = None
        self._model_records: dict[str, Any] = {}  # of the models of later steps
        n_quotes = int(settings.evidence is not None)
        n_again = round(settings.unsure * n) if settings.in_steps else 0
        self.expect(n * (self._first.n_a_text + n_quotes) + n_again)

    def cancel(self) -> None:
        """End the coding soon; callable from any thread."""
        super().cancel()
        if self._head is not None:
            self._head.cancel()

    def check(self) -> None:
        """Raise an error for settings, labels or a data frame that cannot be used."""
        self._first.check()
        if not isinstance(self._work.frame, Mapping):
            with_columns(self._work.frame, self._columns(self._coded_rows()))

    def run(self) -> Coded:
        """Code the texts."""
        self._started_s = time.perf_counter()
        with chat_date(self._work.settings.date):
            record = self._record()
            try:
                with ExitStack() as stack:
                    self._run_steps(stack)
                coded = self._make_coded(record)
            except Exception as error:
                if any(step.is_begun for step in self._steps):
                    raw = tuple(step.answers for step in self._steps)
                    keep(error, raw, converted=True)  # if no result can be made
                    keep_made(error, lambda: self._make_coded(record))
                raise
        if self._work.settings.on_error == "stop":
            self._stop_at_failure(coded)
        return coded

    def nothing(self) -> Coded:
        """Return the result before any call has run."""
        with chat_date(self._work.settings.date):
            return self._make_coded(self._record())

    # ---- private ----

    def _model_step(
        self, name: str, context: Host, at: Ints, on_error: OnError | None = None
    ) -> ModelStep:
        work = self._work
        if on_error is not None:
            work = replace(work, settings=replace(work.settings, on_error=on_error))
        rows = np.arange(len(at)) if work.settings.in_steps else self._rows
        texts = [self._unique[i] for i in at.tolist()]
        return ModelStep(
            self, context, work, name=name, at=at, texts=texts, rows=rows[rows >= 0]
        )

    def _run_steps(self, stack: ExitStack) -> None:
        """Let the models of all steps label their texts."""
        settings = self._work.settings
        path = settings.journal if self._unique else None
        stack.enter_context(self._opened_journal(path))
        rest = np.setdiff1d(np.arange(len(self._unique)), self._sample)
        # Models are opened before the coding, so that a wrong path is reported early.
        if len(rest):
            texts = [self._unique[i] for i in rest.tolist()]
            embedder = self._models.opened_embeddings(stack)
            self._head = HeadStep(
                self, embedder, self._first, self._work, at=rest, texts=texts
            )
            self._model_records["embeddings"] = model_record(self._head.model)
        larger = self._models.opened_larger(stack)
        if larger is not None:
            self._model_records["larger"] = model_record(larger.model)
            self._model_records["larger_context"] = larger.options
        self._run_step(self._first)
        if self._head is not None and not self.is_over:
            self._run_step(self._head)
        if settings.in_steps and not self.is_over:
            self._run_again(rest, larger)

    def _run_step(self, step: Step) -> None:
        self._steps.append(step)
        n_stats, started = len(self._stats), time.perf_counter()
        try:
            step.run()
        finally:
            step.seconds = time.perf_counter() - started
            step.n_journal += sum(part.n_journal for part in self._stats[n_stats:])
        self.raise_error()

    def _run_again(self, rest: Ints, larger: Host | None) -> None:
        """Let a model label again the texts with the least sure labels."""
        before = self._answers().probs
        assert before is not None  # noqa: S101 - see settings.py
        groups = [rest] if larger is None else [rest, self._sample]
        at = unsure_of(before, groups, self._work.settings.unsure)
        self.expect(len(at))
        if not len(at):
            return
        # A text that fails keeps its label.
        step = self._model_step(UNSURE, larger or self.context, at, on_error="continue")
        if larger is None:
            step.calibration = self._first.calibration
        else:
            step.check()
        try:
            self._run_step(step)
        finally:
            step.facts["agreement"] = kept_labels(before[at], step.judged.probs)

    def _answers(self) -> Answers:
        """Return the answers of all steps so far, for each unique text."""
        if not self._work.settings.in_steps:
            return self._first.judged
        names, settings = self._work.codebook.names, self._work.settings
        answers = no_answers(len(self._unique), len(names), settings)
        for step in self._steps:
            answers.take(step.at, step.judged, step.name)
        return answers

    def _coded_rows(self) -> CodedRows:
        """Return the results so far by row, with unfinished texts as cancelled."""
        work = self._work
        answers = answers_of_rows(self._answers(), self._rows, work.texts)
        answers.errors = [
            _with_advice(error, work.settings, has_passages=work.codebook.type == SPANS)
            for error in answers.errors
        ]
        return CodedRows(answers, work.codebook)

    def _columns(self, rows: CodedRows) -> dict[str, Any]:
        """Return the new columns by name, without omitted columns."""
        cells = rows.cells(self._work.settings)
        return {name: cells[role] for role, name in self._work.columns.items()}

    def _record(self) -> dict[str, Any]:
        work, around = self._work, self._first.around
        return record_of(
            self.context, work.codebook, around, work.settings, work.versions
        )

    def _make_coded(self, record: dict[str, Any]) -> Coded:
        """Return the caller's data frame with the results so far, and their record."""
        work, settings, codebook = self._work, self._work.settings, self._work.codebook
        rows = self._coded_rows()
        stats = replace(sum_of_stats(self._stats), wall_s=self._elapsed_s)
        calibration = self._first.calibration
        record |= {
            "calibration": None if calibration is None else calibration.to_json(),
            "n_rows": len(work.texts),
            "n_texts": len(self._unique),
            "texts_sha256": hash_of_texts(work.texts),
            "seconds": round(stats.wall_s, 3),
            "n_prompts": stats.n_prompts,
            "n_journal": stats.n_journal,
            "n_computed_tokens": stats.n_prefill_tokens + stats.n_decode_tokens,
        }
        if settings.thinks:
            record["thinking"] = thinking_record(settings, stats)
        if settings.in_steps:
            steps = record_of_steps(self._steps, self._answers(), settings)
            record["steps"] = {**steps, **self._model_records}
        record["notes"] = notes_of(
            rows.labels,
            rows.answers.coverage,
            codebook,
            settings.to_dict(),
            "" if settings.thinks else record["prompts"]["empty"],
            rows.answers.raw,
        )
        unquoted = self._first.unquoted
        if unquoted:
            lost = note("without_quote", n=len(unquoted), error=unquoted[0])
            record["notes"].append(lost)

        def coded(frame: object) -> Coded:
            return Coded(
                frame=frame,
                text=work.text,
                codebook=codebook,
                columns=dict(work.columns),
                names=() if codebook.kind.is_generated else codebook.names,
                labels=rows.labels,
                probs=rows.probs,
                errors=rows.errors,
                run=record,
                stats=stats,
            )

        columns = self._columns(rows)
        try:
            frame = with_columns(work.frame, columns)
        except Exception as error:
            plain = {work.text: work.texts}
            keep_made(error, lambda: coded(with_columns(plain, columns)))
            raise
        return coded(frame)

    def _stop_at_failure(self, coded: Coded) -> None:
        """Raise an error if the call ended early, or no step could label a text."""
        if self.failure is None and not self._work.settings.in_steps:
            return
        row = next((i for i, e in enumerate(coded.errors) if is_failure(e)), None)
        if row is not None:
            raise GenerationError(
                f"row {number_of(row)} failed: {coded.errors[row]}", coded
            )
        if self.failure is not None:
            raise GenerationError(self.failure, coded)


def _with_advice(
    error: str | None, settings: Settings, *, has_passages: bool
) -> str | None:
    """Return the error of a text; one of a text that is too long names `split`."""
    if error is None or settings.split is not None or code_of(error) != "too_long":
        return error
    way = "mean" if settings.method == "classify" else "all" if has_passages else "first"
    advice = f"or code the text in parts, by {setting('split', way)}"
    return Failure(f"{error}; {advice}", "too_long")
