"""Thoughts of requests: settings of their samplers, seeds, and tokens after them."""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

from llamaherd.engine.core.sampling import CONSTRAINTS, OF_REQUEST, PER_PROMPT

if TYPE_CHECKING:
    from llamaherd.engine.core.request import Request, ThoughtStage
    from llamaherd.engine.core.sampling import SamplingParams

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
    """Return the number of tokens that a prompt with thought and answer may have.

    Args:
        n_ctx: `n_ctx` of the context: its number of KV cells, or "auto".
        n_ctx_train: Number of tokens that the model was trained for.
    """
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
        found = self._known.get(id(sampling))
        if found is None:
            own = replace(sampling, **_OF_ANSWER)  # type: ignore[arg-type] # of many types
            found = self._known[id(sampling)] = sampling, own
        return replace(stage, sampling=found[1])


def tail_of(stage: ThoughtStage) -> array[int]:
    """Return the fixed tokens between a thought and its answer."""
    return array("i", (*stage.end, *stage.after))
