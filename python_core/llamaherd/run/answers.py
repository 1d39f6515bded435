"""From an engine's output to a `Result`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core.outcome import Finish, Output
from llamaherd.core.results import Result

if TYPE_CHECKING:
    from llamaherd.core.request import Request
    from llamaherd.core.results import FinishReason
    from llamaherd.core.stats import RequestStats

CANCELLED = Output(finish=Finish.CANCELLED)

_FINISH_REASON: dict[Finish, FinishReason] = {
    Finish.EOG: "stop",
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.CANCELLED: "cancelled",
    Finish.ERROR: "error",
}


def as_result(
    index: int,
    request: Request,
    output: Output,
    stats: RequestStats | None,
    *,
    sample: int = 0,
    n_reused: int | None = None,
) -> Result:
    """What a caller gets of a prompt.

    Args:
        index: The prompt's place in the call.
        request: What was asked.
        output: What became of it.
        stats: What it took; None: it was not run.
        sample: Which of the prompt's samples it is.
        n_reused: Prompt tokens that were not computed for it; None: as in `output`.
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
    )
