"""A server that runs in a thread, for tests."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any

from llamaherd.calls.run.context import checked_options
from llamaherd.engine.memory.device import Placement
from llamaherd.server import serving
from llamaherd.server.app import create_app, create_app_of_models
from llamaherd.server.formats import Served
from llamaherd.server.settings import ServerSettings, hosts_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import llamaherd as lh
    from llamaherd.server.models.spec import ModelSpec
    from starlette.applications import Starlette

NAME = "tiny"
N_SLOTS = 4  # of a server of several models
_CHAT = {"messages": [{"role": "user", "content": "a"}]}
# A valid request for each path; those that generate do so briefly.
BODIES: dict[str, dict[str, Any]] = {
    "/generate": {"prompt": "a", "max_tokens": 2},
    "/v1/completions": {"prompt": "a", "max_tokens": 2},
    "/v1/chat/completions": {**_CHAT, "max_tokens": 2},
    "/v1/chat/completions/input_tokens": _CHAT,
    "/v1/responses": {"input": "a", "max_output_tokens": 2},
    "/v1/responses/input_tokens": {"input": "a"},
    "/v1/messages": {**_CHAT, "max_tokens": 2},
    "/v1/messages/count_tokens": _CHAT,
    "/v1/embeddings": {"input": "a"},
    "/v1/score": {"prompts": ["a"], "continuations": ["b"]},
    "/v1/classify": {"prompts": ["a"], "labels": ["good", "bad"]},
    "/v1/annotate": {
        "texts": ["a"],
        "codebook": {"question": "Which?", "labels": ["good", "bad"]},
    },
    "/v1/rerank": {"query": "a", "documents": ["b", "c"]},
    "/tokenize": {"prompt": "a"},
    "/detokenize": {"tokens": [1]},
    "/apply-template": _CHAT,
    "/api/chat": {**_CHAT, "stream": False},
    "/api/embed": {"input": "a"},
    "/api/show": {"model": NAME},
}
_LIMIT_S = 600.0  # a limit that only a hanging server reaches


class Client:
    """Client of a server; tests may also use their own sockets."""

    def __init__(self, port: int, server: serving.Server | None = None) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.server = server

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, dict[str, str]]:
        """Send a request; return status, body (parsed if it is JSON) and headers."""
        http = HTTPConnection("127.0.0.1", self.port, timeout=_LIMIT_S)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body)
            http.request(method, path, data, headers or {})
            answer = http.getresponse()
            content = answer.read()
            fields = {name.lower(): value for name, value in answer.getheaders()}
            if content and fields.get("content-type") == "application/json":
                return answer.status, json.loads(content), fields
            return answer.status, content.decode(), fields
        finally:
            http.close()

    def post(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        """Send a POST request; return status and body."""
        return self.ask("POST", path, body, headers)[:2]

    def events(self, path: str, body: object) -> list[Any]:
        """Send a request; return the data of all events of the response."""
        status, text, headers = self.ask("POST", path, body)
        assert status == 200, text
        assert headers["content-type"].startswith("text/event-stream")
        parts = text.split("\n\n")
        assert parts.pop() == ""
        data = [part.removeprefix("data: ") for part in parts]
        return [part if part == "[DONE]" else json.loads(part) for part in data]

    def connect(self, path: str, body: object) -> socket.socket:
        """Return a connection on which a request was sent; no response was read yet."""
        data = json.dumps(body).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
            f"Content-Length: {len(data)}\r\n\r\n"
        )
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=_LIMIT_S)
        connection.sendall(head.encode() + data)
        return connection


def path_format(kind: Any, model: Any) -> Any:
    """Return the format of a path for a model, without a server."""
    return kind(Served(model=model, settings=ServerSettings(model_name=NAME)))


@contextmanager
def started(model: lh.Model, *options: str, before: str = "pass") -> Iterator[Client]:
    """Start a server in a process, which is killed after the block."""
    with started_with(str(model.path), *options, before=before) as client:
        yield client


@contextmanager
def started_with(*options: str, before: str = "pass") -> Iterator[Client]:
    """Start a server in a process with these arguments; kill it after the block."""
    program = f"import sys; from llamaherd.cli import main; {before}; sys.exit(main())"
    command = [sys.executable, "-c", program, "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--n-threads", "1", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        match = re.search(r":(\d+) ", process.stdout.readline())
        assert match
        yield Client(int(match[1]))
    finally:
        process.kill()
        process.communicate()


@contextmanager
def served(
    ctx: Any,
    *,
    grace_s: float = 5.0,
    embedding_model: lh.Model | None = None,
    **settings: Any,
) -> Iterator[Client]:
    """Run a server on a context, on this machine, until the block ends."""

    def make(known: ServerSettings) -> Starlette:
        return create_app(ctx, known, embedding_model)

    with served_app(make, grace_s=grace_s, **settings) as client:
        yield client


@contextmanager
def served_app(
    make: Callable[[ServerSettings], Starlette], *, grace_s: float = 5.0, **settings: Any
) -> Iterator[Client]:
    """Run a server of the application that `make` creates, until the block ends."""
    listener = serving.bind("127.0.0.1", 0)
    settings = {"hosts": hosts_of(listener, "127.0.0.1"), **settings}
    ready = threading.Event()
    app = make(ServerSettings(model_name=NAME, **settings))
    server = serving.Server(app, grace_s=grace_s, when_ready=ready.set)
    port = listener.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        assert ready.wait(120)
        yield Client(port, server)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def room_for(spec: ModelSpec) -> int:
    """Return the memory with which `served_models` serves a model, in bytes."""
    settings = checked_options({"n_seq_max": N_SLOTS})
    return spec.n_bytes + spec.n_working(settings, Placement())


@contextmanager
def served_models(
    specs: Sequence[ModelSpec], n_ctx: int | str = "auto", **settings: Any
) -> Iterator[Client]:
    """Run a server of several models until the block ends."""
    options = {"n_threads": 1, "n_seq_max": N_SLOTS, "n_ctx": n_ctx}

    def make(known: ServerSettings) -> Starlette:
        return create_app_of_models(specs, known, options, {})

    with served_app(make, **settings) as client:
        yield client
