"""Thoughts before answers and before scores."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from llamaherd.calls.asks.answers import seeded
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.sampling import (
    CONSTRAINTS,
    OF_REQUEST,
    PER_PROMPT,
    SamplingParams,
)
from llamaherd.engine.core.thinking import Thinking
from llamaherd.engine.core.words import setting
from llamaherd.engine.model.tokens import Joiner, detokenize
from llamaherd.engine.native.shim import derive_seed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.request import Request, ThoughtStage
    from llamaherd.engine.core.results import Result
    from llamaherd.engine.model.model import Model


# Settings that only apply to the answer.
_OF_ANSWER = {
    **dict.fromkeys((*PER_PROMPT, *OF_REQUEST)),
    "logit_bias": (),
    "ignore_eos": False,
    "min_tokens": 0,
    "stop_token_ids": (),
}


# A few cells of a KV cache are not available for prompts.
_SPARE_CELLS = 64


def capacity_of(n_ctx: object, n_ctx_train: int) -> int:
    """Return the number of tokens that a prompt with thought and answer may have."""
    if not isinstance(n_ctx, int):
        return n_ctx_train
    return min(max(1, n_ctx - _SPARE_CELLS), n_ctx_train)


def within(request: Request, capacity: int) -> Request:
    """Reduce the budget of a thought so that prompt, thought and answer fit."""
    thought = request.thought
    n_over = request.n_cells - capacity
    if thought is None or n_over <= 0:
        return request
    budget = max(0, thought.budget - n_over)
    return replace(request, thought=replace(thought, budget=budget))


def is_constrained(sampling: SamplingParams) -> bool:
    """Return whether answers with these settings are constrained."""
    return any(getattr(sampling, name) not in (None, "") for name in CONSTRAINTS)


class Thoughts:
    """Creates stages of thoughts with the settings of the answers."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[SamplingParams, SamplingParams]] = {}

    def of(
        self, stage: ThoughtStage | None, sampling: SamplingParams
    ) -> ThoughtStage | None:
        """Return the stage, with the answer's settings that also apply to thoughts."""
        if stage is None:
            return None
        known = self._known.get(id(sampling))
        if known is None:
            answer_sampling = replace(sampling, **_OF_ANSWER)  # type: ignore[arg-type] # of many types
            known = self._known[id(sampling)] = sampling, answer_sampling
        return replace(stage, sampling=known[1])


def tail_of(stage: ThoughtStage) -> array[int]:
    """Return the fixed tokens between a thought and its answer."""
    return array("i", (*stage.end, *stage.after))


_ONE = SamplingParams()  # a single thought uses the most likely tokens
# Settings for several thoughts, as recommended by authors of thinking models.
_SEVERAL = SamplingParams(temperature=0.6, top_p=0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thought:
    """Thought before labels were scored; `is_complete` if the model itself ended it."""

    text: str
    n_tokens: int
    is_complete: bool


def thought_of(result: Result) -> Thought | None:
    """Return the thought of a result; None without a thought."""
    if result.thinking is None:
        return None
    return Thought(
        text=result.thinking,
        n_tokens=result.n_thinking_tokens,
        is_complete=bool(result.thinking_complete),
    )


def joined_thoughts(thoughts: Sequence[Thought]) -> Thought | None:
    """Combine thoughts: the first text, the sum of tokens; complete if all are."""
    if not thoughts:
        return None
    return Thought(
        text=thoughts[0].text,
        n_tokens=sum(thought.n_tokens for thought in thoughts),
        is_complete=all(thought.is_complete for thought in thoughts),
    )


def check_thoughts(thinking: object, n_thoughts: int, normalize: str) -> None:
    """Check that options of thoughts are consistent."""
    check_n_thoughts(thinking, n_thoughts)
    if isinstance(thinking, Thinking) and normalize == "pmi":
        raise ArgumentError(
            "subtracts the log-probability without a text, but without a text the model "
            "has nothing to think about: use another normalization, or no thinking",
            argument="normalize",
            code="conflict",
            form=f"{setting('normalize', 'pmi')} {{problem}}",
        )


def check_n_thoughts(thinking: object, n_thoughts: int) -> None:
    """Check that several thoughts are asked for only with thinking."""
    if n_thoughts > 1 and not isinstance(thinking, Thinking):
        raise ArgumentError(
            f"is {n_thoughts}, but without thinking there are no thoughts: add "
            f"{setting('thinking', 256)}",
            argument="n_thoughts",
            code="missing",
        )


def with_thoughts(
    requests: Sequence[Request], n: int, seed: int, places: Sequence[int] | None = None
) -> list[Request]:
    """Return a request for each of n thoughts of each prompt; a single one is greedy."""
    if n == 1:
        return list(requests)
    completed = []
    for place, request in zip(places or range(len(requests)), requests, strict=True):
        base = derive_seed(seed, place)
        seeds = [base, *(derive_seed(base, j) for j in range(1, n))]
        completed += [seeded(request, seed) for seed in seeds]
    return completed


class BehindThoughts:
    """Tokens of continuations after thoughts."""

    def __init__(self, model: Model, n: int = 1) -> None:
        self._model = model
        self._sampling = _ONE if n == 1 else _SEVERAL
        self._joiner = Joiner(model, True)
        self._known: dict[object, tuple[ThoughtStage, list[array[int]]]] = {}

    def join(
        self, stage: ThoughtStage, texts: Sequence[str]
    ) -> tuple[ThoughtStage, list[array[int]]]:
        """Tokenize continuations with the end of a thought; move shared tokens."""
        key = (stage, tuple(texts))
        if key not in self._known:
            joined, continuations = self._joined(stage, texts)
            self._known[key] = replace(joined, sampling=self._sampling), continuations
        return self._known[key]

    def _joined(
        self, stage: ThoughtStage, texts: Sequence[str]
    ) -> tuple[ThoughtStage, list[array[int]]]:
        tail = array("i", (*stage.end, *stage.after))
        text = detokenize(self._model, tail, unparse_special=True)
        tokens = self._joiner.prompt("thinking", text)
        joined = self._joiner.join(text, tokens, texts)
        n_moved = len(tokens) - len(joined.prompt)
        moved = tuple(tokens[len(joined.prompt) :])
        # Only tokens after the end marker may be moved into a continuation.
        parts = [
            (part[: len(part) - n_moved], part[len(part) - n_moved :])
            for part in (stage.after, stage.closing)
        ]
        if n_moved > len(stage.after) or any(end != moved for _, end in parts):
            return stage, self._joiner.join(tail, tail, texts).continuations
        (after, _), (closing, _) = parts
        return replace(stage, after=after, closing=closing), joined.continuations
