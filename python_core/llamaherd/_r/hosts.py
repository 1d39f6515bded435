"""Clusters, servers in separate processes, and engines elsewhere."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd import remote
from llamaherd._r.arguments import by_name
from llamaherd._r.boundary import clean, form_of
from llamaherd._r.forms import Part, table_of
from llamaherd._r.jobs import NoProgress
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ClusterError, renamed
from llamaherd.engine.core.words import R
from llamaherd.ray import connect
from llamaherd.ray.cluster import Cluster
from llamaherd.ray.config import Config
from llamaherd.remote.engine import RemoteEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# Advice for R users that is appended to error messages, by error code.
_REMEDIES = {
    "no_ray": ': reticulate::virtualenv_install("r-llamaherd", "ray"), then restart R',
    "no_cluster": ': "local"',
}
_ARGUMENT = "cluster"  # name of the argument `address` in R


@contextmanager
def _own_libraries() -> Iterator[None]:
    """Hide R's library folders from Ray, because they may contain another libpython."""
    folders = os.environ.get("LD_LIBRARY_PATH")
    if folders is None:
        yield
        return
    of_r = ("/usr/lib", "/lib", os.environ.get("R_HOME") or "/usr/lib")
    others = [path for path in folders.split(":") if path and not path.startswith(of_r)]
    os.environ["LD_LIBRARY_PATH"] = ":".join(others)
    try:
        yield
    finally:
        os.environ["LD_LIBRARY_PATH"] = folders


def _of_cluster(error: ClusterError) -> ClusterError:
    """Return the error with R's name of the argument and advice for R."""
    is_of_argument = error.argument == "address" or error.code == "no_ray"
    argument = _ARGUMENT if is_of_argument else error.argument
    return ClusterError(
        error.problem,
        code=error.code,
        argument=argument and R.name(argument),
        remedy=_REMEDIES.get(error.code, ""),
    )


def _of_argument(error: lh.BadArgumentError) -> lh.BadArgumentError:
    """Return the error with R's name of the argument and advice for R."""
    if error.argument != "address":
        return error
    if error.code != "conflict":
        return error.moved(argument=_ARGUMENT)
    form = '{name} {problem}: reticulate::import("ray")$shutdown() first'
    return error.moved(argument=_ARGUMENT, form=form)


class StartWork:
    """Work of a `Job`: starts a server or a cluster, which may take minutes.

    The argument `is_cancelled` of `start` is a function: True after `cancel`.
    """

    problem = ""
    progress = NoProgress()

    def __init__(self, start: Callable[..., Any]) -> None:
        self._start = start
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the processes that are starting."""
        self._is_cancelled = True

    def run(self) -> Any:  # noqa: ANN401 - a cluster or a server
        """Start; return None if the start of a server was cancelled."""
        try:
            return self._start(is_cancelled=lambda: self._is_cancelled)
        except lh.ServerError:
            if self._is_cancelled:
                return None
            raise


def cluster_start(
    model: lh.Model, cluster: str, options: Mapping[str, Any]
) -> lh.Job[Cluster | None]:
    """Start the actors of a cluster."""
    context = dict(options)
    with renamed(concurrency="n_actors"):
        config = Config(
            model,
            concurrency=context.pop("n_actors", None),
            num_cpus=context.pop("num_cpus", None),
            context=context,
        )
    address = None if cluster == "local" else cluster
    return lh.Job(StartWork(partial(_started, config, address)))


def _started(
    config: Config, address: str | None, *, is_cancelled: Callable[[], bool]
) -> Cluster:
    """Start the actors."""
    try:
        with _own_libraries():
            return Cluster(config, address=address, is_cancelled=is_cancelled)
    except ClusterError as error:
        raise _of_cluster(error) from None
    except lh.BadArgumentError as error:
        raise _of_argument(error) from None


def clusters_end() -> None:
    """Close all clusters and leave Ray, at the end of R."""
    connect.end()


def cluster_actors(context: lh.Context | Cluster) -> Part | None:
    """Return the actors as a table; None for another type of context."""
    if not isinstance(context, Cluster):
        return None
    return table_of(context.actors, "node n_threads memory_bytes")


@form_of.register
def _(server: remote.RemoteServer) -> dict[str, Any]:
    return {
        "name": server.name,
        "url": server.url,
        "key": server.key,
        "pid": server.pid,
        "model": clean(server.model),
        "folder": clean(server.folder),
        "stays": server.stays,
    }


def remote_at(folder: str) -> None:
    """Set the folder of all servers to the value from R; "" means the default.

    Python does not see environment variables that R sets after Python's start.
    """
    if folder:
        os.environ[remote.FOLDER_VARIABLE] = folder
    else:
        os.environ.pop(remote.FOLDER_VARIABLE, None)


def remote_start(
    *,
    model: remote.Models,
    lora: Mapping[str, str] | None,
    name: str,
    port: int,
    stay: bool,
    sizes: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> lh.Job[remote.RemoteServer | None]:
    """Start a server; the job returns the running server of this name, if any.

    `sizes` are options of `llamaherd serve`, None and "auto" for those not set, and
    `settings` are values of its option `--set`.
    """
    if isinstance(model, list) and len(model) == 1:
        model = model[0]
    options = [*_size_flags(sizes), *_setting_flags(by_name("settings", settings))]
    start = partial(
        remote.start_server,
        model,
        lora=lora,
        name=name,
        port=port,
        stay=stay,
        options=options,
    )
    return lh.Job(StartWork(start))


def _size_flags(sizes: Mapping[str, Any]) -> Iterator[str]:
    for name, value in sizes.items():
        if value is None or value == "auto":
            continue
        if name == "memory":
            checks.text(name, value)
        elif name != "n_gpu_layers":
            checks.integer(name, value, 1)
        yield from (f"--{name.replace('_', '-')}", str(value))


def _setting_flags(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        # R's vector of one share is a number.
        is_share = name == "model.tensor_split" and not isinstance(value, list)
        text = json.dumps([value] if is_share else value, default=str)
        yield from ("--set", f"{name}={text}")


def remote_stop(name: str) -> bool:
    """Stop a server; return True if it ran."""
    return remote.stop_server(remote.server_named(name))


def remote_servers() -> Part:
    """Return a table of all servers."""
    rows = [
        {**form_of(server), "running": server.is_running, "stay": server.stays}
        for server in remote.list_servers()
    ]
    return table_of(rows, "name running url pid model stay folder")


@form_of.register(RemoteEngine)
def _(engine: RemoteEngine) -> dict[str, Any]:
    return {"python": engine, "name": clean(engine.name), "url": clean(engine.url)}
