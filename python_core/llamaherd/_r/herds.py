"""Herds: contexts whose prompts run on Ray actors."""

from __future__ import annotations

import dataclasses
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, clean
from llamaherd._r.starts import StartProgress
from llamaherd.core.errors import ClusterError
from llamaherd.ray import connect
from llamaherd.ray.herd import Herd

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


# Advice for R users that is appended to error messages, by error code.
_REMEDIES = {
    "no_ray": ': reticulate::virtualenv_install("r-llamaherd", "ray"), then restart R',
    "no_cluster": ': "local"',
}
_ARGUMENT = "cluster"  # name of the argument `address` in R


class HerdWork:
    """Work of a `Job`: starts a herd, which may take minutes.

    Args:
        model: Model of the actors, with its settings for GPUs.
        cluster: "local", or the address of a cluster.
        options: Further arguments of `Herd`.
    """

    problem = ""

    def __init__(self, model: lh.Model, cluster: str, options: Mapping[str, Any]) -> None:
        address = None if cluster == "local" else cluster
        self._model = model
        self._options = {
            "address": address,
            "n_gpu_layers": model.n_gpu_layers,
            **options,
        }
        # Created before the start, so that the herd can be closed during the start.
        self._herd = Herd.__new__(Herd)
        self._is_cancelled = False
        self._is_complete = False

    @property
    def progress(self) -> StartProgress:
        """Progress of the start; `n_done` is 1 when the herd is ready."""
        return StartProgress(n_done=int(self._is_complete))

    def cancel(self) -> None:
        """End all actors, including actors that are still starting."""
        self._is_cancelled = True
        if hasattr(self._herd, "_loop"):
            self._herd.close()

    def run(self) -> Herd:
        """Start the herd.

        Raises:
            ClusterError: No cluster could be used; see `Herd`.
        """
        try:
            with _own_libraries():
                Herd.__init__(self._herd, self._model, **self._options)
        except ClusterError as error:
            raise _of_cluster(error) from None
        except lh.BadArgumentError as error:
            raise _of_argument(error) from None
        if self._is_cancelled:
            self._herd.close()
        self._is_complete = True
        return self._herd


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
def herd_start(
    model: lh.Model, cluster: str, options: Mapping[str, Any]
) -> dict[str, lh.Job[Herd]]:
    """Start a herd.

    Args:
        model: Model of the actors.
        cluster: "local", or the address of a cluster.
        options: Arguments of `Context`; optionally `n_actors` and `num_cpus`.
    """
    return {"job": lh.Job(HerdWork(model, cluster, options))}


@boundary
def herd_result(job: lh.Job[Herd]) -> dict[str, Herd]:
    """Wait until the herd has started, and return it as `python`."""
    return {"python": job.results()}


@boundary
def herds_end() -> None:
    """Close all herds and leave the cluster, at the end of R."""
    connect.end()


@boundary
def herd_actors(context: lh.Context | Herd) -> dict[str, list[Any]] | None:
    """Return the actors as columns; None for another type of context."""
    if not isinstance(context, Herd):
        return None
    rows = [dataclasses.asdict(actor) for actor in context.actors]
    return {
        "actor": [row["actor"] for row in rows],
        "node": [clean(row["node"]) for row in rows],
        "n_threads": [row["n_threads"] for row in rows],
        "memory_bytes": [float(row["memory_bytes"]) for row in rows],
        "n_starts": [row["n_starts"] for row in rows],
    }
