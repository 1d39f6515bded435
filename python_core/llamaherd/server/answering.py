"""From a request's bytes to its answer's, the same way for every API."""

from __future__ import annotations

import asyncio
import logging
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.errors import CutOffError
from llamaherd.core.sampling import CONSTRAINTS
from llamaherd.server import errors
from llamaherd.server.messages import (
    ClientGoneError,
    read_object,
    send_event,
    send_json,
    start_events,
)
from llamaherd.server.running import Running

if TYPE_CHECKING:
    from concurrent.futures import Future

    from starlette.types import Receive, Scope, Send

    from llamaherd.core.results import Result
    from llamaherd.run.handle import Handle
    from llamaherd.server.house import House
    from llamaherd.server.record import Record
    from llamaherd.server.wanted import Answer, Shape, Wanted

log = logging.getLogger(__name__)

_LAST_WORDS_S = 1.0  # a client that reads nothing must not keep the server
# Tokenizing so much takes about a millisecond. More is done beside the event loop.
_LONG_BODY = 1 << 14
# Fields that take no time worth mentioning in a short body. A request with any other one
# is understood beside the event loop: what it can cost is not known here.
_QUICK = frozenset(
    {
        "prompt",
        "model",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "user",
        "priority",
    }
)
# Fields of which constraints are made. These wait for each other, and for nobody else.
_CONSTRAINTS = frozenset({*CONSTRAINTS, "response_format", "structured_outputs", "tools"})


class Answering:
    """An ASGI application that answers the requests of one API with the context's texts.

    Args:
        house: Where they run.
        shape: What requests and answers look like.
    """

    def __init__(self, house: House, shape: Shape) -> None:
        self._house = house
        self._shape = shape

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request, whatever comes of it."""
        record: Record = scope["llamaherd.record"]
        try:
            fields, n_bytes = await read_object(
                scope, scope["llamaherd.incoming"], self._house.bodies
            )
            with self._house.queue.place():
                wanted, handle = await self._submit(fields, n_bytes)
                running = self._house.enter(
                    Running(handle, receive, self._house.timeout_s)
                )
                try:
                    await self._answer(wanted, running, record, send)
                finally:
                    self._house.leave(running)
        except ClientGoneError:
            record.is_gone = True
        except asyncio.CancelledError:  # the server ends at once
            with suppress(asyncio.TimeoutError):
                last_words = self._fail(errors.stopping(), record, send)
                await asyncio.wait_for(last_words, _LAST_WORDS_S)
        except Exception as error:  # noqa: BLE001 - nothing that a request does ends us
            await self._fail(error, record, send)

    async def _submit(
        self, fields: dict[str, object], n_bytes: int
    ) -> tuple[Wanted, Handle]:
        if n_bytes < _LONG_BODY and fields.keys() <= _QUICK:
            return self._submit_now(fields)
        is_compiled = not _CONSTRAINTS.isdisjoint(fields)
        pool = self._house.compiling if is_compiled else self._house.pool
        pending = pool.submit(self._submit_now, fields)
        try:
            return await asyncio.wrap_future(pending)
        except asyncio.CancelledError:
            pending.add_done_callback(_drop)  # it cannot be stopped, but ends soon
            raise

    def _submit_now(self, fields: dict[str, object]) -> tuple[Wanted, Handle]:
        wanted = self._shape.understand(fields)
        _check_ids(wanted.prompt, self._house.ctx.model.n_vocab)
        return wanted, self._house.ctx.submit(
            wanted.prompt, params=wanted.params, stream=wanted.stream, **wanted.options
        )

    async def _answer(
        self, wanted: Wanted, running: Running, record: Record, send: Send
    ) -> None:
        answer = self._shape.answer(wanted)
        try:
            if wanted.stream:
                record.result = result = await _send_pieces(answer, running, record, send)
                await send_event(send, answer.end(result), is_last=True)
            else:
                record.result = result = await running.result()
                await send_json(send, 200, answer.whole(result))
        except errors.ApiError:
            if not running.is_gone:
                raise
            raise ClientGoneError from None

    async def _fail(self, error: Exception, record: Record, send: Send) -> None:
        known = errors.of_exception(error, self._shape.fields)
        if known is None:
            # Its message may have a prompt in it.
            frames = "".join(traceback.format_tb(error.__traceback__))
            log.error("%s\n%s", type(error).__name__, frames)
            known = errors.ApiError(500, "an error of the server's; see its log")
        if record.status:  # the answer has begun: an event tells that it ends
            await send_event(send, errors.event(known), is_last=True)
        else:
            await send_json(send, known.status, known.body, known.headers)


def _drop(pending: Future[tuple[Wanted, Handle]]) -> None:
    """Cancels a prompt that nobody waits for any more."""
    if not pending.cancelled() and pending.exception() is None:
        pending.result()[1].cancel()


def _check_ids(prompt: object, n_vocab: int) -> None:
    """Refuses token ids that libllama would refuse together with all that runs."""
    if not isinstance(prompt, list):
        return
    for token in prompt:
        if isinstance(token, int) and not 0 <= token < n_vocab:
            text = f"prompt has {checks.shown(token)}, which is no token of the model"
            raise errors.bad_field("prompt", text)


async def _send_pieces(
    answer: Answer, running: Running, record: Record, send: Send
) -> Result:
    """Sends what comes. An error before the first piece still gets its own status."""
    with suppress(CutOffError):  # after the last piece; `result` says what it means
        async for text in running.handle:
            if record.status:
                await send_event(send, answer.piece(text))
            else:
                await start_events(send)
                await send_event(send, answer.start() + answer.piece(text))
    result = await running.result()
    if not record.status:
        await start_events(send)
        await send_event(send, answer.start())
    return result
