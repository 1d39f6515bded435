"""Coding step of a model: texts in blocks, with at most two blocks in memory."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.calls.api.classify import prepare_classify
from llamaherd.calls.api.generate import prepare_generate
from llamaherd.calls.asks.calibration import (
    Calibration,
    calibrate_batch,
    calibrate_contextual,
)
from llamaherd.calls.asks.options import ClassifyOptions, GenerateOptions, PromptOptions
from llamaherd.calls.asks.rendering import notice_thinking
from llamaherd.calls.asks.requests import place_of
from llamaherd.calls.run.host import Elsewhere, Host
from llamaherd.calls.structured.quotable import Quoted, QuoteRule, shift_positions
from llamaherd.calls.structured.quoting import KEYWORD, text_has_quotes
from llamaherd.coding.annotation.answers import (
    BLANK,
    Answers,
    answers_of_classes,
    answers_of_split,
    answers_of_texts,
)
from llamaherd.coding.annotation.call_sequence import CallBlock, CallSequence
from llamaherd.coding.annotation.columns import CodedRows, as_results
from llamaherd.coding.annotation.prompts import frame_of
from llamaherd.coding.annotation.steps import MODEL, Step
from llamaherd.coding.annotation.texts import parts_of
from llamaherd.engine.core.errors import CANCELLED, code_of, is_cancelled
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.core.thinking import Thinking
from llamaherd.engine.native.shim import derive_seed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from llamaherd.calls.asks.keywords import SamplingSettings
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.hosted import HostedCall
    from llamaherd.coding.annotation.settings import CodingWork
    from llamaherd.engine.core.arrays import Ints
    from llamaherd.engine.core.results import Result

BLOCK = 2048  # prompts that are prepared at once, which takes about a second
# Content-free texts, from Zhao et al. 2021 (arXiv 2102.09690).
CONTENT_FREE = ("N/A", "[MASK]", "")
# Default number of tokens of a part. The cost of attention grows with the square of a
# part's length; with parts as long as the context, coding took several times as long.
PART = 2048
_SLACK = 8  # tokens: a prompt may have more tokens than its pieces together
_MARKERS = 64  # maximum number of tokens around a thought
_LABEL = 64  # maximum number of tokens of the label before a quote, with its fixed words
_SPECIAL = 16  # maximum number of tokens of a scored answer


class Part(NamedTuple):
    """Part of a text that is sent to the model."""

    text: str
    start: int  # position in the whole text


class ModelStep(Step):
    """Labels of some of the texts by a model, block by block.

    `rows` is int64[n], the text of each row to which a calibration is fitted.

    Attributes:
        calibration: Calibration of the probabilities; None without calibration.
        unquoted: Reasons why labels have no quote.
        around: Parts of the prompt before and after each text.
    """

    def __init__(
        self,
        calls: CallSequence,
        context: Host,
        work: CodingWork,
        *,
        name: str,
        at: Ints,
        texts: list[str],
        rows: Ints,
    ) -> None:
        super().__init__(name, at, texts, work)
        self.calibration: Calibration | None = None
        self.unquoted: list[str] = []
        self.around = frame_of(work.codebook, chat=work.settings.chat)
        self._calls = calls
        self._context = context
        self._work = work
        self._rows = rows
        self._n_asked = 0  # number of prompts of earlier calls

    @property
    def by(self) -> str:
        """Name of the model's file."""
        return self._context.model.file.name

    @property
    def n_a_text(self) -> int:
        """Number of prompts for each text."""
        return len(self.around.after)

    def check(self) -> None:
        """Raise an error for invalid settings or labels before anything runs."""
        self._prepare_call([], self._options(), None)
        if not isinstance(self._context, Elsewhere):
            notice_thinking(self._context.model, PromptOptions(**self._rendering))

    def run(self) -> None:
        """Fit the calibration, run the blocks and let the model quote."""
        is_asked = self._work.settings.calibrate == "contextual"
        if is_asked and self.calibration is None and self.texts:
            job = self._calls.start(self._labelling(CONTENT_FREE), 0)
            results = self._calls.results(job)
            self._calls.raise_error()
            if self._calls.is_over:
                return
            self.calibration = calibrate_contextual(results)
        self._calls.run_blocks(self._blocks())
        if self.answers.quotes is not None:
            self._calls.run_blocks(self._blocks_of_quotes(self.answers.quotes))
            self._calls.expect(0)

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

    def _blocks(self) -> Iterator[CallBlock]:
        """Prepare blocks of texts, which the model labels."""
        size = max(1, BLOCK // self.n_a_text)
        for start in range(0, len(self.texts), size):
            parts = list(map(self._parts, self.texts[start : start + size]))
            sent = [part.text for parts_of_text in parts for part in parts_of_text]
            store = partial(self._store, start, parts)
            yield CallBlock(self._labelling(sent), len(parts) * self.n_a_text, store)

    def _store(self, start: int, parts: Sequence[Sequence[Part]], results: Any) -> None:
        answers = self._answers_of(results, parts)
        self.put(start, answers)
        if self._work.settings.on_error == "return":
            self._calls.fail(next(filter(is_failure, answers.errors), None))

    def _blocks_of_quotes(self, quotes: list[Quoted | None]) -> Iterator[CallBlock]:
        """Prepare blocks of labelled texts, of which the model quotes support."""
        names, best = self._work.codebook.names, self.answers.best
        labels = CodedRows(self.judged, self._work.codebook).labels
        labelled = [(i, label) for i, label in enumerate(labels) if label is not None]
        self._calls.expect(len(labelled))
        for start in range(0, len(labelled), BLOCK):
            parts: dict[int, Part] = {}  # by text, the part that supports its label most
            for i, label in labelled[start : start + BLOCK]:
                at = 0 if best is None else int(best[i, names.index(label)])
                parts[i] = self._parts(self.texts[i])[at]
            texts = [part.text for part in parts.values()]
            call = self._quoting(texts, [labels[i] for i in parts])
            yield CallBlock(call, len(parts), partial(self._store_quotes, quotes, parts))

    def _store_quotes(
        self,
        quotes: list[Quoted | None],
        parts: Mapping[int, Part],
        results: Iterable[Result],
    ) -> None:
        for (i, part), result in zip(parts.items(), results, strict=True):
            if isinstance(result.parsed, Quoted):
                quotes[i] = shift_positions(result.parsed, part.start)
            elif result.error is not None and not is_cancelled(result.error):
                self.unquoted.append(result.error)

    def _prepare_call(
        self,
        prompts: list[str],
        options: ClassifyOptions | GenerateOptions,
        journal: Journal | None,
    ) -> HostedCall[Any]:
        """Prepare a call with these prompts."""
        places = list(map(place_of, prompts)) if self._work.is_piece else None
        if isinstance(options, ClassifyOptions):
            return prepare_classify(
                self._context, prompts, options, journal=journal, places=places
            )
        return prepare_generate(
            self._context, prompts, options, journal=journal, places=places
        )

    def _labelling(self, texts: Sequence[str]) -> HostedCall[Any]:
        """Prepare the call that labels these texts or parts of texts."""
        prompts, options = self.around.prompts(texts), self._options(texts)
        self._n_asked += len(prompts)
        return self._prepare_call(prompts, options, self._calls.journal)

    def _quoting(
        self, texts: Sequence[str], labels: Sequence[str | None]
    ) -> HostedCall[Any]:
        """Prepare the call that quotes the passages that support the labels of texts."""
        settings, fixed = self._work.settings, self._work.codebook.fixed
        rule = QuoteRule() if settings.evidence is None else settings.evidence
        prompts = [
            f"{self.around.before}{text}\n{fixed['answer']}: {label}\n{fixed['quote']}:"
            for text, label in zip(texts, labels, strict=True)
        ]
        params = [
            SamplingParams(
                temperature=settings.temperature,
                schema={"type": "string", KEYWORD: asdict(rule)},
                quote_from=text,
                # A token has at least one byte, so no quote needs more tokens.
                max_tokens=min(settings.max_tokens, len(json.dumps(text)) + 2),
            )
            for text in texts
        ]
        options = GenerateOptions(
            params=params,
            sampling={"seed": self._seed()},
            show_schema=False,
            **{**self._rendering, "thinking": False if settings.thinks else None},
        )
        self._n_asked += len(prompts)
        return self._prepare_call(prompts, options, self._calls.journal)

    def _answers_of(
        self,
        results: Any,  # of calls of both kinds
        parts: Sequence[Sequence[Part]],
    ) -> Answers:
        """Convert the results of a call to answers per text, from the parts of each."""
        codebook, settings = self._work.codebook, self._work.settings
        if settings.method == "classify":
            is_several = codebook.kind.is_several
            answers = answers_of_classes(results, self.n_a_text, is_several=is_several)
        else:
            starts = [part.start for parts_of_text in parts for part in parts_of_text]
            answers = answers_of_texts(results, codebook, starts)
        n_parts = list(map(len, parts))
        return answers_of_split(answers, n_parts, settings.split, codebook.names)

    def _parts(self, text: str) -> list[Part]:
        """Return the parts of a text to send to the model; one without `split`."""
        settings = self._work.settings
        if settings.split is None:
            return [Part(text, 0)]
        n_tokens, room = settings.part_tokens, settings.part_tokens
        if n_tokens is None or room is None:
            n_tokens, room = min(self._room, PART), self._room
        texts = parts_of(self._context.model, text, n_tokens, room)
        starts = accumulate(map(len, texts[:-1]), initial=0)
        parts = list(map(Part, texts, starts))
        if settings.split == "first":
            return parts[:1]
        return parts[-1:] if settings.split == "last" else parts

    def _options(self, texts: Sequence[str] = ()) -> ClassifyOptions | GenerateOptions:
        """Return the options of a call that labels these texts."""
        settings, codebook = self._work.settings, self._work.codebook
        fixed = codebook.fixed
        is_several = codebook.kind.is_several
        choices = [fixed["yes"], fixed["no"]] if is_several else list(codebook.names)
        if settings.method == "classify":
            blank = self.around.before.rstrip(" ") + self.around.after[0]
            return ClassifyOptions(
                labels=choices,
                normalize=settings.normalize,
                pmi_prompt=blank if settings.normalize == "pmi" else "",
                on_error=settings.on_error,
                n_thoughts=settings.n_thoughts,
                seed=self._seed(),
                **self._rendering,
            )
        sampling: SamplingSettings = {
            "temperature": settings.temperature,
            "seed": self._seed(),
        }
        if codebook.kind.is_generated:
            schema = codebook.written_schema
            sampling["schema"] = schema
            if texts and text_has_quotes(schema):
                quoted: Any = list(texts)  # one for each prompt
                sampling["quote_from"] = quoted
            sampling["max_tokens"] = settings.max_tokens
        else:
            sampling["choices"] = choices
        return GenerateOptions(
            sampling=sampling,
            on_error=settings.on_error,
            show_schema=False,  # the codebook's prompt describes the fields
            **self._rendering,
        )

    @property
    def _rendering(self) -> dict[str, Any]:
        """Options of the chat template, and the system message."""
        return {**self._work.settings.rendering, "system": self.around.system}

    def _seed(self) -> int:
        """Return the seed of the next call; equal seeds would repeat the same draws."""
        seed = self._work.settings.seed
        if self._work.is_piece or not self._n_asked:
            return seed
        return derive_seed(seed, self._n_asked)

    @cached_property
    def _room(self) -> int:
        """Return the maximum number of tokens of a text, without prompt and answer."""
        settings = self._work.settings
        options = self._context.options
        room = self._context.model.n_ctx_train
        n_ctx, n_seq_max = options["n_ctx"], options["n_seq_max"]
        if isinstance(n_ctx, int):
            is_shared = options["kv_layout"] != "per_sequence"
            several = n_seq_max if isinstance(n_seq_max, int) and not is_shared else 1
            room = min(room, n_ctx // several)
        answer = settings.max_tokens if settings.method == "generate" else _SPECIAL
        if settings.evidence is not None:
            answer += settings.max_tokens + _LABEL
        if isinstance(settings.thinking, Thinking):
            answer += settings.thinking.budget + len(settings.thinking.message) + _MARKERS
        around = self._prepare_call(self.around.prompts([""])[:1], self._options(), None)
        n_around = around.progress.n_prompt_tokens_total
        return max(1, room - n_around - answer - _SLACK)


def is_failure(error: str | None) -> bool:
    """Return True if the error shows a failure, not a cancelled or blank text."""
    return code_of(error) not in (None, CANCELLED.code, BLANK.code)
