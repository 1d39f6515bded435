"""Conversion of texts to calls, and of the results of calls to answers."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from llamaherd.calls.api.classify import prepare_classify
from llamaherd.calls.api.generate import prepare_generate
from llamaherd.calls.asks.options import ClassifyOptions, GenerateOptions, PromptOptions
from llamaherd.calls.asks.rendering import notice_thinking
from llamaherd.calls.asks.requests import place_of
from llamaherd.calls.run.host import Elsewhere
from llamaherd.calls.structured.quotable import QuoteRule
from llamaherd.calls.structured.quoting import KEYWORD, text_has_quotes
from llamaherd.coding.annotation.answers import (
    answers_of_classes,
    answers_of_split,
    answers_of_texts,
)
from llamaherd.coding.annotation.prompts import frame_of
from llamaherd.coding.annotation.texts import parts_of
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.core.thinking import Thinking
from llamaherd.engine.native.shim import derive_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.calls.asks.keywords import SamplingSettings
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.hosted import LoopCall
    from llamaherd.coding.annotation.answers import Answers
    from llamaherd.coding.annotation.settings import CodingWork

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


class Asking:
    """Builds calls for texts, and converts the results of the calls to answers.

    Args:
        context: Context for the calls.
        work: Texts to code, with codebook and settings.

    Attributes:
        around: Parts of the prompt before and after each text.
    """

    def __init__(self, context: Host, work: CodingWork) -> None:
        self.around = frame_of(work.codebook, chat=work.settings.chat)
        self._context = context
        self._work = work
        self._n_asked = 0  # number of prompts of earlier calls

    @property
    def n_a_text(self) -> int:
        """Number of prompts for each text."""
        return len(self.around.after)

    def check(self) -> None:
        """Raise an error for invalid settings or labels before anything runs."""
        self._prepared([], None)
        if not isinstance(self._context, Elsewhere):
            notice_thinking(self._context.model, PromptOptions(**self._rendering))

    def call(self, texts: Sequence[str], journal: Journal | None) -> LoopCall[Any]:
        """Build a call that stores results in the journal and leaves the journal open."""
        prompts = self.around.prompts(texts)
        call = self._prepared(prompts, journal, texts)
        self._n_asked += len(prompts)
        return call

    def quoting(
        self, texts: Sequence[str], labels: Sequence[str], journal: Journal | None
    ) -> LoopCall[Any]:
        """Build a call that quotes from each text the passage that supports its label."""
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
        places = list(map(place_of, prompts)) if self._work.is_piece else None
        self._n_asked += len(prompts)
        return prepare_generate(
            self._context, prompts, options, journal=journal, places=places
        ).call

    def answers(
        self,
        results: Any,  # noqa: ANN401 - of calls of both kinds
        parts: Sequence[Sequence[Part]],
    ) -> Answers:
        """Convert the results of a call to answers per text, from the parts of each."""
        codebook, settings = self._work.codebook, self._work.settings
        if settings.method == "classify":
            answers = answers_of_classes(results, self.n_a_text)
        else:
            starts = [part.start for parts_of_text in parts for part in parts_of_text]
            answers = answers_of_texts(results, codebook, starts)
        n_parts = list(map(len, parts))
        return answers_of_split(answers, n_parts, settings.split, codebook.names)

    def parts(self, text: str) -> list[Part]:
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

    # ---- private ----

    def _prepared(
        self, prompts: list[str], journal: Journal | None, texts: Sequence[str] = ()
    ) -> LoopCall[Any]:
        settings, codebook = self._work.settings, self._work.codebook
        fixed = codebook.fixed
        is_several = codebook.kind.is_several
        choices = [fixed["yes"], fixed["no"]] if is_several else list(codebook.names)
        places = list(map(place_of, prompts)) if self._work.is_piece else None
        if settings.method == "classify":
            options = ClassifyOptions(
                labels=choices,
                normalize=settings.normalize,
                pmi_prompt=self.around.before.rstrip(" ") + self.around.after[0],
                on_error=settings.on_error,
                n_thoughts=settings.n_thoughts,
                seed=self._seed(),
                **self._rendering,
            )
            scored = prepare_classify(
                self._context, prompts, options, journal=journal, places=places
            )
            return scored.call
        sampling_settings: SamplingSettings = {
            "temperature": settings.temperature,
            "seed": self._seed(),
        }
        if codebook.kind.is_generated:
            schema = codebook.written_schema
            sampling_settings["schema"] = schema
            if texts and text_has_quotes(schema):
                quoted: Any = list(texts)  # one for each prompt
                sampling_settings["quote_from"] = quoted
            sampling_settings["max_tokens"] = settings.max_tokens
        else:
            sampling_settings["choices"] = choices
        generation = prepare_generate(
            self._context,
            prompts,
            GenerateOptions(
                sampling=sampling_settings,
                on_error=settings.on_error,
                show_schema=False,  # the codebook's prompt describes the fields
                **self._rendering,
            ),
            journal=journal,
            places=places,
        )
        return generation.call

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
        around = self._prepared(self.around.prompts([""])[:1], None)
        n_around = around.progress.n_prompt_tokens_total
        return max(1, room - n_around - answer - _SLACK)
