"""Measures the load that other programs cause during a measurement."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_STAT = Path("/proc/stat")


@contextmanager
def watch(record: dict[str, object]) -> Iterator[None]:
    """Add `others_cpus` to a record: mean number of processors used by others, or None.

    Others are all processes except this process and its children. The host of a virtual
    machine is included if it used processor time. The time of a child is included only
    after the child has ended.
    """
    start = time.monotonic()
    before = _others_s()
    yield
    after = _others_s()
    seconds = time.monotonic() - start
    known = before is not None and after is not None
    record["others_cpus"] = round((after - before) / seconds, 3) if known else None


def _others_s() -> float | None:
    """Return the processor seconds of others since the start; None without /proc/stat."""
    if not _STAT.exists():
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, _STAT.read_text(encoding="ascii").split(maxsplit=9)[1:9]
    )
    busy = user + nice + system + irq + softirq + steal
    ours = sum(os.times()[:4])  # this process and its children that have ended
    return busy / os.sysconf("SC_CLK_TCK") - ours
