"""Functions that wait for an event in another thread or process."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


HANGS_S = 600.0  # No machine is so slow: the event will never occur.


def wait_until(is_so: Callable[[], bool], seconds: float = HANGS_S) -> None:
    """Wait for a condition; fail if it never holds."""
    limit = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < limit
        time.sleep(0.005)
