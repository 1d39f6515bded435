"""Requests in progress, and the causes that can end them early."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from llamaherd.calls.api.generate import prepare_generate
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.errors import (
    AnswerError,
    CutOffError,
    GenerationError,
    PromptError,
)
from llamaherd.engine.core.request import AbandonedError, Preparing, check_wanted
from llamaherd.engine.core.results import Result, Results
from llamaherd.engine.core.stats import Stats
from llamaherd.server.errors import ApiError, stopping, timed_out
from llamaherd.server.limits import check_kept
from llamaherd.server.threads import AwaitedJob

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from concurrent.futures import Future

    from starlette.types import Receive

    from llamaherd.calls.run.handle import Handle
    from llamaherd.calls.run.host import Host
    from llamaherd.server.shapes import ParsedRequest
    from llamaherd.server.threads import AwaitedWork, Submit

_T = TypeVar("_T")
Reason = Literal["gone", "timeout", "stopping"]


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
        """Handle of one prompt, of several answers, or of a job without generated text.

        The thread that prepares the request sets it.
        """
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

        self._pending = submit(partial(copy_context().run, work))
        made: asyncio.Future[_T] = asyncio.wrap_future(self._pending)
        try:
            await asyncio.wait([made])  # does not raise if only the future is cancelled
        except asyncio.CancelledError:
            made.cancel()  # nobody reads its error
            raise
        if made.cancelled():
            raise AbandonedError
        return made.result()

    async def results(self) -> list[Result]:
        """Wait for the answers, ordered by prompt.

        An answer that max_tokens cut off before the end of its schema has the finish
        reason "length", like an answer without a schema.
        """
        try:
            found = await self.handle
        except CutOffError as error:
            return [as_cut(error.results[0])]
        results = [found] if isinstance(found, Result) else found
        if any(result.finish_reason == "cancelled" for result in results):
            raise self.error()
        return results

    async def outcome(self) -> Any:  # noqa: ANN401 - of any work
        """Wait for the results of a job whose results are not `Result` objects."""
        found = await self.handle
        if self._reason is not None:
            raise self.error()
        return found

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
_KINDS: dict[str, type[GenerationError]] = {
    "schema_not_followed": AnswerError,
    **dict.fromkeys(
        ("missing", "empty", "too_long", "not_tokenized", "chat_template"), PromptError
    ),
}


def start_several(ctx: Host, parsed: ParsedRequest, submit: Submit) -> SeveralAnswers:
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
    return SeveralAnswers(work, submit)


class SeveralAnswers(AwaitedJob[Results]):
    """Answers of one request, as one call; `await` returns a list, ordered by prompt."""

    def __await__(self) -> Generator[object, None, list[Result]]:
        """Wait for the answers."""
        return self._answers().__await__()

    async def _answers(self) -> list[Result]:
        results = await self.outcome()
        return [_answer(sample) for samples in results.samples for sample in samples]


def _answer(result: Result) -> Result:
    """Return a result as an answer; one that max_tokens cut off has its text."""
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


if TYPE_CHECKING:
    AnyHandle = Handle | SeveralAnswers | AwaitedWork[Any]
