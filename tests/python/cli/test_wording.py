"""Errors of commands have no notation of Python."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import pytest
import tiny_models
from llamaherd.cli.main import main
from llamaherd.cli.run import run
from llamaherd.cli.wording import terms_of_command
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.words import setting, spoken_in

PYTHON = re.compile(
    r"\((str|int|float|bool|dict|list)\)|\b(True|False|None)\b|\w+=(True|False|\d)|\w\(.*=\)"
)
_OF_MODEL = {"serve": ["--port", "0"], "run": ["-q", "-m"]}
RUN = ["run", "t.csv", "-m", "nofile.gguf"]
CLASSIFY = ["classify", "t.csv", "-m", "nofile.gguf"]
WRONG = [
    [*RUN, "--set", "sampling.max_tokens=2.0"],
    [*RUN, "--set", "context.n_ctx=true"],
    [*RUN, "--set", "context.deterministic=3"],
    [*RUN, "--set", "model.use_mmap=3"],
    [*RUN, "--temperature", "x"],
    [*RUN, "--encoding", "nope"],
    [*RUN, "--delimiter", "ab"],
    [*RUN, "-o", "t.csv"],
    [*RUN, "-o", "t.xyz"],
    [*RUN, "--system", "a"],
    [*RUN, "--thinking", "5"],
    [*RUN, "--schema", "nofile"],
    [*RUN, "--column", "nope"],
    ["run", "nofile.csv", "-m", "nofile.gguf"],
    [*CLASSIFY, "--labels", "a,a"],
    [*CLASSIFY, "--labels", "a,b", "--set", "classify.normalize=x"],
    ["annotate", "t.csv", "-m", "nofile.gguf", "--codebook", "nofile"],
    ["gold", "sample", "t.csv", "-n", "5", "-o", "s.csv"],
    ["gold", "sample", "t.csv", "-n", "1", "-o", "s.csv", "--coders", "a,a"],
]


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_errors_have_no_notation_of_python(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("id,text\n1,a\n", encoding="utf-8")
    assert main(arguments) != 0
    told = capsys.readouterr().err
    assert told
    assert not PYTHON.search(told), told
    assert "between 1 and 1" not in told


@pytest.mark.parametrize(
    ("book", "told"),
    [
        ("examples: [5]\nlabels: [a, b]", "the fields text, label and perhaps reason"),
        ("type: scale", "needs a scale: {from: 0, to: 10}"),
        ("type: scale\nscale: 5", "as {from: 0, to: 10} does"),
        ("type: spans\nlabels: [a]\nquote: true", "{type: string, quote: {most: 20}}"),
    ],
)
def test_codebooks_of_commands_are_described_as_files(
    book: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, file = tmp_path / "t.csv", tmp_path / "book.yaml"
    table.write_text("text\na\n", encoding="utf-8")
    file.write_text(f"question: Which?\n{book}\n", encoding="utf-8")
    command = ["annotate", str(table), "-m", "nofile.gguf", "--codebook", str(file)]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert told in error
    assert not PYTHON.search(error), error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["serve", "--deterministic", "--set", "context.kv_layout=unified"],
            "--deterministic cannot be combined with --set context.kv_layout=unified",
        ),
        (
            ["serve", "--deterministic", "--set", "context.n_ubatch=100"],
            "--deterministic cannot be combined with --set context.n_ubatch=100",
        ),
        (
            ["run", "t.csv", "--deterministic", "--set", "context.flash_attn=false"],
            "--deterministic cannot be combined with --set context.flash_attn=false",
        ),
    ],
)
def test_messages_name_the_options_of_the_command(
    arguments: list[str],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("text\na\n", encoding="utf-8")
    model = tiny_models.write(tmp_path / "tiny.gguf", "llama")
    assert main([*arguments, *_OF_MODEL[arguments[0]], str(model)]) == 2
    assert told in capsys.readouterr().err


def test_terms_name_the_option_of_an_argument_on_every_thread() -> None:
    terms = terms_of_command(run)
    with spoken_in(terms), ThreadPoolExecutor(1) as pool:
        job = copy_context().run
        assert pool.submit(job, setting, "chat", True).result() == "--chat"
        assert setting("chat", False) == "chat = false"
        assert setting("n_seq_max", 4) == "--n-seq-max 4"
        assert setting("thinking", False) == "--thinking off"
        assert setting("journal", None) == "no journal"
        assert setting("kv_layout", "unified") == "--set context.kv_layout=unified"
        assert setting("method", "generate") == 'method = "generate"'


def test_a_range_of_one_number_is_this_number() -> None:
    with pytest.raises(ArgumentError, match="n must be 1, not 5"):
        checks.integer("n", 5, 1, 1)
