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
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.calls.journal import file as journal_file
from llamaherd.tables.spec_file import read_spec

if TYPE_CHECKING:
    from commands import Commands

COMMAND = [sys.executable, "-m", "llamaherd.cli"]
EXACT = "-m MODEL --deterministic --n-threads 1 --max-tokens 5"
RUN = f"run in.csv {EXACT}"


def table(n: int) -> None:
    rows = [f"{i},text number {i}\n" for i in range(n)]
    Path("in.csv").write_text("id,text\n" + "".join(rows), encoding="utf-8")


def launch(cli: Commands, line: str) -> subprocess.Popen[bytes]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*COMMAND, *cli.words(line)], **pipes)


def n_stored(journal: str = "out.csv.journal") -> int:
    return len(lh.journal_read(journal)) if Path(journal).exists() else 0


def wait_for_rows(process: subprocess.Popen[bytes], n: int) -> None:
    while n_stored() < n:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def out_rows() -> list[dict[str, str]]:
    with Path("out.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def json_lines(path: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


@pytest.mark.long(reason="a process for each case")
def test_kill_9_at_any_moment_and_the_same_command_again(cli: Commands) -> None:
    table(5000)
    cli(f"{RUN} --temperature 1 -o whole.csv")
    again = f"{RUN} --temperature 1 -o out.csv"
    for _ in range(2):
        before = n_stored()
        process = launch(cli, again)
        wait_for_rows(process, before + random.randint(1, 500))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert not Path("out.csv").exists()
    assert 0 < n_stored() < 5000
    cli(again)
    assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert n_stored() == 5000
    metas = [Path(f"{name}.csv.meta.json").read_bytes() for name in ("out", "whole")]
    assert metas[0] == metas[1]
    assert not list(Path().glob("*.part"))


@pytest.mark.more(reason="a process for each case", cases=1)
@pytest.mark.parametrize(
    ("name", "status"),  # Windows has no SIGHUP
    [("SIGTERM", 143), ("SIGINT", -signal.SIGINT), ("SIGHUP", 129)],
)
def test_a_signal_keeps_what_is_finished_and_says_how_to_go_on(
    cli: Commands, name: str, status: int
) -> None:
    table(50_000)  # more than a run finishes before the signal arrives
    process = launch(cli, f"{RUN} -o out.csv")
    wait_for_rows(process, 100)
    process.send_signal(signal.Signals[name])
    out, error = process.communicate(timeout=600)
    assert process.returncode == status
    assert out == b""
    assert b"out.csv.journal has the finished rows" in error
    assert b"the same command continues" in error
    assert b"Traceback" not in error
    assert 100 <= n_stored() < 50_000
    assert not list(Path().glob("out.csv*part"))


def test_a_run_goes_on_after_ctrl_c_and_writes_the_same_bytes(cli: Commands) -> None:
    table(1000)
    run = f"{RUN} --temperature 1 -o"
    process = launch(cli, f"{run} out.csv")
    wait_for_rows(process, 20)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)
    assert process.returncode == -signal.SIGINT
    assert 20 <= n_stored() < 1000
    assert not Path("out.csv").exists()
    cli(run, "out.csv")
    cli(run, "whole.csv")
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
def test_a_terminal_that_is_closed_ends_a_run_like_ctrl_c(cli: Commands) -> None:
    pty = pytest.importorskip("pty")  # not on Windows
    table(50_000)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", ON_TERMINAL, os.ttyname(theirs), *COMMAND[1:]]
    command += cli.words(f"{RUN} -o out.csv --quiet")
    process = subprocess.Popen(command, start_new_session=True)
    wait_for_rows(process, 100)
    os.close(theirs)
    os.close(ours)  # the system sends SIGHUP, and nothing can be printed any more
    assert process.wait(600) == 129
    assert 100 <= n_stored() < 50_000
    assert not list(Path().glob("out.csv*part"))


def test_data_is_on_stdout_and_nothing_beside_it(cli: Commands) -> None:
    table(3)
    command = [*COMMAND, *cli.words(f"run - {EXACT}")]
    for content, first in (
        (Path("in.csv").read_bytes(), b"id,text,answer,finish_reason,error"),
        (b'{"text": "a"}\n{"text": "b"}\n{"text": "c"}\n', b'{"text": "a", "answer": '),
    ):
        done = subprocess.run(command, check=False, input=content, capture_output=True)
        assert done.returncode == 0
        (warning,) = done.stderr.splitlines()
        assert b"answers ended at --max-tokens" in warning
        assert done.stdout.splitlines()[0].startswith(first)
        assert len(done.stdout.splitlines()) == 3 + (content[:1] == b"i")
    assert list(Path().iterdir()) == [Path("in.csv")]


def test_what_is_taken_from_the_cache_is_told_to_nobody(
    cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(1)
    model = Path(*cli.words("MODEL"))
    monkeypatch.setenv("LLAMAHERD_CACHE_DIR", str(model.parent))
    run = f"{RUN} -o out.csv".replace("MODEL", model.name)
    printed = cli(run, err="the answer ended at --max-tokens")
    assert len(printed.err.splitlines()) == 1  # stderr is no terminal here


def test_rows_that_fail_are_in_the_status(cli: Commands) -> None:
    Path("in.csv").write_bytes(b"text\ngood\n" + b"long " * 300 + b"\n" + b'" "\n')
    reasons = "2 of 3 rows failed; their column 'error' gives the reasons"
    assert cli(RUN, "-o", "out.jsonl", status=3, err=reasons).out == ""
    reasons = "; their column 'llm_error' gives the reasons"
    cli(f"{RUN} -o prefixed.jsonl --prefix llm_", status=3, err=reasons)
    assert [bool(row["error"]) for row in json_lines("out.jsonl")] == [False, True, True]


def test_a_damaged_line_refuses_the_file_before_a_model_is_loaded(cli: Commands) -> None:
    Path("in.csv").write_text('id,text\n1,one\n2,"two\n3,three\n', encoding="utf-8")
    message = "in.csv, line 3: in the row that begins here, a"
    cli("run in.csv -m no.gguf -o out.csv", status=2, err=message)


def test_flags_write_the_file_that_does_the_same(
    cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(20)
    Path("labels.txt").write_text("yes\nno\n\n", encoding="utf-8")
    run = "classify in.csv -m MODEL --prompt '{text} is' --labels labels.txt"
    run += " --deterministic --n-seq-max 4 --prefix x_ -o out.csv"
    run += """ --set "classify.normalize='byte'" """
    cli(run)
    first = Path("out.csv").read_bytes()
    cli(f"{run} --save run.toml")
    spec = read_spec("run.toml")
    assert dict(spec.classify) == {"labels": ["yes", "no"], "normalize": "byte"}
    assert spec.prefix == "x_"
    meta = json.loads(Path("out.csv.meta.json").read_text("utf-8"))
    assert meta["run_sha256"] == spec.hash()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    cli("run ../run.toml -o here.csv")
    assert Path("here.csv").read_bytes() == first
    Path("in.csv").write_text("text\na\n", encoding="utf-8")
    Path("labels.txt").write_text("yes\nno\n", encoding="utf-8")
    message = "describes another run"  # the input is different
    cli(f"{run} --save ../run.toml", status=2, err=message)


def test_shards_and_merge(cli: Commands) -> None:
    table(40)
    cli(f"{RUN} --temperature 1 --seed 5 -o out.parquet --save run.toml")
    cli("run run.toml")
    for i in (1, 2, 3):
        cli(f"run run.toml --shard {i}/3 --journal {i}.journal --n-threads {i}")
    merge = "merge 1.journal 2.journal"
    cli(f"{merge} 3.journal --out merged.parquet")
    assert Path("merged.parquet").read_bytes() == Path("out.parquet").read_bytes()
    missing = "missing shards (1 of 3): 3"
    cli(f"{merge} --out no.parquet", status=2, err=missing)
    assert not Path("no.parquet").exists()
    Path("in.csv").rename("moved.csv")
    cli(f"{merge} 3.journal -o again.parquet", status=2)
    cli(f"{merge} 3.journal -o again.parquet --input moved.csv")


@pytest.mark.parametrize(
    ("content", "prompt", "columns"),
    [
        ("one\ntwo\n", "{text}", ["text"]),
        ("1,one\n2,two\n", "{column_1} {column_2}", ["column_1", "column_2"]),
    ],
)
def test_a_table_without_a_header(
    cli: Commands, content: str, prompt: str, columns: list[str]
) -> None:
    Path("in.csv").write_text(content)
    more = f"--no-header --prompt '{prompt}' {EXACT} -o out.csv"
    cli(f"run in.csv {more} --save run.toml")
    cli("run run.toml")
    with Path("out.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header[: len(columns)] == columns
    assert [row[: len(columns)] for row in rows] == list(csv.reader(content.split()))
    Path("in.jsonl").write_text('{"text": "a"}\n')
    cli(f"run in.jsonl {more} --overwrite", status=2, err="--no-header")


def test_embed(cli: Commands) -> None:
    table(5)
    cli("embed in.csv -m ENCODER --pooling cls --deterministic -o out.jsonl")
    assert [len(row["embedding"]) for row in json_lines("out.jsonl")] == [32] * 5


def test_flags_say_how_the_chat_is_rendered(cli: Commands) -> None:
    table(1)
    Path("own.jinja").write_text("{{ messages }}", encoding="utf-8")
    run = "run in.csv -m MODEL --chat --thinking 64 --var reasoning_effort=low"
    run += " --var enable_thinking=true --template own.jinja --merge-system"
    run += " --answer-prefix 'It is'"
    cli(f"{run} --save run.toml")
    spec = read_spec("run.toml")
    assert (spec.thinking, Path(spec.chat_template).name) == (64, "own.jinja")
    assert spec.variables == {"reasoning_effort": "low", "enable_thinking": True}
    assert (spec.answer_prefix, spec.merge_system) == ("It is", True)
    for word, value in (("off", False), ("on", True)):
        cli(f"{run} --thinking {word} --save {word}.toml")
        assert read_spec(f"{word}.toml").thinking is value


@pytest.mark.parametrize("setting", ["n_ctx=-3", "n_seq_max='a'"])
def test_a_wrong_key_of_the_context_is_status_2(setting: str, cli: Commands) -> None:
    table(1)
    stderr = cli("run in.csv -m MODEL --set", f"context.{setting}", status=2).err
    name = setting.partition("=")[0]
    assert stderr.startswith(f"llamaherd: --set context.{name} must")


def test_what_fails_while_at_it_is_status_1(
    cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(2)
    error = cli("run in.csv -m no.gguf", status=1, err="no.gguf").err
    assert error.startswith("llamaherd: ")

    def changed(_: object) -> None:
        raise ValueError("the input in.csv was changed while it was read")

    monkeypatch.setattr("llamaherd.tables.inputs.Input.check_unchanged", changed)
    cli(f"{RUN} -o out.csv", status=1, err="was changed while")
    assert not Path("out.csv").exists()


def test_a_journal_on_a_network_drive(
    cli: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(2)
    monkeypatch.setattr(journal_file, "network_type", lambda _: "nfs4")
    cli(f"{RUN} -o out.csv", status=2, err="network drive (nfs4)")
    cli(f"{RUN} -o out.csv --journal ''")


def test_ctrl_c_without_a_journal_says_what_is_kept(cli: Commands) -> None:
    table(20_000)
    process = launch(cli, "run in.csv -m MODEL --max-tokens 20")
    assert process.stdout is not None
    process.stdout.readline()  # the header shows that the server runs
    os.kill(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=600)
    assert process.returncode == -signal.SIGINT
    assert b"results are kept, because there was no journal" in error


ANNOTATE = "annotate in.csv -m MODEL --codebook topics.yaml -q -o out.csv"
STEPS = f"{ANNOTATE} --until 50 --embedding-model"


@pytest.fixture
def stepping(cli: Commands) -> Commands:
    text = "question: Which?\nlabels: [ball, rain]\n"
    Path("topics.yaml").write_text(text, encoding="utf-8")
    rows = [f"{i},text {i} {'ball' * (i % 4)}\n" for i in range(80)]
    Path("in.csv").write_text("id,text\n" + "".join(rows))
    return cli


def test_a_table_in_steps_and_again(stepping: Commands) -> None:
    summary = "llama.gguf labelled 50 texts (62.5%), drawn at random"
    stepping(f"{STEPS} ENCODER --unsure 0.2", err=summary)
    rows = out_rows()
    steps = [row["step"] for row in rows]
    assert [steps.count(step) for step in ("model", "head", "unsure")] == [50, 24, 6]
    assert list(rows[0])[-2:] == ["step", "error"]
    path, encoder = stepping.words("MODEL ENCODER")
    with lh.Model(path) as model, lh.Context(model) as context:
        texts = {"text": [row["text"] for row in rows]}
        book = lh.read_codebook("topics.yaml")
        how = {"until": 50, "embeddings": encoder, "unsure": 0.2}
        expected = lh.annotate(texts, "text", book, context, **how)
    assert expected.frame["step"] == steps
    assert expected.labels == [row["label"] for row in rows]
    before = Path("out.csv").read_bytes()
    n = n_stored()
    stepping(f"{STEPS} ENCODER --unsure 0.2", err="from the journal")
    assert Path("out.csv").read_bytes() == before
    assert n_stored() == n


def test_a_run_file_finds_models_beside_it(stepping: Commands) -> None:
    Path("run").mkdir()
    tiny_models.write(Path("run/larger.gguf"), "llama", seed=2)
    (model,) = stepping.words("MODEL")
    lines = [
        'task = "annotate"', 'input = "../in.csv"', 'output = "../out.csv"',
        'codebook = "../topics.yaml"', "[model]", f'path = "{model}"',
        "[annotate]", 'larger = "larger.gguf"', "unsure = 0.5",
    ]  # fmt: skip
    Path("run/run.toml").write_text("\n".join(lines), encoding="utf-8")
    stepping("run run/run.toml -q")
    assert [row["step"] for row in out_rows()].count("unsure") == 40


@pytest.mark.parametrize(
    ("line", "status", "error"),
    [
        (f"{ANNOTATE} --until 50", 2, "--embedding-model must be a model for embeddings"),
        (f"{STEPS} no.gguf --shard 1/2", 2, "--until selects texts from all rows"),
        (
            f"{ANNOTATE} --larger no.gguf --shard 1/2",
            2,
            "--larger selects texts from all",
        ),
        (f"{STEPS} no.gguf", 1, "--embedding-model names no file"),
    ],
)
def test_what_does_not_go(stepping: Commands, line: str, status: int, error: str) -> None:
    stepping(line, status=status, err=error)
