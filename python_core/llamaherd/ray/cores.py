"""Processors of its own for each actor, where several are on a machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil

_CPUS = Path("/sys/devices/system/cpu")
_NODES = Path("/sys/devices/system/node")


class Claim:
    """Processors that no other actor of this user on this machine computes on.

    Each is claimed by binding a socket with its name (Linux's abstract ones, which have
    no file), which the system gives back when the process ends, however it does. Each
    network namespace has its own: containers do not see each other's claims.

    Args:
        n: How many are wanted.

    Attributes:
        cores: Their numbers; empty: there are not so many free, or the system cannot do
            it.
    """

    def __init__(self, n: int) -> None:
        self._sockets: list[socket.socket] = []
        self.cores: tuple[int, ...] = ()
        if not hasattr(os, "sched_getaffinity") or not _CPUS.is_dir():
            return
        for wanted in (*numa_nodes(), _usable()):
            if len(wanted) >= n and self._claim(wanted, n):
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
        except OSError:  # somebody has it
            mine.close()
            return False
        self._sockets.append(mine)
        return True

    def pin(self) -> None:
        """Has this thread, and those that it starts, run on these processors alone."""
        if self.cores:
            os.sched_setaffinity(0, self.cores)

    def close(self) -> None:
        """Gives them back."""
        for mine in self._sockets:
            mine.close()
        self._sockets.clear()
        self.cores = ()


def numa_nodes() -> list[list[int]]:
    """Processors of each NUMA node that this process may use, those of a core apart."""
    usable = _usable()
    each = []
    for folder in sorted(_NODES.glob("node[0-9]*")):
        own = _listed(folder / "cpulist")
        each.append([core for core in usable if core in own])
    return [cores for cores in each if cores]


def n_own_threads(n_cpus: float) -> int:
    """Threads for an actor that has so many of Ray's CPUs: one on each physical core."""
    logical = psutil.cpu_count(logical=True) or 1
    physical = psutil.cpu_count(logical=False) or logical
    return max(1, round(n_cpus * physical / logical))


def _usable() -> list[int]:
    """Processors that this process may use; the second threads of cores come last."""
    cores = sorted(os.sched_getaffinity(0))

    def is_second(core: int) -> bool:
        together = _listed(_CPUS / f"cpu{core}/topology/thread_siblings_list")
        return bool(together) and core != min(together)

    return sorted(cores, key=lambda core: (is_second(core), core))


def _listed(path: Path) -> set[int]:
    """Numbers as the kernel lists them, such as 0-3,8; empty: there is no such file."""
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
    """NUMA nodes of this machine, at least 1."""
    return max(1, len(numa_nodes()))
