"""Conventions of all commands: exit statuses, streams, signals.

Data goes to stdout. Progress goes to stderr, but only if stderr is a terminal. Warnings
and errors always go to stderr.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Self

from llamaherd.engine.core.errors import BadArgumentError, JournalError, LlamaHerdError
from llamaherd.engine.core.files import (
    UnusableFileError,
    has_working_folder,
    is_full,
    sqlite_code,
)
from llamaherd.engine.core.progress import say

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType


class ExitStatus(IntEnum):
    """Exit status of the process."""

    DONE = 0
    FAILED = 1  # the command failed while it ran
    WRONG_USE = 2  # invalid arguments or input; nothing was computed
    ROWS_FAILED = 3  # finished, but some rows failed
    HUNG_UP = 129  # ended by SIGHUP, because its terminal was closed
    INTERRUPTED = 130  # ended by Ctrl-C
    NO_READER = 141  # the program that reads stdout ended, as by SIGPIPE
    TERMINATED = 143  # ended by SIGTERM


# Errors whose message is printed for the user.
EXPECTED = (LlamaHerdError, ValueError, TypeError, OSError, ImportError)


# Errors of the machine besides a full disk: a failing disk, too many open files, lack of
# memory; and SQLite's codes of these and of a full disk (NOMEM, IOERR, FULL).
_OF_SYSTEM = {errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_OF_SQLITE = {7, 10, 13}


def status_of(error: BaseException) -> ExitStatus:
    """Return the exit status of an error; arguments are checked before work begins."""
    if isinstance(error, (BadArgumentError, JournalError)):
        is_wrong = not _is_of_machine(error)
    else:
        kinds = (ValueError, TypeError, FileNotFoundError)
        is_wrong = isinstance(error, kinds) and not isinstance(error, LlamaHerdError)
    return ExitStatus.WRONG_USE if is_wrong else ExitStatus.FAILED


def _is_of_machine(error: BaseException | None) -> bool:
    """Whether an error, or its cause, is a full or failing disk, or a lack of memory."""
    if error is None:
        return False
    is_system = isinstance(error, OSError) and (
        is_full(error) or error.errno in _OF_SYSTEM
    )
    if is_system or sqlite_code(error) in _OF_SQLITE:
        return True
    return _is_of_machine(error.__cause__ or error.__context__)


def tell(message: str) -> None:
    """Print a line of progress for the user."""
    if sys.stderr.isatty():
        say(message)


def warn(message: str) -> None:
    """Print a warning."""
    say(f"llamaherd: warning: {message}")


def print_failure(message: object, status: ExitStatus = ExitStatus.FAILED) -> int:
    """Print why a command failed, and return the exit status."""
    if isinstance(message, FileNotFoundError) and not has_working_folder():
        message = "the working directory was deleted: change to another folder"
    elif isinstance(message, UnusableFileError):
        message = message.problem  # the caller named no argument
    elif isinstance(message, OSError) and message.errno == errno.EBADF:
        message = "stdout is closed: redirect it to a file"
    elif isinstance(message, OSError) and message.strerror:
        name = (
            "" if message.filename is None else f"{message.filename!r} cannot be used: "
        )
        advice = "; free space and run the command again" if is_full(message) else ""
        message = f"{name}{message.strerror}{advice}"
    say(f"llamaherd: {message}")
    return status


def prepare_streams() -> None:
    r"""Open closed streams; print characters that stdout cannot encode as `\u2603`."""
    flags = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
    for name, flag in flags.items():
        if getattr(sys, name) is None:  # the new file has the stream's number
            null = os.open(os.devnull, flag)  # what is written to stdout fails
            setattr(sys, name, os.fdopen(null, "r" if name == "stdin" else "w"))
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def drop_unwritable_output() -> None:
    """Drop output that cannot be written: Python would end with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):  # the stream may be closed
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


_entered: list[Termination] = []  # handlers of the running commands


def is_terminated() -> bool:
    """Whether a signal other than Ctrl-C ends the command by a KeyboardInterrupt."""
    return any(termination.has_come for termination in _entered)


class Termination:
    """Context in which SIGTERM and SIGHUP end a command like Ctrl-C, keeping its results.

    Ctrl-C in background jobs of a shell, and SIGHUP under `nohup`, remain ignored.
    """

    def __init__(self) -> None:
        self.has_come = False  # one of these signals ended the command
        self.status = ExitStatus.INTERRUPTED  # after a KeyboardInterrupt
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        _entered.append(self)
        if threading.current_thread() is threading.main_thread():
            if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
                self._handle(signal.SIGINT, self._interrupt)
            self._handle(signal.SIGTERM, self._terminate)
            hangup = getattr(signal, "SIGHUP", None)  # Windows has none
            if hangup is not None and signal.getsignal(hangup) is signal.SIG_DFL:
                self._handle(hangup, self._terminate)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _entered.remove(self)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, handler: Callable[..., None]) -> None:
        self._before[number] = signal.signal(number, handler)

    def _terminate(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.has_come:  # schedulers send signals to the shell and its children
            return
        self.has_come, self.status = True, ExitStatus(128 + number)
        signal.raise_signal(signal.SIGINT)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self.has_come:
            raise KeyboardInterrupt
