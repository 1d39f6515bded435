"""Runs R programs with the installed R package and the Python that runs the tests."""

from __future__ import annotations

import atexit
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "RETICULATE_PYTHON": sys.executable, **variables}


def command(program: str, *arguments: object) -> list[str]:
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.fail("Rscript is missing: run `make setup`")
    return [rscript, "--vanilla", str(HERE / program), *map(str, arguments)]


def run(program: str, *arguments: object, **variables: str) -> str:
    """Run a program of this folder; return its output to stdout and stderr."""
    done = subprocess.run(
        command(program, *arguments),
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{program} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def interrupted(
    program: str,
    *arguments: object,
    at: Iterable[str],
    wait: Callable[[], float] = lambda: 0,
    act: Callable[[], object] | None = None,
    **variables: str,
) -> tuple[int, str]:
    """Run a program that gets Ctrl-C; return its exit status and its output.

    Args:
        at: Patterns. After a line with the first one, and then with each next one, and
            after `wait()` seconds, SIGINT is sent.
        act: Function to call in place of sending SIGINT.
    """
    patterns = iter(at)
    pattern = next(patterns, None)
    lines = []
    with subprocess.Popen(
        command(program, *arguments),
        # Without a terminal cli would draw every three seconds only.
        env=environment(CLI_TICK_TIME="50", **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    ) as process:
        watchdog = threading.Timer(600, process.kill)
        watchdog.start()
        try:
            for line in process.stdout or ():
                lines.append(line)
                if pattern is not None and re.search(pattern, line):
                    pattern = next(patterns, None)
                    time.sleep(wait())
                    if act is None:
                        process.send_signal(signal.SIGINT)
                    else:
                        act()
        except BaseException:
            process.kill()
            raise
        finally:
            watchdog.cancel()
    return process.returncode, "".join(lines)


class Session:
    """R process for several programs, because R and its Python need 2 s to start."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            command("session.R", HERE),
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def run(self, program: str, *arguments: object) -> str:
        """Run a program; return its output to stdout and stderr."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [str(len(arguments)), program, *map(str, arguments)]
        self._process.stdin.write("".join(f"{word}\n" for word in words))
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            if line.startswith("session: done"):
                return "".join(lines)
            if line.startswith("session: failed"):
                break
            lines.append(line)
        pytest.fail(f"{program} failed in the shared R:\n{''.join(lines)}")

    def close(self) -> None:
        """End the R process."""
        self._process.communicate(timeout=600)


@functools.cache
def _session() -> Session:
    session = Session()
    atexit.register(session.close)
    return session


def run_shared(program: str, *arguments: object) -> str:
    """Run a program in an R process that other tests also use, see `run`."""
    return _session().run(program, *arguments)


def results(program: str, folder: Path, job: object, **variables: str) -> dict[str, Any]:
    """Run a subject of a program, as in "texts.R coding", on a job; return its results.

    With environment `variables`, a new R process runs it.
    """
    files = folder / "job.json", folder / "out.json"
    files[0].write_text(json.dumps(job), encoding="utf-8")
    runs = functools.partial(run, **variables) if variables else run_shared
    runs(*program.split(), *files)
    content: dict[str, Any] = json.loads(files[1].read_text(encoding="utf-8"))
    return content
