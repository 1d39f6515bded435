"""From texts to calls: what is asked of the model about them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from llamaherd.api.classify import prepare_classify
from llamaherd.api.generate import DEFAULT_RETRIES, prepare_generate
from llamaherd.native.shim import derive_seed
from llamaherd.research.coding.answers import joined, of_classes, of_texts
from llamaherd.research.coding.prompts import frame_of
from llamaherd.research.coding.texts import parts_of
from llamaherd.run.requests import place_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.core.sampling import SamplingSettings
    from llamaherd.journal.journal import Journal
    from llamaherd.research.coding.answers import Answers
    from llamaherd.research.coding.work import Work
    from llamaherd.run.host import Host
    from llamaherd.run.job import Runnable

# Tokens of a part. What attention takes grows with the square of a part, so that parts as
# long as the context took several times as long as these.
PART = 2048
_SLACK = 8  # tokens: pieces of a text are cut into tokens otherwise than the whole
_SPECIAL = 16  # tokens of an answer that is scored, at most, if it is not generated


class Asking:
    """Makes calls of texts, and answers of what calls returned.

    Args:
        context: Where they will run.
        work: What is to be coded.

    Attributes:
        around: What stands around each text in prompts.
    """

    def __init__(self, context: Host, work: Work) -> None:
        self.around = frame_of(work.codebook, chat=work.settings.chat)
        self._context = context
        self._work = work
        self._n_asked = 0  # prompts of earlier calls

    @property
    def n_a_text(self) -> int:
        """Prompts that are asked of each text."""
        return len(self.around.after)

    def check(self) -> None:
        """Raises what is wrong with settings and labels, before anything runs."""
        self._prepared([], None)

    def call(self, texts: Sequence[str], journal: Journal | None) -> Runnable[Any]:
        """A call about texts, whose results a journal keeps, which stays open."""
        prompts = self.around.prompts(texts)
        made = self._prepared(prompts, journal)
        self._n_asked += len(prompts)
        return made

    def answers(self, results: Any, n_parts: Sequence[int]) -> Answers:  # noqa: ANN401
        """What a call's results say of texts, of which each has so many parts."""
        codebook, settings = self._work.codebook, self._work.settings
        if settings.method == "classify":
            found = of_classes(results, self.n_a_text)
        else:
            found = of_texts(results, codebook)
        return joined(found, n_parts, settings.split, len(codebook.names))

    def parts(self, text: str) -> list[str]:
        """What of a text is asked about: itself, or its parts."""
        settings = self._work.settings
        if settings.split is None:
            return [text]
        n_tokens, room = settings.part_tokens, settings.part_tokens
        if n_tokens is None or room is None:
            n_tokens, room = min(self._room, PART), self._room
        parts = parts_of(self._context.model, text, n_tokens, room)
        if settings.split == "first":
            return parts[:1]
        return parts[-1:] if settings.split == "last" else parts

    # ---- inside ----

    def _prepared(self, prompts: list[str], journal: Journal | None) -> Runnable[Any]:
        settings, codebook = self._work.settings, self._work.codebook
        fixed = codebook.fixed
        is_several = codebook.type == "multiple"
        choices = [fixed["yes"], fixed["no"]] if is_several else list(codebook.names)
        if settings.method == "classify":
            _, made, _ = prepare_classify(
                self._context,
                prompts,
                choices,
                normalize=settings.normalize,
                pmi_prompt=self.around.before.rstrip(" ") + self.around.after[0],
                space="auto",
                parse_special="auto",
                on_error=settings.on_error,
                journal=journal,
                chat=settings.chat,
                system=self.around.system,
            )
            return made
        wanted: SamplingSettings = {
            "temperature": settings.temperature,
            "seed": self._seed(),
        }
        if codebook.type == "fields":
            wanted["schema"] = codebook.schema
            wanted["max_tokens"] = settings.max_tokens
        else:
            wanted["choices"] = choices
        _, call, _ = prepare_generate(
            self._context,
            prompts,
            n=1,
            params=None,
            settings=wanted,
            parse_special="auto",
            on_error=settings.on_error,
            journal=journal,
            chat=settings.chat,
            system=self.around.system,
            strict=False,
            retries=DEFAULT_RETRIES,
            logprobs=None,
            places=[place_of(each) for each in prompts] if self._work.is_piece else None,
        )
        return call

    def _seed(self) -> int:
        """Of the next call: its prompts count from 0, so calls would draw alike."""
        seed = self._work.settings.seed
        if self._work.is_piece or not self._n_asked:
            return seed
        return derive_seed(seed, self._n_asked)

    @cached_property
    def _room(self) -> int:
        """Most tokens that a text may have beside its prompt and its answer."""
        settings = self._work.settings
        options = self._context.options
        room = self._context.model.n_ctx_train
        n_ctx, n_seq_max = options["n_ctx"], options["n_seq_max"]
        if isinstance(n_ctx, int):
            is_shared = options["kv_layout"] != "per_sequence"
            several = n_seq_max if isinstance(n_seq_max, int) and not is_shared else 1
            room = min(room, n_ctx // several)
        answer = settings.max_tokens if settings.method == "generate" else _SPECIAL
        around = self._prepared(self.around.prompts([""])[:1], None)
        n_around = around.progress.n_prompt_tokens_total
        return max(1, room - n_around - answer - _SLACK)
