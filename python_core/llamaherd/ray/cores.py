"""Disjoint sets of processors for the actors of one machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil

_CPUS = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")


class Claim:
    """Processors reserved for one of this user's actors on this machine.

    To claim a processor, the actor binds an abstract Linux socket whose name has the
    number of the processor. The kernel releases the socket when the process ends, even
    after a crash. Abstract sockets belong to a network namespace, so containers do not
    see each other's claims.

    Args:
        n: Number of processors.

    Attributes:
        cores: Numbers of the claimed processors; empty if too few are free or the system
            has no abstract sockets.
    """

    def __init__(self, n: int) -> None:
        self._sockets: list[socket.socket] = []
        self.cores: tuple[int, ...] = ()
        if not hasattr(os, "sched_getaffinity") or not _CPUS.is_dir():
            return
        for candidate in (*numa_nodes(), _usable()):
            if len(candidate) >= n and self._claim(candidate, n):
                return

    def _claim(self, cores: list[int], n: int) -> bool:
        found: list[int] = []
        for core in cores:
            if len(found) < n and self._bound(core):
                found.append(core)
        if len(found) == n:
            self.cores = tuple(found)
            return True
        self.close()
        return False

    def _bound(self, core: int) -> bool:
        mine = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            mine.bind(f"\0llamaherd-core-{os.getuid()}-{core}")
        except OSError:  # another process has claimed this processor
            mine.close()
            return False
        self._sockets.append(mine)
        return True

    def pin(self) -> None:
        """Pin this thread, and the threads that it starts, to these processors."""
        if self.cores:
            os.sched_setaffinity(0, self.cores)

    def close(self) -> None:
        """Release the processors."""
        for mine in self._sockets:
            mine.close()
        self._sockets.clear()
        self.cores = ()


def numa_nodes() -> list[list[int]]:
    """Return the usable processors of each NUMA node, with second hyperthreads last."""
    usable = _usable()
    each = []
    for folder in sorted(_NODES.glob("node[0-9]*")):
        own = _listed(folder / "cpulist")
        each.append([core for core in usable if core in own])
    return [cores for cores in each if cores]


def n_own_threads(n_cpus: float) -> int:
    """Return the number of threads for an actor: one per physical core of its CPUs."""
    logical = psutil.cpu_count(logical=True) or 1
    physical = psutil.cpu_count(logical=False) or logical
    return max(1, round(n_cpus * physical / logical))


def _usable() -> list[int]:
    """Return the processors that this process may use, with second hyperthreads last."""
    cores = sorted(os.sched_getaffinity(0))

    def is_second(core: int) -> bool:
        together = _listed(_CPUS / f"cpu{core}/topology/thread_siblings_list")
        return bool(together) and core != min(together)

    return sorted(cores, key=lambda core: (is_second(core), core))


def _listed(path: Path) -> set[int]:
    """Read a kernel file with a list such as 0-3,8; empty if the file does not exist."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return set()
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def n_numa_nodes() -> int:
    """Return the number of NUMA nodes of this machine, at least 1."""
    return max(1, len(numa_nodes()))
