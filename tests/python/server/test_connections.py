"""Connections at the level of bytes: odd heads, refused bodies, many clients.

What uvicorn itself answers, such as nonsense in place of HTTP, is its own business.
"""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest
from served import served
from waiting import wait_until

if TYPE_CHECKING:
    from fake_context import FakeContext
    from served import Client

SOON_S = 0.05  # a limit that a test waits for
BODY = b'{"prompt":"a","max_tokens":1}'
HOST = b"Host: localhost\r\n"
POST = b"POST /generate HTTP/1.1\r\n" + HOST
PATHS = [
    b"/generate",
    b"/v1/completions",
    b"/v1/chat/completions",
    b"/v1/models",
    b"/health",
    b"/metrics",
    b"/nowhere",
]


def _connect(client: Client) -> socket.socket:
    return socket.create_connection(("127.0.0.1", client.port), timeout=600)


def _rest(link: socket.socket) -> bytes:
    """Return all bytes until the server closes the connection."""
    parts = []
    while part := link.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def _talk(client: Client, data: bytes) -> bytes:
    with _connect(client) as link:
        link.sendall(data)
        return _rest(link)


def _error(answer: bytes) -> tuple[int, str]:
    """Return the status and the code of an answer with an error."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/json" in head, answer
    return int(head.split(b" ")[1]), json.loads(body)["error"]["code"]


def _status(answer: bytes) -> int:
    return int(answer.split(b" ")[1])


def _until(link: socket.socket, end: bytes) -> bytes:
    """Return what the server sends, up to an end."""
    got = b""
    while not got.endswith(end):
        part = link.recv(1 << 16)
        assert part, got
        got += part
    return got


def _works(client: Client) -> bool:
    return client.post("/generate", {"prompt": "a", "max_tokens": 1})[0] == 200


# ---- odd heads ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"Host: evil.example\r\nHost: localhost\r\n",
        b"Host: \xff\r\n",
        "Host: localhosʇ\r\n".encode(),
        b"Host: localhost:x:y\r\n",
        b"Host: [::1\r\n",
        b"Host: localhost/..\r\n",
        b"Host: a@localhost\r\n",
        b"Host: " + b"9" * 5000 + b"\r\n",
    ],
)
@pytest.mark.parametrize("path", [b"/health", b"/generate"])
def test_odd_hosts_are_refused(client: Client, path: bytes, host: bytes) -> None:
    end = b"Connection: close\r\n\r\n"
    answer = _talk(client, b"GET " + path + b" HTTP/1.1\r\n" + host + end)
    assert _status(answer) in {400, 403}


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"Authorization: Bearer secret", 200),
        (b"Authorization: bearer   secret  ", 200),
        (b"Authorization: Bearer \xff", 401),
        (b"Authorization: Bearer", 401),
        (b"Authorization:", 401),
        (b"Authorization: Basic secret", 401),
        (b"Authorization: Bearer " + b"x" * 50_000, 401),
        (b"Origin: http://\xff\r\nAuthorization: Bearer secret", 403),
        (b"Origin: \xb2\r\nAuthorization: Bearer secret", 403),
    ],
)
def test_odd_headers(fake: FakeContext, header: bytes, status: int) -> None:
    ask = (
        b"GET /v1/models HTTP/1.1\r\n" + HOST + header + b"\r\nConnection: close\r\n\r\n"
    )
    with served(fake, api_key="secret") as client:
        assert _status(_talk(client, ask)) == status


@pytest.mark.parametrize(
    "path", ["/%ff", "/%00", "/%", "/%e4%b8", "//", "/..", "/a?%ff=%"]
)
def test_odd_paths_are_not_there(client: Client, path: str) -> None:
    status, got, _ = client.ask("GET", path)
    assert (status, got["error"]["type"]) == (404, "not_found_error")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "x"])
def test_bodies_that_are_compressed_are_refused_by_name(
    client: Client, encoding: str
) -> None:
    status, got, _ = client.ask("POST", "/generate", BODY, {"Content-Encoding": encoding})
    assert (status, got["error"]["code"]) == (415, "unsupported_encoding")


def _asking(n_words: int, *, prompt: str = "a") -> bytes:
    body = json.dumps({"prompt": prompt, "max_tokens": n_words}).encode()
    return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body


# ---- refused bodies -------------------------------------------------------------------


@pytest.mark.parametrize("told", [b"100000000000", b"1001"])
@pytest.mark.parametrize("path", [*PATHS[:3], b"/completions", b"/chat/completions"])
def test_a_length_that_is_too_large_gets_413_before_the_body_comes(
    fake: FakeContext, path: bytes, told: bytes
) -> None:
    with served(fake, max_body=1000) as client, _connect(client) as link:
        head = b"POST " + path + b" HTTP/1.1\r\n" + HOST
        link.sendall(head + b"Content-Length: " + told + b"\r\n\r\n{")
        got = _until(link, b"}}")  # before the body has arrived
        assert _error(got) == (413, "request_too_large")


# ---- slow clients ---------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_a_slow_client_does_not_keep_the_server_from_ending(
    fake: FakeContext, path: bytes
) -> None:
    with served(fake, grace_s=SOON_S) as client:
        link = _connect(client)
        link.sendall(b"POST " + path + b" HTTP/1.1\r\n" + HOST)
        link.sendall(b"Content-Length: 29\r\n\r\n{")
        assert _works(client)
    link.close()


# ---- many clients ---------------------------------------------------------------------


def _n_open(client: Client) -> int:
    return len(client.server.server_state.connections)


def test_one_connection_too_many_gets_503(fake: FakeContext) -> None:
    with served(fake, connections=4) as client:
        links = [_connect(client) for _ in range(4)]
        wait_until(lambda: _n_open(client) == 4)
        assert _status(_talk(client, _asking(1))) == 503
        for link in links:
            link.sendall(_asking(1))
            assert link.recv(1 << 16).startswith(b"HTTP/1.1 200")
            link.close()
        wait_until(lambda: _n_open(client) == 0)
        assert _works(client)
