"""Standard streams that the command was started without, as by `>&-` or by cron."""

from __future__ import annotations

import errno
import os
import sys

# Opened the wrong way round: to use one is an error, and no file that is opened later
# gets its number. Messages that nobody can read are no error.
_STREAMS = (
    ("stdin", 0, os.O_WRONLY, "r"),
    ("stdout", 1, os.O_RDONLY, "w"),
    ("stderr", 2, os.O_WRONLY, "w"),
)


def fill_streams() -> list[str]:
    """Open the standard streams that are missing, so that using one is an OSError.

    Returns:
        Names of those of stdin and stdout that were missing.
    """
    missing = [each for each in _STREAMS if getattr(sys, each[0]) is None]
    for name, number, flags, mode in missing:
        null = os.open(os.devnull, flags)  # takes the lowest number that is free
        if null != number and not _is_open(number):
            os.dup2(null, number)
        stream = os.fdopen(null, mode, encoding="utf-8", errors="replace")
        setattr(sys, name, stream)
    return [name for name, *_ in missing if name != "stderr"]


def closed_streams(error: Exception, missing: list[str]) -> str:
    """Message about a missing stream that caused the error; "": it has another cause.

    Args:
        error: The error that ended the command.
        missing: Names of the streams that `fill_streams` opened.
    """
    if not missing or not isinstance(error, OSError) or error.errno != errno.EBADF:
        return ""
    # What waits to be written would fail once more at the end of the process.
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
