"""What the machine has: processor cores and memory that this process may use."""

from __future__ import annotations

import os
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def n_cores() -> int:
    """Physical cores that this process may run on, at least 1.

    Threads that share a core slow each other down in matrix products.
    """
    physical = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        return max(1, min(physical, len(os.sched_getaffinity(0))))
    return max(1, physical)


def available_memory() -> int:
    """Bytes that this process can still take, containers' limits included."""
    available = psutil.virtual_memory().available
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
    except (OSError, ValueError):  # no limit is written "max"
        return available
    return max(0, min(available, limit - used))
