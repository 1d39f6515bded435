"""The array script of docs/cluster.md, whose tasks run here without SLURM."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from llamaherd.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = Path(__file__).parents[3] / "docs/cluster.md"
_RUN = """
input = "texts.csv"
output = "out.csv"
column = "text"
[model]
path = "{model}"
[context]
n_seq_max = 4
deterministic = true
[sampling]
max_tokens = 24
temperature = 1.0
seed = 7
"""


def script() -> str:
    """The script of the page, for two tasks."""
    blocks = PAGE.read_text("utf-8").split("```sh\n")
    [text] = [block.split("```")[0] for block in blocks if block.startswith("#!")]
    return text.replace("50", "2")


@pytest.fixture
def folder(tmp_path: Path, tiny_path: Callable[[str], Path]) -> Path:
    """A folder with a run, the script, a disk of a node, and a fake `scontrol`."""
    rows(tmp_path, 40)
    (tmp_path / "run.toml").write_text(_RUN.format(model=tiny_path("llama")))
    (tmp_path / "run.sh").write_text(script())
    (tmp_path / "disk").mkdir()
    (tmp_path / "bin").mkdir()
    for name, command in (
        ("scontrol", f'echo "$*" >>"{tmp_path}/asked"'),
        ("squeue", "echo RUNNING"),
        ("llamaherd", f'exec "{sys.executable}" -m llamaherd.cli "$@"'),
    ):
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/bash\n{command}\n")
        program.chmod(0o755)
    return tmp_path


def rows(folder: Path, n: int) -> None:
    with (folder / "texts.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "text"])
        table.writerows([i, f"Text {i % 4} of {i}: " + "w " * (i % 7)] for i in range(n))


def start(folder: Path, task: int) -> subprocess.Popen[str]:
    variables = {
        **os.environ,
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "SLURM_ARRAY_TASK_ID": str(task),
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_JOB_ID": "77",
        "TMPDIR": str(folder / "disk"),
    }
    command = ["bash", str(folder / "run.sh")]
    return subprocess.Popen(command, env=variables, cwd=folder, text=True)


def check_parts(folder: Path) -> None:
    """Check that the parts have the bytes of a whole run, and that no file is left."""
    journals = [str(folder / f"journals/{i}-of-2.journal") for i in (1, 2)]
    assert main(["merge", *journals, "--out", str(folder / "merged.csv")]) == 0
    assert main(["run", str(folder / "run.toml"), "--n-threads", "1"]) == 0
    assert (folder / "merged.csv").read_bytes() == (folder / "out.csv").read_bytes()
    assert list((folder / "disk").iterdir()) == []


def test_the_script_is_without_fault(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(script())
    command = [
        str(Path(sys.executable).with_name("shellcheck")),
        "--severity=warning",
        str(tmp_path / "run.sh"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.long(reason="tasks of an array, each a process")
def test_two_tasks_give_what_one_machine_gives(folder: Path) -> None:
    for task in (1, 2):
        assert start(folder, task).wait(600) == 0
    check_parts(folder)
    assert not (folder / "asked").exists()


@pytest.mark.long(reason="tasks of an array, each a process")
def test_a_task_that_is_ended_is_queued_again_and_goes_on(folder: Path) -> None:
    rows(folder, 3000)  # so that the signal arrives before the last one
    process = start(folder, 1)
    until = time.monotonic() + 300
    logs = (folder / "disk").glob
    while sum(path.stat().st_size for path in logs("*/*.journal-wal")) < 100_000:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    process.terminate()
    assert process.wait(600) == 143
    assert (folder / "asked").read_text() == "requeue 77\n"
    kept = folder / "journals/1-of-2.journal"
    n_before = kept.stat().st_size
    assert n_before > 50_000
    for task in (1, 2):
        assert start(folder, task).wait(600) == 0
    assert kept.stat().st_size > n_before
    check_parts(folder)
