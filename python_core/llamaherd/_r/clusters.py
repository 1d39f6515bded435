"""Clusters: Ray actors in a context's place."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, clean
from llamaherd._r.starts import StartProgress
from llamaherd.core.errors import ClusterError
from llamaherd.ray import connect
from llamaherd.ray.cluster import Cluster
from llamaherd.ray.config import Config

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# Advice for R users that is appended to error messages, by error code.
_REMEDIES = {
    "no_ray": ': reticulate::virtualenv_install("r-llamaherd", "ray"), then restart R',
    "no_cluster": ': "local"',
}
_ARGUMENT = "cluster"  # name of the argument `address` in R


class ClusterWork:
    """Work of a `Job`: starts the actors of a cluster, which may take minutes.

    Args:
        model: Model of the actors, with its settings for GPUs.
        cluster: "local", or the address of a cluster.
        options: Arguments of `Context`; optionally `n_actors` and `num_cpus`.
    """

    problem = ""

    def __init__(self, model: lh.Model, cluster: str, options: Mapping[str, Any]) -> None:
        context = dict(options)
        self._address = None if cluster == "local" else cluster
        self._config = Config(
            model,
            concurrency=context.pop("n_actors", None),
            num_cpus=context.pop("num_cpus", None),
            context=context,
        )
        self._is_cancelled = False
        self._is_complete = False

    @property
    def progress(self) -> StartProgress:
        """Progress of the start; `n_done` is 1 when the actors are ready."""
        return StartProgress(n_done=int(self._is_complete))

    def cancel(self) -> None:
        """End all actors, including actors that are still starting."""
        self._is_cancelled = True

    def run(self) -> Cluster:
        """Start the actors.

        Raises:
            ClusterError: No cluster could be used; see `Cluster`.
        """
        try:
            with _own_libraries():
                cluster = Cluster(
                    self._config,
                    address=self._address,
                    is_cancelled=lambda: self._is_cancelled,
                )
        except ClusterError as error:
            raise _of_cluster(error) from None
        except lh.BadArgumentError as error:
            raise _of_argument(error) from None
        self._is_complete = True
        return cluster


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
) -> dict[str, lh.Job[Cluster]]:
    """Start the actors of a cluster; see `ClusterWork`."""
    return {"job": lh.Job(ClusterWork(model, cluster, options))}


@boundary
def cluster_result(job: lh.Job[Cluster]) -> dict[str, Cluster]:
    """Wait until the actors are ready, and return the cluster as `python`."""
    return {"python": job.results()}


@boundary
def clusters_end() -> None:
    """Close all clusters and leave Ray, at the end of R."""
    connect.end()


@boundary
def cluster_actors(context: lh.Context | Cluster) -> dict[str, list[Any]] | None:
    """Return the actors as columns; None for another type of context."""
    if not isinstance(context, Cluster):
        return None
    actors = context.actors
    return {
        "actor": list(range(len(actors))),
        "node": [clean(actor.node) for actor in actors],
        "n_threads": [actor.n_threads for actor in actors],
        "memory_bytes": [float(actor.memory_bytes) for actor in actors],
    }
