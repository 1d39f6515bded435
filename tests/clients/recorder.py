"""A proxy that writes the requests of clients to a file.

    LLAMAHERD_RECORD=bodies.json make test-clients

The bodies in tests/python/server/client_bodies.json were recorded by this proxy. Texts of
messages and descriptions are replaced, and token ids reduced to a vocabulary of 200.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

_PASSED_ON = ("content-type", "x-request-id")


@contextmanager
def recorded(url: str, file: str) -> Iterator[str]:
    """Pass requests on to a server; yield the address of the proxy.

    Args:
        url: Address of the server.
        file: File for the requests, written at the end.
    """
    target = urlsplit(url)
    bodies: dict[str, dict[str, Any]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._pass_on(None)

        def do_POST(self) -> None:
            self._pass_on(self.rfile.read(int(self.headers.get("content-length", 0))))

        def _pass_on(self, body: bytes | None) -> None:
            if body:
                self._note(json.loads(body))
            http = HTTPConnection(target.hostname or "", target.port or 80)
            kind = {"content-type": self.headers.get("content-type", "application/json")}
            http.request(self.command, self.path, body, kind)
            answer = http.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() in _PASSED_ON:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def _note(self, body: dict[str, Any]) -> None:
            test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
            client = test.partition("::test_")[2]
            shape = json.dumps([client, self.path, sorted(body)])
            bodies.setdefault(shape, {"client": client, "path": self.path, "body": body})

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
    text = json.dumps(list(bodies.values()), indent=1, ensure_ascii=False)
    Path(file).write_text(f"{text}\n", encoding="utf-8")
