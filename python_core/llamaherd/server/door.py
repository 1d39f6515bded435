"""What every request passes: who may come in, the log, the figures."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from llamaherd.server.errors import ApiError, stopping
from llamaherd.server.messages import Incoming, send_json
from llamaherd.server.record import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from llamaherd.server.house import House
    from llamaherd.server.limits import Guard
    from llamaherd.server.metrics import Metrics

log = logging.getLogger(__name__)

OPEN = frozenset(("/health",))  # what needs no key, and tells nothing
FIGURES = "/metrics"  # what is answered to the end
_OTHER = "(other)"  # a path may be anything, a prompt as well


class Door:
    """Lets requests in and writes a line for each: never what they ask.

    Args:
        app: What is behind.
        guard: Knows whom to let in.
        house: Knows whether the server ends.
        metrics: Where they are counted.
        paths: Those that the log and the figures may name.
    """

    def __init__(
        self,
        app: ASGIApp,
        guard: Guard,
        house: House,
        metrics: Metrics,
        paths: Collection[str],
    ) -> None:
        self._app = app
        self._guard = guard
        self._house = house
        self._metrics = metrics
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        scope["llamaherd.record"] = record = Record()
        incoming = Incoming(scope, receive, self._house.connections)
        scope["llamaherd.incoming"] = incoming
        sent = _sending(record, incoming, send)
        try:
            self._guard.check(scope, is_open=scope["path"] in OPEN)
            if self._house.is_ending and scope["path"] != FIGURES:
                raise stopping()
            await self._app(scope, incoming.receive, sent)
        except ApiError as error:
            await send_json(sent, error.status, error.body, error.headers)
        except asyncio.CancelledError:  # the server ends at once, in the middle of a body
            record.is_gone = True
        finally:
            self._note(scope, record, time.perf_counter() - start)

    def _note(self, scope: Scope, record: Record, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._paths else _OTHER
        self._metrics.count(path, record, seconds)
        result = record.result
        tokens = (
            ""
            if result is None
            else f" {result.n_prompt_tokens}+{result.n_generated_tokens} tokens"
        )
        log.info(
            "%s %s %d %.3f s%s", scope["method"], path, record.outcome, seconds, tokens
        )


def _sending(record: Record, incoming: Incoming, send: Send) -> Send:
    """Sends an answer, and notes its status.

    A connection whose request was not read to its end is closed after the answer: what is
    left would be taken for the next request, or come forever. Before that the rest is
    read, so that the client gets to read the answer.
    """

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            record.status = message["status"]
            if not incoming.is_whole:
                message = {**message, "headers": _closing(message["headers"])}
            await send(message)
        elif incoming.is_whole or message.get("more_body", False):
            await send(message)
        else:
            await send({**message, "more_body": True})
            await incoming.drain()
            await send({"type": "http.response.body", "body": b""})

    return sent


def _closing(
    headers: Iterable[tuple[bytes, bytes]],
) -> list[tuple[bytes, bytes]]:
    """Headers of an answer that is the connection's last."""
    others = [each for each in headers if each[0].lower() != b"connection"]
    return [*others, (b"connection", b"close")]
