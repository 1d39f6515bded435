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
from served import Client
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import llamaherd as lh

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
    parts = []
    while part := link.recv(1 << 16):
        parts.append(part)
    link.close()
    return b"".join(parts)


def _n_inside(client: Client) -> float:
    """Return the number of requests that run or wait."""
    text = client.ask("GET", "/metrics")[1]
    found = re.findall(r"^llamaherd_n_(?:running|waiting) (\S+)$", text, re.MULTILINE)
    return sum(map(float, found))


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
        status, got, headers = client.ask("POST", "/generate", {"prompt": "d"})
        assert (status, got["error"]["code"]) == (503, "stopping")
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
    with serving.bind("localhost", 0) as bound:
        port = bound.getsockname()[1]
        assert is_local(bound)
        assert serving.url(bound) == f"http://127.0.0.1:{port}"
        bound.listen()
        with pytest.raises(OSError):
            serving.bind("127.0.0.1", port)
    with serving.bind("0.0.0.0", 0) as bound:
        assert not is_local(bound)
    if socket.has_ipv6:
        with serving.bind("::1", 0) as bound:
            assert is_local(bound)
            assert serving.url(bound).startswith("http://[::1]:")
