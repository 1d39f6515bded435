"""A server with OpenAI's API that answers as a test says, also wrongly."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # A status with a body and headers; bytes are sent as they are, None cuts the
    # connection.
    Reply = tuple[int, object, dict[str, str]] | None

KEY = "sk-very-secret"


class OpenAIServer:
    """What a test sees of a server.

    Attributes:
        url: Address of the API.
        requests: Paths and bodies of the requests, in the order of their arrival.
        most_at_once: Largest number of requests that it answered at the same time.
    """

    def __init__(self, answer: Callable[[str, dict[str, Any], int], Reply]) -> None:
        self.url = ""
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.most_at_once = 0
        self.owner = "someone"
        self.models = ["tiny"]
        self.needs_key = False
        self._answer = answer
        self._n_now = 0
        self._lock = threading.Lock()

    def reply(self, path: str, body: dict[str, Any]) -> Reply:
        """Answer a request; the third argument of the function counts equal bodies."""
        with self._lock:
            self.requests.append((path, body))
            n = sum(one == (path, body) for one in self.requests)
            self._n_now += 1
            self.most_at_once = max(self.most_at_once, self._n_now)
        try:
            return self._answer(path, body, n)
        finally:
            with self._lock:
                self._n_now -= 1


def reply_of(text: str | None, **more: Any) -> Reply:
    """Return the answer of a chat."""
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop", **more}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return 200, {"choices": [choice], "usage": usage}, {}


def _bytes(content: object) -> bytes:
    return content if isinstance(content, bytes) else json.dumps(content).encode()


def _handler(  # noqa: C901 - a class with the server in reach
    server: OpenAIServer,
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Write no log."""

        def do_GET(self) -> None:
            if self._refused():
                return
            data = [{"id": name, "owned_by": server.owner} for name in server.models]
            self._send((200, {"object": "list", "data": data}, {}))

        def do_POST(self) -> None:
            n = int(self.headers["content-length"])
            body = json.loads(self.rfile.read(n))
            if not self._refused():
                self._send(server.reply(self.path, body))

        def _refused(self) -> bool:
            if not server.needs_key or self.headers["authorization"] == f"Bearer {KEY}":
                return False
            text = f"wrong key: {self.headers['authorization']}"
            self._send((401, {"error": {"message": text}}, {}))
            return True

        def _send(self, reply: Reply) -> None:
            if reply is None:
                self.close_connection = True
                self.connection.close()
                return
            status, data, headers = reply[0], _bytes(reply[1]), reply[2]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


@contextmanager
def openai_server(
    answer: Callable[[str, dict[str, Any], int], Reply],
) -> Iterator[OpenAIServer]:
    """Run a server until the block ends.

    Args:
        answer: Function of the path, the body and the number of times that the body came.
    """
    server = OpenAIServer(answer)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    http.daemon_threads = True
    thread = threading.Thread(target=http.serve_forever, args=(0.01,))
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
