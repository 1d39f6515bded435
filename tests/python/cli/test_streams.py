"""The command with closed standard streams."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from waiting import HANGS_S

if TYPE_CHECKING:
    from collections.abc import Callable

    Tiny = Callable[[str], Path]

FULL = Path("/dev/full")
LLAMAHERD = f"{sys.executable} -m llamaherd.cli"


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.parametrize(
    ("redirected", "told"),
    [
        (">&-", "answers ended at max_tokens"),
        ("2>&-", ""),
        ("<&- >&- 2>&-", ""),
    ],
)
def test_a_run_with_a_closed_stream(
    tiny_path: Tiny, tmp_path: Path, redirected: str, told: str
) -> None:
    (tmp_path / "in.csv").write_text("text\na\nb\n")
    run = f"run in.csv -m {tiny_path('llama')} --prompt '{{text}}' --max-tokens 3"
    done = shell(f"{LLAMAHERD} {run} -o out.csv {redirected}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == bool(told)
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows] == ["text", "a", "b"]


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.parametrize("filter_", ["error::UserWarning", "error"])
def test_no_filter_turns_the_warnings_of_a_run_into_errors(
    tiny_path: Tiny, tmp_path: Path, filter_: str
) -> None:
    (tmp_path / "in.csv").write_text("text\na\nb\n")
    run = f"classify in.csv -m {tiny_path('llama')} --prompt '{{text}}' --labels a,b"
    done = shell(
        f"PYTHONWARNINGS={filter_} {LLAMAHERD} {run} -o out.csv --journal ''", tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("llamaherd: warning: Median coverage is")
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other pipes")
def test_a_reader_that_ends_first_causes_no_message(
    tiny_path: Tiny, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text("text\na\nb\n")
    reader, writer = os.pipe()
    os.close(reader)
    run = f"run in.csv -m {tiny_path('llama')} --prompt {{text}} --max-tokens 3"
    done = subprocess.run(
        [*LLAMAHERD.split(), *run.split()],
        cwd=tmp_path,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other pipes")
def test_a_reader_that_ends_during_a_run_ends_the_run(
    tiny_path: Tiny, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text("text\n" + "a\n" * 100_000)
    run = f"run in.csv -m {tiny_path('llama')} --prompt {{text}} --temperature 1"
    with subprocess.Popen(
        [*LLAMAHERD.split(), *run.split()],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"text,answer,finish_reason,error\n"
        process.stdout.close()
        assert process.wait(HANGS_S) == 1  # all rows would take an hour
        assert process.stderr.read() == b""


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["--help", "codebooks --help", "doctor", "run"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_stdout_is_named(
    tiny_path: Tiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    unbuffered: str,
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    (tmp_path / "in.csv").write_text("text\na\n")
    if command == "run":
        command = f"run in.csv -m {tiny_path('llama')} --prompt '{{text}}'"
    done = shell(f"{LLAMAHERD} {command} > /dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("llamaherd: No space left on")
    assert len(done.stderr.splitlines()) == 1


def test_a_character_that_the_console_lacks_is_escaped(
    own_cache: Path, tmp_path: Path
) -> None:
    own_cache.mkdir(parents=True)
    (own_cache / "schön-\u96ea.gguf").write_bytes(b"GGUF")
    narrow = {**os.environ, "PYTHONIOENCODING": "cp1252"}
    done = subprocess.run(
        f"{LLAMAHERD} models list",
        cwd=tmp_path,
        env=narrow,
        shell=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode("cp1252").startswith("schön-\\u96ea.gguf ")


def test_a_table_from_a_closed_stdin(tiny_path: Tiny, tmp_path: Path) -> None:
    run = f"run - -m {tiny_path('llama')} --prompt '{{text}}' -o out.csv <&-"
    done = shell(f"{LLAMAHERD} {run}", tmp_path)
    assert done.returncode == 2
    assert "stdin, line 1: it is empty" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.parametrize("command", ["--version", "--help", "models list", "doctor"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", "<&- >&- 2>&-"])
def test_no_command_ends_in_a_traceback(
    tmp_path: Path, command: str, closed: str
) -> None:
    done = shell(f"{LLAMAHERD} {command} {closed}", tmp_path)
    assert "Traceback" not in done.stderr + done.stdout
    assert "Exception ignored" not in done.stderr
    assert done.returncode in {0, 1}


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        line, shell=True, cwd=folder, capture_output=True, text=True, check=False
    )
