"""Load of other programs during a measurement."""

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
    """Adds `others_cpus`: processors that others kept busy, on average, or None.

    Others are all processes but this one and its children, and the host of a virtual
    machine where it took processor time away. Children count once they have ended.
    """
    start = time.monotonic()
    before = _others_s()
    yield
    after = _others_s()
    seconds = time.monotonic() - start
    known = before is not None and after is not None
    record["others_cpus"] = round((after - before) / seconds, 3) if known else None


def _others_s() -> float | None:
    """Processor seconds of others since the machine started; None without /proc/stat."""
    if not _STAT.exists():
        return None
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(
        int, _STAT.read_text(encoding="ascii").split(maxsplit=9)[1:9]
    )
    busy = user + nice + system + irq + softirq + steal
    own = sum(os.times()[:4])  # of this process and of its children that ended
    return busy / os.sysconf("SC_CLK_TCK") - own
