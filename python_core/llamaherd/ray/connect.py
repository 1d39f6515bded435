"""Ray itself: imported when it is needed, connected to, and left as it was found."""

from __future__ import annotations

import atexit
import importlib
import os
import socket
import sys
import warnings
from threading import RLock
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from llamaherd.core import checks, installing
from llamaherd.core.errors import ClusterError

if TYPE_CHECKING:
    from types import ModuleType


class Closable(Protocol):
    """A herd."""

    def close(self) -> None:
        """Gives its actors back."""


_KNOCK_S = 10.0
_NO_CLUSTER = (
    "address: this machine is part of no cluster of Ray. Start one with `ray start "
    "--head`, name one, such as 'host:6379', or compute on this machine alone: None"
)

_herds: WeakSet[Closable] = WeakSet()
_own_lock = RLock()
_is_own = False  # whether Ray was started here


def import_ray() -> ModuleType:
    """Ray's module.

    Raises:
        ClusterError: It is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ClusterError(
            f"Ray cannot be imported ({error}): {installing.command('ray')}"
        ) from None


def connect(herd: Closable, address: str | None, n_cpus: float) -> ModuleType:
    """Ray, connected to a cluster.

    Args:
        herd: Is closed before Ray is, when the interpreter ends.
        address: Of a cluster; None: that which this process is connected to, or one on
            this machine that is started for it.
        n_cpus: That one has so many CPUs at least.

    Raises:
        ClusterError: Ray is not installed, or the cluster cannot be reached.
        ValueError: This process is connected to another cluster.
    """
    global _is_own  # noqa: PLW0603 - Ray, too, is there once in a process
    if address is not None:
        address = checks.text("address", address)
    ray = import_ray()
    with _own_lock:
        if not _herds:
            # After Ray's own, so that it runs before: no actor is restarted at the end.
            atexit.unregister(_close_all)
            atexit.register(_close_all)
        if not ray.is_initialized():
            _start(ray, address, n_cpus)
            _is_own = address is None
        elif address not in (None, "auto"):
            there = ray.get_runtime_context().gcs_address
            if address != there:
                raise ValueError(
                    f"address is {address!r}, but this process is connected to Ray at "
                    f"{there!r}: ray.shutdown() first"
                )
        _herds.add(herd)
    return ray


def leave(herd: Closable) -> None:
    """A herd is closed. Ray goes with the last one, if it was started for them."""
    global _is_own  # noqa: PLW0603 - see `connect`
    with _own_lock:
        _herds.discard(herd)
        if _is_own and not _herds:
            _is_own = False
            import_ray().shutdown()


def _start(ray: Any, address: str | None, n_cpus: float) -> None:  # noqa: ANN401
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "WARNING"}
    if address is None:
        _warn_of_few_cpus(n_cpus)
        options["include_dashboard"] = False
        options["num_cpus"] = max(os.cpu_count() or 1, int(n_cpus + 0.999))
        # Not a cluster that the environment names: that is "auto".
        options["address"] = "local"
    else:
        _knock(address)
        options["address"] = address
    try:
        ray.init(**options)
    except Exception as error:
        if address == "auto" and isinstance(error, ConnectionError):
            raise ClusterError(_NO_CLUSTER) from error
        where = (
            "Ray cannot be started here"
            if address is None
            else (f"address: there is no Ray at {address!r}")
        )
        raise ClusterError(f"{where}: {error}") from error


def _warn_of_few_cpus(n_cpus: float) -> None:
    n_here = os.cpu_count() or 1
    if n_cpus > n_here:
        warnings.warn(
            f"the actors are given {n_cpus:g} CPUs together, n_actors times num_cpus, "
            f"but this machine has {n_here}: they share them, and fewer would be faster",
            stacklevel=5,  # who makes the herd
        )


def _knock(address: str) -> None:
    """Sees whether anybody is there: Ray itself would try for minutes.

    Raises:
        ClusterError: Nobody is.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return  # "auto", or what Ray has other names for
    try:
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK_S).close()
    except (OSError, OverflowError) as error:
        raise ClusterError(f"address: there is no Ray at {address!r}: {error}") from error


def end() -> None:
    """Closes all herds and leaves the cluster, where Python's own end does not come."""
    _close_all()
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()


def _close_all() -> None:
    for herd in list(_herds):
        herd.close()
