"""Array scripts: their text, and their tasks, executed without SLURM."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd.cli import main
from llamaherd.journal import copying
from llamaherd.journal.journal import Journal
from llamaherd.tables.slurm import Resources, slurm_script

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAYED = """#!/usr/bin/env bash
echo "${0##*/} $*" >>"$PLAYED"
if [[ ${0##*/} == squeue ]]; then echo "$STATE"; fi
"""
_RUN = """
input = "texts.csv"
output = "out.csv"
column = "text"
[model]
path = "{model}"
[context]
n_seq_max = 4
n_threads = 1
[sampling]
max_tokens = 24
temperature = 1.0
seed = 7
"""


@pytest.fixture
def folder(tmp_path: Path, tiny_path: Callable[[str], Path]) -> Path:
    """Create a folder, with a space in its name, that contains a run."""
    folder = tmp_path / "a run"
    folder.mkdir()
    with (folder / "texts.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "text"])
        rows.writerows([i, f"Text {i % 4} of {i}: " + "w " * (i % 7)] for i in range(40))
    (folder / "run.toml").write_text(_RUN.format(model=tiny_path("llama")))
    return folder


class Cluster:
    """Fake SLURM: sets the environment of a task, and provides the commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in ("squeue", "scontrol", "sbatch"):
            (self.programs / name).write_text(_PLAYED)
            (self.programs / name).chmod(0o755)
        (folder / "disk").mkdir()

    def start(self, task: int, state: str = "RUNNING") -> subprocess.Popen[str]:
        """Start a task of the array."""
        variables = {
            **os.environ,
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "SLURM_ARRAY_TASK_ID": str(task),
            "SLURM_JOB_ID": "77",
            "TMPDIR": str(self.folder / "disk"),
            "PLAYED": str(self.folder / "played"),
            "STATE": state,
        }
        return subprocess.Popen(
            ["bash", str(self.folder / "run.slurm.sh")],
            env=variables,
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, task: int) -> None:
        """Run a task to its end."""
        process = self.start(task)
        out, _ = process.communicate(timeout=600)
        assert process.returncode == 0, out

    @property
    def commands(self) -> list[str]:
        """Return the commands that SLURM received."""
        played = self.folder / "played"
        return played.read_text().splitlines() if played.exists() else []


@pytest.fixture
def cluster(folder: Path) -> Cluster:
    return Cluster(folder)


def write(folder: Path, *options: str, tasks: int = 2) -> Path:
    run = str(folder / "run.toml")
    assert main(["slurm", run, "--tasks", str(tasks), *options]) == 0
    return folder / "run.slurm.sh"


def merged(folder: Path, n: int) -> bytes:
    journals = [str(folder / f"run.journals/{i}-of-{n}.journal") for i in range(1, n + 1)]
    assert main(["merge", *journals, "--out", str(folder / "merged.csv")]) == 0
    return (folder / "merged.csv").read_bytes()


def whole(folder: Path) -> bytes:
    assert main(["run", str(folder / "run.toml")]) == 0
    return (folder / "out.csv").read_bytes()


def test_scripts_are_without_fault(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--setup", "module load gcc", "--most-running", "5", "--time", "01:00:00"]
    more += ["--cpus-per-task", "4", "--sbatch", "--constraint=avx512"]
    for options in ([], more):
        script = write(folder, *options, "--overwrite", tasks=50)
        shellcheck = Path(sys.executable).with_name("shellcheck")
        subprocess.run([shellcheck, script], check=True)
        subprocess.run(["bash", "-n", script], check=True)
    text = script.read_text()
    directives = [line for line in text.splitlines() if line.startswith("#SBATCH")]
    for wanted in (
        "--array=1-50%5",
        "--requeue",
        "--signal=B:TERM@120",
        "--open-mode=append",
        "--time=01:00:00",
        "--cpus-per-task=4",
        "--constraint=avx512",
        f'--output="{folder}/run.journals/%a.log"',
    ):
        assert f"#SBATCH {wanted}" in directives
    assert "\nmodule load gcc\n" in text
    assert '--n-threads "$SLURM_CPUS_PER_TASK"' in text
    assert "llamaherd merge" in capsys.readouterr().out


@pytest.mark.parametrize(
    "changes",
    [
        {"time": "1 h"},
        {"partition": "a\n#SBATCH --uid=0"},
        {"mem": "$(id)"},
        {"extra": ("x",)},
        {"extra": ("--comment='a b'",)},
    ],
)
def test_what_would_break_out_of_a_line_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(changes))):
        Resources(**changes)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run", Path("/a$(id)/run.toml")),
        ("script", Path("/a\n/run.sh")),
        ("scratch", "/tmp; id"),
        ("scratch", "$(id)"),
        ("setup", ("a\nb",)),
        ("n_tasks", 0),
        ("most_running", 0),
    ],
)
def test_what_cannot_stand_in_a_script_is_refused(name: str, value: object) -> None:
    arguments = {
        "script": Path("/run.sh"),
        "run": Path("/run.toml"),
        "output": "/out.csv",
        "n_tasks": 2,
        "resources": Resources(),
        name: value,
    }
    with pytest.raises(ValueError, match=name):
        slurm_script(**arguments)


def test_wrong_use_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = str(folder / "run.toml")
    assert main(["slurm", run]) == 2
    assert main(["slurm", str(folder / "none.toml"), "--tasks", "2"]) == 2
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["slurm", run, "--tasks", "2", "--submit"]) == 1
    assert "no sbatch here" in capsys.readouterr().err
    (folder / "run.toml").write_text('[model]\npath = "m.gguf"\n')
    assert main(["slurm", run, "--tasks", "2"]) == 2
    assert "stream" in capsys.readouterr().err


def test_submitting_hands_the_script_to_sbatch(
    folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{cluster.programs}:{os.environ['PATH']}")
    monkeypatch.setenv("PLAYED", str(folder / "played"))
    script = write(folder, "--submit")
    assert cluster.commands == [f"sbatch --parsable {script}"]


@pytest.mark.long(reason="tasks of an array, each a process")
@pytest.mark.parametrize("task", ["generate", "annotate"])
def test_two_tasks_give_what_one_machine_gives(
    folder: Path, cluster: Cluster, task: str
) -> None:
    if task == "annotate":
        lh.write_codebook(lh.Codebook("Which?", ["a", "b"]), folder / "topics.yaml")
        file = folder / "run.toml"
        told, _ = file.read_text("utf-8").split("[sampling]")  # goes with generate
        told = told.replace("[context]", "[context]\ndeterministic = true")
        head = f'task = "{task}"\ncodebook = "topics.yaml"\n'
        file.write_text(head + told, encoding="utf-8")
    write(folder)
    for i in (1, 2):
        cluster.run(i)
    assert merged(folder, 2) == whole(folder)
    assert cluster.commands == []
    assert list((folder / "disk").iterdir()) == []  # no files remain on the nodes


def log_of(folder: Path) -> int:
    """Return the number of bytes that a task's run has written to its journal's log."""
    logs = (folder / "disk").glob("llamaherd-*/*.journal-wal")
    return sum(path.stat().st_size for path in logs)


@pytest.mark.long(reason="tasks of an array, each a process")
@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING"])
def test_a_task_that_is_ended_goes_on(folder: Path, cluster: Cluster, state: str) -> None:
    # Enough rows that the signal arrives before the last one.
    rows = [f"{i},Text {i}" for i in range(3000)]
    (folder / "texts.csv").write_text("\n".join(["id,text", *rows]) + "\n")
    write(folder)
    process = cluster.start(1, state)
    until = time.monotonic() + 100
    while log_of(folder) < 100_000:
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    process.terminate()
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 143, out
    # A task starts itself again only if it was not cancelled.
    asked = ["squeue --noheader --jobs=77 --format=%T"]
    assert cluster.commands == asked + ["scontrol requeue 77"] * (state == "RUNNING")
    kept = folder / "run.journals/1-of-2.journal"
    n_before = kept.stat().st_size
    assert n_before > 50_000  # finished results were copied back
    assert list((folder / "disk").iterdir()) == []
    if state == "RUNNING":
        for task in (1, 2):
            cluster.run(task)
        assert kept.stat().st_size > n_before
        assert merged(folder, 2) == whole(folder)


def test_a_journal_in_use_is_copied_whole(folder: Path) -> None:
    journal = folder / "1-of-1.journal"
    command = ["run", str(folder / "run.toml"), "--shard", "1/1", "--journal"]
    assert main([*command, str(journal)]) == 0
    kept = folder / "kept.journal"
    Journal(kept).close()  # an older one
    assert main(["keep-journal", str(journal), str(kept)]) == 0
    assert [path.name for path in folder.iterdir() if "kept" in path.name] == [kept.name]
    assert main(["merge", str(kept), "--out", str(folder / "merged.csv")]) == 0
    assert (folder / "merged.csv").read_bytes() == whole(folder)


def test_a_copy_that_cannot_be_made_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "no.journal").write_text("no journal")
    kept = tmp_path / "kept"
    for source in ("no.journal", "none.journal"):
        assert main(["keep-journal", str(tmp_path / source), str(kept)]) == 2
        assert source in capsys.readouterr().err
    assert not kept.exists()
    with pytest.raises(ValueError, match="journal"):
        copying.keep_journal(tmp_path, kept)
