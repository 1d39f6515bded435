"""A server in another process: its address, key and process."""

from __future__ import annotations

from dataclasses import dataclass, field

import httpx

from llamaherd.remote.process_start import start_of_process

_HEALTH_S = 5.0  # after this time without an answer a server counts as busy


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server that runs, or has run, in a separate process; see `connect`.

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

    @property
    def is_ending(self) -> bool:
        """Whether the server runs, but refuses requests or accepts no connections."""
        if not self.is_running:
            return False
        headers = {"authorization": f"Bearer {self.key}"}
        try:
            with httpx.Client(trust_env=False, timeout=_HEALTH_S) as client:
                answer = client.get(f"{self.url}/health", headers=headers)
        except (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError):
            return True
        except httpx.HTTPError:
            return False
        return answer.status_code >= 400
