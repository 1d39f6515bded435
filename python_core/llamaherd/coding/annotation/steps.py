"""Coding in steps: by a model, then by a head, then by a model for unsure texts.

1. The model labels all texts, or `until` texts drawn at random.
2. A classifier on embeddings (head) is fitted to the model's probabilities and labels the
   rest.
3. The least sure texts are labelled again by a larger model. Without a larger model, the
   same model labels the least sure of the texts that the head labelled.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.chat.chat import chat_date
from llamaherd.coding.annotation.answers import answers_of_rows, no_answers, sum_of_stats
from llamaherd.coding.annotation.call_sequence import CallSequence, sum_of_progress
from llamaherd.coding.annotation.coding import Coding, coded_of, is_failure
from llamaherd.coding.annotation.columns import table_of
from llamaherd.coding.annotation.head_step import HeadStep
from llamaherd.coding.annotation.record import model_record
from llamaherd.coding.annotation.texts import unique_texts
from llamaherd.coding.sentences import Notes
from llamaherd.coding.statistics.heads import least_sure
from llamaherd.coding.statistics.intervals import LEVEL, Measure, share
from llamaherd.engine.core.errors import GenerationError
from llamaherd.engine.core.keeping import keep, keep_made, kept

if TYPE_CHECKING:
    from llamaherd.calls.asks.calibration import Floats
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.coding.annotation.answers import Answers
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.annotation.settings import CodingWork
    from llamaherd.coding.annotation.step_settings import StepModels
    from llamaherd.coding.annotation.texts import Integers
    from llamaherd.engine.core.stats import Progress
    from llamaherd.engine.loop.threaded import ThreadedLoop

note = Notes("llamaherd.coding.annotation")
STEPS = ("model", "head", "unsure")  # values of the column "step"
MODEL, HEAD, UNSURE = range(3)
_TEXT = ".text"  # name of the column of texts in a step; no role has this name


class _Labels:
    """Labels of n texts so far.

    Attributes:
        answers: Answers with calibrated probabilities, NaN for texts without a label.
            Labels by a head have no coverage.
        step: int8[n], position in `STEPS` of the step that labelled the text; -1 for
            texts without a label.
    """

    def __init__(self, n: int, work: CodingWork) -> None:
        self.answers = no_answers(n, len(work.codebook.names), work.settings)
        self.step: Integers = np.full(n, -1, dtype=np.int8)

    @property
    def probs(self) -> Floats:
        """Probabilities, float64[n, k]."""
        probs = self.answers.probs
        assert probs is not None  # noqa: S101 - see check_steps
        return probs

    def take(self, at: Integers, answers: Answers, probs: Floats, step: int) -> Measure:
        """Store the answers of a model; a failed text keeps its earlier label.

        Returns:
            The share of earlier labels that the new labels confirm; NaN without earlier
            labels.
        """
        good = np.isfinite(probs).all(axis=1)
        had = self.step[at] >= 0
        before = np.nan_to_num(self.probs[at], nan=-1.0).argmax(axis=1)
        after = np.nan_to_num(probs, nan=-1.0).argmax(axis=1)
        same = (before == after)[good & had].astype(np.float64)
        for j in np.flatnonzero(~had | good).tolist():
            i = int(at[j])
            self.answers.errors[i] = answers.errors[j]
            if self.answers.thoughts is not None and answers.thoughts is not None:
                self.answers.thoughts[i] = answers.thoughts[j]
        kept = at[good]
        self.probs[kept] = probs[good]
        self.step[kept] = step
        for name in ("coverage", "between"):
            values, new = getattr(self.answers, name), getattr(answers, name)
            if values is not None and new is not None:
                values[kept] = new[good]
        return share(same, np.ones(len(same)), LEVEL)

    def take_head(self, at: Integers, probs: Floats) -> None:
        """Store the labels of a head; texts without an embedding get no label."""
        kept = at[np.isfinite(probs).all(axis=1)]
        self.probs[at] = probs
        self.step[kept] = HEAD
        for i in kept.tolist():
            self.answers.errors[i] = None

    def count(self, step: str) -> int:
        """Return the number of texts that a step labelled."""
        return int((self.step == STEPS.index(step)).sum())


def _fields_of(measure: Measure) -> dict[str, Any]:
    """Return a measure as JSON types."""
    numbers = (measure.value, measure.low, measure.high)
    value, low, high = (None if np.isnan(x) else round(float(x), 6) for x in numbers)
    return {"value": value, "low": low, "high": high, "n": measure.n}


class Steps(CallSequence):
    """Coding in steps, as one call.

    Args:
        context: Context of the model.
        work: Texts to code, with codebook and settings.
        models: Models of later steps.
        journal: Open journal, used instead of the journal that `work` names.
    """

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
        settings = work.settings
        self._settings = replace(settings, until=None, has_larger=False, journal=None)
        self._seed = settings.seed
        self._sample = self._drawn()
        self._coding = self._of(context, self._sample)
        self._head: HeadStep | None = None
        self._codings: list[Coding] = []  # codings that have begun
        self._n_head = 0  # texts that the head has labelled
        self._steps: list[dict[str, Any]] = []
        self._record: dict[str, Any] = {}

    @property
    def progress(self) -> Progress:
        """Return the progress, counted in texts over all steps."""
        head = self._head
        embedded = None if head is None else head.progress
        parts = [coding.progress for coding in tuple(self._codings)]
        n_head = self._n_head + (0 if embedded is None else embedded.n_done)
        n_done = sum(part.n_done for part in parts) + n_head
        n_more = round(self._work.settings.unsure * len(self._unique))
        n_total = max(n_done, len(self._unique) + n_more)
        return sum_of_progress(parts, n_total, self._elapsed_s, n_head)

    def cancel(self) -> None:
        """End the coding soon; callable from any thread."""
        super().cancel()
        if self._head is not None:
            self._head.cancel()

    def check(self) -> None:
        """Raise an error for settings, labels or a data frame that cannot be used."""
        self._coding.check()
        if not isinstance(self._work.frame, Mapping):
            self.nothing()

    def run(self, loop: ThreadedLoop) -> Coded:  # noqa: ARG002 - each context has its own
        """Code the texts."""
        self._started_s = time.perf_counter()
        settings = self._work.settings
        with chat_date(settings.date), ExitStack() as stack:
            path = settings.journal if self._unique else None
            stack.enter_context(self._opened_journal(path))
            if self._journal is not None:
                self._coding = self._of(self.context, self._sample)
            labels = _Labels(len(self._unique), self._work)
            try:
                self._by_steps(stack, labels)
                coded = self._collected(labels)
            except Exception as error:
                if (labels.step >= 0).any():
                    keep(error, labels, converted=True)  # if no result can be made
                    keep_made(error, lambda: self._collected(labels))
                raise
        if settings.on_error == "stop":
            self._stop_at_failure(coded)
        return coded

    def _stop_at_failure(self, coded: Coded) -> None:
        """Raise an error if a text failed and has no label from an earlier step."""
        row = next((i for i, e in enumerate(coded.errors) if is_failure(e)), None)
        if row is not None:
            raise GenerationError(f"row {row} failed: {coded.errors[row]}", coded)
        if self.failure is not None:
            raise GenerationError(self.failure, coded)

    def nothing(self) -> Coded:
        """Return the result before any step has run."""
        with chat_date(self._work.settings.date):
            self._record = self._coding.nothing().run
            return self._collected(_Labels(len(self._unique), self._work))

    # ---- private ----

    def _drawn(self) -> Integers:
        """Return the positions of the texts that the model labels first."""
        n, until = len(self._unique), self._work.settings.until
        if until is None or until >= n:
            return np.arange(n)
        rng = np.random.default_rng([self._seed, n])
        return np.sort(rng.choice(n, until, replace=False))

    def _of(self, context: Host, at: Integers, *, first: Coding | None = None) -> Coding:
        """Return the coding of some texts; a text that fails later keeps its label.

        Args:
            context: Context to run in.
            at: Positions of the texts.
            first: Coding of the first step; None if this is the first step.
        """
        settings, calibration = self._settings, None
        if first is not None:
            settings = replace(settings, on_error="continue")
            if context is first.context:
                calibration = first.calibration
        texts: list[str | None] = [self._unique[i] for i in at.tolist()]
        work = replace(
            self._work,
            frame={_TEXT: texts},
            text=_TEXT,
            texts=texts,
            settings=settings,
            columns={},
        )
        return Coding(context, work, self._journal, calibration)

    def _by_steps(self, stack: ExitStack, labels: _Labels) -> None:
        settings = self._work.settings
        head = None
        rest = np.setdiff1d(np.arange(len(self._unique)), self._sample)
        if len(rest):  # opened before the coding, so that a wrong path is reported early
            embedder = self._models.opened_embeddings(stack)
            head = HeadStep(embedder, self._journal, self._seed)
        larger = self._models.opened_larger(stack)
        self._model_step(labels, self._coding, self._sample, MODEL)
        if head is not None and not self._is_over:
            try:
                self._head_step(labels, head, rest)
            except Exception as error:  # noqa: BLE001 - raised after the record is made
                self._end_by(error)
        unsure = self._unsure(labels, rest, of_all=larger is not None)
        if len(unsure) and not self._is_over:
            context = self.context if larger is None else larger
            again = self._of(context, unsure, first=self._coding)
            if larger is not None:
                again.check()
            self._model_step(labels, again, unsure, UNSURE)
        for step in self._steps:
            step["n_texts"] = labels.count(step["step"])
            step["share"] = round(step["n_texts"] / max(1, len(self._unique)), 6)
        models: dict[str, Any] = {}
        if head is not None:
            models["embeddings"] = model_record(head.model)
        if larger is not None:
            models["larger"] = model_record(larger.model)
            models["larger_context"] = larger.options
        self._record["steps"] = {
            "until": settings.until,
            "unsure": settings.unsure,
            "seed": self._seed,
            "each": self._steps,
            "methods": " ".join(note("step", step=step) for step in self._steps),
            **models,
        }
        if self._error is not None:
            raise self._error

    def _end_by(self, error: Exception) -> None:
        """End the coding by an error; the labels so far are kept."""
        self._error = error
        self.failure = str(error) or type(error).__name__

    def _model_step(
        self, labels: _Labels, coding: Coding, at: Integers, step: int
    ) -> None:
        """Let a model label some texts."""
        self._coding = self._running = coding
        self._codings.append(coding)
        if self._is_cancelled:
            coding.cancel()
        start = time.perf_counter()
        try:
            coded = coding.run(coding.context.loop)
        except GenerationError as error:
            coded = error.results
            self.failure = str(error)
        except Exception as error:
            coded = kept(error)
            if coded is None and step == MODEL:
                raise
            self._end_by(error)
            if coded is None:
                return
        self.failure = self.failure or coding.failure
        self._problem = self._problem or coding.problem
        self._stats.append(coded.stats)
        if step == MODEL:
            self._record = coded.run
        assert coded.probs is not None  # noqa: S101 - see check_steps
        same = labels.take(at, coding.answers, coded.probs, step)
        self._steps.append(
            {
                "step": STEPS[step],
                "by": coding.context.model.file.name,
                "n_asked": len(at),
                "is_drawn": step == MODEL and len(at) < len(self._unique),
                "seconds": round(time.perf_counter() - start, 3),
                "n_journal": coded.stats.n_journal,
                **({} if step == MODEL else {"agreement": _fields_of(same)}),
            }
        )

    def _head_step(self, labels: _Labels, step: HeadStep, rest: Integers) -> None:
        """Fit a head to the sample, and let it label the rest."""
        self._head = step
        if self._is_cancelled:
            step.cancel()
        start = time.perf_counter()
        sample = [self._unique[i] for i in self._sample.tolist()]
        head = step.fit(sample, labels.probs[self._sample])
        if head is None:
            return
        fitted_s = time.perf_counter() - start
        texts = [self._unique[i] for i in rest.tolist()]
        n_stored = 0
        for block in step.blocks(head, texts):
            at = rest[block.start : block.start + len(block.probs)]
            labels.take_head(at, block.probs)
            self._n_head += len(at)
            n_stored += len(at) if block.is_stored else 0
        n_none = int((labels.step[rest] < 0).sum())
        n_unsure = self._n_unsure(labels, rest) - n_none
        probs = labels.probs[rest].max(axis=1)
        known = np.sort(probs[np.isfinite(probs)])
        least = float(known[n_unsure]) if n_unsure < len(known) else np.inf
        self._problem = self._problem or step.problem
        self._steps.append(
            {
                "step": STEPS[HEAD],
                "by": step.model.file.name,
                "n_asked": self._n_head,
                "seconds": round(time.perf_counter() - start, 3),
                "seconds_fit": round(fitted_s, 3),
                "n_journal": n_stored,
                "n_failed": n_none,
                "penalty": head.head.penalty,
                "agreement": _fields_of(head.agreement()),
                "agreement_sure": _fields_of(head.agreement(least)),
            }
        )

    def _n_unsure(self, labels: _Labels, at: Integers) -> int:
        """Return the number of texts to label again, including all unlabelled texts."""
        n_none = int((labels.step[at] < 0).sum())
        return max(round(self._work.settings.unsure * len(at)), n_none)

    def _unsure(self, labels: _Labels, rest: Integers, *, of_all: bool) -> Integers:
        """Return the positions of the texts to label again, sorted."""
        groups = [rest, *([self._sample] if of_all else [])]
        unsure = [
            group[least_sure(labels.probs[group], self._n_unsure(labels, group))]
            for group in groups
            if len(group)
        ]
        return np.sort(np.concatenate(unsure)) if unsure else np.arange(0)

    def _collected(self, labels: _Labels) -> Coded:
        """Return the data frame with the labels so far."""
        names = (*STEPS, None)
        steps = [names[i] for i in labels.step.tolist()]
        answers = answers_of_rows(
            replace(labels.answers, steps=steps), self._rows, self._work.texts
        )
        return coded_of(
            self._work,
            self._record,
            (answers, table_of(answers, self._work.codebook)),
            n_texts=len(self._unique),
            stats=replace(sum_of_stats(self._stats), wall_s=self._elapsed_s),
        )
