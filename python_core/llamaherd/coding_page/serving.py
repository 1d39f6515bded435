"""Serves a coding page, from opening the socket to the end."""

from __future__ import annotations

import ipaddress
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from llamaherd.coding_page.app import CoderKeys, create_app
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.progress import JobProgress
from llamaherd.server import serving
from llamaherd.server.settings import bound_address, hosts_of, is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.coding_page.desk import Desk

_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class CodingProgress(JobProgress):
    """Progress of all coders together.

    Attributes:
        n_done: Number of codes.
        n_total: Number of codes when all coders have finished.
    """

    n_done: int
    n_total: int
    unit: ClassVar[str] = "codes"


class CodingPage:
    """Serves a coding page until it is stopped, as the work of a `Job`."""

    def __init__(
        self,
        desk: Desk,
        secret: str,
        *,
        host: str,
        port: int,
        allowed_hosts: Sequence[str] = (),
        keys: bool = False,
    ) -> None:
        self._desk = desk
        self._ready = threading.Event()
        try:
            self._bound = serving.bind(host, port)
        except OSError as error:
            raise ArgumentError(
                f"cannot be listened on with port {port}: {error}",
                argument="host",
                code="unusable",
            ) from error
        self._is_local = is_local(self._bound)
        are_needed = keys or not self._is_local
        self._keys = CoderKeys(secret, desk.sheet.people, are_needed=are_needed)
        hosts = hosts_of(self._bound, host, allowed_hosts)
        app = create_app(desk, self._keys, hosts)
        self._server = serving.Server(app, grace_s=_GRACE_S, when_ready=self._tell_ready)
        app.state.shared.stop_server = self.cancel
        self._when_ready: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        """Address of the page, for browsers."""
        address, port = bound_address(self._bound), self._bound.getsockname()[1]
        if ipaddress.ip_address(address).is_unspecified:
            return f"http://{socket.gethostname()}:{port}"
        return serving.url(self._bound)

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

    @property
    def problem(self) -> str:
        """Return "", because browsers already show an error if a code is not stored."""
        return ""

    def cancel(self) -> None:
        """Make the page stop soon; return at once."""
        self._server.should_exit = True

    def run(self, when_ready: Callable[[], None] = lambda: None) -> int:
        """Serve until a signal or `cancel`; return the exit status."""
        self._when_ready = when_ready
        try:
            self._server.run([self._bound])
        finally:
            self._bound.close()
        return self._server.status

    def lines(self) -> list[str]:
        """Return lines for the person who runs the coding: links, and the file."""
        links = [("agreement and export", self.owner_link), *self.links.items()]
        wide = max(len(name) for name, _ in links)
        lines = [f"{name:<{wide}}  {link}" for name, link in links]
        if not self._keys.are_needed:
            lines.append(f"On this machine, {self.url} asks for the coder's name.")
        lines.append(f"Codes are stored in {self._desk.path}. Ctrl-C ends the page.")
        return lines

    def _tell_ready(self) -> None:
        self._ready.set()
        self._when_ready()
