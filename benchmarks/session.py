"""Measurements of a benchmark session, stored so that it can be continued."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from llamaherd.engine.hub.profile import cpu_name
from workloads import SEED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

HERE = Path(__file__).parent


def key_of(record: dict) -> tuple[object, ...]:
    """Return the model, workload, engine and round of a record."""
    return tuple(record[name] for name in ("model", "workload", "engine", "i_run"))


def read(paths: Iterable[Path]) -> dict[tuple[object, ...], dict]:
    """Return the records of sessions by key; later records replace earlier ones."""
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()]
    return {key_of(record): record for record in map(json.loads, lines)}


class Session:
    """Measurements by model, workload, engine and run, each stored immediately."""

    def __init__(self, path: Path, about: dict[str, object]) -> None:
        self.path = path
        self._about = about
        self._records = read([path] if path.exists() else [])

    def get(self, *key: object) -> dict | None:
        """Return the record of (model, workload, engine, i_run), or None."""
        return self._records.get(key)

    def add(self, record: dict) -> dict:
        """Write a record to the file, with the conditions of the session."""
        record = self._about | record
        self._records[key_of(record)] = record
        self.path.parent.mkdir(exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        return record


def describe(n_threads: int) -> dict[str, object]:
    """Return the conditions of the measurements."""
    return {
        "seed": SEED,
        "n_threads": n_threads,
        "llamaherd": version("llamaherd"),
        "commit": _commit(),
        "llama_cpp_python": version("llama-cpp-python"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": cpu_name(),
        "n_processors": os.cpu_count(),
    }


def _commit() -> str | None:
    """Return the commit, with a mark for changed files; None outside a repository."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout.strip() or None


@contextmanager
def watch(record: dict[str, object]) -> Iterator[None]:
    """Add `others_cpus` to a record: mean number of processors used by others.

    Others are all processes except this process and its children. The host of a virtual
    machine is included if it used processor time. The time of a child is included only
    after the child has ended.
    """
    start, before = time.monotonic(), _others_s()
    yield
    seconds = time.monotonic() - start
    record["others_cpus"] = round((_others_s() - before) / seconds, 3)


def _others_s() -> float:
    """Return the processor seconds of others since the start."""
    cpu = psutil.cpu_times()
    idle = cpu.idle + getattr(cpu, "iowait", 0.0)
    guests = getattr(cpu, "guest", 0.0) + getattr(cpu, "guest_nice", 0.0)  # in `user`
    ours = sum(os.times()[:4])  # this process and its children that have ended
    return sum(cpu) - guests - idle - ours
