"""Clusters, servers in separate processes, and engines elsewhere."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import llamaherd as lh
from llamaherd import remote
from llamaherd._r.boundary import clean, form_of, renamed
from llamaherd._r.forms import Part, table_of
from llamaherd.engine.core.errors import ClusterError, ServerError
from llamaherd.engine.core.progress import JobProgress
from llamaherd.ray import connect
from llamaherd.ray.cluster import Cluster
from llamaherd.ray.config import Config
from llamaherd.remote.engine import RemoteEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_Started = TypeVar("_Started")

# Advice for R users that is appended to error messages, by error code.
_REMEDIES = {
    "no_ray": ': reticulate::virtualenv_install("r-llamaherd", "ray"), then restart R',
    "no_cluster": ': "local"',
}
_ARGUMENT = "cluster"  # name of the argument `address` in R


@dataclass(frozen=True, slots=True, kw_only=True)
class StartProgress(JobProgress):
    """Progress of a start, without counts until the start is complete.

    Attributes:
        n_done: 1 when the start is complete, 0 before.
        n_total: 0, because the duration is unknown.
    """

    n_done: int
    n_total: int = 0

    unit: ClassVar[str] = "starts"


class StartWork(Generic[_Started]):
    """Work of a `Job`: starts a server or a cluster, which may take minutes.

    Args:
        start: Function that starts it. Its argument `is_cancelled` is a function
            that returns True after `cancel`.
    """

    problem = ""

    def __init__(self, start: Callable[..., _Started]) -> None:
        self._start = start
        self._is_cancelled = False
        self._is_complete = False

    @property
    def progress(self) -> StartProgress:
        """Progress of the start; `n_done` is 1 when all is ready."""
        return StartProgress(n_done=int(self._is_complete))

    def cancel(self) -> None:
        """End the processes that are starting."""
        self._is_cancelled = True

    def run(self) -> _Started | None:
        """Start; return None if the start of a server was cancelled.

        Raises:
            ServerError: The server did not start.
            ClusterError: The cluster did not start.
        """
        try:
            made = self._start(is_cancelled=lambda: self._is_cancelled)
        except ServerError:
            if self._is_cancelled:
                return None
            raise
        self._is_complete = True
        return made


@contextmanager
def _own_libraries() -> Iterator[None]:
    """Hide R's library folders from Ray, because they may contain another libpython."""
    given = os.environ.get("LD_LIBRARY_PATH")
    if given is None:
        yield
        return
    own = ("/usr/lib", "/lib", os.environ.get("R_HOME") or "/usr/lib")
    kept = [path for path in given.split(":") if path and not path.startswith(own)]
    os.environ["LD_LIBRARY_PATH"] = ":".join(kept)
    try:
        yield
    finally:
        os.environ["LD_LIBRARY_PATH"] = given


def _of_cluster(error: ClusterError) -> ClusterError:
    """Return the error with R's name of the argument and advice for R."""
    is_of_argument = error.argument == "address" or error.code == "no_ray"
    return ClusterError(
        error.problem,
        code=error.code,
        argument=_ARGUMENT if is_of_argument else error.argument,
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


def cluster_start(
    model: lh.Model, cluster: str, options: Mapping[str, Any]
) -> lh.Job[Cluster | None]:
    """Start the actors of a cluster.

    Args:
        model: Model of the actors, with its settings for GPUs.
        cluster: "local", or the address of a cluster.
        options: Arguments of `Context`; optionally `n_actors` and `num_cpus`.
    """
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
    """Start the actors.

    Raises:
        ClusterError: No cluster could be used; see `Cluster`.
    """
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
    columns = "node n_threads memory_bytes"
    return table_of(context.actors, columns, text="node", integer="n_threads")


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


def remote_start(  # noqa: PLR0917 - R names none
    models: Sequence[str],
    model_names: Sequence[str],
    loras: Sequence[str],
    lora_names: Sequence[str],
    name: str,
    port: int,
    stay: bool,
    options: Sequence[str],
) -> lh.Job[remote.RemoteServer | None]:
    """Start to start a server; the job returns the running server of this name, if any.

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
    return lh.Job(StartWork(start))


def remote_stop(name: str) -> bool:
    """Stop a server; return True if it ran."""
    return remote.stop_server(remote.server_named(name))


def remote_servers() -> list[dict[str, Any]]:
    """Return all servers; `running` is True for running servers."""
    return [
        {**form_of(each), "running": each.is_running} for each in remote.list_servers()
    ]


@form_of.register(RemoteEngine)
def _(engine: RemoteEngine) -> dict[str, Any]:
    return {"python": engine, "name": clean(engine.name), "url": clean(engine.url)}
