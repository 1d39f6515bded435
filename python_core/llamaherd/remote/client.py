"""Requests to a server in another process."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

from llamaherd.core.errors import ServerError
from llamaherd.core.words import call, words
from llamaherd.remote.process_start import start_of_process

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server that runs, or has run, in a separate process.

    Attributes:
        name: Name.
        url: Address, without a path.
        key: API key; `repr` does not show it.
        pid: Process id of the server.
        model: Models that the server loads, as given to `start_server`.
        folder: Folder of its data and its log.
        stays: Whether the server outlives the process that started it.
        options: Further arguments of `llamaherd serve` with which it was started.
        started: Start of its process, see `start_of_process`; "" if it is unknown.
    """

    name: str
    url: str
    key: str = field(repr=False)
    pid: int
    model: str
    folder: str
    stays: bool
    options: list[str] = field(default_factory=list)
    started: str = field(default="", repr=False)

    @property
    def is_running(self) -> bool:
        """Return whether the server's process runs, even if it is too busy to answer.

        Another process with the same id is not taken for the server.
        """
        return start_of_process(self.pid) == self.started

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout_s: float = _TIMEOUT_S,
    ) -> bytes:
        """Send a request, and return the body of the answer.

        Raises:
            ServerError: The server does not answer, or refuses the request.
        """
        parts = urlsplit(self.url)
        http = HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
        headers = {"authorization": f"Bearer {self.key}", "content-type": content_type}
        try:
            http.request(method, path, body, headers)
            answer = http.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            what = f"the server {self.name!r} at {self.url} does not answer ({error})"
            raise ServerError(f"{what}: {self._advice()}") from error
        finally:
            http.close()
        if answer.status >= 400:
            raise ServerError(_message(self.name, answer.status, content))
        return content

    def _advice(self) -> str:
        """Return the advice for a server that does not answer."""
        if self.is_running:
            return (
                f"its process {self.pid} runs, so it is busy or suspended: try again, "
                f"or stop it ({call('stop_server')})"
            )
        return (
            f"if it was stopped, start it again with {call('start_server')}, and its "
            "jobs continue"
        )

    def ask_json(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send a request with JSON, and return the parsed answer.

        Raises:
            ServerError: The server does not answer, or refuses the request.
        """
        data = None if body is None else json.dumps(body).encode()
        found: dict[str, Any] = json.loads(self.ask(method, path, data))
        return found

    def upload(self, filename: str, content: bytes) -> str:
        """Store a file for a batch; return its identifier.

        Raises:
            ServerError: The server does not answer, or refuses the file.
        """
        boundary = secrets.token_hex(16)
        head = "Content-Disposition: form-data; name="
        form = b"".join(
            (
                f'--{boundary}\r\n{head}"purpose"\r\n\r\nbatch\r\n'.encode(),
                f'--{boundary}\r\n{head}"file"; filename="{filename}"\r\n\r\n'.encode(),
                content,
                f"\r\n--{boundary}--\r\n".encode(),
            )
        )
        kind = f"multipart/form-data; boundary={boundary}"
        file_id = json.loads(self.ask("POST", "/v1/files", form, kind))["id"]
        return str(file_id)


def _message(name: str, status: int, content: bytes) -> str:
    """Return the message for a request that the server refused."""
    try:
        error = json.loads(content)["error"]
        text = error["message"]
        if error["code"] == "request_too_large":
            text = f"the texts are too large for one job: {words().max_file}"
    except (ValueError, KeyError, TypeError):
        text = "its answer is not JSON"
    return f"the server {name!r} refused the request (status {status}): {text}"
