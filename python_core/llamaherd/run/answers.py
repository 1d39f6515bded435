"""From an engine's output to a `Result`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from llamaherd.core.errors import AnswerError, CutOffError, GenerationError
from llamaherd.core.outcome import Finish, Output
from llamaherd.core.results import Result
from llamaherd.native import shim

if TYPE_CHECKING:
    from llamaherd.core.request import Request
    from llamaherd.core.results import FinishReason
    from llamaherd.core.stats import RequestStats

_SEEDS_OF_RETRIES = 2**32  # beyond the samples of a prompt
_TEMPERATURE_OF_RETRIES = 0.7  # where the first answer was not drawn

CANCELLED = Output(finish=Finish.CANCELLED)

_FINISH_REASON: dict[Finish, FinishReason] = {
    Finish.EOG: "stop",
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.CANCELLED: "cancelled",
    Finish.ERROR: "error",
}


class Answer(NamedTuple):
    """An output that was checked against its schema.

    Attributes:
        output: As it came, or an error that keeps its text.
        value: What it says; None without a schema.
        failure: Kind of the failure of an answer that failed.
    """

    output: Output
    value: object = None
    failure: type[GenerationError] = GenerationError

    @property
    def is_wrong(self) -> bool:
        """Test for an answer that came to its end but does not follow the schema."""
        return self.failure is AnswerError


def checked(request: Request, output: Output) -> Answer:
    """Checks an answer that must follow a schema; others are as they came.

    Args:
        request: What was asked.
        output: What became of it.
    """
    shape = request.shape
    if shape is None or output.finish in (Finish.CANCELLED, Finish.ERROR):
        return Answer(output)
    if output.finish is Finish.LENGTH:
        problem = (
            f"the answer was cut off by max_tokens ({request.max_tokens}) before it "
            "followed the schema to its end"
        )
        cut = replace(output, finish=Finish.ERROR, message=problem)
        return Answer(cut, failure=CutOffError)
    try:
        return Answer(output, shape.read(output.text))
    except ValueError as error:
        failed = replace(output, finish=Finish.ERROR, message=str(error), complete=False)
        return Answer(failed, failure=AnswerError)


def again(request: Request, n_tries: int) -> Request:
    """The request that tries for another answer.

    Args:
        request: The first one.
        n_tries: Answers that were wrong.
    """
    sampling = request.sampling
    if sampling.is_greedy:  # which would give the same again
        sampling = replace(sampling, temperature=_TEMPERATURE_OF_RETRIES)
    seed = shim.derive_seed(request.seed, _SEEDS_OF_RETRIES + n_tries)
    return replace(request, sampling=sampling, seed=seed)


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
    """What a caller gets of a prompt.

    Args:
        index: The prompt's place in the call.
        request: What was asked.
        output: What became of it.
        stats: What it took; None: it was not run.
        sample: Which of the prompt's samples it is.
        n_reused: Prompt tokens that were not computed for it; None: as in `output`.
        parsed: What the answer says.
    """
    is_finished = output.finish not in (Finish.CANCELLED, Finish.ERROR)
    return Result(
        index=index,
        sample=sample,
        text=output.text if is_finished else None,
        partial=None if is_finished or not output.tokens else output.text,
        tokens=list(output.tokens),
        finish_reason=_FINISH_REASON[output.finish],
        complete=output.complete,
        error=output.message if output.finish is Finish.ERROR else None,
        n_prompt_tokens=len(request.tokens),
        n_reused_tokens=output.n_reused if n_reused is None else n_reused,
        seed=request.seed,
        stats=stats,
        parsed=parsed,
        logprobs=None if output.logprobs is None else list(output.logprobs),
        top_logprobs=None if output.top_logprobs is None else list(output.top_logprobs),
        scores=output.scores if is_finished else None,
    )
