"""Python programs of tests, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any


def ended(
    code: str, *arguments: object, status: int | None = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; check its exit status, and return what it printed.

    Args:
        code: The program.
        arguments: Arguments of the program.
        status: Expected exit status; None for any.
        variables: Additional variables of the environment.
    """
    done = run([sys.executable, "-c", code, *map(str, arguments)], **variables)
    assert status is None or done.returncode == status, done.stderr
    return done


def run(command: Any, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the words of a command or a line of a shell to its end."""
    return subprocess.run(
        command,
        shell=isinstance(command, str),
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


# Functions for processes of `multiprocessing`, which cannot import test modules.


def returned(thing: object) -> object:
    return thing


def raised(error: BaseException) -> None:
    raise error
