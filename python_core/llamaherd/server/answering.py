"""Processing of a request, from its bytes to the bytes of its answer, for every API."""

from __future__ import annotations

import asyncio
import logging
import traceback
from abc import ABC, abstractmethod
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from llamaherd.core.errors import CutOffError
from llamaherd.core.preparing import AbandonedError
from llamaherd.core.words import spoken_in
from llamaherd.server import errors
from llamaherd.server.awaited import AwaitedWork
from llamaherd.server.costs import CONSTRAINING, check_form
from llamaherd.server.echo import EchoedResult, start_echo
from llamaherd.server.messages import (
    ClientGoneError,
    dumps,
    encoded,
    read_object,
    send_event,
    send_json,
    start_events,
)
from llamaherd.server.running import Running
from llamaherd.server.several import SeveralAnswers, start_several
from llamaherd.server.wording import JSON, JSON_WITHOUT_CHAT
from llamaherd.server.work_threads import kind_of, n_items

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from starlette.types import Receive, Scope, Send

    from llamaherd.core.results import Result
    from llamaherd.run.context import Context
    from llamaherd.run.handle import Handle
    from llamaherd.server.api_shape import AnswerWriter, ApiShape, ParsedRequest
    from llamaherd.server.record import RequestRecord
    from llamaherd.server.shared_state import SharedState
    from llamaherd.server.work_threads import Kind, Submitting

log = logging.getLogger(__name__)

_T = TypeVar("_T")

_LAST_WORDS_S = 1.0  # maximum time to send the last event to a client that does not read
LAST_PRIORITY = -100  # priority of batch requests, which yield to other requests
# Length that tokenizes in about a millisecond; longer texts leave the event loop.
_LONG_BODY = 1 << 14
# Numbers of values in an answer that are encoded within about 1 ms and 20 ms.
_FEW_VALUES, _MANY_VALUES = 1_000, 20_000
# Fields that are cheap to parse in a short body. A request with other fields is parsed
# outside of the event loop, since its cost is not known here.
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


class Endpoint(ABC):
    """ASGI application of a path that takes JSON.

    Args:
        shared: State shared by all requests.
        fields: Names of all fields of a request.
    """

    def __init__(self, shared: SharedState, fields: frozenset[str]) -> None:
        self._shared = shared
        self._fields = fields
        self._terms = JSON if "chat" in fields else JSON_WITHOUT_CHAT

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; after an error, answer with the error."""
        record: RequestRecord = scope["llamaherd.record"]
        if record.terms is JSON:
            record.terms = self._terms
        # The program that started the server may use the terms of another language.
        with spoken_in(record.terms):
            await self._respond(scope, record, receive, send)

    async def _respond(
        self, scope: Scope, record: RequestRecord, receive: Receive, send: Send
    ) -> None:
        try:
            fields, n_bytes = await read_object(
                scope,
                receive,
                self._shared.bodies,
                self._shared.threads.pool("parse", is_background=record.is_background),
            )
            is_background = record.is_background
            if is_background and "priority" in self._fields:
                fields["priority"] = LAST_PRIORITY
            with nullcontext() if is_background else self._shared.queue.slot():
                await self.answer(fields, n_bytes, record, receive, send)
        except ClientGoneError:
            record.is_gone = True
        except asyncio.CancelledError:  # the server stops at once
            with suppress(asyncio.TimeoutError):
                last_words = self._fail(errors.stopping(), record, send)
                await asyncio.wait_for(last_words, _LAST_WORDS_S)
        except Exception as error:  # noqa: BLE001 - no request ends the server
            await self._fail(error, record, send)

    @abstractmethod
    async def answer(
        self,
        fields: dict[str, object],
        n_bytes: int,
        record: RequestRecord,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer one request; errors are sent by the caller.

        Args:
            fields: Fields of the request.
            n_bytes: Size of its body.
            record: Record for the log.
            receive: Channel that reports a disconnect.
            send: Channel of the answer.
        """

    async def _fail(self, error: Exception, record: RequestRecord, send: Send) -> None:
        known = errors.of_exception(error, self._fields)
        if known is None:
            # The message may contain a prompt.
            frames = "".join(traceback.format_tb(error.__traceback__))
            log.error("%s\n%s", type(error).__name__, frames)
            known = errors.ApiError(500, "an internal error of the server; see its log")
        if record.status:  # the answer has begun: send an event with the error
            await send_event(send, errors.event(known), is_last=True)
        else:
            await send_json(send, known.status, known.body, known.headers)


class Computing(Endpoint):
    """Endpoint whose work ends early if the client leaves or the time is over."""

    async def answer(
        self,
        fields: dict[str, object],
        n_bytes: int,
        record: RequestRecord,
        receive: Receive,
        send: Send,
    ) -> None:
        """See `Endpoint`.

        Raises:
            ClientGoneError: The client has disconnected.
        """
        timeout_s = None if record.is_background else self._shared.timeout_s
        running = self._shared.enter(Running(receive, timeout_s))
        try:
            await self.compute(fields, n_bytes, record, running, send)
        except (errors.ApiError, AbandonedError) as error:
            if running.is_gone:
                raise ClientGoneError from None
            if isinstance(error, AbandonedError):
                raise running.error() from None
            raise
        finally:
            self._shared.leave(running)

    def _pools(
        self, fields: dict[str, object], n_bytes: int, record: RequestRecord
    ) -> tuple[ThreadPoolExecutor, ThreadPoolExecutor]:
        """Return the threads that check a request, and those of its further work.

        Args:
            fields: Fields of the request.
            n_bytes: Size of its body.
            record: Record of the request.
        """
        threads, is_background = self._shared.threads, record.is_background
        own = threads.pool(kind_of(fields, n_bytes), is_background=is_background)
        if CONSTRAINING.isdisjoint(fields):
            return own, own
        return threads.pool("compile", is_background=is_background), own

    @abstractmethod
    async def compute(
        self,
        fields: dict[str, object],
        n_bytes: int,
        record: RequestRecord,
        running: Running,
        send: Send,
    ) -> None:
        """Answer one request, which may be ended early at any time.

        Args:
            fields: Fields of the request.
            n_bytes: Size of its body.
            record: Record for the log.
            running: The request.
            send: Channel of the answer.
        """


class Answering(Computing):
    """ASGI application that answers the requests of one API.

    Args:
        shared: State shared by all requests.
        ctx: Context that runs prompts.
        shape: Format of requests and answers.
    """

    def __init__(self, shared: SharedState, ctx: Context, shape: ApiShape) -> None:
        super().__init__(shared, shape.fields)
        self._ctx = ctx
        self._shape = shape

    async def compute(
        self,
        fields: dict[str, object],
        n_bytes: int,
        record: RequestRecord,
        running: Running,
        send: Send,
    ) -> None:
        """See `Computing`."""
        first, own = self._pools(fields, n_bytes, record)

        def submit() -> ParsedRequest:
            check_form(fields, n_bytes)
            parsed, running.handle = self._submit_now(fields, own, record)
            return parsed

        if n_bytes < _LONG_BODY and fields.keys() <= _QUICK and n_items(fields) == 1:
            parsed = submit()
        else:
            parsed = await running.prepared(first, submit)
        await self._answer(parsed, running, record, send)

    def _submit_now(
        self, fields: dict[str, object], own: Submitting, record: RequestRecord
    ) -> tuple[ParsedRequest, Handle | SeveralAnswers]:
        with spoken_in(record.terms):
            parsed = self._shape.understand(fields)
            if record.is_background:
                last = {"priority": LAST_PRIORITY}
                parsed = replace(parsed, options={**parsed.options, **last})
            for prompt in parsed.prompts:
                _check_ids(prompt, self._ctx.model.n_vocab)
            with errors.renamed(parsed.names):
                if parsed.returns_prompts:
                    return parsed, start_echo(self._ctx, parsed, own)
                if parsed.n_answers > 1:
                    return parsed, start_several(self._ctx, parsed, own)
                handle = self._ctx.submit(
                    parsed.prompts[0],
                    params=parsed.params,
                    stream=parsed.stream,
                    **parsed.options,
                )
                if parsed.with_running_usage:
                    parsed = replace(parsed, n_prompt_tokens=handle.n_prompt_tokens)
                return parsed, handle

    async def _answer(
        self, parsed: ParsedRequest, running: Running, record: RequestRecord, send: Send
    ) -> None:
        answer = self._shape.answer(parsed)
        if parsed.stream:
            results = await _send_pieces(answer, running, record, send)
            record.results = results
            n = _n_values(results)
            last = await self._made(lambda: answer.end(results), n, record)
            await send_event(send, last, is_last=True)
        else:
            record.results = results = await running.results()
            n = _n_values(results)
            write = encoded if n > _FEW_VALUES else _dumped  # which is faster
            body = await self._made(lambda: write(answer.whole(results)), n, record)
            await send_json(send, 200, body)

    async def _made(self, make: Callable[[], _T], n: int, record: RequestRecord) -> _T:
        """Return a part of the answer, made outside of the event loop if it is long.

        Args:
            make: Function that makes the part.
            n: Number of values in the answer, see `_n_values`.
            record: Record of the request.
        """
        if n <= _FEW_VALUES:
            return make()
        kind: Kind = "short" if n <= _MANY_VALUES else "long"

        def in_terms() -> _T:
            with spoken_in(record.terms):
                return make()

        pool = self._shared.threads.pool(kind, is_background=record.is_background)
        return await asyncio.wrap_future(pool.submit(in_terms))


def _dumped(body: object) -> bytes:
    """Return a short body of an answer as JSON."""
    return dumps(body).encode("ascii")


def _n_values(results: Sequence[Result]) -> int:
    """Return an estimate of the number of values in the answer of results."""
    return sum(_n_values_of(each) for each in results)


def _n_values_of(result: Result) -> int:
    n = 16 + len(result.tokens) // 16
    if result.top_logprobs:
        n += len(result.tokens) * (1 + len(result.top_logprobs[0]))
    if isinstance(result, EchoedResult) and result.scores_of_prompt is not None:
        scores = result.scores_of_prompt
        n += len(scores.tokens) * (1 + len(scores.following))
    return n


def _check_ids(prompt: object, n_vocab: int) -> None:
    """Check token ids, since libllama would refuse the whole batch for an invalid id."""
    if not isinstance(prompt, list):
        return
    for token in prompt:
        if isinstance(token, int) and not 0 <= token < n_vocab:
            text = f"prompt has {token}, which is not a token id of the model"
            raise errors.bad_field("prompt", text)


async def _send_pieces(
    answer: AnswerWriter, running: Running, record: RequestRecord, send: Send
) -> list[Result]:
    """Send pieces as they arrive. An error before the first piece sets the status."""
    with suppress(CutOffError):  # comes after the last piece; `results` handles it
        if not isinstance(running.handle, (SeveralAnswers, AwaitedWork)):
            async for piece in running.handle.pieces():
                if record.status:
                    await send_event(send, answer.piece(piece))
                else:
                    await start_events(send)
                    await send_event(send, answer.start() + answer.piece(piece))
    results = await running.results()
    if not record.status:
        await start_events(send)
        await send_event(send, answer.start())
    return results
