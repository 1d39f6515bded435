"""Middleware of every request: access, log, metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from llamaherd.server.api_shape import counts
from llamaherd.server.dashboard import DATA, PAGES
from llamaherd.server.errors import ApiError, stopping
from llamaherd.server.messages import send_json
from llamaherd.server.record import RequestRecord
from llamaherd.server.request_id import HEADER, request_id

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from llamaherd.server.limits import Guard
    from llamaherd.server.metrics import Metrics
    from llamaherd.server.shared_state import SharedState

log = logging.getLogger(__name__)

OPEN = frozenset(("/health", *PAGES))  # paths that need no key and disclose nothing
FIGURES = "/metrics"  # paths that are answered even during shutdown
_OTHER = "(other)"  # an unknown path may contain a prompt


class AccessMiddleware:
    """Middleware that checks access and logs each request without its content.

    Args:
        app: Inner application.
        guard: Access checks.
        shared: Shared state, with the shutdown flag.
        metrics: Counters of requests.
        paths: Paths that may appear in the log and the metrics.
    """

    def __init__(
        self,
        app: ASGIApp,
        guard: Guard,
        shared: SharedState,
        metrics: Metrics,
        paths: Collection[str],
    ) -> None:
        self._app = app
        self._guard = guard
        self._shared = shared
        self._metrics = metrics
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the inner application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = time.perf_counter()
        scope["llamaherd.record"] = record = RequestRecord()
        sent = _sending(record, send, request_id(scope))
        try:
            self._guard.check(scope, is_open=scope["path"] in OPEN)
            if self._shared.is_ending and scope["path"] != FIGURES:
                raise stopping()
            await self._app(scope, receive, sent)
        except ApiError as error:
            await send_json(sent, error.status, error.body, error.headers)
        except asyncio.CancelledError:  # the server stops at once, while a body is read
            record.is_gone = True
        finally:
            self._note(scope, record, time.perf_counter() - start)

    def _note(self, scope: Scope, record: RequestRecord, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._paths else _OTHER
        self._metrics.count(path, record, seconds)
        tokens = ""
        if record.results:
            n_prompt, n_new = counts(record.results)
            tokens = f" {n_prompt}+{n_new} tokens"
        # The dashboard sends a request every second, which would hide all other lines.
        level = logging.DEBUG if path == DATA else logging.INFO
        line = (scope["method"], path, record.outcome, seconds, tokens)
        log.log(level, "%s %s %d %.3f s%s", *line)


def _sending(record: RequestRecord, send: Send, id_: bytes) -> Send:
    """Send an answer with the id of its request, and record its status."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            record.status = message["status"]
            message = {**message, "headers": [*message["headers"], (HEADER, id_)]}
        await send(message)

    return sent
