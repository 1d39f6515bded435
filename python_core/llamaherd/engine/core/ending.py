"""The end of a process by Ctrl-C: by the signal itself, as Python ends.

A shell ends its loop only if a program in it ended by SIGINT. Python does so for an
uncaught KeyboardInterrupt, but not for subclasses such as `Interrupted`, which exit with
status 1.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType


def end_if_uncaught(kind: type[KeyboardInterrupt]) -> None:
    """Let an uncaught exception of a class end the process by SIGINT.

    Args:
        kind: Subclass of KeyboardInterrupt, of which an exception is about to be raised.
    """
    before = sys.excepthook
    if getattr(before, "ends_by_signal", False):
        return

    def hook(
        of: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        before(of, error, traceback)
        if isinstance(error, kind) and not (hasattr(sys, "ps1") or sys.flags.interactive):
            end_by_interrupt()

    hook.ends_by_signal = True  # type: ignore[attr-defined]
    sys.excepthook = hook


def end_by_interrupt() -> None:
    """Let the process end by SIGINT after Python's last functions have run.

    Processes of R and of Windows end as usual.
    """
    if os.name == "posix" and "rpytools" not in sys.modules:
        atexit.register(_end)  # the function that runs first


def _end() -> None:
    atexit.unregister(_end)
    atexit._run_exitfuncs()  # noqa: SLF001 - all others, before the process ends
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, or without a reader
            stream.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGINT)
