"""A server keeps nothing of requests that have ended, however they ended."""

from __future__ import annotations

import gc
import logging
import socket
import struct
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import thorough
import tiny_models
from llamaherd.server import serving
from served import served
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from served import Client

TEXT, CHAT = "/v1/completions", "/v1/chat/completions"
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
N_ROUNDS = thorough.sized(5, 50)  # of each kind of request
N_HELD = 8  # objects of a class by which the number of held prefixes may differ
# Blocks of Python's memory per request, of many requests, because of Python's caches; a
# kept connection has about 50.
N_BLOCKS = 5
HELLO = [{"role": "user", "content": "hello"}]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": [1, 2]}},
    "required": ["a"],
    "additionalProperties": False,
}
BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "prompt": ("/generate", {"prompt": "one two", "max_tokens": 2}),
    "stream": (TEXT, {"prompt": "one two", "max_tokens": 2, "stream": True}),
    "chat": (CHAT, {"messages": HELLO, "max_tokens": 2, "seed": 1}),
    "streamed log-probabilities": (
        CHAT,
        {
            "messages": HELLO,
            "max_tokens": 3,
            "stream": True,
            "stop": ["x"],
            "logprobs": True,
            "top_logprobs": 2,
        },
    ),
    "several answers": (TEXT, {"prompt": ["a", "b"], "n": 2, "max_tokens": 2}),
    "echo": (TEXT, {"prompt": "a b", "echo": True, "logprobs": 1, "max_tokens": 1}),
    "schema": ("/generate", {"prompt": "a", "schema": SCHEMA, "max_tokens": 40}),
    "choices": ("/generate", {"prompt": "a", "choices": ["yes", "no"]}),
    "response": ("/v1/responses", {"input": "a", "max_output_tokens": 16}),
    "labels": ("/v1/classify", {"prompts": ["a"], "labels": ["yes", "no"]}),
    "scores": ("/v1/score", {"prompts": ["a"], "continuations": [["b", "c"]]}),
    "wrong field": ("/generate", {"prompt": "a", "max_token": 1}),
    "too long": ("/generate", {"prompt": "a b " * 400}),
    "unknown path": ("/unknown", {}),
}
RUNNING = "llamaherd.server.running.Running"
LIMIT_S = 60.0  # no object is freed so late
# A reset, as by a client that ends while data are unread.
RESET = struct.pack("ii", 1, 0)


@pytest.fixture(scope="module")
def n_others() -> int:
    """Return the number of requests that servers of other tests in this process keep.

    An argument before `client`, so that it is counted before this server has requests.
    """
    return _objects()[RUNNING]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    path = tmp_path_factory.mktemp("kept") / "tiny.gguf"
    tiny_models.write(path, "llama", chat_template=TEMPLATE)
    with (
        pytest.MonkeyPatch.context() as patch,
        lh.Model(path) as model,
        lh.Context(model, n_seq_max=4) as ctx,
    ):
        # A timer that nobody stops keeps its connection in memory for the whole test.
        patch.setattr(serving, "_KEEP_ALIVE_S", 100_000)
        with served(ctx) as connection:
            for i in range(40):  # the server keeps 32 beginnings
                _ask("prompt")(connection, -1 - i)
            yield connection


def _ask(kind: str) -> Callable[[Client, int], None]:
    def send(client: Client, i: int) -> None:
        path, body = BODIES[kind]
        name = "prompt" if "prompt" in body else "input"
        if isinstance(body.get(name), str):
            # Prompts differ, but begin alike: of 32 beginnings, 32 prompts are kept.
            body = {**body, name: f"{body[name]}, and then the number {i}"}
        client.post(path, body)

    return send


def _reset_after_answer(client: Client, _i: int) -> None:
    with client.connect(*BODIES["prompt"]) as connection:
        connection.recv(1)  # the answer is there
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def _reset_in_answer(client: Client, _i: int) -> None:
    body = {"prompt": "one", "max_tokens": 300, "ignore_eos": True, "stream": True}
    with client.connect(TEXT, body) as connection:
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def _leave_in_answer(client: Client, _i: int) -> None:
    body = {"prompt": "one", "max_tokens": 300, "ignore_eos": True}
    client.connect("/generate", body).close()


def _leave_in_head(client: Client, _i: int) -> None:
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(b"POST /generate HTTP/1.1\r\nHost: ")


def _invalid_http(client: Client, _i: int) -> None:
    with socket.create_connection(("127.0.0.1", client.port)) as connection:
        connection.sendall(b"\x00\x01\r\n\r\n")
        connection.recv(1)


KINDS: dict[str, Callable[[Client, int], None]] = {
    **{kind: _ask(kind) for kind in BODIES},
    "reset after the answer": _reset_after_answer,
    "reset in the answer": _reset_in_answer,
    "left in the answer": _leave_in_answer,
    "left in the head": _leave_in_head,
    "invalid HTTP": _invalid_http,
}


def _objects() -> Counter[str]:
    """Return the number of objects of each class of the package that are alive."""
    gc.collect()
    kinds = (type(instance) for instance in gc.get_objects())
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)
    return Counter(name for name in names if name.startswith("llamaherd."))


def _n_blocks() -> int:
    """Return the number of blocks of Python's memory without garbage.

    The server may accept connections late, when their clients have left.
    """
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.more(reason="20 of 200 requests of each kind", cases=3)
@pytest.mark.more(reason="20 of 200 requests of each kind")
@pytest.mark.parametrize("kind", KINDS)
def test_no_object_of_a_request_is_kept(
    n_others: int, client: Client, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    caplog.set_level(logging.CRITICAL, "uvicorn.error")  # pytest keeps every message
    send = KINDS[kind]
    for i in range(N_ROUNDS):
        send(client, i)
    wait_until(lambda: _objects()[RUNNING] <= n_others)
    before = _objects()
    n_before = _n_blocks() if thorough.is_long() else 0
    for i in range(N_ROUNDS, 4 * N_ROUNDS):
        send(client, i)
    wait_until(lambda: max((_objects() - before).values(), default=0) <= N_HELD, LIMIT_S)
    if thorough.is_long():
        most = n_before + N_BLOCKS * 3 * N_ROUNDS
        wait_until(lambda: _n_blocks() <= most, LIMIT_S)
