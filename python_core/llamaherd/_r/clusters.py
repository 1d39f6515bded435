"""Clusters: Ray actors in a context's place."""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, renamed
from llamaherd._r.forms import Part, table_of_objects
from llamaherd._r.starts import StartWork
from llamaherd.engine.core.errors import ClusterError
from llamaherd.ray import connect
from llamaherd.ray.cluster import Cluster
from llamaherd.ray.config import Config

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


@boundary
def cluster_start(
    model: lh.Model, cluster: str, options: Mapping[str, Any]
) -> dict[str, lh.Job[Cluster | None]]:
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
    return {"job": lh.Job(StartWork(partial(_started, config, address)))}


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


@boundary
def clusters_end() -> None:
    """Close all clusters and leave Ray, at the end of R."""
    connect.end()


@boundary
def cluster_actors(context: lh.Context | Cluster) -> Part | None:
    """Return the actors as a table; None for another type of context."""
    if not isinstance(context, Cluster):
        return None
    kinds = {"node": "text", "n_threads": "integer", "memory_bytes": "number"}
    return table_of_objects(context.actors, kinds)
