"""Starts a server, and ends it after the last answer."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from llamaherd.engine.core import phrases
from llamaherd.server.settings import bound_address

try:
    import prometheus_client as _prometheus_client
    import starlette as _starlette
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError as error:
    raise ImportError(
        f"the server needs packages that are not installed ({error}): "
        f"{phrases.install_command('server')}",
        name=error.name,
    ) from error

del _prometheus_client, _starlette

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from starlette.applications import Starlette


_OTHER_FILES = 32  # open files for models, logs and the event loop
_KEEP_ALIVE_S = 60  # seconds; longer than clients keep idle connections
_LAST_S = 2  # seconds to send errors to the remaining clients
_LOOK_S = 0.05  # seconds between checks for the end of all requests
_HANGUP: int | None = getattr(signal, "SIGHUP", None)  # Windows has none


def bind(host: str, port: int) -> socket.socket:
    """Return a bound socket that does not listen yet."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # "localhost" may be IPv4 and IPv6; most clients try IPv4.
    family, kind, protocol, _, address = min(addresses, key=lambda info: info[0])
    server_socket = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # on other systems this option would allow sharing a used
            # address
            server_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server_socket.bind(address)
    except BaseException:
        server_socket.close()
        raise
    return server_socket


def room_for(most: int) -> int:
    """Return how many of `most` connections the limit on files, raised here, allows."""
    try:
        import resource  # Windows has none, and no such limit
    except ImportError:
        return most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # A refused connection stays open until the client has read the error.
    n_files = 2 * most + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= n_files:
        return most
    most_files = n_files if hard == resource.RLIM_INFINITY else min(n_files, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, hard))
        soft = most_files
    return max(1, min(most, (soft - _OTHER_FILES) // 2))


def url(server_socket: socket.socket) -> str:
    """Return the URL of a bound server."""
    address, port = bound_address(server_socket), server_socket.getsockname()[1]
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


class Requests(Protocol):
    """Protocol of the queue whose requests a server answers before it stops."""

    @property
    def n_inside(self) -> int:
        """Number of requests that have not been answered."""


class ServedState(Protocol):
    """Protocol of the attributes and methods of an application that `Server` uses."""

    @property
    def connections(self) -> int:
        """Maximum number of connections."""

    @property
    def queue(self) -> Requests:
        """Requests that the server answers before it stops."""

    def begin_ending(self) -> None:
        """Answer new requests with an error from now on."""

    def stop(self) -> None:
        """End the running requests."""


class _Connection(HttpToolsProtocol):
    """Connection of uvicorn that keeps nothing of its last request."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accept a connection; write no log of requests, which would contain queries."""
        self.access_log = False
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the timer of idle connections, which would keep the last request."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()


class Server(uvicorn.Server):
    """Server that runs until a signal; running requests then have `grace_s` to end.

    uvicorn would raise the signal again at the end; this server returns to its caller.
    `status` is the exit status: 0, or 128 plus the number of a second signal.
    """

    def __init__(
        self, app: Starlette, *, grace_s: float, when_ready: Callable[[], None]
    ) -> None:
        shared: ServedState = app.state.shared
        config = uvicorn.Config(
            app,
            http=_Connection,
            limit_concurrency=shared.connections + 1,  # uvicorn counts the new one
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_LAST_S,
        )
        super().__init__(config)
        self.shared = shared
        self._grace_s = grace_s
        self._when_ready = when_ready
        self.status = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then call `when_ready`."""
        await super().startup(sockets)
        self._when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Wait for the end of running requests, up to a limit.

        Meanwhile the server listens and answers new requests with an error. uvicorn would
        refuse their connections, which looks like a crash.
        """
        loop = asyncio.get_running_loop()
        self.shared.begin_ending()
        end_s = loop.time() + self._grace_s + _LAST_S
        timer = loop.call_later(self._grace_s, self.shared.stop)
        while self.shared.queue.n_inside > 0 and loop.time() < end_s:
            if self.force_exit:
                break
            await asyncio.sleep(_LOOK_S)
        await super().shutdown(sockets)
        timer.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Handle a signal: the first ends the server gracefully, the second at once.

        A shell may repeat SIGHUP to a server whose terminal was closed.
        """
        if self.should_exit and sig != _HANGUP:
            self.force_exit = True
            self.status = 128 + sig
            # uvicorn would log each aborted request as cancelled.
            logging.getLogger("uvicorn.error").disabled = True
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that end a server; `nohup` ignores SIGHUP, also here."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals: list[int] = [signal.SIGINT, signal.SIGTERM]
        if _HANGUP is not None and signal.getsignal(_HANGUP) is not signal.SIG_IGN:
            signals.append(_HANGUP)
        before = {sig: signal.signal(sig, self.handle_exit) for sig in signals}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
