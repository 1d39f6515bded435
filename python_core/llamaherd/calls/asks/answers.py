"""Conversion of an engine's output to a `Result`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from llamaherd.engine.core.errors import (
    AnswerError,
    CutOffError,
    Failure,
    GenerationError,
)
from llamaherd.engine.core.outcome import Finish, Output
from llamaherd.engine.core.results import FinishReason, Result
from llamaherd.engine.core.words import name_of
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from llamaherd.engine.core.request import Request, ThoughtStage
    from llamaherd.engine.core.stats import RequestStats

_SEEDS_OF_RETRIES = 2**32  # offset of seeds, beyond the samples of a prompt
_SEED_OF_THOUGHT = 2**33  # offset of a thought's seed, above samples and retries
_TEMPERATURE_OF_RETRIES = 0.7  # if the first answer was greedy

_FINISH_REASON: dict[Finish, FinishReason] = {
    Finish.EOG: "stop",
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.CANCELLED: "cancelled",
    Finish.ERROR: "error",
}


class Answer(NamedTuple):
    """Output of a request, checked against its schema; for a wrong answer, an error."""

    output: Output
    value: object = None
    failure: type[GenerationError] = GenerationError

    @property
    def is_wrong(self) -> bool:
        """Whether the answer is complete and violates the schema."""
        return self.failure is AnswerError


def check_answer(request: Request, output: Output) -> Answer:
    """Check an answer against the schema of its request, if any."""
    shape = request.shape
    if shape is None or output.finish in (Finish.CANCELLED, Finish.ERROR):
        return Answer(output)
    if output.finish is Finish.LENGTH:
        problem = Failure(
            f"the answer was cut off by {name_of('max_tokens')} ({request.max_tokens}) "
            "before it was complete under the schema",
            "cut_off",
        )
        cut = replace(output, finish=Finish.ERROR, message=problem)
        return Answer(cut, failure=CutOffError)
    try:
        return Answer(output, shape.read(output.text))
    except ValueError as error:
        text = str(error)
        if request.stop and not _is_json(output.text):  # masks allow only JSON
            text = (
                f"a text of {name_of('stop')} ended the answer before it was complete "
                "under the schema"
            )
        problem = Failure(text, "schema_not_followed")
        failed = replace(output, finish=Finish.ERROR, message=problem, complete=False)
        return Answer(failed, failure=AnswerError)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def seeded_thought(thought: ThoughtStage | None, seed: int) -> ThoughtStage | None:
    """Return the thought with a seed that is derived from the seed of its request."""
    if thought is None or thought.sampling.is_greedy:
        return thought
    return replace(thought, seed=shim.derive_seed(seed, _SEED_OF_THOUGHT))


def with_seed(request: Request, seed: int) -> Request:
    """Return a request with another seed, from which its thought's seed is derived."""
    return replace(request, seed=seed, thought=seeded_thought(request.thought, seed))


def again(request: Request, n_tries: int) -> Request:
    """Return the request of a retry."""
    sampling = request.sampling
    if sampling.is_greedy:  # a greedy retry would repeat the answer
        sampling = replace(sampling, temperature=_TEMPERATURE_OF_RETRIES)
    seed = shim.derive_seed(request.seed, _SEEDS_OF_RETRIES + n_tries)
    thought = request.thought
    if thought is not None and thought.sampling.is_greedy:
        warm = replace(thought.sampling, temperature=_TEMPERATURE_OF_RETRIES)
        request = replace(request, thought=replace(thought, sampling=warm))
    return with_seed(replace(request, sampling=sampling), seed)


def as_result(
    index: int,
    request: Request,
    output: Output,
    stats: RequestStats | None,
    *,
    sample: int = 0,
    n_reused: int | None = None,
    parsed: object = None,
) -> Result:
    """Convert the output of the engine to the result for a caller."""
    is_finished = output.finish not in (Finish.CANCELLED, Finish.ERROR)
    has_partial = not is_finished and bool(output.tokens or output.text)
    n_prompt = request.n_prompt if output.n_prompt is None else output.n_prompt
    thinking = None if output.thinking is None else output.thinking.strip()
    return Result(
        index=index,
        sample=sample,
        text=output.text if is_finished else None,
        partial=output.text if has_partial else None,
        tokens=list(output.tokens),
        finish_reason=_FINISH_REASON[output.finish],
        complete=output.complete,
        error=output.message if output.finish is Finish.ERROR else None,
        n_prompt_tokens=n_prompt,
        n_reused_tokens=output.n_reused if n_reused is None else n_reused,
        seed=request.seed,
        thinking=thinking,
        n_thinking_tokens=output.n_thinking_tokens,
        thinking_complete=output.thinking_complete,
        stats=stats,
        parsed=parsed,
        logprobs=None if output.logprobs is None else list(output.logprobs),
        top_logprobs=None if output.top_logprobs is None else list(output.top_logprobs),
        ranks=output.ranks if is_finished else None,
        scores=output.scores if is_finished else None,
        n_counted=output.n_generated,
    )
