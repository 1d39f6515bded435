"""Running prompts, and the causes that can end them early."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.core.errors import CutOffError
from llamaherd.core.results import Result
from llamaherd.server.errors import ApiError, stopping, timed_out
from llamaherd.server.several import SeveralAnswers, as_cut

if TYPE_CHECKING:
    from starlette.types import Receive

    from llamaherd.run.handle import Handle
    from llamaherd.server.awaited import AwaitedWork


Reason = Literal["gone", "timeout", "stopping"]


class Running:
    """Running prompts of a request, which a disconnect, a timeout or the server may end.

    Each cause only cancels the handle. The wait for the handle then ends within one
    decoding step, and `results` raises the error that names the cause.

    Args:
        handle: Handle of one prompt, of several answers, or of a job without generated
            text.
        receive: Channel that reports a disconnect.
        timeout_s: Maximum duration in seconds; None for no limit.
    """

    def __init__(
        self,
        handle: Handle | SeveralAnswers | AwaitedWork[Any],
        receive: Receive,
        timeout_s: float | None,
    ) -> None:
        self.handle = handle
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

    def end(self, reason: Reason) -> None:
        """Cancel the prompt; the first reason is kept."""
        if self._reason is None and not self.handle.done():
            self._reason = reason
            self.handle.cancel()

    def close(self) -> None:
        """Stop watching the client and cancel an unfinished prompt."""
        self._watcher.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self.handle.cancel()

    async def results(self) -> list[Result]:
        """Wait for the answers, ordered by prompt.

        An answer that max_tokens cut off before the end of its schema has the finish
        reason "length", like an answer without a schema.

        Raises:
            ApiError: The prompt was ended early.
            GenerationError: The prompt failed.
        """
        try:
            found = await self.handle
        except CutOffError as error:
            return [as_cut(error.results[0])]
        results = [found] if isinstance(found, Result) else found
        if any(each.finish_reason == "cancelled" for each in results):
            raise self._error()
        return results

    async def outcome(self) -> Any:  # noqa: ANN401 - of any work
        """Wait for the results of a job whose results are not `Result` objects.

        Raises:
            ApiError: The job was ended early.
        """
        found = await self.handle
        if self._reason is not None:
            raise self._error()
        return found

    def _error(self) -> ApiError:
        if self._reason == "timeout" and self._timeout_s is not None:
            return timed_out(self._timeout_s)
        return stopping()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end("gone")
