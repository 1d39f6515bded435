"""The process: its end by Ctrl-C, and objects that belong to it.

The package imports this module first, so that Ctrl-C during the import of the command
`llamaherd` ends the process without a traceback. The module changes nothing in other
programs.

A shell ends its loop only if a program in it ended by SIGINT. Python does so for an
uncaught KeyboardInterrupt, but not for subclasses such as `Interrupted`, which exit with
status 1.
"""

from __future__ import annotations

import atexit
import itertools
import os
import signal
import sys
import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, NoReturn, Self

if TYPE_CHECKING:
    from types import TracebackType


_INTERRUPTED = 128 + signal.SIGINT
_NAMES = ("llamaherd", "llamaherd.exe", "llamaherd-script.py")


def _is_command() -> bool:
    """Check whether this is the command `llamaherd`. R may have no `sys.argv`."""
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


def end_if_uncaught(kind: type[KeyboardInterrupt]) -> None:
    """Let an uncaught exception of a class end the process by SIGINT."""
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
    """End by SIGINT after Python's last functions; as usual in R and on Windows."""
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


class ProcessBound:
    """Object of one process. It cannot be pickled or copied."""

    # What to do instead.
    _instead: ClassVar[str] = "make one in each process, and send results"

    def __reduce__(self) -> NoReturn:
        """Refuse to pickle or copy the object."""
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: it belongs to the "
            f"process that made it; {self._instead}"
        )


class ClosedByWith(ProcessBound, ABC):
    """Object of one process that `with` closes."""

    @abstractmethod
    def close(self) -> None:
        """Free the resources of the object."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
