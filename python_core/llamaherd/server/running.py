"""Requests in progress, and the causes that can end them early."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from llamaherd.calls.api.generate import prepare_generate
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.errors import CutOffError, Failure, GenerationError
from llamaherd.engine.core.request import Preparing, check_wanted
from llamaherd.engine.core.results import Result, Results
from llamaherd.engine.core.stats import Stats
from llamaherd.server.errors import ApiError, stopping, timed_out
from llamaherd.server.limits import check_kept
from llamaherd.server.threads import AwaitedJob, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future

    from starlette.types import Receive

    from llamaherd.calls.run.handle import Handle
    from llamaherd.calls.run.host import Host
    from llamaherd.engine.core.sampling import SamplingParams
    from llamaherd.server.threads import Submit
    from llamaherd.server.tools import ToolUse

_T = TypeVar("_T")
Reason = Literal["gone", "timeout", "stopping"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedRequest:
    """Parsed request; `Context.submit` checks its values."""

    prompts: Sequence[Any]  # prompts for `Context.submit`; most requests have one prompt
    params: SamplingParams  # sampling settings
    # Other arguments of `Context.submit`.
    options: Mapping[str, Any] = field(default_factory=dict)
    n: int = 1  # number of answers to each prompt
    stream: bool = False  # whether to send pieces as they are generated
    with_usage: bool = True  # whether to end a stream with the usage
    # Whether each piece of a stream has the usage so far.
    with_running_usage: bool = False
    n_prompt_tokens: int = 0  # number of tokens of the prompt, for the usage so far
    # Functions that the answer may call; None if there are none.
    tools: ToolUse | None = None
    echo: bool = False  # whether the answer contains the prompt before the generated text
    # Number of alternatives whose log-probabilities the answer contains for each token
    # of the prompts; None for no log-probabilities.
    prompt_logprobs: int | None = None
    # Whether the text of an answer ends with the stop text that ended it.
    includes_stop: bool = False
    # Whether no tokens are generated; only if the answer contains the prompt.
    is_empty: bool = False
    # Field of the request by argument of the library, for errors.
    names: Mapping[str, str] = field(default_factory=dict)
    # Settings of the request that the answer repeats.
    repeated: Mapping[str, object] = field(default_factory=dict)

    @property
    def returns_prompts(self) -> bool:
        """Whether answers contain their prompts or the log-probabilities of prompts."""
        return self.echo or self.prompt_logprobs is not None

    @property
    def n_answers(self) -> int:
        """Number of answers."""
        return len(self.prompts) * self.n


def counts(results: Sequence[Result]) -> tuple[int, int]:
    """Return the numbers of prompt tokens, once for all samples, and of new tokens."""
    n_prompt = sum(result.n_prompt_tokens for result in results if result.sample == 0)
    n_new = sum(
        result.n_thinking_tokens + result.n_generated_tokens for result in results
    )
    return n_prompt, n_new


def usage(results: Sequence[Result]) -> dict[str, object]:
    """Return the counts in OpenAI's format; thoughts count as completion tokens."""
    n_prompt, n_new = counts(results)
    n_reused = sum(result.n_reused_tokens for result in results if result.sample == 0)
    n_thinking = sum(result.n_thinking_tokens for result in results)
    thoughts = {"completion_tokens_details": {"reasoning_tokens": n_thinking}}
    return {
        "prompt_tokens": n_prompt,
        "completion_tokens": n_new,
        "total_tokens": n_prompt + n_new,
        "prompt_tokens_details": {"cached_tokens": n_reused},
        **(thoughts if n_thinking else {}),
    }


def usage_of_reading(n_tokens: int, **more: object) -> dict[str, object]:
    """Return the usage of a request that generates no text."""
    return {"prompt_tokens": n_tokens, "total_tokens": n_tokens, **more}


class Running:
    """Request in progress, which a disconnect, a timeout or the server may end.

    While the request is prepared, each cause ends the preparation at its next step, see
    `core.request`. Then each cause cancels the handle. The wait for the handle ends
    within one decoding step, and `results` raises the error that names the cause.

    Attributes:
        preparing: Preparation of the request, to be entered by its thread.
    """

    def __init__(self, receive: Receive, timeout_s: float | None) -> None:
        self.preparing = Preparing()
        self._pending: Future[Any] | None = None
        self._handle: AnyHandle | None = None
        self._timeout_s = timeout_s
        self._reason: Reason | None = None
        loop = asyncio.get_running_loop()
        self._watcher = loop.create_task(self._watch(receive))
        self._timer = (
            None if timeout_s is None else loop.call_later(timeout_s, self.end, "timeout")
        )

    @property
    def is_gone(self) -> bool:
        """Whether the client has disconnected."""
        return self._reason == "gone"

    @property
    def handle(self) -> AnyHandle:
        """Handle of prompts or of a job, set by the thread that prepares the request."""
        if self._handle is None:
            raise RuntimeError("the request is not prepared yet")
        return self._handle

    @handle.setter
    def handle(self, handle: AnyHandle) -> None:
        self._handle = handle
        if not self.preparing.is_wanted:
            handle.cancel()

    def end(self, reason: Reason) -> None:
        """End the preparation or the prompt; the first reason is kept."""
        is_done = self._handle is not None and self._handle.done()
        if self._reason is None and not is_done:
            self._reason = reason
            self._cancel()

    def close(self) -> None:
        """Stop watching the client; end an unfinished preparation or prompt."""
        self._watcher.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self._cancel()

    async def prepared(self, submit: Submit, prepare: Callable[[], _T]) -> _T:
        """Let a thread prepare the request, and return what `prepare` returns."""

        def work() -> _T:
            with self.preparing.entered():
                check_wanted()
                return prepare()

        self._pending = pending = submit(partial(copy_context().run, work))
        return await wait_for(pending)

    async def results(self) -> list[Result]:
        """Wait for the answers, ordered by prompt.

        An answer that max_tokens cut off before the end of its schema has the finish
        reason "length", like an answer without a schema.
        """
        try:
            outcome = await self.handle
        except CutOffError as error:
            return [as_cut(error.results[0])]
        results = [outcome]
        if isinstance(outcome, Results):
            is_list = len(outcome.samples) > 1
            results = [
                _answer(result, is_list=is_list)
                for samples in outcome.samples
                for result in samples
            ]
        if any(result.finish_reason == "cancelled" for result in results):
            raise self.error()
        return results

    async def outcome(self) -> Any:  # of any work
        """Wait for the results of a job whose results are not `Result` objects."""
        results = await self.handle
        if self._reason is not None:
            raise self.error()
        return results

    def error(self) -> ApiError:
        """Return the error of a request that was ended early."""
        if self._reason == "timeout" and self._timeout_s is not None:
            return timed_out(self._timeout_s)
        return stopping()

    def _cancel(self) -> None:
        # The order of these lines ensures that a handle that is set meanwhile is
        # cancelled, here or by the thread that sets it.
        self.preparing.end()
        if self._handle is not None:
            self._handle.cancel()
        elif self._pending is not None:
            self._pending.cancel()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end("gone")


MOST_ANSWERS = 2048  # answers of a request


def start_several(
    ctx: Host, parsed: ParsedRequest, submit: Submit
) -> AwaitedJob[Results]:
    """Start a call for all answers of a request."""
    # An answer that max_tokens cuts off is an answer here, but a failure of the call:
    # with "return", answers that wait for a slot would then not start.
    options = GenerateOptions(
        **parsed.options, params=parsed.params, n=parsed.n, on_error="continue"
    )
    work = prepare_generate(ctx, parsed.prompts, options)
    if options.logprobs is not None and isinstance(work.call, Call):
        n = sum(request.max_tokens for request in work.call.requests)
        check_kept("logprobs", n, options.logprobs)
    return AwaitedJob(work, submit)


def _answer(result: Result, *, is_list: bool) -> Result:
    """Return a result as an answer; one that max_tokens cut off has its text."""
    if result.error is None:
        return result
    if result.error_code == "cut_off":
        return as_cut(result)
    if is_list:
        reason: Any = result.error
        text = f"prompt[{result.index}]: {reason}"
        result = replace(result, error=Failure(text, reason.code, reason.argument))
    stats = Stats(n_prompts=1)
    raise GenerationError(f"the prompt failed: {result.error}", Results([result], stats))


def as_cut(result: Result) -> Result:
    """Return the result of an answer that max_tokens cut off, with its text and error."""
    return replace(
        result, text=result.partial or "", partial=None, finish_reason="length"
    )


if TYPE_CHECKING:
    AnyHandle = Handle | AwaitedJob[Any]
