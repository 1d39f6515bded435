"""Start of a process, by which it differs from later processes with the same id."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import psutil

_IS_LINUX = sys.platform == "linux"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_I_START = 18  # index of the start among the fields after the state, see proc(5)


def start_of_process(pid: int) -> str | None:
    """Return a text that no other process with this id has; None if it does not run.

    A process that has ended does not run, even if its parent has not fetched its exit
    status yet. A process that is stopped (SIGSTOP) runs.

    Raises:
        OSError: The system's answer cannot be read, for example because this process has
            too many open files.
    """
    if _IS_LINUX:  # psutil's time changes with the clock of the machine
        return _start_on_linux(pid)
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            return repr(process.create_time())
    return None


def _start_on_linux(pid: int) -> str | None:
    boot = ""
    with suppress(FileNotFoundError):
        boot = _BOOT.read_text(encoding="ascii").strip()
    with suppress(FileNotFoundError, ProcessLookupError):
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, *fields = stat.rpartition(")")[2].split()
        return None if state in {"Z", "X"} else f"{boot} {fields[_I_START]}"
    return None
