"""The command, the life of a server, and its connections at the level of bytes."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fake_context import answer
from llamaherd.server import serving
from llamaherd.server.settings import is_local
from served import Client, served, started
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import llamaherd as lh
    from fake_context import FakeContext

PROGRAM = Path(__file__).parents[1] / "serve_fake.py"


@contextmanager
def _process(
    model: lh.Model, grace_s: float = 300.0, step_s: float = 0.02
) -> Iterator[tuple[Client, subprocess.Popen[str]]]:
    command = [sys.executable, str(PROGRAM), str(model.path), str(grace_s), str(step_s)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield Client(int(line)), process
    finally:
        process.kill()
        process.communicate()


def _tell(process: subprocess.Popen[str], word: str) -> None:
    """Make the context of a process pause or continue."""
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()


def _rest(link: socket.socket) -> bytes:
    """Return all bytes until the server closes the connection."""
    parts = []
    while part := link.recv(1 << 16):
        parts.append(part)
    link.close()
    return b"".join(parts)


def _n_inside(client: Client) -> float:
    """Return the number of requests that run or wait."""
    text = client.ask("GET", "/metrics")[1]
    numbers = re.findall(r"^llamaherd_n_(?:running|waiting) (\S+)$", text, re.MULTILINE)
    return sum(map(float, numbers))


def _started(client: Client, body: dict[str, Any]) -> socket.socket:
    """Return a stream whose first piece has arrived."""
    link = client.connect("/generate", {**body, "stream": True})
    assert link.recv(15) == b"HTTP/1.1 200 OK"
    return link


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])  # not all on Windows
def test_running_requests_end_after_a_signal_and_nobody_new_comes_in(
    chat_model: lh.Model, name: str
) -> None:
    sig = signal.Signals[name]
    with _process(chat_model) as (client, process):
        stream = _started(client, {"prompt": "b", "max_tokens": 400})
        _tell(process, "hold")
        whole = client.connect("/generate", {"prompt": "a", "max_tokens": 60})
        waiting = [client.connect("/generate", {"prompt": "c", "max_tokens": 9})]
        wait_until(lambda: _n_inside(client) == 3)
        process.send_signal(sig)
        wait_until(lambda: client.ask("GET", "/health")[0] == 503)
        status, response, headers = client.ask("POST", "/generate", {"prompt": "d"})
        assert (status, response["error"]["code"]) == (503, "stopping")
        assert (headers["connection"], headers["retry-after"]) == ("close", "1")
        assert client.ask("GET", "/metrics")[0] == 200
        _tell(process, "go")
        text = _rest(whole)
        assert text.startswith(b"HTTP/1.1 200")
        assert json.loads(text.partition(b"\r\n\r\n")[2])["text"] == answer("a", 60)
        assert b'"finish_reason":"length"' in _rest(stream)
        assert all(_rest(link).startswith(b"HTTP/1.1 200") for link in waiting)
        assert process.wait(120) == 0


def test_what_does_not_end_in_time_is_told(chat_model: lh.Model) -> None:
    with _process(chat_model, grace_s=0.2, step_s=0.05) as (client, process):
        whole = client.connect("/generate", {"prompt": "a", "max_tokens": 400})
        stream = _started(client, {"prompt": "b", "max_tokens": 400})
        wait_until(lambda: _n_inside(client) == 2)
        process.send_signal(signal.SIGTERM)
        assert _rest(whole).startswith(b"HTTP/1.1 503")
        text = _rest(stream)
        assert b'"code":"stopping"' in text
        assert text.endswith(b"0\r\n\r\n")
        assert process.wait(120) == 0


def test_a_client_that_reads_nothing_keeps_nobody(chat_model: lh.Model) -> None:
    with _process(chat_model, grace_s=0.1) as (client, process):
        link = socket.create_connection(("127.0.0.1", client.port))
        link.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        link.close()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


@pytest.mark.long(reason="many requests or long waits in the server")
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once_and_clients_are_told(
    chat_model: lh.Model, second: signal.Signals
) -> None:
    with _process(chat_model, step_s=1.0) as (client, process):
        stream = _started(client, {"prompt": "b", "max_tokens": 400})
        body = {"prompt": "a", "max_tokens": 400}
        asks = [
            client.connect("/generate", body),
            client.connect("/v1/completions", body),
            client.connect("/generate", {**body, "stream": True}),
        ]
        half = client.connect("/generate", {})
        half.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        wait_until(lambda: _n_inside(client) == 4)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: client.ask("GET", "/health")[0] == 503)
        assert process.poll() is None
        process.send_signal(second)
        assert b'"code":"stopping"' in _rest(stream)
        for link in asks:
            head, _, text = _rest(link).partition(b"\r\n\r\n")
            if head.startswith(b"HTTP/1.1 503"):
                assert b"application/json" in head
                assert json.loads(text)["error"]["code"] == "stopping"
            else:  # a stream that has begun
                assert b'"code":"stopping"' in text
        half.close()
        assert process.wait(120) == 128 + second
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_an_idle_server_ends_with_its_connections_open(chat_model: lh.Model) -> None:
    with _process(chat_model) as (client, process):
        link = socket.create_connection(("127.0.0.1", client.port))
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
        link.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_addresses() -> None:
    with serving.bind("localhost", 0) as listener:
        port = listener.getsockname()[1]
        assert is_local(listener)
        assert serving.url(listener) == f"http://127.0.0.1:{port}"
        listener.listen()
        with pytest.raises(OSError):
            serving.bind("127.0.0.1", port)
    with serving.bind("0.0.0.0", 0) as listener:
        assert not is_local(listener)
    if socket.has_ipv6:
        with serving.bind("::1", 0) as listener:
            assert is_local(listener)
            assert serving.url(listener).startswith("http://[::1]:")


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
    received = b""
    while not received.endswith(end):
        part = link.recv(1 << 16)
        assert part, received
        received += part
    return received


def _works(client: Client) -> bool:
    return client.post("/generate", {"prompt": "a", "max_tokens": 1})[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"Host: evil.example\r\nHost: localhost\r\n",
        b"Host: localhost\r\nHost: evil.example\r\n",
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
    head = (
        b"GET /v1/models HTTP/1.1\r\n" + HOST + header + b"\r\nConnection: close\r\n\r\n"
    )
    with served(fake, api_key="secret") as client:
        assert _status(_talk(client, head)) == status


@pytest.mark.parametrize(
    "path", ["/%ff", "/%00", "/%", "/%e4%b8", "//", "/..", "/a?%ff=%"]
)
def test_odd_paths_are_not_there(client: Client, path: str) -> None:
    status, response, _ = client.ask("GET", path)
    assert (status, response["error"]["type"]) == (404, "not_found_error")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "x"])
def test_bodies_that_are_compressed_are_refused_by_name(
    client: Client, encoding: str
) -> None:
    status, response, _ = client.ask(
        "POST", "/generate", BODY, {"Content-Encoding": encoding}
    )
    assert (status, response["error"]["code"]) == (415, "unsupported_encoding")


def _asking(n_words: int, *, prompt: str = "a") -> bytes:
    body = json.dumps({"prompt": prompt, "max_tokens": n_words}).encode()
    return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize("length", [b"100000000000", b"1001"])
@pytest.mark.parametrize("path", [*PATHS[:3], b"/completions", b"/chat/completions"])
def test_a_length_that_is_too_large_gets_413_before_the_body_comes(
    fake: FakeContext, path: bytes, length: bytes
) -> None:
    with served(fake, max_body=1000) as client, _connect(client) as link:
        head = b"POST " + path + b" HTTP/1.1\r\n" + HOST
        link.sendall(head + b"Content-Length: " + length + b"\r\n\r\n{")
        response = _until(link, b"}}")  # before the body has arrived
        assert _error(response) == (413, "request_too_large")


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


HOSTS = [
    ("localhost", 200),
    ("127.0.0.1", 200),
    ("10.1.2.3:8080", 200),
    ("lab.example:8080", 200),
    ("other.example", 200),
    ("evil.example", 403),
    ("lab.example.evil.example", 403),
]


@pytest.fixture(scope="module")
def client(chat_model: lh.Model) -> Iterator[Client]:
    """Return the client of a server that other machines can reach."""
    options = [
        *("--host", "0.0.0.0", "--no-api-key"),
        *("--alias", "one", "--alias", "two"),
        *("--allowed-host", "lab.example", "--allowed-host", "Other.Example."),
    ]
    with started(chat_model, *options) as connection:
        yield connection


@pytest.mark.parametrize(("host", "status"), HOSTS)
def test_hosts_of_a_server_that_others_can_reach(
    client: Client, host: str, status: int
) -> None:
    assert client.ask("GET", "/v1/models", None, {"Host": host})[0] == status


def test_names_of_the_model(client: Client) -> None:
    data = client.ask("GET", "/v1/models")[1]["data"]
    assert [model["id"] for model in data] == ["one", "two"]
    body = {"prompt": "a", "max_tokens": 1}
    for name, status in [("one", 200), ("two.gguf", 200), ("tiny", 404)]:
        assert client.post("/v1/completions", {**body, "model": name})[0] == status


def test_a_schema_that_max_tokens_cuts(client: Client) -> None:
    body = {"prompt": "x", "schema": {}, "max_tokens": 2, "ignore_eos": True}
    status, response = client.post("/generate", body)
    assert (status, response["finish_reason"]) == (200, "length")


@pytest.mark.long(reason="many requests or long waits in the server")
def test_a_cache_that_the_memory_cannot_hold_ends_the_command(
    chat_model: lh.Model,
) -> None:
    program = (
        "import sys; from llamaherd.engine.memory import hardware\n"
        "from llamaherd.cli import main\n"
        "hardware.total_memory = lambda: 10**6; sys.exit(main())"
    )
    path = str(chat_model.path)
    for models in ([path], ["--model", f"a={path}", "--model", f"b={path}"]):
        command = [sys.executable, "-c", program, "serve", *models]
        command += ["--port", "0", "--n-threads", "1", "--n-ctx", "1000000000"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 1
        assert ended.stderr.endswith(": lower --n-ctx to at most 3906\n")
        assert "Traceback" not in ended.stderr


@pytest.mark.long(reason="many requests or long waits in the server")
def test_few_open_files_are_enough(chat_model: lh.Model) -> None:
    few = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))"
    with started(chat_model, before=few) as client:
        links = [client.connect("/generate", {"prompt": "a"}) for _ in range(100)]
        for link in links:
            link.close()
        # Until the server has noticed that clients have left, it refuses further ones.
        wait_until(lambda: client.ask("GET", "/health")[0] == 200)
