"""A server's life: from its sockets to its last answer."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from llamaherd.server.connections import Connections
from llamaherd.server.hosts import bound_address
from llamaherd.server.protocol import BoundedProtocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from starlette.applications import Starlette

    from llamaherd.server.house import House

_OTHER_FILES = 32  # models, logs, the event loop's
_KEEP_ALIVE_S = 60  # longer than clients keep a connection that they do not use
_LAST_S = 2  # for telling clients that their time is over
_LOOK_S = 0.05  # between two looks at whether all have ended


def bind(host: str, port: int) -> socket.socket:
    """A socket that does not listen yet: who connects is refused.

    Raises:
        OSError: There is no such address, or somebody else has it.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # "localhost" may be both; most clients try IPv4.
    family, kind, protocol, _, address = min(found, key=lambda each: each[0])
    bound = socket.socket(family, kind, protocol)
    try:
        if os.name == "posix":  # elsewhere it lets others take an address in use
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound


def room_for(most: int) -> int:
    """The number of connections that this process may have, at most as many as asked for.

    Raises the limit on open files as far as that needs and the system allows.
    """
    try:
        import resource  # noqa: PLC0415 - Windows has none, and no such limit
    except ImportError:
        return most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Those that were refused stay open until they have read why.
    wanted = 2 * most + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return most
    most_files = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, hard))
        soft = most_files
    return max(1, min(most, (soft - _OTHER_FILES) // 2))


def url(bound: socket.socket) -> str:
    """Where clients find it."""
    address, port = bound_address(bound), bound.getsockname()[1]
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


class Server(uvicorn.Server):
    """Serves until a signal comes. Running requests may end, within `grace_s`.

    uvicorn would raise the signal again in the end; this one lets its caller exit.

    Args:
        app: Of `create_app`.
        grace_s: Seconds that requests have to end; those left are told that it is over.
        when_ready: Called when clients can connect.

    Attributes:
        house: What its requests share.
        status: To exit with: 0, or 128 and the signal if a second one came.
    """

    def __init__(
        self, app: Starlette, *, grace_s: float, when_ready: Callable[[], None]
    ) -> None:
        connections = Connections(app.state.house.connections)
        config = uvicorn.Config(
            app,
            http=cast("Any", partial(BoundedProtocol, connections_=connections)),
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
        self.house: House = app.state.house
        self._grace_s = grace_s
        self._when_ready = when_ready
        self.status = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens, and tells so."""
        await super().startup(sockets)
        self._when_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Lets what runs end, but not forever.

        Until then it listens, so that clients are told to go elsewhere; uvicorn would
        refuse their connections, which looks like a crash.
        """
        loop = asyncio.get_running_loop()
        self.house.is_ending = True
        end_s = loop.time() + self._grace_s + _LAST_S
        timer = loop.call_later(self._grace_s, self.house.stop)
        while self.house.queue.n_inside > 0 and loop.time() < end_s:
            if self.force_exit:
                break
            await asyncio.sleep(_LOOK_S)
        await super().shutdown(sockets)
        timer.cancel()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """The first signal asks, the second one does not."""
        if self.should_exit:
            self.force_exit = True
            self.status = 128 + sig
            # uvicorn would log that each request that is cut off was cancelled.
            logging.getLogger("uvicorn.error").disabled = True
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Takes SIGINT and SIGTERM while it serves, if it runs where signals arrive."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {sig: signal.signal(sig, self.handle_exit) for sig in signals}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)
