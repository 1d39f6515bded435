"""Statistics for R in a thread, so that R can handle Ctrl-C while it waits.

The functions here are called between two slices of waiting. Unlike functions with the
decorator `boundary`, they do not record warnings: recording changes the state of the
process, and the thread may be recording warnings of its own.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

import llamaherd._r as functions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd._r.boundary import Status


class SlowCall:
    """Call of a function of this package in a thread.

    Args:
        function: The function, which returns a status.
        arguments: Its arguments.
    """

    def __init__(self, function: Callable[..., Status], arguments: Sequence[Any]) -> None:
        self._function, self._arguments = function, arguments
        self._status: Status | None = None
        self._thread = Thread(target=self._run, name="llamaherd-r", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with suppress(SystemExit):
            self._status = self._function(*self._arguments)

    def wait(self, timeout_s: float) -> bool:
        """Wait for at most `timeout_s` seconds; return True if the call has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Raise SystemExit in the thread at its next instruction; it ends silently."""
        if self._thread.ident is not None and self._thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._thread.ident), ctypes.py_object(SystemExit)
            )

    def status(self) -> Status:
        """Return the status of the function after its end."""
        if self._status is None:
            raise RuntimeError("the call was cancelled")
        return self._status


def slow_start(name: str, arguments: Sequence[Any]) -> SlowCall:
    """Start a function of `llamaherd._r`."""
    return SlowCall(getattr(functions, name), arguments)


def slow_wait(call: SlowCall, timeout_s: float) -> bool:
    """Wait for at most `timeout_s` seconds; return True if the call has ended."""
    return call.wait(timeout_s)


def slow_cancel(call: SlowCall) -> None:
    """End a call soon."""
    call.cancel()


def slow_status(call: SlowCall) -> Status:
    """Return the status of an ended call."""
    return call.status()
