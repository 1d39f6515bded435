"""Several answers of one request: of a list of prompts, or several samples of each."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING

from llamaherd.api.generate import prepare_generate
from llamaherd.asks.options import GenerateOptions
from llamaherd.core.errors import AnswerError, GenerationError, PromptError
from llamaherd.core.results import Results
from llamaherd.core.stats import Stats
from llamaherd.run.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from llamaherd.core.results import Result
    from llamaherd.run.host import Host
    from llamaherd.run.hosted import HostedCall
    from llamaherd.server.api_shape import ParsedRequest

MOST = 2048  # answers of a request
_KINDS: dict[str, type[GenerationError]] = {
    "schema_not_followed": AnswerError,
    **dict.fromkeys(("empty", "too_long", "not_tokenized", "chat_template"), PromptError),
}


def start_several(ctx: Host, parsed: ParsedRequest) -> SeveralAnswers:
    """Start a call for all answers of a request.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: A field is out of range.
        ContextClosedError: The context was closed.
    """
    options = GenerateOptions(
        **parsed.options, params=parsed.params, n=parsed.n, on_error="return"
    )
    return SeveralAnswers(prepare_generate(ctx, parsed.prompts, options))


class SeveralAnswers:
    """Answers of one request, as one call. `await` returns them, ordered by prompt.

    Args:
        call: Call that computes them.
    """

    def __init__(self, call: HostedCall[Results]) -> None:
        self._call = call
        self._lock = Lock()
        self._listeners: list[Callable[[], object]] = []
        self._is_done = False
        self._job: Job[Results] = Job(self)

    @property
    def progress(self) -> object:
        """Counts of what is finished."""
        return self._call.progress

    @property
    def problem(self) -> str:
        """Warning for the caller after the run; always ""."""
        return self._call.problem

    def run(self) -> Results:
        """Compute the answers, on the thread of the job."""
        try:
            return self._call.run()
        finally:
            with self._lock:
                self._is_done = True
                listeners, self._listeners = self._listeners, []
            for listener in listeners:
                listener()

    def done(self) -> bool:
        """Whether all answers are finished."""
        return self._is_done

    def cancel(self) -> None:
        """End the call within a step; returns at once."""
        self._call.cancel()

    def __await__(self) -> Generator[object, None, list[Result]]:
        """Wait for the answers.

        Raises:
            GenerationError: A prompt failed; the results begin with it.
            ContextClosedError: The context was closed.
        """
        return self._wait().__await__()

    async def _wait(self) -> list[Result]:
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        with self._lock:
            if self._is_done:
                event.set()
            else:
                self._listeners.append(lambda: loop.call_soon_threadsafe(event.set))
        try:
            await event.wait()
        except asyncio.CancelledError:
            self.cancel()
            raise
        results = self._job.outcome()
        return [_answer(each) for samples in results.samples for each in samples]


def _answer(result: Result) -> Result:
    """Return a result as an answer; one that max_tokens cut off has its text so far.

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
    """Return the result of an answer that max_tokens cut off, with its text so far."""
    return replace(
        result,
        text=result.partial or "",
        partial=None,
        finish_reason="length",
        error=None,
    )
