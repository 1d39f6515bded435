"""The bytes that the protocol writes to the transport of a connection."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest
import uvicorn
from llamaherd.server.connections import ConnectionLimits, Connections
from llamaherd.server.protocol import BoundedProtocol
from uvicorn.server import ServerState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n"


class Recorded(asyncio.Transport):
    """A transport that records each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Fail, as asyncio's sockets do since Python 3.12 if they were just closed."""
        raise AssertionError(list_of_data)

    def close(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0


def _app(body: Sequence[bytes], between: Callable[[], object] = int) -> ASGIApp:
    """Return an application that reads the body of a request and answers in parts.

    Args:
        body: Parts of the answer.
        between: Called between the head and the body of the answer.
    """
    length = str(sum(map(len, body))).encode()

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        assert (await receive())["type"] == "http.request"
        headers = [(b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        between()
        for part in body:
            more = part is not body[-1]
            await send({"type": "http.response.body", "body": part, "more_body": more})

    return app


def _protocol(app: ASGIApp, state: ServerState) -> BoundedProtocol:
    config = uvicorn.Config(app, server_header=False, date_header=False, lifespan="off")
    config.load()
    return BoundedProtocol(
        config=config,
        server_state=state,
        app_state={},
        connections_=Connections(ConnectionLimits()),
    )


async def _writes(*parts: bytes, body: Sequence[bytes] = (b"abc", b"def")) -> list[bytes]:
    """Return all writes after the server received the parts of a request."""
    transport, state = Recorded(), ServerState()
    protocol = _protocol(_app(body), state)
    protocol.connection_made(transport)
    for part in parts:
        protocol.data_received(part)
        await asyncio.sleep(0)  # the application runs until it waits for the next part
    while state.tasks:
        await asyncio.gather(*state.tasks)
        # uvicorn removes a task in a callback. If all tasks are done, gather() makes no
        # step of the loop since Python 3.12.
        await asyncio.sleep(0)
    protocol.connection_lost(None)
    return transport.writes


@pytest.mark.parametrize(
    ("parts", "writes"),
    [
        ([b"GET / HTTP/1.1\r\n\r\n"], [HEAD + b"abc", b"def"]),
        ([b"HEAD / HTTP/1.1\r\n\r\n"], [HEAD]),
        (
            [
                b"PUT / HTTP/1.1\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n",
                b"a",
            ],
            [b"HTTP/1.1 100 Continue\r\n\r\n", HEAD + b"abc", b"def"],
        ),
    ],
    ids=["GET", "HEAD", "asks first"],
)
def test_the_head_is_written_with_the_first_part_of_the_body(
    parts: list[bytes], writes: list[bytes]
) -> None:
    assert asyncio.run(_writes(*parts)) == writes


def test_a_large_body_is_not_copied_behind_the_head() -> None:
    large = bytes(1 << 17)
    head, *body = asyncio.run(_writes(b"GET / HTTP/1.1\r\n\r\n", body=[large]))
    assert head == b"HTTP/1.1 200 OK\r\ncontent-length: 131072\r\n\r\n"
    assert body == [large]


def test_an_answer_to_a_closed_connection_raises_no_error() -> None:
    ended: list[bool] = []

    async def answer() -> None:
        client, ours = socket.socketpair()
        done = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await _app([b"abc"], protocol.transport.close)(scope, receive, send)
                ended.append(True)
            finally:
                done.set()

        protocol = _protocol(app, ServerState())
        loop = asyncio.get_running_loop()
        with client:
            await loop.create_connection(lambda: protocol, sock=ours)
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            await done.wait()
            await asyncio.sleep(0)  # asyncio closes the socket

    asyncio.run(answer())
    assert ended
