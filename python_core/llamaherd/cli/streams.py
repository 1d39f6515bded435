"""Handling of closed standard streams (`>&-`, cron) and of limited encodings."""

from __future__ import annotations

import errno
import io
import os
import sys

# Mode for each missing stream. stdin is opened for writing and stdout for reading, so
# that their use is an error and no later file gets their descriptors. Messages that
# stderr loses are not an error.
_STREAMS = (
    ("stdin", 0, os.O_WRONLY, "r"),
    ("stdout", 1, os.O_RDONLY, "w"),
    ("stderr", 2, os.O_WRONLY, "w"),
)


def fill_streams() -> list[str]:
    """Open the standard streams that are missing, so that their use raises OSError.

    Returns:
        Names of the missing streams among stdin and stdout.
    """
    missing = [each for each in _STREAMS if getattr(sys, each[0]) is None]
    for name, number, flags, mode in missing:
        null = os.open(os.devnull, flags)  # the new descriptor has the lowest free number
        if null != number and not _is_open(number):
            os.dup2(null, number)
        stream = os.fdopen(null, mode, encoding="utf-8", errors="replace")
        setattr(sys, name, stream)
    return [name for name, *_ in missing if name != "stderr"]


def escape_unknown_characters() -> None:
    r"""Print a character that standard output cannot encode as `\u2603`.

    Windows encodes the output for a file or another program in a code page such as
    cp1252, in which most characters do not exist.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def closed_streams(error: Exception, missing: list[str]) -> str:
    """Return a message if a missing stream caused the error, otherwise "".

    Args:
        error: Error that ended the command.
        missing: Names of the streams that `fill_streams` opened.
    """
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
