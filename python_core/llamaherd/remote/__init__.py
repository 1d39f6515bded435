"""Engines elsewhere, and servers in separate processes.

A server is identified by its name. Its folder contains its data, which therefore survives
the end of the server, and of the process that started the server.
"""

from llamaherd.remote.engine import RemoteEngine, connect
from llamaherd.remote.processes import (
    FOLDER_VARIABLE,
    list_servers,
    server_named,
    start_server,
    stop_server,
)
from llamaherd.remote.server import Models, RemoteServer

__all__ = [
    "FOLDER_VARIABLE",
    "Models",
    "RemoteEngine",
    "RemoteServer",
    "connect",
    "list_servers",
    "server_named",
    "start_server",
    "stop_server",
]

# Removed in 0.1; the messages stay for one version.
_REMOVED = dict.fromkeys(
    ("submit_job", "job_status", "job_results", "cancel_job", "list_jobs"),
    "connect(server) takes the place of jobs: the same call with a journal continues",
)


def __getattr__(name: str) -> object:
    """Name the successor of a removed function."""
    if name in _REMOVED:
        raise AttributeError(
            f"llamaherd.remote.{name} was removed: {_REMOVED[name]} (docs/connect.md)"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
