"""`llamaherd annotate --until` and `--larger`: steps, resumed runs, refusals."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import tiny_models
from llamaherd.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = ["--until", "50", "--embedding-model"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert "embeddings names no file" in capfd.readouterr().err
