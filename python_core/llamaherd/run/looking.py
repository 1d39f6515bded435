"""Waits in asyncio for a loop's thread, which may have died."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOK_S = 1.0  # maximum delay until a dead thread is noticed


async def wait_or_look(event: asyncio.Event, look: Callable[[], object]) -> None:
    """Wait until the event is set, or for a second; then clear it and call `look`.

    Args:
        event: Event that a listener of the loop sets.
        look: Function that checks whether the loop's thread has died. It may raise an
            error, which ends the wait.
    """
    timer = asyncio.get_running_loop().call_later(_LOOK_S, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()
    event.clear()
    look()
