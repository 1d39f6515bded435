"""Writes what CI measured into CONTRIBUTING.md, and the list of long tests.

    ci_report.py build/logs/ci-times   the seconds of each target of the last `.ci/run`
    ci_report.py                       only the list of tests that the gate leaves out

The list is tests/long.md: the tests that `make test` leaves out or shortens, with the
lane that runs them whole, and the reason.
"""

from __future__ import annotations

import io
import os
import platform
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))  # last: its coverage.py has a package's name

import marked  # noqa: E402 - a module of that folder

LONG = ROOT / "tests/long.md"
N_SHARDS = 4


def times_table(lines: Sequence[str]) -> str:
    """Return a table of the lines "make TARGET: N s" of `.ci/run`."""
    rows = []
    for line in lines:
        match = re.fullmatch(r"make (.+): (\d+) s", line.strip())
        if match is None:
            raise SystemExit(f"not a time of a target that passed: {line.strip()}")
        seconds = int(match[2])
        rows.append(f"| `make {match[1]}` | {seconds // 60}:{seconds % 60:02} |")
    command = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    machine = f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
    head = f"Measured at {commit} ({machine}):\n\n| target | minutes |\n|---|--:|\n"
    return head + "\n".join(rows) + "\n"


class _Collected:
    """Test functions that run elsewhere or shorter, with reasons."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            path, _, name = item.nodeid.partition("::")
            for mark in item.iter_markers():
                if mark.name in ("long", "more"):
                    how = "shortened" if mark.name == "more" else "left out"
                    row = f"{how} | {mark.kwargs['reason']}"
                    self.rows[path, name.partition("[")[0]] = row


def long_page() -> str:
    """Return the list of the tests that the gate leaves out or shortens."""
    collected = _Collected()
    arguments = [
        "--long",
        "--collect-only",
        "-q",
        "-n",
        "0",
        "tests/python",
        "tests/cross",
    ]
    with redirect_stdout(io.StringIO()):
        status = pytest.main(arguments, [collected])
    if status:
        raise SystemExit("the tests cannot be collected")
    thorough = sys.modules["thorough"]  # a module of the tests
    lines = [
        "# Tests that the gate leaves out or shortens",
        "",
        "Written by `scripts/ci_report.py`. `make nightly` and `make test-long` run all",
        "of them; `.ci/run` runs one lane, which the commit's hash chooses.",
    ]
    last = ""
    for (path, name), row in sorted(collected.rows.items()):
        if path != last:
            lane = f"long-{thorough.shard_of(path, N_SHARDS)}"
            lines += ["", f"## {path} ({lane})", ""]
            lines += ["| test | gate | why |", "|---|---|---|"]
            last = path
        lines.append(f"| {name} | {row} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the pages."""
    if len(sys.argv) > 1:
        lines = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
        marked.write("CONTRIBUTING.md", {"times": times_table(lines)})
    LONG.write_text(long_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
