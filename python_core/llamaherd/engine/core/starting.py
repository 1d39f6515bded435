"""Ctrl-C during the import of the command `llamaherd`.

The package imports this module first. It changes nothing in other programs.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import threading

_INTERRUPTED = 128 + signal.SIGINT
_NAMES = ("llamaherd", "llamaherd.exe", "llamaherd-script.py")


def _is_command() -> bool:
    """Check whether this is the command `llamaherd`.

    In a process of R, `sys.argv` may be missing or empty.
    """
    program = (getattr(sys, "argv", None) or [""])[0]
    named = list(itertools.pairwise(sys.orig_argv))
    is_module = ("-m", "llamaherd") in named or ("-m", "llamaherd.cli") in named
    return os.path.basename(program) in _NAMES or is_module  # noqa: PTH119 - imported anyway


def _leave(number: int, frame: object) -> None:  # noqa: ARG001
    if os.name == "posix":  # end by the signal, so that a shell ends its loop
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(_INTERRUPTED)


def has_started() -> None:
    """Restore `KeyboardInterrupt` for Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if (
    _is_command()
    and threading.current_thread() is threading.main_thread()
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    signal.signal(signal.SIGINT, _leave)
