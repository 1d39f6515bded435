"""Middleware of every request: access, log, metrics."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from typing import TYPE_CHECKING

from starlette.datastructures import Headers

from llamaherd.server.errors import ApiError, internal, stopping
from llamaherd.server.pages import DATA, STATIC_FILES, Metrics
from llamaherd.server.protocol import ID_HEADER, RequestRecord, request_id, send_json
from llamaherd.server.running import counts

if TYPE_CHECKING:
    from collections.abc import Collection

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from llamaherd.server.settings import ServerSettings
    from llamaherd.server.state import SharedState

log = logging.getLogger(__name__)
OPEN = frozenset(
    ("/health", *STATIC_FILES)
)  # paths that need no key and disclose nothing
FIGURES = "/metrics"  # paths that are answered even during shutdown
_OTHER = "(other)"  # an unknown path may contain a prompt


class AccessMiddleware:
    """Middleware that checks access and logs each request without its content."""

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
            record.user = self._checked_user(scope)
            await self._app(scope, receive, sent)
        except ApiError as error:
            await send_json(sent, error.status, error.body, error.headers)
        except Exception as error:  # of a page; endpoints answer with theirs
            if record.status:
                raise
            failed = internal(error)
            await send_json(sent, failed.status, failed.body)
        except asyncio.CancelledError:  # the server stops at once, while a body is read
            record.is_gone = True
        finally:
            self._note(scope, record, time.perf_counter() - start)

    def _checked_user(self, scope: Scope) -> str:
        user = self._guard.check(scope, is_open=scope["path"] in OPEN)
        if self._shared.is_ending and scope["path"] != FIGURES:
            raise stopping()
        return user

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
            message = {**message, "headers": [*message["headers"], (ID_HEADER, id_)]}
        await send(message)

    return sent


def _is_own(origin: str, host: str, scope: Scope) -> bool:
    """Return whether a page of this server sends a request.

    A page with HTTPS comes from a proxy, which has another port: the server has no TLS.
    """
    scheme, _, named = origin.partition("://")
    if not host or named != host:
        return False
    _, port = scope.get("server") or ("", None)
    has_proxy = host.rpartition(":")[2] != str(port)
    return scheme == "http" or (scheme == "https" and has_proxy)


class Guard:
    """Access checks of requests."""

    def __init__(self, settings: ServerSettings) -> None:
        self._hosts = settings.hosts
        keys = [("", settings.api_key)] if settings.api_key is not None else []
        # Clients encode non-ASCII letters differently.
        self._keys = [
            (name, key.encode(encoding))
            for name, key in (*keys, *settings.user_keys.items())
            for encoding in ("utf-8", "latin-1")
        ]

    def check(self, scope: Scope, *, is_open: bool) -> str:
        """Check the headers of a request; return the name of the person who sends it.

        A foreign web page in a browser can send requests to a server on the same machine
        in two ways. It can use a host name that resolves to this machine; the Host header
        shows this name. Or it sends a cross-origin request; the Origin header names the
        page's own origin.
        """
        headers = Headers(scope=scope)
        hosts, origin = headers.getlist("host"), headers.get("origin")
        host = hosts[0] if len(hosts) == 1 else ""
        if self._hosts is not None and not self._hosts.admits(host):
            raise ApiError(
                403,
                "the Host header names another server (see --allowed-host)",
                code="host",
            )
        if origin and not _is_own(origin, host, scope):
            raise ApiError(403, "pages of other origins are refused", code="origin")
        return self._name_of(headers) if self._keys and not is_open else ""

    def _name_of(self, headers: Headers) -> str:
        """Check a key in the header of OpenAI's clients, or of Anthropic's."""
        scheme, _, sent = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            sent = headers.get("x-api-key", "")
        sent_key = sent.strip().encode("latin-1")
        # All keys are compared, so that the time does not tell which one is similar.
        names = [name for name, key in self._keys if hmac.compare_digest(sent_key, key)]
        if not names:
            raise ApiError(
                401,
                "the API key is missing or wrong (Authorization: Bearer ...)",
                code="invalid_api_key",
                headers=(("www-authenticate", "Bearer"),),
            )
        return names[0]
