"""Commands on each row of a table: files, signals, shards, steps."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.calls.journal import file as journal_file
from llamaherd.cli import main
from llamaherd.tables.spec_file import read_spec

Tiny = Callable[[str], Path]
COMMAND = [sys.executable, "-m", "llamaherd.cli"]
EXACT = ["--deterministic", "--n-threads", "1", "--max-tokens", "5"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def table(n: int, name: str = "in.csv") -> None:
    with Path(name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text"])
        writer.writerows([i, f"text number {i}"] for i in range(n))


def launch(*arguments: str | Path) -> subprocess.Popen[bytes]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*COMMAND, *map(str, arguments)], **pipes)


def n_stored(journal: str) -> int:
    return len(lh.journal_read(journal)) if Path(journal).exists() else 0


def wait_for_rows(process: subprocess.Popen[bytes], journal: str, n: int) -> None:
    while n_stored(journal) < n:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.mark.long(reason="a process for each case")
def test_kill_9_at_any_moment_and_the_same_command_again(tiny_path: Tiny) -> None:
    table(5000)
    run = ["run", "in.csv", "-m", tiny_path("llama"), *EXACT, "--temperature", "1"]
    assert main([*map(str, run), "-o", "whole.csv"]) == 0
    again = [*run, "-o", "out.csv"]
    for _ in range(2):
        before = n_stored("out.csv.journal")
        process = launch(*again)
        wait_for_rows(process, "out.csv.journal", before + random.randint(1, 500))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not Path("out.csv").exists()
    n_before = n_stored("out.csv.journal")
    assert 0 < n_before < 5000
    assert main([*map(str, again)]) == 0
    assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert n_stored("out.csv.journal") == 5000
    metas = [Path(f"{name}.csv.meta.json").read_bytes() for name in ("out", "whole")]
    assert metas[0] == metas[1]
    assert not list(Path().glob("*.part"))


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.parametrize(
    ("name", "status"),  # Windows has no SIGHUP
    [("SIGTERM", 143), ("SIGINT", -signal.SIGINT), ("SIGHUP", 129)],
)
def test_a_signal_keeps_what_is_finished_and_says_how_to_go_on(
    tiny_path: Tiny, name: str, status: int
) -> None:
    table(50_000)  # more than a run finishes before the signal arrives
    run = ["run", "in.csv", "-m", tiny_path("llama"), *EXACT, "-o", "out.csv"]
    process = launch(*run)
    wait_for_rows(process, "out.csv.journal", 100)
    process.send_signal(signal.Signals[name])
    out, error = process.communicate(timeout=600)
    assert process.returncode == status
    assert out == b""
    assert b"out.csv.journal has the finished rows" in error
    assert b"the same command continues" in error
    assert b"Traceback" not in error
    assert 100 <= n_stored("out.csv.journal") < 50_000
    assert not list(Path().glob("out.csv*part"))


def test_a_run_goes_on_after_ctrl_c_and_writes_the_same_bytes(tiny_path: Tiny) -> None:
    table(1000)
    run = ["run", "in.csv", "-m", tiny_path("llama"), *EXACT, "--temperature", "1"]
    process = launch(*run, "-o", "out.csv")
    wait_for_rows(process, "out.csv.journal", 20)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)
    assert process.returncode == -signal.SIGINT
    assert 20 <= n_stored("out.csv.journal") < 1000
    assert not Path("out.csv").exists()
    assert main([*map(str, run), "-o", "out.csv"]) == 0
    assert main([*map(str, run), "-o", "whole.csv"]) == 0
    assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()


# Starts a program on a terminal, its path first, as the leader of a session.
ON_TERMINAL = """
import os, sys
terminal = os.open(sys.argv[1], os.O_RDWR)
for number in range(3):
    os.dup2(terminal, number)
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


@pytest.mark.long(reason="a process for each case")
def test_a_terminal_that_is_closed_ends_a_run_like_ctrl_c(tiny_path: Tiny) -> None:
    pty = pytest.importorskip("pty")  # not on Windows
    table(50_000)
    run = ["run", "in.csv", "-m", tiny_path("llama"), *EXACT, "-o", "out.csv", "--quiet"]
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", ON_TERMINAL, os.ttyname(theirs), *COMMAND[1:], *run]
    process = subprocess.Popen(list(map(str, command)), start_new_session=True)
    wait_for_rows(process, "out.csv.journal", 100)
    os.close(theirs)
    os.close(ours)  # the system sends SIGHUP, and nothing can be printed any more
    assert process.wait(600) == 129
    assert 100 <= n_stored("out.csv.journal") < 50_000
    assert not list(Path().glob("out.csv*part"))


def test_data_is_on_stdout_and_nothing_beside_it(tiny_path: Tiny) -> None:
    table(3)
    run = ["run", "-", "-m", str(tiny_path("llama")), *EXACT]
    for content, first in (
        (Path("in.csv").read_bytes(), b"id,text,answer,finish_reason,error"),
        (b'{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n', b'{"text": "a", "answer": '),
    ):
        done = subprocess.run(
            [*COMMAND, *run], check=False, input=content, capture_output=True
        )
        assert done.returncode == 0
        (warning,) = done.stderr.splitlines()
        assert b"answers ended at --max-tokens" in warning
        assert done.stdout.splitlines()[0].startswith(first)
        assert len(done.stdout.splitlines()) == 3 + (content[:1] == b"i")
    assert list(Path().iterdir()) == [Path("in.csv")]


def test_what_is_taken_from_the_cache_is_told_to_nobody(
    tiny_path: Tiny, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    table(1)
    model = tiny_path("llama")
    monkeypatch.setenv("LLAMAHERD_CACHE_DIR", str(model.parent))
    assert main(["run", "in.csv", "-m", model.name, *EXACT, "-o", "out.csv"]) == 0
    (warning,) = capfd.readouterr().err.splitlines()  # stderr is no terminal here
    assert "the answer ended at --max-tokens" in warning


def test_rows_that_fail_are_in_the_status(
    tiny_path: Tiny, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("in.csv").write_bytes(b"text\ngood\n" + b"long " * 300 + b"\n" + b'" "\n')
    run = ["run", "in.csv", "-m", str(tiny_path("llama")), *EXACT, "-o", "out.jsonl"]
    assert main(run) == 3
    told = capfd.readouterr()
    assert "2 of 3 rows failed; their column 'error' gives the reasons" in told.err
    assert main([*run[:-1], "prefixed.jsonl", "--prefix", "llm_"]) == 3
    assert "; their column 'llm_error' gives the reasons" in capfd.readouterr().err
    assert told.out == ""
    rows = [
        json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()
    ]
    assert [bool(row["error"]) for row in rows] == [False, True, True]


def test_a_damaged_line_refuses_the_file_before_a_model_is_loaded(
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path("in.csv").write_text('id,text\n1,one\n2,"two\n3,three\n', encoding="utf-8")
    assert main(["run", "in.csv", "-m", "no.gguf", "-o", "out.csv"]) == 2
    assert "in.csv, line 3: in the row that begins here, a" in capfd.readouterr().err


def test_flags_write_the_file_that_does_the_same(
    tiny_path: Tiny,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table(20)
    Path("labels.txt").write_text("yes\nno\n\n", encoding="utf-8")
    run = [
        "classify", "in.csv", "-m", str(tiny_path("llama")), "--prompt", "{text} is",
        "--labels", "labels.txt", "--deterministic", "--n-seq-max", "4",
        "--set", "classify.normalize='byte'", "--prefix", "x_", "-o", "out.csv",
    ]  # fmt: skip
    assert main(run) == 0
    first = Path("out.csv").read_bytes()
    assert main([*run, "--save", "run.toml"]) == 0
    spec = read_spec("run.toml")
    assert dict(spec.classify) == {"labels": ["yes", "no"], "normalize": "byte"}
    assert spec.prefix == "x_"
    meta = json.loads(Path("out.csv.meta.json").read_text("utf-8"))
    assert meta["run_sha256"] == spec.hash()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert main(["run", "../run.toml", "-o", "here.csv"]) == 0
    assert Path("here.csv").read_bytes() == first
    Path("in.csv").write_text("text\na\n", encoding="utf-8")
    Path("labels.txt").write_text("yes\nno\n", encoding="utf-8")
    assert main([*run, "--save", "../run.toml"]) == 2  # the input is different
    assert "describes another run" in capsys.readouterr().err


def test_shards_and_merge(tiny_path: Tiny, capfd: pytest.CaptureFixture[str]) -> None:
    table(40)
    run = ["run", "in.csv", "-m", str(tiny_path("llama")), *EXACT]
    run += ["--temperature", "1", "--seed", "5", "-o", "out.parquet"]
    assert main([*run, "--save", "run.toml"]) == 0
    assert main(["run", "run.toml"]) == 0
    for i in (1, 2, 3):
        shard = ["--shard", f"{i}/3", "--journal", f"{i}.journal"]
        assert main(["run", "run.toml", *shard, "--n-threads", str(i)]) == 0
    journals = [f"{i}.journal" for i in (1, 2, 3)]
    assert main(["merge", *journals, "--out", "merged.parquet"]) == 0
    assert Path("merged.parquet").read_bytes() == Path("out.parquet").read_bytes()
    assert main(["merge", *journals[:2], "--out", "no.parquet"]) == 2
    assert "missing shards (1 of 3): 3" in capfd.readouterr().err
    assert not Path("no.parquet").exists()
    moved = Path("in.csv").rename("moved.csv")
    assert main(["merge", *journals, "-o", "again.parquet"]) == 2
    assert main(["merge", *journals, "-o", "again.parquet", "--input", str(moved)]) == 0


@pytest.mark.parametrize(
    ("content", "prompt", "columns"),
    [
        ("one\ntwo\n", "{text}", ["text"]),
        ("1,one\n2,two\n", "{column_1} {column_2}", ["column_1", "column_2"]),
    ],
)
def test_a_table_without_a_header(
    tiny_path: Tiny,
    capsys: pytest.CaptureFixture[str],
    content: str,
    prompt: str,
    columns: list[str],
) -> None:
    Path("in.csv").write_text(content)
    run = ["run", "in.csv", "--no-header", "--prompt", prompt, *EXACT]
    run += ["-m", str(tiny_path("llama")), "-o", "out.csv"]
    assert main([*run, "--save", "run.toml"]) == 0
    assert main(["run", "run.toml"]) == 0
    with Path("out.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[: len(columns)] == columns
    assert [row[: len(columns)] for row in rows] == list(csv.reader(content.split()))
    capsys.readouterr()
    Path("in.jsonl").write_text('{"text": "a"}\n')
    assert main([*run[:1], "in.jsonl", *run[2:], "--overwrite"]) == 2
    assert "--no-header" in capsys.readouterr().err


def test_embed(tiny_path: Tiny) -> None:
    table(5)
    run = ["embed", "in.csv", "-m", str(tiny_path("bert")), "--pooling", "cls"]
    assert main([*run, "--deterministic", "-o", "out.jsonl"]) == 0
    rows = [
        json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()
    ]
    assert [len(row["embedding"]) for row in rows] == [32] * 5


def test_flags_say_how_the_chat_is_rendered(tiny_path: Tiny) -> None:
    table(1)
    Path("own.jinja").write_text("{{ messages }}", encoding="utf-8")
    run = ["run", "in.csv", "-m", str(tiny_path("llama")), "--chat", "--thinking", "64"]
    run += ["--var", "reasoning_effort=low", "--var", "enable_thinking=true"]
    run += ["--template", "own.jinja", "--answer-prefix", "It is", "--merge-system"]
    assert main([*run, "--save", "run.toml"]) == 0
    spec = read_spec("run.toml")
    assert (spec.thinking, Path(spec.chat_template).name) == (64, "own.jinja")
    assert spec.variables == {"reasoning_effort": "low", "enable_thinking": True}
    assert (spec.answer_prefix, spec.merge_system) == ("It is", True)
    for word, value in (("off", False), ("on", True)):
        assert main([*run, "--thinking", word, "--save", f"{word}.toml"]) == 0
        assert read_spec(f"{word}.toml").thinking is value


@pytest.mark.parametrize("setting", ["n_ctx=-3", "n_seq_max='a'"])
def test_a_wrong_key_of_the_context_is_status_2(
    setting: str, tiny_path: Tiny, capsys: pytest.CaptureFixture[str]
) -> None:
    table(1)
    run = ["run", "in.csv", "-m", str(tiny_path("llama"))]
    assert main([*run, "--set", f"context.{setting}"]) == 2
    name = setting.partition("=")[0]
    assert capsys.readouterr().err.startswith(f"llamaherd: --set context.{name} must")


def test_what_fails_while_at_it_is_status_1(
    tiny_path: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table(2)
    assert main(["run", "in.csv", "-m", "no.gguf"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("llamaherd: ")
    assert "no.gguf" in error

    def changed(_: object) -> None:
        raise ValueError("the input in.csv was changed while it was read")

    monkeypatch.setattr("llamaherd.tables.inputs.Input.check_unchanged", changed)
    run = ["run", "in.csv", "-m", str(tiny_path("llama")), *EXACT, "-o", "out.csv"]
    assert main(run) == 1
    assert "was changed while" in capsys.readouterr().err


def test_a_journal_on_a_network_drive(
    tiny_path: Tiny, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table(2)
    monkeypatch.setattr(journal_file, "network_type", lambda _: "nfs4")
    run = ["run", "in.csv", "-m", str(tiny_path("llama")), *EXACT, "-o", "out.csv"]
    assert main(run) == 2
    assert "network drive (nfs4)" in capsys.readouterr().err
    assert main([*run, "--journal", ""]) == 0


def test_ctrl_c_without_a_journal_says_what_is_kept(tiny_path: Tiny) -> None:
    table(20_000)
    process = launch("run", "in.csv", "-m", tiny_path("llama"), "--max-tokens", "20")
    assert process.stdout is not None
    process.stdout.readline()  # the header shows that the server runs
    os.kill(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGINT
    assert b"results are kept, because there was no journal" in error


STEPS = ["--until", "50", "--embedding-model"]


@pytest.fixture
def _steps_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "question: Which?\nlabels: [ball, rain]\n"
    Path("topics.yaml").write_text(text, encoding="utf-8")
    with Path("in.csv").open("w", encoding="utf-8", newline="") as file:
        rows = [[i, f"text {i} {'ball' * (i % 4)}"] for i in range(80)]
        csv.writer(file).writerows([["id", "text"], *rows])


def annotate(tiny_path: Callable[[str], Path], *more: str) -> int:
    model = str(tiny_path("llama"))
    given = ["annotate", "in.csv", "-m", model, "--codebook", "topics.yaml", "-q"]
    return main([*given, "-o", "out.csv", *more])


def read() -> list[dict[str, str]]:
    with Path("out.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("_steps_folder")
def test_a_table_in_steps_and_again(
    tiny_path: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    encoder = tiny_path("bert")
    assert annotate(tiny_path, *STEPS, str(encoder), "--unsure", "0.2") == 0
    rows = read()
    steps = [row["step"] for row in rows]
    assert [steps.count(each) for each in ("model", "head", "unsure")] == [50, 24, 6]
    assert list(rows[0])[-2:] == ["step", "error"]
    assert (
        "llama.gguf labelled 50 texts (62.5%), drawn at random" in capfd.readouterr().err
    )
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        same = lh.annotate(
            {"text": [row["text"] for row in rows]},
            "text",
            lh.read_codebook("topics.yaml"),
            context,
            until=50,
            embeddings=encoder,
            unsure=0.2,
        )
    assert same.frame["step"] == steps
    assert same.labels == [row["label"] for row in rows]
    before = Path("out.csv").read_bytes()
    n = len(lh.journal_read("out.csv.journal"))
    assert annotate(tiny_path, *STEPS, str(encoder), "--unsure", "0.2") == 0
    assert "from the journal" in capfd.readouterr().err
    assert Path("out.csv").read_bytes() == before
    assert len(lh.journal_read("out.csv.journal")) == n


@pytest.mark.usefixtures("_steps_folder")
def test_a_run_file_finds_models_beside_it(tiny_path: Callable[[str], Path]) -> None:
    Path("run").mkdir()
    tiny_models.write(Path("run/larger.gguf"), "llama", seed=2)
    lines = [
        'task = "annotate"', 'input = "../in.csv"', 'output = "../out.csv"',
        'codebook = "../topics.yaml"', "[model]", f'path = "{tiny_path("llama")}"',
        "[annotate]", 'larger = "larger.gguf"', "unsure = 0.5",
    ]  # fmt: skip
    Path("run/run.toml").write_text("\n".join(lines), encoding="utf-8")
    assert main(["run", "run/run.toml", "-q"]) == 0
    assert [row["step"] for row in read()].count("unsure") == 40


@pytest.mark.usefixtures("_steps_folder")
def test_what_does_not_go(
    tiny_path: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    assert annotate(tiny_path, "--until", "50") == 2
    assert "--embedding-model must be a model for embeddings" in capfd.readouterr().err
    assert annotate(tiny_path, *STEPS, "no.gguf", "--shard", "1/2") == 2
    assert "--until selects texts from all rows" in capfd.readouterr().err
    assert annotate(tiny_path, "--larger", "no.gguf", "--shard", "1/2") == 2
    assert "--larger selects texts from all rows" in capfd.readouterr().err
    assert annotate(tiny_path, *STEPS, "no.gguf") != 0
    assert "--embedding-model names no file" in capfd.readouterr().err
