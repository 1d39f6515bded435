"""Herds: contexts whose prompts are computed by actors of Ray."""

from __future__ import annotations

import dataclasses
import os
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING, Any

from llamaherd._r.boundary import boundary, clean
from llamaherd.core import installing
from llamaherd.core.errors import ClusterError
from llamaherd.ray import connect
from llamaherd.ray.herd import Herd
from llamaherd.run.threads import start_thread, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import llamaherd as lh
    from llamaherd.run.threads import Worker

# Arguments have other names in R, or are not there, and nobody has Ray's module at hand.
_IN_R = {
    "Ray cannot be imported": "cluster: Python's package ray cannot be imported",
    installing.command("ray"): (
        'reticulate::virtualenv_install("r-llamaherd", "ray"), then restart R'
    ),
    "on this machine alone: None": 'on this machine alone: "local"',
    "address: ": "cluster: ",
    "address is ": "cluster is ",
    ", or raise start_timeout_s": "",
    "ray.shutdown() first": 'reticulate::import("ray")$shutdown() first',
}


class HerdJob:
    """A herd that is started in a thread: R looks for Ctrl-C meanwhile, for minutes.

    Args:
        model: Of its actors, which put as many layers on GPUs.
        cluster: "local", or the address of a cluster.
        options: Further arguments of `Herd`.

    Raises:
        RuntimeError: No thread can be started.
    """

    def __init__(self, model: lh.Model, cluster: str, options: Mapping[str, Any]) -> None:
        address = None if cluster == "local" else cluster
        self._model = model
        self._options = {
            "address": address,
            "n_gpu_layers": model.n_gpu_layers,
            **options,
        }
        # Is there before it is started, so that it can be closed while it starts.
        self._herd = Herd.__new__(Herd)
        self._error: BaseException | None = None
        self._is_cancelled = False
        self._is_done = Event()
        self._worker: Worker | None = None
        self._worker = start_thread(self, self._run)

    def _run(self) -> None:
        try:
            with _own_libraries():
                Herd.__init__(self._herd, self._model, **self._options)
            if self._is_cancelled:
                self._herd.close()
        except (ClusterError, ValueError) as error:
            self._error = type(error)(_in_r(str(error)))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        finally:
            self._is_done.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until it is over; tells whether it is."""
        return wait_for(self._is_done, timeout_s, self._worker)

    def cancel(self) -> None:
        """Ends the actors that there are, now or when they are there."""
        self._is_cancelled = True
        if hasattr(self._herd, "_loop"):
            self._herd.close()

    def result(self) -> Herd:
        """Waits for the herd.

        Raises:
            ClusterError: See `Herd`, as for the others that are raised.
        """
        self.wait()
        if self._error is not None:
            raise self._error
        return self._herd


@contextmanager
def _own_libraries() -> Iterator[None]:
    """Ray's processes get no folders of R's: another libpython may be in there."""
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


def _in_r(message: str) -> str:
    for here, there in _IN_R.items():
        message = message.replace(here, there)
    return message


@boundary
def herd_start(
    model: lh.Model, cluster: str, options: Mapping[str, Any]
) -> dict[str, HerdJob]:
    """Starts a herd.

    Args:
        model: Of its actors.
        cluster: "local", or the address of a cluster.
        options: Arguments of `Context`; if any, `n_actors` and `num_cpus`.
    """
    return {"job": HerdJob(model, cluster, options)}


@boundary
def herd_wait(job: HerdJob, timeout_s: float) -> bool:
    """Waits for a herd, at most `timeout_s`. Tells whether it is there, or failed."""
    return job.wait(timeout_s)


@boundary
def herd_cancel(job: HerdJob) -> None:
    """Ends a herd that nobody waits for any more."""
    job.cancel()


@boundary
def herd_result(job: HerdJob) -> dict[str, Herd]:
    """The herd, as `python`."""
    return {"python": job.result()}


@boundary
def herds_end() -> None:
    """R is about to end: closes all herds, and leaves the cluster."""
    connect.end()


@boundary
def herd_actors(context: lh.Context | Herd) -> dict[str, list[Any]] | None:
    """The actors as columns; None: it is no herd."""
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
