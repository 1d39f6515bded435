"""HTTP protocol of uvicorn with limits on connections and heads of requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from llamaherd.server.errors import ApiError, too_slow

if TYPE_CHECKING:
    import asyncio

    from llamaherd.server.connections import Connections

_MOST_HEAD = 1 << 16  # bytes, plus one part
_MOST_PIPELINED = 8  # requests that wait for an earlier one
_MOST_UNHEARD = 1 << 24  # bytes that are read and discarded
_LINGER_S = 2.0  # time for a refused client to read the error
_MOST_JOINED = 1 << 16  # bytes of a body part that is copied behind its head
_CHUNKED = b"transfer-encoding: chunked\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"  # sent before the head


class BoundedProtocol(HttpToolsProtocol):
    """Protocol of one connection, with limits.

    The protocol closes a connection when the head of a request is too long or too slow,
    since the parser keeps the head in memory. The protocol writes no log, because a log
    would contain queries. Errors have the same format as errors of the application.

    Args:
        settings: Settings of uvicorn.
        connections_: Connections of the server.
    """

    def __init__(self, *args: Any, connections_: Connections, **settings: Any) -> None:  # noqa: ANN401 - uvicorn's
        super().__init__(*args, **settings)
        self.access_log = False
        self._all = connections_
        self._is_counted = False
        self._is_deaf = False  # reads only to notice a disconnect
        self._n_unheard = 0
        self._is_refused = False
        self._is_in_head = True
        self._n_head = 0
        self._timer: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None
        self._n_unsent = 0
        self._answered: Any = None  # cycle of the next answer; uvicorn's is the last

    # ---- called by asyncio ----

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or refuse it."""
        super().connection_made(transport)
        self._is_counted = self._all.enter(self, self.loop.time())
        if self._is_counted:
            self._await_head()
        else:
            self._refuse(
                ApiError(
                    503,
                    f"{self._all.limits.most} connections are already open",
                    code="too_many_connections",
                    headers=(("retry-after", "1"),),
                )
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify every request of the connection that it has ended."""
        self._stop_timer()
        self._stop_stall()
        if self._is_counted:
            self._all.leave(self)
        if self._is_refused:
            self._all.forget_refused()
        cycle = self._answered
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)
        # After a reset, uvicorn leaves this timer, which keeps the connection and the
        # request in memory until it fires.
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes."""
        if self._is_deaf:
            self._n_unheard += len(data)
            if self._n_unheard > _MOST_UNHEARD:
                self.transport.abort()
            return
        if self._is_in_head and self._n_head == 0 and self._timer is None:
            self._await_head()
        self._n_head += len(data)
        super().data_received(data)
        if self._is_in_head and self._n_head > _MOST_HEAD and not self._is_deaf:
            self.send_400_response("The head of the request is too large.")

    def pause_writing(self) -> None:
        """Note that the client reads more slowly than the answer is written."""
        super().pause_writing()
        self._await_reading()

    def resume_writing(self) -> None:
        """Note that the client reads again."""
        super().resume_writing()
        self._stop_stall()

    # ---- called by the parser ----

    def on_headers_complete(self) -> None:
        """Handle the head of a request."""
        before: Any = self.cycle
        super().on_headers_complete()  # raises for an invalid path
        cycle: Any = self.cycle
        if cycle.scope["method"] != "HEAD":
            is_old = cycle.scope["http_version"] == "1.0"
            kind = _WithoutChunks if is_old else _HeadWithBody
            cycle.transport = kind(self.transport)
        self._is_in_head = False
        self._stop_timer()
        self._all.set_busy(self)
        if before is None or before.response_complete:
            self._answered = self.cycle
        elif len(self.pipeline) > _MOST_PIPELINED:
            self._end_after_this()
        else:  # uvicorn would stop reading, and not notice a disconnect
            self.flow.resume_reading()

    def on_message_complete(self) -> None:
        """Handle the end of a request; the head of another request may follow."""
        self._is_in_head = True
        self._n_head = 0
        super().on_message_complete()

    # ---- called by uvicorn ----

    def on_response_complete(self) -> None:
        """Continue after a sent answer; the next request may be waiting already."""
        following = self.pipeline[-1][0] if self.pipeline else None
        super().on_response_complete()
        if self.transport.get_write_buffer_size() > 0:
            self._await_reading()
        if self.transport.is_closing():
            return
        if following is not None:
            self._answered = following
        elif self._is_deaf:
            self.transport.close()
        else:
            self._all.set_idle(self, self.loop.time())

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP, unless another answer is being sent."""
        self._refuse(ApiError(400, msg, code="invalid_http"))

    def give_up(self) -> None:
        """Close an idle connection in favour of another."""
        if self._n_head > 0 and self._is_in_head:
            self._refuse(too_slow("the head of the request did not arrive in time"))
        else:
            self.transport.close()

    # ---- internal ----

    @property
    def _is_answering(self) -> bool:
        return self._answered is not None and not self._answered.response_complete

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(self._all.limits.head_s, self._on_late)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_late(self) -> None:
        self._timer = None
        self.give_up()

    def _await_reading(self) -> None:
        """Close the connection if the client reads nothing for a long time."""
        self._stop_stall()
        self._n_unsent = self.transport.get_write_buffer_size()
        self._stall = self.loop.call_later(self._all.limits.stall_s, self._on_stalled)

    def _stop_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _on_stalled(self) -> None:
        self._stall = None
        n_unsent = self.transport.get_write_buffer_size()
        if n_unsent == 0:
            return
        if n_unsent < self._n_unsent:  # the client reads slowly
            self._await_reading()
        else:
            self.transport.abort()

    def _end_after_this(self) -> None:
        """Accept no more requests after the current ones."""
        self._is_deaf = True
        self._stop_timer()
        last = self.pipeline[0][0] if self.pipeline else self._answered
        last.keep_alive = False

    def _drop_unread(self) -> bool:
        """Drop the last request if the rest of its body cannot be read.

        Returns:
            Whether no other answer is being sent, so that an error can be sent.
        """
        if self._is_in_head:
            return False
        if self.pipeline:
            self.pipeline.popleft()
            return False
        cycle = self._answered
        cycle.disconnected = True
        cycle.message_event.set()
        if cycle.response_started:
            self.transport.close()
        return not cycle.response_started

    def _refuse(self, error: ApiError) -> None:
        """Send an error and give the client time to read it.

        Closing at once would reset a connection with unread bytes and lose the error.
        """
        if self.transport.is_closing() or self._is_refused:
            return
        if self._is_answering and not self._drop_unread():
            self._end_after_this()
            return
        self._is_deaf = self._is_refused = True
        self._stop_timer()
        if not self._all.refuse():
            self.transport.abort()
            return
        self._timer = self.loop.call_later(_LINGER_S, self.transport.abort)
        self.transport.write(_answer(error))
        self.transport.write_eof()


class _HeadWithBody:
    """Transport of one answer, which sends its head together with its first body part.

    uvicorn writes them separately: two system calls and two packets.
    """

    __slots__ = ("_head", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head: bytes | None = b""  # b"": not written yet; None: sent

    def write(self, data: bytes) -> None:
        """Send data; the head waits for the first part of the body."""
        if self._head is None or data == _CONTINUE:
            self._transport.write(data)
        elif not self._head:
            self._head = data
        else:
            # asyncio's writelines() fails since Python 3.12 if the connection was closed
            # in this step of the loop.
            if len(data) <= _MOST_JOINED:
                self._transport.write(self._head + data)
            else:  # a copy would cost more than a second write
                self._transport.write(self._head)
                self._transport.write(data)
            self._head = None

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closed or being closed."""
        return self._transport.is_closing()


class _WithoutChunks(_HeadWithBody):
    """Transport of an answer to HTTP/1.0, which has no chunks.

    uvicorn closes the connection after the answer, which marks the end of the body.
    """

    __slots__ = ("_is_chunked",)

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self._is_chunked: bool | None = None  # None before the head

    def write(self, data: bytes) -> None:
        """Send data; each part of a chunked body without its frame."""
        if data == _CONTINUE:
            pass
        elif self._is_chunked is None:
            self._is_chunked = _CHUNKED in data
            data = data.replace(_CHUNKED, b"")
        elif self._is_chunked:
            size, _, rest = data.partition(b"\r\n")
            data = rest[: int(size, 16)] if size else b""
        super().write(data)


def _answer(error: ApiError) -> bytes:
    """Return a complete response in the common format of errors."""
    body = json.dumps(error.body).encode("ascii")
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **dict(error.headers),
        "connection": "close",
    }
    lines = [f"{name}: {value}\r\n".encode("latin-1") for name, value in headers.items()]
    return b"".join((STATUS_LINE[error.status], *lines, b"\r\n", body))
