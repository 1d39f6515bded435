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
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.calls.chat.chat import chat_date
from llamaherd.calls.journal.journal import Journal
from llamaherd.coding.annotation.answers import sum_of_stats
from llamaherd.coding.annotation.coding import Coding, is_failure
from llamaherd.coding.annotation.head_step import HeadStep
from llamaherd.coding.annotation.record import model_record
from llamaherd.coding.annotation.step_results import (
    MODEL,
    UNSURE,
    StepResults,
    add_counts,
    coded_of_steps,
    measure_fields,
    methods,
)
from llamaherd.coding.annotation.step_settings import name_of
from llamaherd.coding.annotation.texts import unique_texts
from llamaherd.coding.statistics.heads import least_sure
from llamaherd.engine.core.errors import GenerationError
from llamaherd.engine.core.keeping import keep, keep_made, kept
from llamaherd.engine.core.stats import Progress

if TYPE_CHECKING:
    from llamaherd.calls.run.host import Host
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.annotation.settings import CodingWork
    from llamaherd.coding.annotation.step_settings import StepModels
    from llamaherd.coding.annotation.texts import Integers
    from llamaherd.engine.core.stats import Stats
    from llamaherd.engine.loop.threaded import ThreadedLoop

_TEXT = ".text"  # name of the column of texts in a step; no role has this name


class Steps:
    """Coding in steps, as one call.

    Args:
        context: Context of the model.
        work: Texts to code, with codebook and settings.
        models: Models of later steps.
        journal: Open journal, used instead of the journal that `work` names.

    Attributes:
        context: Context of the model.
    """

    def __init__(
        self,
        context: Host,
        work: CodingWork,
        models: StepModels,
        journal: Journal | None = None,
    ) -> None:
        self._problem = ""
        self.context = context
        self._work = work
        self._models = models
        self._journal = journal
        self._unique, self._rows = unique_texts(work.texts)
        settings = work.settings
        self._settings = replace(settings, until=None, has_larger=False, journal=None)
        self._seed = settings.seed
        self._sample = self._drawn()
        self._coding = self._of(context, self._sample)
        self._head: HeadStep | None = None
        self._is_cancelled = False
        self._failure: str | None = None
        self._error: Exception | None = None  # error to raise at the end of the call
        self._codings: list[Coding] = []  # codings that have begun
        self._n_head = 0  # texts that the head has labelled
        self._stats: list[Stats] = []
        self._each: list[dict[str, Any]] = []
        self._record: dict[str, Any] = {}
        self._started_s = time.perf_counter()

    @property
    def problem(self) -> str:
        """Problem about which the caller is warned; see `LoopCall`."""
        found = (coding.problem for coding in tuple(self._codings))
        return self._problem or next(filter(None, found), "")

    @property
    def progress(self) -> Progress:
        """Return the progress, counted in texts over all steps."""
        head = self._head
        embedded = None if head is None else head.progress
        parts = [coding.progress for coding in tuple(self._codings)]
        n_head = self._n_head + (0 if embedded is None else embedded.n_done)
        n_done = sum(part.n_done for part in parts) + n_head
        n_rest = len(self._unique) - len(self._sample)
        n_more = round(self._work.settings.unsure * len(self._unique))
        return Progress(
            n_done=n_done,
            n_failed=sum(part.n_failed for part in parts),
            n_total=max(n_done, len(self._sample) + n_rest + n_more),
            n_prompt_tokens=sum(part.n_prompt_tokens for part in parts),
            n_prompt_tokens_total=sum(part.n_prompt_tokens_total for part in parts),
            n_generated_tokens=sum(part.n_generated_tokens for part in parts),
            elapsed_s=time.perf_counter() - self._started_s,
        )

    def cancel(self) -> None:
        """End the coding soon; callable from any thread."""
        self._is_cancelled = True
        self._coding.cancel()
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
            if self._journal is None and settings.journal is not None and self._unique:
                self._journal = stack.enter_context(closing(Journal(settings.journal)))
                self._coding = self._of(self.context, self._sample)
            results = self._empty()
            try:
                self._by_steps(stack, results)
                coded = self._collected(results)
            except Exception as error:
                if (results.step >= 0).any():
                    keep(error, results, converted=True)  # if no result can be made
                    keep_made(error, lambda: self._collected(results))
                raise
        if settings.on_error == "stop":
            self._stop_at_failure(coded)
        return coded

    def _stop_at_failure(self, coded: Coded) -> None:
        """Raise an error if a text failed and has no label from an earlier step."""
        row = next((i for i, e in enumerate(coded.errors) if is_failure(e)), None)
        if row is not None:
            raise GenerationError(f"row {row} failed: {coded.errors[row]}", coded)
        if self._failure is not None:
            raise GenerationError(self._failure, coded)

    def nothing(self) -> Coded:
        """Return the result before any step has run."""
        with chat_date(self._work.settings.date):
            self._record = self._coding.nothing().run
            return self._collected(self._empty())

    # ---- private ----

    def _empty(self) -> StepResults:
        n, k = len(self._unique), len(self._work.codebook.names)
        return StepResults.empty(n, k, self._work.settings)

    def _drawn(self) -> Integers:
        """Return the positions of the texts that the model labels first."""
        n, until = len(self._unique), self._work.settings.until
        if until is None or until >= n:
            return np.arange(n)
        rng = np.random.default_rng([self._seed, n])
        return np.sort(rng.choice(n, until, replace=False))

    def _of(self, context: Host, at: Integers, *, first: Coding | None = None) -> Coding:
        """Return the coding of some texts.

        Args:
            context: Context to run in.
            at: Positions of the texts.
            first: Coding of the first step, if this is a later step; a text that fails in
                a later step keeps its label. None for the first step.
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

    def _by_steps(self, stack: ExitStack, results: StepResults) -> None:
        settings = self._work.settings
        head = None
        rest = np.setdiff1d(np.arange(len(self._unique)), self._sample)
        if len(rest):  # opened before the coding, so that a wrong path is reported early
            embedder = self._models.opened_embeddings(stack)
            head = HeadStep(embedder, self._journal, self._seed)
        larger = self._models.opened_larger(stack)
        self._model_step(results, self._coding, self._sample, MODEL)
        if head is not None and not self._is_over:
            try:
                self._head_step(results, head, rest)
            except Exception as error:  # noqa: BLE001 - raised after the record is made
                self._end_by(error)
        unsure = self._unsure(results, rest, of_all=larger is not None)
        if len(unsure) and not self._is_over:
            first = self._coding
            again = self._of(
                self.context if larger is None else larger, unsure, first=first
            )
            if larger is not None:
                again.check()
            self._model_step(results, again, unsure, UNSURE)
        add_counts(self._each, results)
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
            "each": self._each,
            "methods": methods(self._each),
            **models,
        }
        if self._error is not None:
            raise self._error

    def _end_by(self, error: Exception) -> None:
        """End the coding by an error; the labels so far are kept."""
        self._error = error
        self._failure = str(error) or type(error).__name__

    @property
    def _is_over(self) -> bool:
        return self._is_cancelled or self._failure is not None

    def _model_step(
        self, results: StepResults, coding: Coding, at: Integers, step: int
    ) -> None:
        """Let a model label some texts."""
        self._coding = coding
        self._codings.append(coding)
        if self._is_cancelled:
            coding.cancel()
        start = time.perf_counter()
        try:
            coded = coding.run(coding.context.loop)
        except GenerationError as error:
            coded = error.results
            self._failure = str(error)
        except Exception as error:
            coded = kept(error)
            if coded is None and step == MODEL:
                raise
            self._end_by(error)
            if coded is None:
                return
        self._failure = self._failure or coding.failure
        self._problem = self._problem or coding.problem
        self._stats.append(coded.stats)
        if step == MODEL:
            self._record = coded.run
        assert coded.probs is not None  # noqa: S101 - see check_steps
        same = results.take(at, coding.answers, coded.probs, step)
        self._each.append(
            {
                "step": "model" if step == MODEL else "unsure",
                "by": name_of(coding.context.model),
                "n_asked": len(at),
                "is_drawn": step == MODEL and len(at) < len(self._unique),
                "seconds": round(time.perf_counter() - start, 3),
                "n_journal": coded.stats.n_journal,
                **({} if step == MODEL else {"agreement": measure_fields(same)}),
            }
        )

    def _head_step(self, results: StepResults, step: HeadStep, rest: Integers) -> None:
        """Fit a head to the sample, and let it label the rest."""
        self._head = step
        if self._is_cancelled:
            step.cancel()
        start = time.perf_counter()
        sample = [self._unique[i] for i in self._sample.tolist()]
        head = step.fit(sample, results.probs[self._sample])
        if head is None:
            return
        fitted_s = time.perf_counter() - start
        texts = [self._unique[i] for i in rest.tolist()]
        n_stored = 0
        for block in step.blocks(head, texts):
            own = rest[block.start : block.start + len(block.probs)]
            results.take_head(own, block.probs)
            self._n_head += len(own)
            n_stored += len(own) if block.is_stored else 0
        n_none = int((results.step[rest] < 0).sum())
        n_unsure = self._n_unsure(results, rest) - n_none
        probs = results.probs[rest].max(axis=1)
        known = np.sort(probs[np.isfinite(probs)])
        least = float(known[n_unsure]) if n_unsure < len(known) else np.inf
        self._problem = self._problem or step.problem
        self._each.append(
            {
                "step": "head",
                "by": name_of(step.model),
                "n_asked": self._n_head,
                "seconds": round(time.perf_counter() - start, 3),
                "seconds_fit": round(fitted_s, 3),
                "n_journal": n_stored,
                "n_failed": n_none,
                "penalty": head.head.penalty,
                "agreement": measure_fields(head.agreement()),
                "agreement_sure": measure_fields(head.agreement(least)),
            }
        )

    def _n_unsure(self, results: StepResults, at: Integers) -> int:
        """Return the number of texts to label again, including all unlabelled texts."""
        n_none = int((results.step[at] < 0).sum())
        return max(round(self._work.settings.unsure * len(at)), n_none)

    def _unsure(self, results: StepResults, rest: Integers, *, of_all: bool) -> Integers:
        """Return the positions of the texts to label again, sorted."""
        groups = [rest, *([self._sample] if of_all else [])]
        found = [
            group[least_sure(results.probs[group], self._n_unsure(results, group))]
            for group in groups
            if len(group)
        ]
        return np.sort(np.concatenate(found)) if found else np.arange(0)

    def _collected(self, results: StepResults) -> Coded:
        """Return the data frame with the labels so far."""
        wall_s = time.perf_counter() - self._started_s
        stats = replace(sum_of_stats(self._stats), wall_s=wall_s)
        return coded_of_steps(self._work, self._record, results, self._rows, stats)
