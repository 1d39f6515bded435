"""A coding page as the work of a job: socket, links, codes at the end."""

from __future__ import annotations

import ipaddress
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from llamaherd.coding_page.app import CoderKeys, create_app
from llamaherd.coding_page.results import CodingResult, coded_notes, results_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.progress import JobProgress
from llamaherd.server import serving
from llamaherd.server.settings import allowed_host, bound_address, hosts_of, is_local

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.coding_page.desk import Desk

_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class CodingProgress(JobProgress):
    """Numbers of codes of all coders together."""

    n_done: int
    n_total: int
    unit: ClassVar[str] = "codes"


class CodingPage:
    """Serves a desk until it is stopped, as the work of a `Job`; then closes the desk."""

    problem = ""  # browsers already show an error if a code is not stored

    def __init__(
        self,
        desk: Desk,
        data: object = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        allowed_hosts: Sequence[str] = (),
        keys: bool = False,
    ) -> None:
        self._desk, self._data = desk, data
        checks.text("host", host)
        checks.integer("port", port, 0, 65535)
        names = [allowed_host(name) for name in allowed_hosts]
        are_needed = checks.flag("keys", keys)
        try:
            self._socket = serving.bind(host, port)
        except OSError as error:
            raise ArgumentError(
                f"cannot be listened on with port {port}: {error}",
                argument="host",
                code="unusable",
            ) from error
        are_needed = are_needed or not is_local(self._socket)
        people = desk.sheet.people
        self._keys = CoderKeys(desk.store.secret, people, are_needed=are_needed)
        app = create_app(desk, self._keys, hosts_of(self._socket, host, names))
        app.state.shared.stop_server = self.cancel
        self._ready = threading.Event()
        self._server = serving.Server(app, grace_s=_GRACE_S, when_ready=self._ready.set)

    @property
    def url(self) -> str:
        """Address of the page, for browsers."""
        address, port = bound_address(self._socket), self._socket.getsockname()[1]
        if ipaddress.ip_address(address).is_unspecified:
            return f"http://{socket.gethostname()}:{port}"
        return serving.url(self._socket)

    @property
    def links(self) -> dict[str, str]:
        """Link for each coder, with the coder's key."""
        return {
            coder: f"{self.url}/#{self._keys.of_coder(coder)}"
            for coder in self._desk.sheet.people
        }

    @property
    def owner_link(self) -> str:
        """Link to the page with progress and agreement, with the owner's key."""
        return f"{self.url}/owner#{self._keys.of_owner}"

    @property
    def link(self) -> str:
        """Link of the only coder or, with several coders, of the owner."""
        links = list(self.links.values())
        return links[0] if len(links) == 1 else self.owner_link

    @property
    def is_ready(self) -> bool:
        """Whether browsers can connect."""
        return self._ready.is_set()

    @property
    def progress(self) -> CodingProgress:
        """Return the number of codes so far."""
        every = [self._desk.progress(coder) for coder in self._desk.sheet.people]
        return CodingProgress(
            n_done=sum(progress.n_coded for progress in every),
            n_total=sum(progress.n_texts for progress in every),
        )

    def cancel(self) -> None:
        """Make the page stop soon; return at once."""
        self._server.should_exit = True

    def run(self) -> CodingResult:
        """Serve until a signal or `cancel`; return the codes and notes."""
        try:
            self._server.run([self._socket])
            codes = results_of(self._desk, self._data)
            return CodingResult(codes, coded_notes(self._desk))
        finally:
            self._socket.close()
            self._desk.close()

    def lines(self) -> list[str]:
        """Return lines for the person who runs the coding: links, and the file."""
        links = [("agreement and export", self.owner_link), *self.links.items()]
        wide = max(len(name) for name, _ in links)
        lines = [f"{name:<{wide}}  {link}" for name, link in links]
        if not self._keys.are_needed:
            lines.append(f"On this machine, {self.url} asks for the coder's name.")
        path = self._desk.store.path
        lines.append(f"Codes are stored in {path}. Ctrl-C ends the page.")
        return lines
