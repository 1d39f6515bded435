"""Handling of closed standard streams (`>&-`, cron) and of limited encodings."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Any

# Mode for each missing stream. stdin is opened for writing and stdout for reading, so
# that their use is an error and no later file gets their descriptors. Messages that
# stderr loses are not an error.
_STREAMS = (
    ("stdin", 0, os.O_WRONLY, "r"),
    ("stdout", 1, os.O_RDONLY, "w"),
    ("stderr", 2, os.O_WRONLY, "w"),
)


def fill_streams() -> list[str]:
    """Open the standard streams that are missing, so that their use raises OSError."""
    missing = [each for each in _STREAMS if getattr(sys, each[0]) is None]
    for name, number, flags, mode in missing:
        null = os.open(os.devnull, flags)  # the new descriptor has the lowest free number
        if null != number and not _is_open(number):
            os.dup2(null, number)
        stream = os.fdopen(null, mode, encoding="utf-8", errors="replace")
        setattr(sys, name, stream)
    return [name for name, *_ in missing if name != "stderr"]


_STDOUT = "stdout"  # its name in errors


def is_of_stdout(error: Exception) -> bool:
    """Return whether stdout caused an error."""
    is_named = isinstance(error, OSError) and error.filename == _STDOUT
    return is_named or isinstance(error, BrokenPipeError)


class _Named(io.FileIO):
    """File whose errors contain its name."""

    def __init__(self, number: int, named: str, owner: object) -> None:
        super().__init__(number, "w", closefd=False)
        self._named = named
        self._owner = owner

    def write(self, data: Any, /) -> int:  # noqa: ANN401 - any buffer
        try:
            return super().write(data)
        except OSError as error:
            error.filename = self._named
            raise


def name_stdout() -> None:
    """Let errors of stdout contain its name, as errors of other files do."""
    old = sys.stdout
    buffer = getattr(old, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # without buffers, Python has no other object
    if not isinstance(old, io.TextIOWrapper) or type(raw) is not io.FileIO:
        return  # tests and programs may replace stdout; Windows' console has another type
    with suppress(OSError, ValueError):  # the next output fails for the same reason
        old.flush()
    new = _Named(raw.fileno(), _STDOUT, old)
    sys.stdout = io.TextIOWrapper(
        new if buffer is raw else io.BufferedWriter(new),
        encoding=old.encoding,
        errors=old.errors,
        line_buffering=old.line_buffering,
        write_through=old.write_through,
    )


def drop_unwritable_output() -> None:
    """Drop output that cannot be written: Python would end with status 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):  # the stream may be closed
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def escape_unknown_characters() -> None:
    r"""Print a character that standard output cannot encode as `\u2603`.

    Windows encodes the output for a file or another program in a code page such as
    cp1252, in which most characters do not exist.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def closed_streams(error: Exception, missing: list[str]) -> str:
    """Return a message if a missing stream caused the error, otherwise ""."""
    if not missing or not isinstance(error, OSError) or error.errno != errno.EBADF:
        return ""
    # Buffered output would fail again at the end of the process.
    sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")
    return (
        f"{' and '.join(missing)} was closed when the command was started, and the "
        "command needs it: redirect it, or name a file"
    )


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
