"""Import of Ray on first use, and connections to its clusters."""

from __future__ import annotations

import atexit
import importlib
import os
import socket
import sys
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from llamaherd.engine.core import checks, phrases
from llamaherd.engine.core.errors import ArgumentError, ClusterError

if TYPE_CHECKING:
    from types import ModuleType

    from llamaherd.engine.core.process import ClosedByWith

_KNOCK_S = 10.0
_NO_CLUSTER = (
    "this machine is part of no cluster of Ray. Start one with `ray start --head`, name "
    "one, such as 'host:6379', or compute on this machine alone"
)
_lock = RLock()
_is_own = False  # whether this module started Ray in this process


_clusters: WeakSet[ClosedByWith] = WeakSet()


def import_ray(*extras: str) -> ModuleType:
    """Import Ray and return its module; without it, raise ClusterError."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ClusterError(
            f"Python's package ray cannot be imported ({error})",
            code="no_ray",
            remedy=": " + phrases.install_command(*(extras or ["ray"])),
        ) from None


def connect(cluster: ClosedByWith, address: str | None, n_cpus: float) -> ModuleType:
    """Connect to Ray at an address for `cluster`, and return Ray's module.

    Without an address, the present connection is used, or Ray is started on this machine
    with at least `n_cpus`.
    """
    global _is_own  # noqa: PLW0603 - Ray is also global in a process
    if address is not None:
        address = checks.text("address", address)
    ray = import_ray()
    with _lock:
        if not _clusters:
            # Registered after Ray's own handler, so that it runs before it.
            atexit.unregister(_close_all)
            atexit.register(_close_all)
        if not ray.is_initialized():
            _start(ray, address, n_cpus)
            _is_own = address is None
        elif address not in (None, "auto"):
            _check_is_here(ray, address)
        _clusters.add(cluster)
    return ray


def leave(cluster: ClosedByWith) -> None:
    """Remove a closed cluster; after the last one, end Ray if this module started it."""
    global _is_own  # noqa: PLW0603 - see `connect`
    with _lock:
        _clusters.discard(cluster)
        if _is_own and not _clusters:
            _is_own = False
            import_ray().shutdown()


def check_connected(ray: Any) -> None:  # types of Ray
    """Raise ClusterError if Ray was shut down: its functions would start another Ray."""
    if not ray.is_initialized():
        raise ClusterError(
            "Ray was shut down, and its actors ended: create a new cluster"
        )


def end() -> None:
    """Close all clusters and leave Ray. For programs that skip exit handlers."""
    _close_all()
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()


def _start(ray: Any, address: str | None, n_cpus: float) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "WARNING"}
    if address is None:
        # "local" ignores a cluster named in the environment, which "auto" selects.
        n = max(os.cpu_count() or 1, int(n_cpus + 0.999))
        options |= {"address": "local", "num_cpus": n, "include_dashboard": False}
    else:
        _knock(address)
        options["address"] = address
    try:
        ray.init(**options)
    except Exception as error:
        if address is None:
            raise ClusterError(f"Ray cannot be started here: {error}") from error
        if address == "auto" and isinstance(error, ConnectionError):
            raise ClusterError(
                _NO_CLUSTER, code="no_cluster", argument="address", remedy=": None"
            ) from error
        raise _unreachable(address, error) from error


def _check_is_here(ray: Any, address: str) -> None:  # types of Ray
    here = ray.get_runtime_context().gcs_address
    if address != here:
        raise ArgumentError(
            f"is {address!r}, but this process is connected to Ray at {here!r}",
            argument="address",
            code="conflict",
            form="{name} {problem}: ray.shutdown() first",
        )


def _knock(address: str) -> None:
    """Check that an address host:port answers; Ray itself would retry for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    number = checks.digits(port)
    if host and number is not None:
        try:
            socket.create_connection((host.strip("[]"), number), _KNOCK_S).close()
        except (OSError, OverflowError) as error:
            raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> ClusterError:
    text = f"there is no Ray at {address!r}: {error}"
    return ClusterError(text, code="unreachable", argument="address")


def _close_all() -> None:
    for cluster in list(_clusters):
        with suppress(Exception):  # Ray may have ended
            cluster.close()
