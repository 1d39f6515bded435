"""The bytes that the protocol writes to the transport of a connection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import uvicorn
from llamaherd.server.connections import ConnectionLimits, Connections
from llamaherd.server.protocol import BoundedProtocol
from uvicorn.server import ServerState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.types import Receive, Scope, Send

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n"


class Recorded(asyncio.Transport):
    """A transport that records each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

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


async def _app(_scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body, then answer in two parts."""
    assert (await receive())["type"] == "http.request"
    headers = [(b"content-length", b"6")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for part, more in ((b"abc", True), (b"def", False)):
        await send({"type": "http.response.body", "body": part, "more_body": more})


async def _writes(*parts: bytes) -> list[bytes]:
    """Return all writes after the server received the parts of a request."""
    config = uvicorn.Config(_app, server_header=False, date_header=False, lifespan="off")
    config.load()
    transport, state = Recorded(), ServerState()
    protocol = BoundedProtocol(
        config=config,
        server_state=state,
        app_state={},
        connections_=Connections(ConnectionLimits()),
    )
    protocol.connection_made(transport)
    for part in parts:
        protocol.data_received(part)
        await asyncio.sleep(0)  # the application runs until it waits for the next part
    while state.tasks:
        await asyncio.gather(*state.tasks)
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
