"""Servers in separate processes and engines elsewhere, for R."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd import remote
from llamaherd._r.boundary import boundary, clean
from llamaherd._r.starts import StartWork
from llamaherd.remote.engine import connected

if TYPE_CHECKING:
    from collections.abc import Sequence


def _server(server: remote.RemoteServer) -> dict[str, Any]:
    return {
        "name": server.name,
        "url": server.url,
        "key": server.key,
        "pid": server.pid,
        "model": clean(server.model),
        "folder": clean(server.folder),
        "stays": server.stays,
    }


@boundary
def remote_at(folder: str) -> None:
    """Set the folder of all servers to the value from R; "" means the default.

    Python does not see environment variables that R sets after Python's start.
    """
    if folder:
        os.environ[remote.FOLDER_VARIABLE] = folder
    else:
        os.environ.pop(remote.FOLDER_VARIABLE, None)


@boundary
def remote_start(  # noqa: PLR0917 - R names none
    models: Sequence[str],
    model_names: Sequence[str],
    loras: Sequence[str],
    lora_names: Sequence[str],
    name: str,
    port: int,
    stay: bool,
    options: Sequence[str],
) -> dict[str, Any]:
    """Start to start a server; return the job, whose result is for `remote_started`.

    If a server of this name runs, the job returns this server.

    Args:
        models: Models.
        model_names: Names of the models; empty to use the names of the files.
        loras: Adapters.
        lora_names: Names of the adapters.
        name: Name of the server.
        port: Port; 0 for any free port.
        stay: Whether the server continues after this process ends.
        options: Further arguments of the command.
    """
    model: remote.Models = list(models)
    if model_names:
        model = dict(zip(model_names, models, strict=True))
    elif len(models) == 1:
        model = models[0]
    start = partial(
        remote.start_server,
        model,
        lora=dict(zip(lora_names, loras, strict=True)),
        name=name,
        port=port,
        stay=stay,
        options=options,
    )
    return {"job": lh.Job(StartWork(start))}


@boundary
def remote_started(job: lh.Job[remote.RemoteServer | None]) -> dict[str, Any] | None:
    """Return the started server; None if the job was cancelled."""
    made = job.results()
    return None if made is None else _server(made)


@boundary
def remote_server(name: str) -> dict[str, Any]:
    """Return a server by its name."""
    return _server(remote.server_named(name))


@boundary
def remote_stop(name: str) -> bool:
    """Stop a server; return True if it ran."""
    return remote.stop_server(remote.server_named(name))


@boundary
def remote_servers() -> list[dict[str, Any]]:
    """Return all servers as columns; `running` is True for running servers."""
    return [
        {**_server(each), "running": each.is_running} for each in remote.list_servers()
    ]


@boundary
def engine_connect(  # noqa: PLR0917 - R names none
    url: str,
    model: str | None,
    key_variable: str,
    key: str,
    n_at_once: int,
    retries: int,
    timeout_s: float,
) -> dict[str, Any]:
    """Connect to an engine and return it as `python`, with its name and address.

    Args:
        url: As in `connect`.
        model: As in `connect`.
        key_variable: As in `connect`.
        key: Value of this variable in R; Python does not see variables that R sets after
            Python's start.
        n_at_once: As in `connect`.
        retries: As in `connect`.
        timeout_s: As in `connect`.
    """
    engine = connected(
        url,
        model,
        key_variable=key_variable,
        key=key,
        n_at_once=n_at_once,
        retries=retries,
        timeout_s=timeout_s,
    )
    return {"python": engine, "name": clean(engine.name), "url": clean(engine.url)}
