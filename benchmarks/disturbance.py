"""Measures the load that other programs cause during a measurement."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def watch(record: dict[str, object]) -> Iterator[None]:
    """Add `others_cpus` to a record: mean number of processors used by others.

    Others are all processes except this process and its children. The host of a virtual
    machine is included if it used processor time. The time of a child is included only
    after the child has ended.
    """
    start, before = time.monotonic(), _others_s()
    yield
    seconds = time.monotonic() - start
    record["others_cpus"] = round((_others_s() - before) / seconds, 3)


def _others_s() -> float:
    """Return the processor seconds of others since the start."""
    cpu = psutil.cpu_times()
    idle = cpu.idle + getattr(cpu, "iowait", 0.0)
    guests = getattr(cpu, "guest", 0.0) + getattr(cpu, "guest_nice", 0.0)  # in `user`
    ours = sum(os.times()[:4])  # this process and its children that have ended
    return sum(cpu) - guests - idle - ours
