"""A prompt on its way, and who ends it before its time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from llamaherd.core.errors import CutOffError
from llamaherd.server.errors import ApiError, stopping, timed_out

if TYPE_CHECKING:
    from starlette.types import Receive

    from llamaherd.core.results import Result
    from llamaherd.run.handle import Handle


def as_cut(error: CutOffError) -> Result:
    """The result of an answer that max_tokens cut off, with the text so far."""
    failed: Result = error.results[0]
    return replace(
        failed,
        text=failed.partial or "",
        partial=None,
        finish_reason="length",
        error=None,
    )


Reason = Literal["gone", "timeout", "stopping"]


class Running:
    """Ends a prompt when its client goes away, when time is over, when the server ends.

    Whoever ends it cancels its handle and nothing else: what waits for the handle is
    answered within a step, and `result` tells why.

    Args:
        handle: Of the prompt.
        receive: Tells when the client goes away.
        timeout_s: Seconds that it may take; None: any.
    """

    def __init__(self, handle: Handle, receive: Receive, timeout_s: float | None) -> None:
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
        """Whether nobody waits for the answer."""
        return self._reason == "gone"

    def end(self, reason: Reason) -> None:
        """Cancels the prompt. The first reason counts."""
        if self._reason is None and not self.handle.done():
            self._reason = reason
            self.handle.cancel()

    def close(self) -> None:
        """Stops looking at the client. A prompt that nobody waits for any more ends."""
        self._watcher.cancel()
        if self._timer is not None:
            self._timer.cancel()
        self.handle.cancel()

    async def result(self) -> Result:
        """The result, once it is there.

        An answer that max_tokens cut off before the end of its schema is one of finish
        reason "length", as an answer without a schema is: the client set both.

        Raises:
            ApiError: It was ended before its time.
            GenerationError: It failed.
        """
        try:
            result: Result = await self.handle
        except CutOffError as error:
            return as_cut(error)
        if result.finish_reason == "cancelled":
            raise self._error()
        return result

    def _error(self) -> ApiError:
        if self._reason == "timeout" and self._timeout_s is not None:
            return timed_out(self._timeout_s)
        return stopping()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.end("gone")
