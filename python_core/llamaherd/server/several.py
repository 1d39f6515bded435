"""Several answers to one request: for several prompts, or samples of a prompt."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from llamaherd.api.generate import prepare_generate
from llamaherd.asks.options import GenerateOptions
from llamaherd.core.errors import AnswerError, GenerationError, PromptError
from llamaherd.core.results import Results
from llamaherd.core.stats import Stats
from llamaherd.run.call import Call
from llamaherd.server.awaited import AwaitedJob
from llamaherd.server.costs import check_kept

if TYPE_CHECKING:
    from collections.abc import Generator

    from llamaherd.core.results import Result
    from llamaherd.run.host import Host
    from llamaherd.server.api_shape import ParsedRequest
    from llamaherd.server.work_threads import Submitting

MOST = 2048  # answers of a request
_KINDS: dict[str, type[GenerationError]] = {
    "schema_not_followed": AnswerError,
    **dict.fromkeys(
        ("missing", "empty", "too_long", "not_tokenized", "chat_template"), PromptError
    ),
}


def start_several(
    ctx: Host, parsed: ParsedRequest, threads: Submitting
) -> SeveralAnswers:
    """Start a call for all answers of a request.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A field is out of range.
        ContextClosedError: The context was closed.
    """
    # An answer that max_tokens cuts off is an answer here, but a failure of the call:
    # with "return", answers that wait for a slot would then not start.
    options = GenerateOptions(
        **parsed.options, params=parsed.params, n=parsed.n, on_error="continue"
    )
    work = prepare_generate(ctx, parsed.prompts, options)
    if options.logprobs is not None and isinstance(work.call, Call):
        n = sum(each.max_tokens for each in work.call.requests)
        check_kept("logprobs", n, options.logprobs)
    return SeveralAnswers(work, threads)


class SeveralAnswers(AwaitedJob[Results]):
    """Answers of one request, as one call; `await` returns a list, ordered by prompt."""

    def __await__(self) -> Generator[object, None, list[Result]]:
        """Wait for the answers.

        Raises:
            GenerationError: A prompt failed; `results` of the error has its result.
            ContextClosedError: The context was closed.
        """
        return self._answers().__await__()

    async def _answers(self) -> list[Result]:
        results = await self.outcome()
        return [_answer(each) for samples in results.samples for each in samples]


def _answer(result: Result) -> Result:
    """Return a result as an answer; an answer cut off by max_tokens has its text so far.

    Raises:
        GenerationError: The prompt failed.
    """
    if result.error is None:
        return result
    if result.error_code == "cut_off":
        return as_cut(result)
    kind = _KINDS.get(result.error_code or "", GenerationError)
    stats = Stats(n_prompts=1)
    raise kind(f"the prompt failed: {result.error}", Results([result], stats))


def as_cut(result: Result) -> Result:
    """Return the result of an answer that max_tokens cut off, with its text so far.

    The result keeps its error, which `/generate` reports.
    """
    return replace(
        result, text=result.partial or "", partial=None, finish_reason="length"
    )
