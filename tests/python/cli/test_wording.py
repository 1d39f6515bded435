"""Errors of commands have no notation of Python."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from llamaherd.cli.main import main
from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError

if TYPE_CHECKING:
    from pathlib import Path

PYTHON = re.compile(
    r"\((str|int|float|bool|dict|list)\)|\b(True|False|None)\b|\w+=(True|False|\d)|\w\(.*=\)"
)
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


def test_a_range_of_one_number_is_this_number() -> None:
    with pytest.raises(ArgumentError, match="n must be 1, not 5"):
        checks.integer("n", 5, 1, 1)
