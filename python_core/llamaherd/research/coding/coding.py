"""Coding a column of texts, block by block, so that memory holds one block's prompts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.api.classify import prepare_classify
from llamaherd.api.generate import DEFAULT_RETRIES, prepare_generate
from llamaherd.core.calibration import calibrate_batch, calibrate_contextual
from llamaherd.core.errors import GenerationError
from llamaherd.core.stats import Progress
from llamaherd.native.shim import derive_seed
from llamaherd.research.coding.answers import (
    CANCELLED,
    Answers,
    bound,
    joined,
    of_classes,
    of_rows,
    of_texts,
    summed,
)
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.columns import as_results, table_of
from llamaherd.research.coding.prompts import frame_of
from llamaherd.research.coding.record import record_of
from llamaherd.research.coding.texts import (
    hash_of_texts,
    is_blank,
    parts_of,
    unique_texts,
)
from llamaherd.research.frames import with_columns
from llamaherd.run.requests import place_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.core.calibration import Calibration
    from llamaherd.core.results import Results
    from llamaherd.core.sampling import SamplingSettings
    from llamaherd.core.scores import ClassifyResults
    from llamaherd.core.stats import Stats
    from llamaherd.research.coding.codebook import Codebook
    from llamaherd.research.coding.settings import Settings
    from llamaherd.run.group import GroupLoop
    from llamaherd.run.host import Host
    from llamaherd.run.job import Runnable

# Prompts that are prepared together, in about a second, before the first of them runs.
# Slots that are empty at a block's end cost less than a hundredth of it.
BLOCK = 2048
BLANK = "the text is empty"
# Texts without content, as Zhao et al. 2021 take them (arXiv 2102.09690).
CONTENT_FREE = ("N/A", "[MASK]", "")
_SLACK = 8  # tokens: pieces of a text are cut into tokens otherwise than the whole
_SPECIAL = 16  # tokens of an answer that is scored, at most, if it is not generated


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be coded, and how.

    Attributes:
        frame: The caller's data frame.
        text: Name of the column of texts.
        texts: Its n values; None where there is none.
        codebook: By which they are coded.
        settings: How.
        columns: Names of the new columns by role; those not wanted are not in it.
        versions: Further ones for the record.
        is_piece: Whether these are some rows of a whole whose other rows are not known: a
            prompt's seed is then made of its text, not of its place.
    """

    frame: Any
    text: str
    texts: list[str | None]
    codebook: Codebook
    settings: Settings
    columns: dict[str, str]
    versions: Mapping[str, str] = field(default_factory=dict)
    is_piece: bool = False


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
        self._around = frame_of(work.codebook, chat=work.settings.chat)
        self._unique, self._rows = unique_texts(work.texts)
        self._done: list[Progress] = []
        self._current: Runnable[Any] | None = None
        self._is_cancelled = False
        self._stats: list[Stats] = []
        self._calibration: Calibration | None = None
        self._started_s = time.perf_counter()
        self._n_asked = len(self._around.after)
        self._n_left = len(self._unique) * self._n_asked  # prompts not yet prepared
        self._n_asked_before = 0  # prompts of earlier blocks

    @property
    def progress(self) -> Progress:
        """How far it is. Of texts to come, what there is to read is not known yet."""
        current = self._current
        parts = [*self._done, *([] if current is None else [current.progress])]
        return Progress(
            n_done=sum(part.n_done for part in parts),
            n_failed=sum(part.n_failed for part in parts),
            n_total=sum(part.n_total for part in parts) + self._n_left,
            n_prompt_tokens=sum(part.n_prompt_tokens for part in parts),
            n_prompt_tokens_total=sum(part.n_prompt_tokens_total for part in parts),
            n_generated_tokens=sum(part.n_generated_tokens for part in parts),
            elapsed_s=time.perf_counter() - self._started_s,
        )

    def cancel(self) -> None:
        """Ends it soon; from any thread."""
        self._is_cancelled = True
        current = self._current
        if current is not None:
            current.cancel()

    def check(self) -> None:
        """Raises what is wrong with settings and labels, before anything runs."""
        self._prepared([], None)

    def run(self, loop: GroupLoop) -> Coded:
        """Codes the texts.

        Raises:
            GenerationError: A text failed, and `on_error` is "stop".
            ContextClosedError: The context was closed.
            ContextError: There is not enough memory.
            JournalError: The journal is damaged.
        """
        self._started_s = time.perf_counter()
        record = self._record()
        settings = self._work.settings
        failure: str | None = None
        if settings.calibrate == "contextual" and self._unique:
            prompts = self._around.prompts(CONTENT_FREE)
            self._calibration = calibrate_contextual(self._run_prompts(prompts, loop))
        parts: list[Answers] = []
        block = max(1, BLOCK // self._n_asked)
        for start in range(0, len(self._unique), block):
            texts = self._unique[start : start + block]
            if self._is_cancelled or failure is not None:
                break
            answers, failure = self._run_block(texts, loop)
            parts.append(answers)
            if settings.on_error == "return":
                failure = next(filter(_is_failure, answers.errors), None)
        coded = self.collected(parts, record)
        if failure is not None and settings.on_error == "stop":
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
        stats = summed(self._stats)
        record["n_rows"] = len(work.texts)
        record["n_texts"] = len(self._unique)
        record["texts_sha256"] = hash_of_texts(work.texts)
        record["calibration"] = (
            None if self._calibration is None else self._calibration.to_json()
        )
        record["seconds"] = round(time.perf_counter() - self._started_s, 3)
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
        return self.collected([], self._record())

    # ---- inside ----

    def _record(self) -> dict[str, Any]:
        work = self._work
        return record_of(
            self.context,
            work.codebook,
            self._around,
            work.settings.to_dict(),
            work.versions,
        )

    def _run_block(self, texts: list[str], loop: GroupLoop) -> tuple[Answers, str | None]:
        """Answers of some texts, and why the call must end, if it must."""
        work = self._work
        cut = [self._parts(text) for text in texts]
        pieces = [part for parts in cut for part in parts]
        self._n_left -= len(texts) * self._n_asked
        failure = None
        try:
            results = self._run_prompts(self._around.prompts(pieces), loop)
        except GenerationError as error:
            failure, results = str(error), error.results
        if work.settings.method == "classify":
            found = of_classes(results, self._n_asked)
        else:
            found = of_texts(results, work.codebook)
        n_parts = [len(parts) for parts in cut]
        k = len(work.codebook.names)
        return joined(found, n_parts, work.settings.split, k), failure

    def _run_prompts(self, prompts: list[str], loop: GroupLoop) -> Any:  # noqa: ANN401
        _, call, _ = self._prepared(prompts, self._work.settings.journal)
        self._current = call
        self._n_asked_before += len(prompts)
        if self._is_cancelled:  # in between: nobody else has told the call
            call.cancel()
        try:
            results: ClassifyResults | Results = call.run(loop)
        except GenerationError as error:
            self._stats.append(error.results.stats)
            raise
        finally:
            self.problem = self.problem or call.problem
            self._done.append(call.progress)
            self._current = None
        self._stats.append(results.stats)
        return results

    def _prepared(
        self, prompts: list[str], journal: str | None
    ) -> tuple[Host, Runnable[Any], object]:
        """A call. One with a journal has to be run, which closes the file."""
        settings, codebook = self._work.settings, self._work.codebook
        fixed = codebook.fixed
        is_several = codebook.type == "multiple"
        choices = [fixed["yes"], fixed["no"]] if is_several else list(codebook.names)
        if settings.method == "classify":
            return prepare_classify(
                self.context,
                prompts,
                choices,
                normalize=settings.normalize,
                pmi_prompt=self._around.before.rstrip(" ") + self._around.after[0],
                space="auto",
                parse_special="auto",
                on_error=settings.on_error,
                journal=journal,
                chat=settings.chat,
                system=self._around.system,
            )
        wanted: SamplingSettings = {
            "temperature": settings.temperature,
            "seed": self._seed(),
        }
        if codebook.type == "fields":
            wanted["schema"] = codebook.schema
            wanted["max_tokens"] = settings.max_tokens
        else:
            wanted["choices"] = choices
        return prepare_generate(
            self.context,
            prompts,
            n=1,
            params=None,
            settings=wanted,
            parse_special="auto",
            on_error=settings.on_error,
            journal=journal,
            chat=settings.chat,
            system=self._around.system,
            strict=False,
            retries=DEFAULT_RETRIES,
            logprobs=None,
            places=[place_of(each) for each in prompts] if self._work.is_piece else None,
        )

    def _seed(self) -> int:
        """Of the next block: its prompts count from 0, so blocks would draw alike."""
        seed, n_before = self._work.settings.seed, self._n_asked_before
        return (
            derive_seed(seed, n_before) if n_before and not self._work.is_piece else seed
        )

    def _parts(self, text: str) -> list[str]:
        settings = self._work.settings
        if settings.split is None:
            return [text]
        parts = parts_of(self.context.model, text, self._room)
        if settings.split == "first":
            return parts[:1]
        return parts[-1:] if settings.split == "last" else parts

    @cached_property
    def _room(self) -> int:
        """Most tokens that a text may have beside its prompt and its answer."""
        settings = self._work.settings
        if settings.part_tokens is not None:
            return settings.part_tokens
        options = self.context.options
        room = self.context.model.n_ctx_train
        n_ctx, n_seq_max = options["n_ctx"], options["n_seq_max"]
        if isinstance(n_ctx, int):
            is_shared = options["kv_layout"] != "per_sequence"
            several = n_seq_max if isinstance(n_seq_max, int) and not is_shared else 1
            room = min(room, n_ctx // several)
        answer = settings.max_tokens if settings.method == "generate" else _SPECIAL
        around = self._prepared(self._around.prompts([""])[:1], None)[1]
        n_around = around.progress.n_prompt_tokens_total
        return max(1, room - n_around - answer - _SLACK)

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
