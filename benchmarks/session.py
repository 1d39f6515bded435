"""Stores the measurements of a benchmark session, so that it can be continued."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from workloads import SEED

HERE = Path(__file__).parent


class Session:
    """Measurements by model, workload, engine and run, each stored immediately."""

    def __init__(self, path: Path, about: dict[str, object]) -> None:
        self.path = path
        self._about = about
        self._records: dict[tuple[object, ...], dict] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                self._records[self._key(record)] = record

    @staticmethod
    def _key(record: dict) -> tuple[object, ...]:
        return tuple(record[name] for name in ("model", "workload", "engine", "i_run"))

    def get(self, *key: object) -> dict | None:
        """Return the record of (model, workload, engine, i_run), or None."""
        return self._records.get(key)

    def add(self, record: dict) -> dict:
        """Write a record to the file, with the conditions of the session."""
        record = self._about | record
        self._records[self._key(record)] = record
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
        "processor": _processor(),
        "n_processors": os.cpu_count(),
    }


def _commit() -> str | None:
    """Return the commit, with a mark for changed files; None outside a repository."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout.strip() or None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()
