"""An array of real SLURM tasks, on a SLURM of only this machine (slurm.sh).

Needs root, and Debian's slurm-wlm and munge. Figures are written to
build/cluster/slurm.json, from which report.py writes them to docs/cluster.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(__file__).with_name("slurm.sh")
LLAMAHERD = str(Path(sys.executable).with_name("llamaherd"))
FIGURES = Path(__file__).resolve().parents[2] / "build/cluster/slurm.json"
N_TASKS = 8
N_ROWS = 16_000
N_CPUS = 4  # tasks that run at once
_NEEDED = ("slurmctld", "slurmd", "munged")
_RUN = """
input = "texts.csv"
output = "out.csv"
prompt = "Text {{id}} is about"
[model]
path = "{model}"
[context]
n_threads = 1
n_seq_max = 8
deterministic = true
[sampling]
max_tokens = 24
temperature = 1.0
seed = 7
"""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, _NEEDED)),
    reason="needs root, and apt-get install slurm-wlm munge",
)


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Start a SLURM of one node, which programs find by SLURM_CONF."""
    with tempfile.TemporaryDirectory(prefix="llamaherd-slurm-") as folder:
        try:
            subprocess.run([PROGRAM, "start", folder, str(N_CPUS)], check=True)
            os.environ["SLURM_CONF"] = f"{folder}/slurm.conf"
            yield
        finally:
            os.environ.pop("SLURM_CONF", None)
            subprocess.run([PROGRAM, "stop", folder], check=True)


@pytest.fixture
def folder(tmp_path: Path, tiny_path: Callable[[str], Path]) -> Path:
    """A run, with a folder that replaces the disk of the tasks' node."""
    (tmp_path / "disk").mkdir()
    write_rows(tmp_path, N_ROWS)
    (tmp_path / "run.toml").write_text(_RUN.format(model=tiny_path("llama")))
    return tmp_path


def write_rows(folder: Path, n: int) -> None:
    lines = ["id", *map(str, range(n))]
    (folder / "texts.csv").write_text("\n".join(lines) + "\n")


def run(*command: str, folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def submit(folder: Path, n_tasks: int, *options: str) -> str:
    """Submit an array to SLURM; return its id."""
    disk = str(folder / "disk")
    command = [LLAMAHERD, "slurm", "run.toml", "--scratch", disk, "--submit"]
    return run(*command, "--tasks", str(n_tasks), *options, folder=folder)


def states(job: str, folder: Path) -> dict[int, str]:
    """Return the states of the tasks that SLURM still lists."""
    show = ["squeue", "--noheader", "--array", "--states=all", f"--jobs={job}"]
    lines = run(*show, "--format=%K %T", folder=folder).splitlines()
    return {int(task): state for task, state in map(str.split, lines)}


def wait(job: str, folder: Path, wanted: str, *tasks: int, timeout_s: float) -> None:
    """Wait until tasks are in a state."""
    until = time.monotonic() + timeout_s
    while not all(states(job, folder).get(task) == wanted for task in tasks):
        assert time.monotonic() < until, states(job, folder)
        time.sleep(0.5)


def log(folder: Path, task: int) -> str:
    return (folder / f"run.journals/{task}.log").read_text()


def has_answers(folder: Path, task: int) -> bool:
    logs = (folder / "disk").glob(f"*/{task}-of-{N_TASKS}.journal-wal")
    return any(path.stat().st_size > 100_000 for path in logs)


def wait_for_answers(folder: Path, task: int) -> None:
    until = time.monotonic() + 300
    while not has_answers(folder, task):
        assert time.monotonic() < until
        time.sleep(0.05)


def start_now(job: str, task: int, folder: Path) -> None:
    """Start a requeued task at once; by default SLURM waits for two minutes."""
    run("scontrol", "update", f"JobId={job}_{task}", "StartTime=now", folder=folder)


def kill(folder: Path, task: int) -> None:
    """Send SIGKILL to a task's run and to the script that started it."""
    words = [str(folder / "run.toml"), f"{task}/{N_TASKS}"]
    (program,) = (
        process
        for process in psutil.process_iter(["cmdline"])
        if set(words) <= set(process.info["cmdline"] or ())
    )
    for process in (program.parent(), program):
        process.kill()


def merged(folder: Path) -> bytes:
    journals = sorted(map(str, (folder / "run.journals").glob("*.journal")))
    run(LLAMAHERD, "merge", *journals, "--out", "merged.csv", folder=folder)
    return (folder / "merged.csv").read_bytes()


def whole(folder: Path) -> bytes:
    run(LLAMAHERD, "run", "run.toml", folder=folder)
    return (folder / "out.csv").read_bytes()


def test_tasks_that_are_killed_and_requeued_give_what_one_machine_gives(
    folder: Path,
) -> None:
    start = time.monotonic()
    job = submit(folder, N_TASKS)
    # One task is requeued while it runs, like a preempted task: it receives SIGTERM
    # first.
    wait_for_answers(folder, 1)
    run("scontrol", "requeue", f"{job}_1", folder=folder)
    # The processes of the other task are killed at once, like by a node's failure.
    wait_for_answers(folder, 2)
    kill(folder, 2)
    wait(job, folder, "FAILED", 2, timeout_s=60)
    run("scontrol", "requeue", f"{job}_2", folder=folder)
    for task in (1, 2):
        wait(job, folder, "PENDING", task, timeout_s=60)
        start_now(job, task, folder)
    wait(job, folder, "COMPLETED", *range(1, N_TASKS + 1), timeout_s=900)
    assert "REQUEUE" in log(folder, 1)
    assert "has the finished rows" in log(folder, 1)
    wall_s = time.monotonic() - start
    assert merged(folder) == whole(folder)
    figures = {"n_tasks": N_TASKS, "n_cpus": N_CPUS, "n_rows": N_ROWS, "wall_s": wall_s}
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    FIGURES.write_text(json.dumps(figures))


def test_a_task_that_comes_to_its_time_limit_starts_itself_again(folder: Path) -> None:
    write_rows(folder, 100_000)  # more rows than can be answered before
    # SIGTERM is due two minutes before the limit; SLURM sends it at its first check,
    # within 30 s.
    job = submit(folder, 1, "--time", "00:02:00")
    wait(job, folder, "RUNNING", 1, timeout_s=60)
    wait(job, folder, "PENDING", 1, timeout_s=200)
    shown = run("scontrol", "show", "job", f"{job}_1", folder=folder)
    run("scancel", job, folder=folder)
    assert "Restarts=1" in shown
    assert "has the finished rows" in log(folder, 1)
    assert (folder / "run.journals/1-of-1.journal").is_file()
