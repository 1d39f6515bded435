"""Waiting for what happens in another thread."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def wait_until(is_so: Callable[[], bool], seconds: float = 30.0) -> None:
    """Fails if it does not become so."""
    limit = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < limit
        time.sleep(0.005)
