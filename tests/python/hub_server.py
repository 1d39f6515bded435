"""A test server with the protocol of the Hugging Face hub, including faults."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMIT = "c0ffee" * 6 + "c0ff"


@dataclass
class Hub:
    """Content, behaviour and received requests of the server.

    Attributes:
        repos: Files of each repository.
        gated: Repositories that require `token`.
        token: The valid token.
        cut_after: Numbers of bytes after which the next responses with a file's content
            end.
        refuse: Status codes of the next responses.
        cdn: Address of another server to which requests for files are redirected.
        lie: Whether the content differs from what the hub states.
        pause_s: Seconds between pieces of 100 kB.
        by_target: Content by path and query of the request.
        odd: Headers that replace those of a response.
        stated: Whether the length of a plain file is stated.
        ranges: Whether parts of files can be requested.
        requests: Method, path and headers of all requests.
        n_sending: Number of responses with a file's content that have not ended.
    """

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    token: str = "hf_right"
    cut_after: list[int] = field(default_factory=list)
    refuse: list[int] = field(default_factory=list)
    cdn: str | None = None
    lie: bool = False
    pause_s: float = 0
    by_target: dict[str, bytes] = field(default_factory=dict)
    odd: dict[str, str] = field(default_factory=dict)
    stated: bool = True
    ranges: bool = True
    url: str = ""
    requests: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    n_sending: int = 0

    def gets(self) -> list[dict[str, str]]:
        """Return the headers of the requests for the content of files."""
        return [h for m, p, h in self.requests if m == "GET" and "/api/" not in p]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def handle(self) -> None:
        with suppress(ConnectionError):  # the client has disconnected
            super().handle()

    def log_message(self, *_args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.hub.requests.append((self.command, path, headers))
        if self.path in self.hub.by_target:
            return self.send_plain(self.hub.by_target[self.path])
        if self.hub.refuse:
            return self.refuse(self.hub.refuse.pop(0))
        if match := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            return self.tell(match[1], match[2] or "main", headers)
        if match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            return self.send_file(match[1], match[3], headers, body=body)
        return self.refuse(404)

    def send_plain(self, content: bytes) -> None:
        """Send a file like a plain server, or with unusual headers."""
        odd = self.hub.odd
        status = 302 if "Location" in odd else 503 if "Retry-After" in odd else 200
        content = content if status == 200 else b""
        self.send_response(status)
        length = {"Content-Length": str(len(content))} if self.hub.stated else {}
        # The header also ends the connection on this side.
        for name, value in (length | odd | {"Connection": "close"}).items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(ConnectionError):
            self.wfile.write(content)

    def refuse(self, status: int, code: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        if status == 429:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def may_read(self, repo: str, headers: dict[str, str]) -> bool:
        if repo not in self.hub.repos:
            self.refuse(404, "RepoNotFound")
            return False
        right = headers.get("authorization") == f"Bearer {self.hub.token}"
        if repo in self.hub.gated and not right:
            self.refuse(401, "GatedRepo")
            return False
        return True

    def tell(self, repo: str, revision: str, headers: dict[str, str]) -> None:
        if not self.may_read(repo, headers):
            return
        if revision not in {"main", COMMIT}:
            self.refuse(404, "RevisionNotFound")
            return
        siblings = [
            {
                "rfilename": name,
                "size": len(data),
                "blobId": "0" * 40,
                "lfs": {"sha256": sha256(data), "size": len(data), "pointerSize": 130},
            }
            for name, data in self.hub.repos[repo].items()
        ]
        text = json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def send_file(
        self, repo: str, name: str, headers: dict[str, str], *, body: bool
    ) -> None:
        if not self.may_read(repo, headers):
            return
        data = self.hub.repos[repo].get(name)
        if data is None:
            self.refuse(404, "EntryNotFound")
            return
        if self.hub.cdn is not None:
            self.send_response(302)
            self.send_header("Location", self.hub.cdn + urlsplit(self.path).path)
            self.linked(data)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        etag = f'"{sha256(data)}"'
        start = 0
        byte_range = re.fullmatch(r"bytes=(\d+)-", headers.get("range", ""))
        if byte_range and self.hub.ranges and headers.get("if-range") in {None, etag}:
            start = int(byte_range[1])
            if start >= len(data):
                self.refuse(416)
                return
        self.send_response(206 if start else 200)
        if start:
            self.send_header(
                "Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}"
            )
        self.linked(data)
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if body:
            self.hub.n_sending += 1
            try:
                self.send_content(data[start:])
            finally:
                self.hub.n_sending -= 1

    def linked(self, data: bytes) -> None:
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("X-Linked-Etag", f'"{sha256(data)}"')
        self.send_header("X-Linked-Size", str(len(data)))

    def send_content(self, data: bytes) -> None:
        if self.hub.lie:
            data = data[:-1] + bytes([data[-1] ^ 1])
        if self.hub.cut_after:
            data = data[: self.hub.cut_after.pop(0)]
            self.close_connection = True
        for i in range(0, len(data), 100_000):
            if self.hub.pause_s and i:
                time.sleep(self.hub.pause_s)
            self.wfile.write(data[i : i + 100_000])


@contextmanager
def serving(hub: Hub, host: str = "127.0.0.1") -> Iterator[Hub]:
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer((host, 0), handler)
    hub.url = f"http://{host}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.pause_s = 0
        server.shutdown()
        server.server_close()
        thread.join()
