"""Import of Ray on first use, and connections to its clusters."""

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
from llamaherd.core.errors import ArgumentError, ClusterError

if TYPE_CHECKING:
    from types import ModuleType


class OpenHerd(Protocol):
    """Protocol of an open herd: the methods that this module uses."""

    def close(self) -> None:
        """End the actors of the herd."""


_KNOCK_S = 10.0
_NO_CLUSTER = (
    "this machine is part of no cluster of Ray. Start one with `ray start --head`, name "
    "one, such as 'host:6379', or compute on this machine alone"
)

_herds: WeakSet[OpenHerd] = WeakSet()
_own_lock = RLock()
_is_own = False  # whether this module started Ray in this process


def import_ray() -> ModuleType:
    """Import Ray and return its module.

    Raises:
        ClusterError: Ray is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ClusterError(
            f"Python's package ray cannot be imported ({error})",
            code="no_ray",
            remedy=f": {installing.command('ray')}",
        ) from None


def connect(herd: OpenHerd, address: str | None, n_cpus: float) -> ModuleType:
    """Connect to a cluster and return Ray's module.

    Args:
        herd: Herd to close when the interpreter ends, before Ray shuts down.
        address: Address of a cluster. None for the cluster to which this process is
            connected; if there is none, a local cluster is started.
        n_cpus: Minimum number of CPUs of a local cluster.

    Raises:
        ClusterError: Ray is not installed, or the cluster cannot be reached.
        ValueError: This process is connected to another cluster.
    """
    global _is_own  # noqa: PLW0603 - Ray is also global in a process
    if address is not None:
        address = checks.text("address", address)
    ray = import_ray()
    with _own_lock:
        if not _herds:
            # This handler is registered after Ray's own handler and therefore runs
            # before it, so that no actor is restarted.
            atexit.unregister(_close_all)
            atexit.register(_close_all)
        if not ray.is_initialized():
            _start(ray, address, n_cpus)
            _is_own = address is None
        elif address not in (None, "auto"):
            there = ray.get_runtime_context().gcs_address
            if address != there:
                raise ArgumentError(
                    f"is {address!r}, but this process is connected to Ray at {there!r}",
                    argument="address",
                    code="conflict",
                    form="{name} {problem}: ray.shutdown() first",
                )
        _herds.add(herd)
    return ray


def leave(herd: OpenHerd) -> None:
    """Remove a closed herd.

    After the last herd, shut Ray down if this module started it.
    """
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
        # A cluster named in the environment is ignored here; the address "auto" selects
        # it.
        options["address"] = "local"
    else:
        _knock(address)
        options["address"] = address
    try:
        ray.init(**options)
    except Exception as error:
        if address == "auto" and isinstance(error, ConnectionError):
            raise ClusterError(
                _NO_CLUSTER, code="no_cluster", argument="address", remedy=": None"
            ) from error
        if address is None:
            raise ClusterError(f"Ray cannot be started here: {error}") from error
        raise _unreachable(address, error) from error


def _warn_of_few_cpus(n_cpus: float) -> None:
    n_here = os.cpu_count() or 1
    if n_cpus > n_here:
        warnings.warn(
            f"the actors reserve {n_cpus:g} CPUs in total (n_actors times num_cpus), but "
            f"this machine has {n_here}, which they share: lower values are faster",
            stacklevel=5,  # stack level of the line that creates the herd
        )


def _knock(address: str) -> None:
    """Check that a cluster answers, because Ray itself would retry for minutes.

    Raises:
        ClusterError: The address does not answer.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    number = checks.digits(port)
    if not host or number is None:
        return  # only Ray resolves "auto" and other forms
    try:
        socket.create_connection((host.strip("[]"), number), _KNOCK_S).close()
    except (OSError, OverflowError) as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str, error: Exception) -> ClusterError:
    return ClusterError(
        f"there is no Ray at {address!r}: {error}",
        code="unreachable",
        argument="address",
    )


def end() -> None:
    """Close all herds and leave the cluster. For programs that skip exit handlers."""
    _close_all()
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        ray.shutdown()


def _close_all() -> None:
    for herd in list(_herds):
        herd.close()
