"""Processing of a request, from its bytes to the bytes of its answer, for every API."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from llamaherd.calls.run.hosted import HostedCall
from llamaherd.engine.core.errors import CutOffError
from llamaherd.engine.core.request import AbandonedError
from llamaherd.engine.core.words import spoken_in
from llamaherd.server import errors
from llamaherd.server.echo import EchoedResult, start_echo
from llamaherd.server.errors import JSON, JSON_WITHOUT_CHAT
from llamaherd.server.formats import AnswerFormat, PathFormat, Prepared, WorkFormat
from llamaherd.server.limits import CONSTRAINING, check_form
from llamaherd.server.protocol import (
    ClientGoneError,
    RequestRecord,
    dumps,
    encode_json,
    read_object,
    send_event,
    send_json,
    start_events,
)
from llamaherd.server.running import ParsedRequest, Running, start_several
from llamaherd.server.threads import AwaitedJob, kind_of, n_items, run_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from starlette.types import Receive, Scope, Send

    from llamaherd.calls.run.handle import Handle
    from llamaherd.engine.core.results import Result, Results
    from llamaherd.server.answers import FormWriter
    from llamaherd.server.state import SharedState
    from llamaherd.server.threads import Kind, Submit

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
        *("prompt", "model", "max_tokens", "max_completion_tokens", "temperature"),
        *("top_p", "top_k", "min_p", "seed", "stop", "stream", "stream_options"),
        *("user", "priority"),
    }
)


@dataclass(frozen=True, slots=True)
class JsonRequest:
    """A request whose body was read."""

    fields: dict[str, object]  # fields of the body
    n_bytes: int  # size of the body
    record: RequestRecord  # record for the log
    receive: Receive  # channel that reports a disconnect
    send: Send  # channel of the answer


class Endpoint(ABC):
    """ASGI application of a path that takes JSON."""

    def __init__(self, shared: SharedState, form: PathFormat | type[PathFormat]) -> None:
        self._shared = shared
        self._fields = form.fields
        self._error_event = form.error_event
        self._terms = JSON if "chat" in form.fields else JSON_WITHOUT_CHAT

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; after an error, answer with the error."""
        record: RequestRecord = scope["llamaherd.record"]
        with spoken_in(self._terms):
            await self._respond(scope, record, receive, send)

    async def _respond(
        self, scope: Scope, record: RequestRecord, receive: Receive, send: Send
    ) -> None:
        is_background = record.is_background
        parsing = self._shared.threads.pool("parse", is_background=is_background)
        most = self._shared.max_body
        try:
            # Bodies of batches are in memory already.
            with nullcontext() if is_background else self._shared.bodies.body() as hold:
                fields, n_bytes = await read_object(scope, receive, most, parsing, hold)
                if is_background and "priority" in self._fields:
                    fields["priority"] = LAST_PRIORITY
                with nullcontext() if is_background else self._shared.queue.slot():
                    request = JsonRequest(fields, n_bytes, record, receive, send)
                    await self.answer(request)
        except ClientGoneError:
            record.is_gone = True
        except asyncio.CancelledError:  # the server stops at once
            with suppress(asyncio.TimeoutError):
                last_words = self._fail(errors.stopping(), record, send)
                await asyncio.wait_for(last_words, _LAST_WORDS_S)
        except Exception as error:  # noqa: BLE001 - no request ends the server
            await self._fail(error, record, send)

    @abstractmethod
    async def answer(self, request: JsonRequest) -> None:
        """Answer one request; errors are sent by the caller."""

    async def _fail(self, error: Exception, record: RequestRecord, send: Send) -> None:
        api_error = errors.of_exception(error, self._fields)
        if api_error is None:
            api_error = errors.internal(error)
        if record.status:  # the answer has begun: send an event with the error
            await send_event(send, self._error_event(api_error), is_last=True)
        else:
            await send_json(send, api_error.status, api_error.body, api_error.headers)


class Computing(ABC):
    """Answers of a model, whose work ends if the client leaves or the time is over."""

    def __init__(self, shared: SharedState, form: PathFormat) -> None:
        self._shared = shared
        self._served = form.served
        self._lacks_text = form.needs_text and form.served.ctx is None

    async def answer(self, request: JsonRequest) -> None:
        """Answer one request; errors are sent by the `Endpoint`."""
        if self._lacks_text:
            name = self._served.settings.model_name
            raise errors.ApiError(
                400,
                f"the model {name!r} computes embeddings only (/v1/embeddings, "
                "/v1/rerank)",
                param="model",
                code="embeddings_only",
            )
        timeout_s = None if request.record.is_background else self._shared.timeout_s
        running = self._shared.enter(Running(request.receive, timeout_s))
        try:
            await self.compute(request, running)
        except (errors.ApiError, AbandonedError) as error:
            if running.is_gone:
                raise ClientGoneError from None
            if isinstance(error, AbandonedError):
                raise running.error() from None
            raise
        finally:
            self._shared.leave(running)

    def _pools(
        self, request: JsonRequest
    ) -> tuple[ThreadPoolExecutor, ThreadPoolExecutor]:
        """Return the threads that check a request, and those of its further work."""
        threads, is_background = self._shared.threads, request.record.is_background
        kind = kind_of(request.fields, request.n_bytes)
        pool = threads.pool(kind, is_background=is_background)
        if CONSTRAINING.isdisjoint(request.fields):
            return pool, pool
        return threads.pool("compile", is_background=is_background), pool

    @abstractmethod
    async def compute(self, request: JsonRequest, running: Running) -> None:
        """Answer one request, which may be ended early at any time."""


class Answering(Computing):
    """Application of a path whose answers are generated texts."""

    def __init__(self, shared: SharedState, form: AnswerFormat) -> None:
        super().__init__(shared, form)
        self._ctx: Any = form.served.ctx
        self._format = form

    async def compute(self, request: JsonRequest, running: Running) -> None:
        fields, n_bytes = request.fields, request.n_bytes
        first, pool = self._pools(request)

        def submit() -> ParsedRequest:
            check_form(fields, n_bytes)
            parsed, running.handle = self._submit_now(fields, pool.submit, request.record)
            return parsed

        if n_bytes < _LONG_BODY and fields.keys() <= _QUICK and n_items(fields) == 1:
            parsed = submit()
        else:
            parsed = await running.prepared(first.submit, submit)
        with errors.renaming_fields(parsed.names):
            await self._answer(parsed, running, request.record, request.send)

    def _submit_now(
        self, fields: dict[str, object], submit: Submit, record: RequestRecord
    ) -> tuple[ParsedRequest, Handle | AwaitedJob[Results]]:
        parsed = self._format.understand(fields)
        if record.is_background:
            last = {"priority": LAST_PRIORITY}
            parsed = replace(parsed, options={**parsed.options, **last})
        for prompt in parsed.prompts:
            _check_ids(prompt, self._ctx.model.n_vocab)
        with errors.renaming_fields(parsed.names):
            if parsed.returns_prompts:
                return parsed, start_echo(self._ctx, parsed, submit)
            if parsed.n_answers > 1:
                return parsed, start_several(self._ctx, parsed, submit)
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
        answer = self._format.answer(parsed)
        if parsed.stream:
            record.results = results = await self._send_pieces(
                answer, running, record, send
            )
            n = _n_values(results)
            last = await self._make_part(lambda: answer.end(results), n, record)
            await send_event(send, last, is_last=True)
        else:
            record.results = results = await running.results()
            n = _n_values(results)
            write = encode_json if n > _FEW_VALUES else _dump_body  # which is faster
            body = await self._make_part(lambda: write(answer.whole(results)), n, record)
            await send_json(send, 200, body)

    async def _send_pieces(
        self, answer: FormWriter, running: Running, record: RequestRecord, send: Send
    ) -> list[Result]:
        """Send pieces as they arrive. An error before the first piece sets the status."""
        with suppress(CutOffError):  # comes after the last piece; `results` handles it
            if not isinstance(running.handle, AwaitedJob):
                async for piece in running.handle.pieces():
                    if record.status:
                        await send_event(send, answer.piece(piece))
                    else:
                        await start_events(send, self._format.media_type)
                        await send_event(send, answer.start() + answer.piece(piece))
        results = await running.results()
        if not record.status:
            await start_events(send, self._format.media_type)
            await send_event(send, answer.start())
        return results

    async def _make_part(
        self, make: Callable[[], _T], n: int, record: RequestRecord
    ) -> _T:
        """Return a part of the answer, made outside of the event loop if it is long."""
        if n <= _FEW_VALUES:
            return make()
        kind: Kind = "short" if n <= _MANY_VALUES else "long"
        pool = self._shared.threads.pool(kind, is_background=record.is_background)
        return await run_on(pool, make)


def _dump_body(body: object) -> bytes:
    """Return a short body of an answer as JSON."""
    return dumps(body).encode("ascii")


def _n_values(results: Sequence[Result]) -> int:
    """Return an estimate of the number of values in the answer of results."""
    return sum(_n_values_of(result) for result in results)


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


class Working(Computing):
    """Application of a path whose answers are never streamed."""

    def __init__(self, shared: SharedState, form: WorkFormat) -> None:
        super().__init__(shared, form)
        self._format = form

    async def compute(self, request: JsonRequest, running: Running) -> None:
        first, pool = self._pools(request)
        record = request.record

        def start() -> Prepared[Any] | bytes:
            check_form(request.fields, request.n_bytes)
            prepared = self._format.prepare(request.fields)
            if isinstance(prepared, dict):
                return encode_json(prepared)
            running.handle = AwaitedJob(prepared, self._submit_of(prepared, pool, record))
            return prepared

        body = await running.prepared(first.submit, start)
        if isinstance(body, Prepared):
            prepared = body
            try:
                results = await running.outcome()
            finally:
                record.stats = prepared.stats
            body = await run_on(pool, lambda: encode_json(prepared.render(results)))
        await send_json(request.send, 200, body)

    def _submit_of(
        self, prepared: Prepared[Any], pool: ThreadPoolExecutor, record: RequestRecord
    ) -> Submit:
        """Return the function that lets a thread run a step of the work."""
        if isinstance(prepared.work, HostedCall) and prepared.work.is_stepped:
            return pool.submit
        threads = self._shared.threads
        return threads.pool(prepared.kind, is_background=record.is_background).submit
