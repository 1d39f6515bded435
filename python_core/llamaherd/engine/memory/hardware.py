"""Processor cores and memory that this process may use."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import psutil

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")


def n_cores() -> int:
    """Return the number of physical cores, at most the CPU quota of a container."""
    n = n_physical_cores()
    if hasattr(os, "sched_getaffinity"):
        n = min(n, len(os.sched_getaffinity(0)))
    return max(1, min([n, *(int(quota) for quota in cpu_quotas())]))


@cache  # the system describes its cores in a long file
def n_physical_cores() -> int:
    """Return the number of physical cores of the machine."""
    return psutil.cpu_count(logical=False) or os.cpu_count() or 1


def cpu_quotas() -> list[float]:
    """Return the CPU quotas of control groups (version 2), in CPU seconds per second."""
    quotas = (_quota_of(level) for level in _cgroup_levels())
    return [quota for quota in quotas if quota is not None]


def available_memory() -> int:
    """Return the bytes that this process can still allocate, page cache included."""
    return min([psutil.virtual_memory().available, *_left_in_cgroups()])


def total_memory() -> int:
    """Return the bytes that this process can use at most, without swap."""
    limits = (_limit_of(level) for level in _cgroup_levels())
    return min([psutil.virtual_memory().total, *(n for n in limits if n is not None)])


def _limit_of(cgroup: Path) -> int | None:
    try:
        return int((cgroup / "memory.max").read_text())  # "max" for no limit
    except (OSError, ValueError):
        return None


def _left_in_cgroups() -> list[int]:
    """Return the remaining memory of each control group (version 2), in bytes."""
    left = (_left_in(level) for level in _cgroup_levels())
    return [n for n in left if n is not None]


def _cgroup_levels() -> list[Path]:
    """Return the folders of all control groups of this process, innermost first."""
    try:
        # One line, "0::/user.slice/session.scope"; in a container usually "0::/".
        lines = _OWN_CGROUP.read_text().splitlines()
    except OSError:
        return []
    path = next((line[3:].strip("/") for line in lines if line.startswith("0::")), "")
    folder = _CGROUPS / path
    return [x for x in (folder, *folder.parents) if x.is_relative_to(_CGROUPS)]


def _quota_of(cgroup: Path) -> float | None:
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        return int(quota) / int(period)  # "max" for no limit
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _left_in(cgroup: Path) -> int | None:
    limit = _limit_of(cgroup)
    if limit is None:
        return None
    try:
        used = int((cgroup / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    try:
        stat = dict(map(str.split, (cgroup / "memory.stat").read_text().splitlines()))
        cached = int(stat["inactive_file"]) + int(stat["active_file"])
    except (OSError, ValueError, KeyError):
        cached = 0
    return max(0, limit - max(0, used - cached))
